from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.data.encode import Row
from trainwright.data.readers import READERS, ReadSettings, Span, arrow, jsonl, parquet, reader, text
from trainwright.data.rows import Completion, Conversation, RowError, Text

SETTINGS = ReadSettings(field=None, part_bytes=64)
TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def read(module: ModuleType, path: Path, ranges: list[tuple[int, int]], how: ReadSettings = SETTINGS) -> list[Row]:
    """All rows, with lines counted on from range to range as ``build`` does."""
    found: list[Row] = []
    before = 0
    for start, stop in ranges:
        rows: Generator[Row, None, int] = module.rows(Span(0, path, start, stop, stop - start), how)
        while True:
            try:
                row = next(rows)
            except StopIteration as end:
                before += end.value
                break
            found.append(Row(row.file, row.line + before if row.line else 0, row.content, row.read))
    return found


def in_ranges(size: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, size)) for start in range(0, size, step)]


def test_every_format_has_a_reader() -> None:
    for name in READERS:
        assert callable(reader(name).rows)
        assert callable(reader(name).spans)


class TestText:
    def test_a_short_file_is_one_document(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("\ufeffhello\n\nworld\n")
        assert [row.content for row in read(text, path, [(0, 16)])] == [Text("hello\n\nworld\n")]

    @pytest.mark.parametrize("body", ["", " \n\t\n"])
    def test_an_empty_file_is_nothing(self, tmp_path: Path, body: str) -> None:
        path = tmp_path / "a.txt"
        path.write_text(body)
        assert read(text, path, text.spans(path, len(body))) == []

    def test_what_is_no_text_says_where(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"abc\xff")
        assert str(read(text, path, [(0, 4)])[0].content) == "is not text in UTF-8: byte 3 is 0xff"
        path.write_bytes(b"abc\0")
        assert "zero byte" in str(read(text, path, [(0, 4)])[0].content)

    def test_a_long_file_is_cut_at_blank_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        paragraphs = [f"paragraph {number}\n" + "word " * 12 + "\n\n" for number in range(6)]
        path.write_text("".join(paragraphs))
        documents = [row.content for row in read(text, path, [(0, path.stat().st_size)])]
        assert all(isinstance(d, Text) and d.text.startswith("paragraph") for d in documents)
        assert [d.first for d in documents if isinstance(d, Text)] == [True] + [False] * (len(documents) - 1)
        assert [d.last for d in documents if isinstance(d, Text)] == [False] * (len(documents) - 1) + [True]

    @given(
        body=st.text(alphabet="ab \n\r日🎉", max_size=600),
        step=st.integers(1, 300),
        part=st.integers(8, 100),
    )
    @settings(max_examples=150, deadline=None)
    def test_any_cut_into_ranges_gives_the_same_documents_and_loses_nothing(
        self, tmp_path_factory: pytest.TempPathFactory, body: str, step: int, part: int
    ) -> None:
        path = tmp_path_factory.mktemp("text") / "a.txt"
        path.write_bytes(body.encode())
        size, how = path.stat().st_size, ReadSettings(None, part)
        whole = [row.content for row in read(text, path, [(0, size)], how)]
        assert [row.content for row in read(text, path, in_ranges(size, step), how)] == whole
        joined = "".join(d.text for d in whole if isinstance(d, Text))
        assert all(isinstance(d, Text) for d in whole)
        assert "".join(joined.split()) == "".join(body.split())

    @given(
        body=st.text(alphabet="ab \n\r日🎉", min_size=2, max_size=600),
        share=st.floats(0.01, 0.99),
        step=st.integers(1, 300),
        parts=st.tuples(st.integers(8, 100), st.integers(8, 100)),
    )
    @settings(max_examples=150, deadline=None)
    def test_a_file_cut_in_two_loses_nothing_and_is_cut_at_the_same_place_for_any_part(
        self, tmp_path_factory: pytest.TempPathFactory, body: str, share: float, step: int, parts: tuple[int, int]
    ) -> None:
        path = tmp_path_factory.mktemp("text") / "a.txt"
        path.write_bytes(body.encode())
        size = path.stat().st_size
        place = text.cut(path, min(max(1, int(size * share)), size - 1))
        sides = set()
        for part in parts:
            spans = [Span(0, path, a, min(b, place), 0, 0, place) for a, b in in_ranges(size, step) if a < place]
            spans += [Span(0, path, max(a, place), b, 0, place) for a, b in in_ranges(size, step) if b > place]
            found = [[], []]
            for span in spans:
                for row in text.rows(span, ReadSettings(None, part)):
                    assert isinstance(row.content, Text)
                    found[span.begin == place].append(row.content.text)
            sides.add(tuple("".join("".join(side).split()) for side in found))
        assert len(sides) == 1
        assert "".join(sides.pop()) == "".join(body.split())


class TestJsonl:
    def test_rows_have_their_line(self, write_jsonl: Callable[..., Path]) -> None:
        path = write_jsonl([{"text": "a"}, "", {"prompt": "b", "completion": "c"}])
        assert [(row.line, row.content) for row in read(jsonl, path, [(0, 1000)])] == [
            (1, Text("a")),
            (3, Completion("b", "c")),
        ]

    def test_a_bad_line_is_a_row_that_says_why(self, write_jsonl: Callable[..., Path]) -> None:
        path = write_jsonl(['{"text": "a"', {"text": "b"}, "[" * 100_000])
        bad, good, deep = read(jsonl, path, [(0, 200_000)])
        assert isinstance(bad.content, RowError)
        assert "is no JSON: Expecting ',' delimiter at column" in str(bad.content)
        assert good.content == Text("b")
        assert isinstance(deep.content, RowError)

    def test_bytes_that_are_no_text_say_where(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_bytes(b'{"text": "\xff"}\n')
        assert "is not text in UTF-8: byte 11 of the line" in str(read(jsonl, path, [(0, 99)])[0].content)

    @given(lengths=st.lists(st.integers(0, 40), max_size=20), step=st.integers(1, 200))
    @settings(max_examples=100, deadline=None)
    def test_any_cut_into_ranges_gives_each_row_once_with_its_line(
        self, tmp_path_factory: pytest.TempPathFactory, lengths: list[int], step: int
    ) -> None:
        path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
        path.write_text("".join(json.dumps({"text": f"{n}:" + "x" * n}) + "\n" if n else "\n" for n in lengths))
        found = read(jsonl, path, in_ranges(path.stat().st_size, step))
        assert [row.line for row in found] == [number for number, n in enumerate(lengths, 1) if n]

    def test_the_last_line_needs_no_newline(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('{"text": "a"}\n{"text": "b"}')
        assert len(read(jsonl, path, in_ranges(27, 9))) == 2

    def test_compressed_files_are_read_as_they_are(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b'{"text": "a"}\n{"text": "b"}\n'))
        ranges = jsonl.spans(path, path.stat().st_size)
        assert [row.content for row in read(jsonl, path, ranges)] == [Text("a"), Text("b")]

    def test_a_huge_file_has_a_bounded_number_of_parts(self, write_jsonl: Callable[..., Path]) -> None:
        path = write_jsonl([{"text": "a"}])
        ranges = jsonl.spans(path, 10**13)
        assert len(ranges) <= 4096
        assert ranges[0][0] == 0
        assert ranges[-1][1] == 10**13
        assert all(left[1] == right[0] for left, right in itertools.pairwise(ranges))
        assert len(text.spans(path, 10**13)) <= 4096

    def test_a_json_list_is_refused_with_the_way_out(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text('[{"text": "a"}]')
        with pytest.raises(ValueError, match="jq -c"):
            jsonl.spans(path, 15)


ROWS: list[dict[str, Any]] = [{"text": f"row {number}", "id": number} for number in range(2500)]


class TestParquet:
    def test_rows_of_all_row_groups_have_their_number(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        path = tmp_path / "a.parquet"
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=1000)
        ranges = parquet.spans(path, path.stat().st_size)
        assert len(ranges) == 3
        found = read(parquet, path, ranges)
        assert [(row.line, row.content) for row in found] == [(n + 1, Text(f"row {n}")) for n in range(2500)]

    def test_conversations_come_without_the_nulls_of_the_schema(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        path = tmp_path / "a.parquet"
        other = [{"role": "user", "content": "a", "name": "n"}, {"role": "assistant", "content": "b"}]
        pq.write_table(pa.Table.from_pylist([{"messages": TURNS}, {"messages": other}]), path)
        found = read(parquet, path, parquet.spans(path, path.stat().st_size))
        assert [row.content for row in found] == [Conversation(TURNS), Conversation(other)]

    def test_a_missing_column_is_named_with_what_there_is(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        path = tmp_path / "a.parquet"
        pq.write_table(pa.Table.from_pylist([{"body": "a"}]), path)
        assert "has body" in str(read(parquet, path, parquet.spans(path, 1))[0].content)

    def test_what_is_no_parquet_file_is_refused(self, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        path = tmp_path / "a.parquet"
        path.write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match="is no Parquet file"):
            parquet.spans(path, 19)


class TestArrow:
    def test_rows_of_all_record_batches_have_their_number(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        path = tmp_path / "data-00000-of-00001.arrow"
        table = pa.Table.from_pylist(ROWS)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=300)
        ranges = arrow.spans(path, path.stat().st_size)
        assert len(ranges) > 1
        found = read(arrow, path, ranges)
        assert [(row.line, row.content) for row in found] == [(n + 1, Text(f"row {n}")) for n in range(2500)]

    def test_what_is_no_arrow_stream_is_refused(self, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        path = tmp_path / "a.arrow"
        path.write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match="is no Arrow stream"):
            arrow.spans(path, 19)
