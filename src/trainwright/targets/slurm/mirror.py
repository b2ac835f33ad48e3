"""A run's folder on a cluster that is only reached over ssh, copied file by file into the client's folder.

Takes a transport and two folders. Small files are fetched when they changed, logs and events from where they ended
last time. It must not know what the files mean.
"""

from __future__ import annotations

import base64
import io
import os
import shlex
import tarfile
from pathlib import Path
from typing import NamedTuple

from trainwright.errors import SystemUnreachable
from trainwright.runs.folder import write_atomically
from trainwright.targets.slurm.transport import Transport, last_line

#: What is worth looking at here; checkpoints and exports stay where they are.
_WANTED = (
    "events", "logs", "metrics.jsonl", "progress.json", "evaluation.json", "data.json", "cancel.json", "report.html",
)  # fmt: skip
_GROWING = (".log", ".jsonl")


class _Piece(NamedTuple):
    """``size`` bytes of a file from ``start`` on; ``changed`` is the time of its last change."""

    name: str
    start: int
    size: int
    changed: float


def push(transport: Transport, folder: str, files: dict[str, str]) -> None:
    """Write text files into a folder of the cluster, all or none of them visible. Raises SystemUnreachable."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    word = shlex.quote(folder)
    script = f"mkdir -p {word}/logs {word}/events && tar -xf - -C {word}"
    done = transport.run(["bash", "-c", script], stdin=packed.getvalue())
    if done.code != 0:
        what = f"{folder} on {transport.name} cannot be written: {last_line(done.err)}"
        raise SystemUnreachable(what, "name a folder that you may write, and that all nodes see, as storage")


def remove(transport: Transport, folder: str, name: str) -> None:
    """Remove a file of the cluster's folder, if it is there."""
    transport.run(["rm", "-f", "--", f"{folder}/{name}"])


def pull(transport: Transport, folder: str, into: Path) -> None:
    """Bring the client's copy up to date in two round trips. Raises SystemUnreachable."""
    names = " ".join(_WANTED)
    shown = r"-printf '%s %T@ %p\0' 2>/dev/null"
    listing = f"find {names} -type f {shown}; find checkpoints -maxdepth 2 -name manifest.json {shown}; true"
    done = transport.run(["bash", "-c", f"cd {shlex.quote(folder)} && {{ {listing}; }}"])
    if done.code != 0:
        raise SystemUnreachable(f"{folder} on {transport.name} cannot be read: {last_line(done.err)}")
    pieces: list[_Piece] = []
    for row in done.out.split("\0"):
        fields = row.split(" ", 2)
        if len(fields) != 3 or fields[2].startswith("/") or ".." in Path(fields[2]).parts:
            continue
        size, changed, name = int(fields[0]), float(fields[1]), fields[2]
        here = into / name
        have = here.stat() if here.is_file() else None
        if have is not None and have.st_size == size and abs(have.st_mtime - changed) < 1e-3:
            continue
        start = have.st_size if have is not None and name.endswith(_GROWING) and have.st_size <= size else 0
        pieces.append(_Piece(name, start, size - start, changed))
    if pieces:
        _fetch(transport, folder, into, pieces)


def _fetch(transport: Transport, folder: str, into: Path, pieces: list[_Piece]) -> None:
    """Bytes of every piece, one after the other. What changed meanwhile is fetched next time."""
    script = "; ".join(
        f"tail -c +{piece.start + 1} -- {shlex.quote(piece.name)} 2>/dev/null"
        f" | head -c {piece.size} | base64 -w 0; echo"
        for piece in pieces
    )
    done = transport.run(["bash", "-c", f"cd {shlex.quote(folder)} && {{ {script}; }}"], seconds=300)
    for piece, line in zip(pieces, done.out.splitlines(), strict=False):
        path = into / piece.name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = base64.b64decode(line)
        if piece.name.endswith(_GROWING):
            with path.open("r+b" if path.exists() else "wb") as handle:
                handle.seek(piece.start)
                handle.truncate()
                handle.write(data)
        else:
            write_atomically(path, data.decode(errors="replace"))
        os.utime(path, (piece.changed, piece.changed))
