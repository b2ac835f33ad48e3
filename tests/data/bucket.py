"""A bucket on loopback that speaks as much of S3 as staging needs: list, head, get with ranges and If-Match."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_ENTRY = (
    "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
    "<ETag>&quot;{etag}&quot;</ETag><Size>{size}</Size></Contents>"
)


class Bucket:
    """Objects by key, and what was asked for."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.gets: list[str] = []
        self.answer_with = 0  # an HTTP status instead of every answer
        self.on_list = lambda: None
        self.url = ""

    def etag(self, key: str) -> str:
        return hashlib.md5(self.objects[key]).hexdigest()


@contextmanager
def serving(page_size: int = 1000) -> Iterator[Bucket]:
    """A bucket named ``bucket`` at ``url``, for as long as the context lasts."""
    bucket = Bucket()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            key = unquote(parts.path).removeprefix("/bucket").lstrip("/")
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if bucket.answer_with:
                return self.answer(bucket.answer_with, b"<Error><Code>X</Code><Message>no</Message></Error>")
            if not key:
                return self.listing(query)
            if key not in bucket.objects:
                return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            data, wanted = bucket.objects[key], self.headers.get("If-Match", "").strip('"')
            headers = {"ETag": f'"{bucket.etag(key)}"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
            if wanted and wanted != bucket.etag(key):
                return self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            span = self.headers.get("Range")
            if self.command == "GET":
                bucket.gets.append(key)
            if not span:
                return self.answer(200, data, headers)
            start, stop = (int(n) for n in span.removeprefix("bytes=").split("-"))
            headers["Content-Range"] = f"bytes {start}-{min(stop, len(data) - 1)}/{len(data)}"
            return self.answer(206, data[start : stop + 1], headers)

        def listing(self, query: dict[str, str]) -> None:
            prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
            keys = sorted(key for key in bucket.objects if key.startswith(prefix) and key > after)
            page = keys[:page_size]
            body = "".join(
                _ENTRY.format(key=escape(key), etag=bucket.etag(key), size=len(bucket.objects[key])) for key in page
            )
            more = len(keys) > len(page)
            following = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
            self.answer(
                200,
                f"<ListBucketResult><Name>bucket</Name><IsTruncated>{str(more).lower()}</IsTruncated>"
                f"{following}<KeyCount>{len(page)}</KeyCount>{body}</ListBucketResult>".encode(),
            )
            bucket.on_list()

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    bucket.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
