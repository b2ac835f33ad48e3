"""Which plain text is held out: tables of files."""

from __future__ import annotations

import pytest

from trainwright.data.held_out_text import TextFile, held_out_from


def text_file(number: int, size: int, sha: str, source: int = 0, read: int | None = None) -> TextFile:
    return TextFile(source, number, size, size if read is None else read, sha * 8)


LOW, MIDDLE, HIGH = "01234567", "80000000", "fffffff0"


@pytest.mark.parametrize(
    ("sizes", "hashes", "fraction", "expected"),
    [
        ([100] * 10, [HIGH] * 9 + [LOW], 0.1, {9: 0}),
        ([100] * 10, [HIGH] * 5 + [MIDDLE] + [HIGH] * 4, 0.1, {5: 0}),  # none by chance: the lowest
        ([100] * 10, [LOW] * 10, 0.1, {}),  # all the same content: something must be left
        ([1000], [LOW], 0.1, {0: 900}),
        ([1000, 1000], [LOW, HIGH], 0.1, {0: 900, 1: 900}),
        ([1000] + [10] * 9, [LOW] + [HIGH] * 9, 0.1, {0: 900}),
        ([100] * 10, [LOW] * 10, 0.0, {}),
        ([3], [HIGH], 0.01, {0: 2}),  # at least a byte
    ],
)
def test_files_are_held_out_whole_or_at_their_end(
    sizes: list[int], hashes: list[str], fraction: float, expected: dict[int, int]
) -> None:
    files = [text_file(number, size, sha) for number, (size, sha) in enumerate(zip(sizes, hashes, strict=True))]
    found = held_out_from(files, fraction, sum(sizes), alone=True)
    assert found == {(0, number): begin for number, begin in expected.items()}


def test_beside_other_sources_chance_may_choose_no_file() -> None:
    files = [text_file(number, 10, HIGH) for number in range(10)]
    assert held_out_from(files, 0.1, 1000, alone=False) == {}


def test_of_a_source_with_a_limit_so_much_is_held_out_as_of_what_is_read() -> None:
    assert held_out_from([text_file(0, 1000, HIGH, read=200)], 0.1, 1000, alone=True) == {(0, 0): 980}
