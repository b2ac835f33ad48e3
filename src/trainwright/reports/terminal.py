"""Tables for a terminal: rich where a person looks, plain aligned text where a program reads or nobody knows.

Takes heads and rows of plain text, gives text. rich is imported for terminals alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = (), terminal: bool = False
) -> str:
    """A table without a line break at its end. Columns named in ``numbers`` stand on the right.

    Without a terminal every row is one line, however long: it may be cut by other programs. Control characters are
    shown, not obeyed: a run's name or a log's line must not paint the screen.
    """
    shown = [[_harmless(cell) for cell in row] for row in (heads, *rows)]
    right = set(numbers)
    return _rich(shown, right) if terminal else _plain(shown, right)


def _plain(rows: list[list[str]], right: set[int]) -> str:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]

    def set_cell(place: int, cell: str) -> str:
        space = " " * (widths[place] - _width(cell))
        return space + cell if place in right else cell + space

    return "\n".join("  ".join(set_cell(*item) for item in enumerate(row)).rstrip() for row in rows)


def _rich(rows: list[list[str]], right: set[int]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, head in enumerate(rows[0]):
        made.add_column(Text(head), justify="right" if place in right else "left", overflow="fold")
    for row in rows[1:]:
        made.add_row(*map(Text, row))
    console = Console()
    with console.capture() as capture:
        console.print(made)
    return capture.get().rstrip("\n")


def _harmless(cell: str) -> str:
    return "".join(c if c.isprintable() else (" " if c.isspace() else f"\\x{ord(c):02x}") for c in cell)


def _width(text: str) -> int:
    """Columns that a text takes: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )
