"""Terminal tables: aligned, one line a row, and nothing in them commands the terminal."""

from __future__ import annotations

import subprocess
import sys

from trainwright.reports.terminal import table


def test_plain_tables_are_aligned_and_end_without_spaces() -> None:
    made = table(("run", "steps", "state"), [("a", "5", "RUNNING"), ("longer", "1,200", "")], numbers=(1,))
    assert made.split("\n") == ["run     steps  state", "a           5  RUNNING", "longer  1,200"]


def test_wide_characters_take_two_columns() -> None:
    assert table(("a", "b"), [("模型", "x"), ("m", "y")]).split("\n") == ["a     b", "模型  x", "m     y"]


def test_control_characters_are_shown_not_obeyed() -> None:
    made = table(("name",), [("evil\x1b[2J\nname",)])
    assert made == "name\nevil\\x1b[2J name"
    assert "\x1b[2J" not in table(("name",), [("evil\x1b[2J",)], terminal=True)


def test_brackets_are_text_not_markup_on_a_terminal() -> None:
    assert "[red]x[/red]" in table(("name",), [("[red]x[/red]",)], terminal=True)


def test_rich_is_not_imported_for_plain_tables() -> None:
    code = "import sys, trainwright.reports.terminal as t; t.table('a', ['b']); print('rich' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    )
