"""HTML pieces that every report is made of. All text passes through ``text``; nothing else may put words in a page.

Takes plain values, gives markup. A page names no address: it opens without a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple


class Cell(NamedTuple):
    """One cell of a table: words, how they are set, and how they are meant (``good``, ``bad``, ``warn``)."""

    words: str
    number: bool = False
    tone: str = ""
    wrap: bool = False


def text(words: object) -> str:
    """Any value as text that is not markup."""
    return escape(str(words))


def page(title: str, body: str) -> str:
    """A whole document with its style inside."""
    style = (Path(__file__).parent / "report.css").read_text()
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(anchor: str, title: str, body: str) -> str:
    """A titled part of the page; nothing when it would be empty."""
    return f'<section id="{anchor}">\n<h2>{text(title)}</h2>\n{body}\n</section>' if body else ""


def tile(name: str, value: str, more: str = "", tone: str = "") -> str:
    """One figure that is seen first."""
    long = ' class="long"' if len(value) > 11 else ""
    below = f'<div class="more {tone}">{text(more)}</div>' if more else ""
    return f'<div class="tile"><div class="name">{text(name)}</div><b{long}>{text(value)}</b>{below}</div>'


def figure(title: str, svg: str, caption: str = "") -> str:
    """A drawing with its title and what it shows in words."""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f'<figure class="card"><h3>{text(title)}</h3>{below}{svg}</figure>'


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell | str]], *, numbers: Iterable[int] = ()) -> str:
    """A table that scrolls by itself on a narrow screen. The first cell of a row names it."""
    right = set(numbers)
    made = []
    for row in rows:
        cells = [cell if isinstance(cell, Cell) else Cell(cell, place in right) for place, cell in enumerate(row)]
        made.append("<tr>" + "".join(_cell(cell, first=place == 0) for place, cell in enumerate(cells)) + "</tr>")
    if not made:
        return ""
    head = "".join(
        f"<th{_class('num' if place in right else '')}>{text(name)}</th>" for place, name in enumerate(heads)
    )
    return (
        f'<div class="card"><div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(made)
        + "\n</tbody></table></div></div>"
    )


def preformatted(words: str, before: str = "") -> str:
    """Text as it stands, after a prompt that is set back."""
    prompt = f'<span class="prompt">{text(before)}</span>' if before else ""
    return f"<pre>{prompt}{text(words)}</pre>"


def keys(names: Sequence[str]) -> str:
    """What each colour of the curves stands for, where one legend serves several drawings."""
    spans = (
        f'<span><i class="key" style="background: var(--c{number})"></i>{text(name)}</span>'
        for number, name in enumerate(names, 1)
    )
    return f'<p class="keys">{"".join(spans)}</p>'


def details(title: str, body: str) -> str:
    """Something that is there when it is asked for."""
    return f"<details><summary>{text(title)}</summary>\n{body}\n</details>"


def _cell(cell: Cell, first: bool) -> str:
    names = " ".join(name for name, on in (("num", cell.number), (cell.tone, cell.tone), ("wrap", cell.wrap)) if on)
    tag = 'th scope="row"' if first else "td"
    return f"<{tag}{_class(names)}>{text(cell.words)}</{tag.partition(' ')[0]}>"


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""
