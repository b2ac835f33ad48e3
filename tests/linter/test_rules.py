"""Every rule keeps its promises: it is complete, its page's examples behave, and nothing makes it raise."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
import yaml

from trainwright.linter.engine import Options, lint_texts, load_rule
from trainwright.linter.pages import Example, examples, page
from trainwright.linter.rule import page_path
from trainwright.linter.rules import RULES
from trainwright.linter.subjects import derive, read_table

CATEGORIES = {
    "0": "files", "1": "launch", "2": "accelerators", "3": "network", "4": "memory", "5": "lifecycle", "6":
        "scheduling",
    "7": "operators", "8": "frameworks", "9": None,
}  # fmt: skip
HEADINGS = ("## What it does", "## Why it hurts", "## Examples", "## Exceptions", "## Sources")


def labelled(label: str) -> list[tuple[str, int]]:
    return [(rule, n) for rule in RULES for n, e in enumerate(examples(rule)) if e.label == label]


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_states_everything_about_itself(rule_id: str) -> None:
    rule = load_rule(rule_id)
    assert rule.id == rule_id
    assert re.fullmatch(r"TW\d{3}", rule_id)
    assert rule.severity in ("error", "warning", "note")
    assert rule.category == (CATEGORIES[rule_id[2]] or rule.category)
    assert rule.summary
    assert not rule.summary.endswith(".")
    assert rule.source
    assert rule.evidence in ("verified", "reproduced", "reported", "knowledge")
    assert not (rule.evidence == "knowledge" and rule.severity == "error"), "hearsay is never an error"
    assert type(rule).__doc__
    assert f"{type(rule).__module__}.".rsplit(".", 2)[1].startswith(rule_id + "_")


@pytest.mark.parametrize("rule_id", RULES)
def test_a_page_has_its_sections_and_both_kinds_of_examples(rule_id: str) -> None:
    text = page(rule_id)
    assert text.startswith(f"# {rule_id}: {load_rule(rule_id).summary}\n")
    places = [text.index(heading) for heading in HEADINGS]
    assert places == sorted(places)
    # What TW009 reports is a defect of the linter, which no file can have.
    assert {example.label for example in examples(rule_id)} == ({"good"} if rule_id == "TW009" else {"bad", "good"})


def test_a_rule_that_fails_is_reported_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(type(load_rule("TW004")), "check", broken)
    found = lint_texts({"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: A_b}\n"}, Options())
    assert {f.rule for f in found} == {"TW009", "TW733"}
    assert "TW004 failed with RuntimeError: no such thing" in next(f.why for f in found if f.rule == "TW009")
    assert page("TW009").startswith("# TW009: ")


def test_what_each_rule_looks_at_is_as_its_class_says() -> None:
    assert read_table() == derive(), "python -m trainwright.linter.subjects writes the table anew"


def test_every_rule_file_is_registered() -> None:
    folder = page_path("x").parent
    registered = {target.partition(":")[0].rsplit(".", 1)[-1] for target in RULES.values()}
    assert {path.stem for path in folder.glob("TW*.py")} == registered
    assert {path.stem for path in folder.glob("TW*.md")} == registered


@pytest.mark.parametrize(("rule_id", "number"), labelled("bad"))
def test_a_bad_example_is_found(rule_id: str, number: int) -> None:
    found = run(examples(rule_id)[number])
    assert rule_id in {f.rule for f in found}
    for finding in found:
        assert finding.line >= 1
        assert finding.why
        assert finding.instead
        assert not finding.why.endswith(".")


@pytest.mark.parametrize(("rule_id", "number"), labelled("good"))
def test_a_good_example_is_silent(rule_id: str, number: int) -> None:
    assert [f for f in run(examples(rule_id)[number]) if f.rule == rule_id] == []


@pytest.mark.parametrize(("rule_id", "number"), labelled("good") + labelled("bad"))
def test_a_broken_example_never_raises(rule_id: str, number: int) -> None:
    example = examples(rule_id)[number]
    for texts in mutated(example, seed=f"{rule_id}-{number}"):
        lint_texts(texts, Options(strict=True))


def run(example: Example) -> list:
    return lint_texts(example.texts, Options(versions=example.versions, strict=True))


def mutated(example: Example, seed: str, count: int = 12) -> Iterator[dict[str, str]]:
    """The example with a field renamed, a value removed or given another type; or, where it is not YAML, with a
    word or a line removed."""
    rng = random.Random(seed)
    for _ in range(count):
        name = rng.choice(sorted(example.texts))
        text = example.texts[name]
        changed = mutate_data(text, rng) if name.endswith((".yaml", ".json")) else mutate_words(text, rng)
        yield {**example.texts, name: changed}


def mutate_data(text: str, rng: random.Random) -> str:
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return mutate_words(text, rng)
    places: list[tuple[dict, object] | tuple[list, int]] = []

    def visit(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                places.append((value, key))
                visit(inner)
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                places.append((value, number))
                visit(inner)

    visit(documents)
    holder, key = rng.choice(places)
    wrong = rng.choice(
        [None, "", 0, -1, 3.5, True, "text", [], {}, [None], [{}], {"a": {"b": []}}, "$(X)", "${X}", "{{ x }}"]
    )
    action = rng.choice(["remove", "wrong", "rename"])
    if action == "remove":
        del holder[key]
    elif action == "rename" and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    else:
        holder[key] = wrong
    return yaml.safe_dump_all(documents)


def mutate_words(text: str, rng: random.Random) -> str:
    words = re.split(r"(\s+)", text)
    at = rng.randrange(len(words))
    words[at] = rng.choice(["", "$X", "'", '"', "\\", "((", "--", "=", "{{ x }}", "#", "<<EOF"])
    return "".join(words)
