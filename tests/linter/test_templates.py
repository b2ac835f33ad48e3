"""Template expressions are blanked at equal length, however they are mixed with blanks."""

from __future__ import annotations

from trainwright.linter.readers.templates import blank_templates
from trainwright.linter.text import PLACEHOLDER


def test_a_line_of_expressions_becomes_a_comment() -> None:
    text = "a: 1\n  {{- if .x }} {{ .y }}\nb: 2\n"
    blanked, lines = blank_templates(text)
    assert len(blanked) == len(text)
    assert blanked.splitlines()[1].strip() == "#"
    assert lines == [5]


def test_long_runs_with_a_letter_at_the_end_are_left_alone() -> None:
    # With nested repetition this line alone took longer than the age of the universe.
    text = "name: >-\n  " + "{{ .a }} " * 200 + "x\n"
    blanked, lines = blank_templates(text)
    assert blanked.endswith(f"{PLACEHOLDER} x\n")
    assert lines == []
