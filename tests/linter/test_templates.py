"""Template expressions are blanked at equal length, however they are mixed with blanks."""

from __future__ import annotations

import pytest

from trainwright.linter.engine import Options, lint_texts
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


def test_json_in_a_here_document_may_hold_variables_of_the_shell() -> None:
    script = 'cat <<EOF > ds.json\n{\n  "train_batch_size": ${GLOBAL},\n  "zero_optimization": {"stage": 5}\n}\nEOF\n'
    found = lint_texts({"train.sh": script}, Options(strict=True))
    assert [(f.rule, f.line) for f in found] == [("TW853", 4)]


@pytest.mark.parametrize(
    "script",
    [
        "cat >&2 <<USAGE\nUsage: train.sh [options]\n  key: [\nUSAGE\n",
        "if true; then\n\tcat <<-EOF > a.yaml\n\tapiVersion: v1\n\tkind: Namespace\n\tmetadata: {}\n\tEOF\nfi\n",
        "if true; then\n  cat <<EOF > a.yaml\n  apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\nEOF\nfi\n",
    ],
    ids=["usage", "tabs", "indented"],
)
def test_a_here_document_is_read_as_the_shell_writes_it(script: str) -> None:
    assert lint_texts({"train.sh": script}, Options(strict=True)) == []


def test_what_sed_or_printf_fills_in_is_no_error() -> None:
    found = lint_texts(
        {"config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n"}, Options(strict=True)
    )
    assert [(f.rule, f.severity) for f in found] == [("TW001", "note")]


def test_directives_of_terraform_templates_may_stand_before_a_document() -> None:
    text = "%{ if enable_ipv6 ~}\nhost: '::'\n%{ else ~}\nhost: ''\n%{ endif ~}\nname: ${name}\n"
    assert [f.rule for f in lint_texts({"values.yaml": text}, Options(strict=True))] in ([], ["TW004"])
