"""The table of reasons: every row is whole, its pattern compiles and its texts can be filled."""

from __future__ import annotations

import re
import string
from typing import get_args, get_type_hints

import pytest

from trainwright.facts import reasons
from trainwright.facts.data import read_file
from trainwright.facts.reasons import Entry
from trainwright.runs.state import Reason, ReasonClass

EVERY = [entry for system in reasons.systems() for entry in reasons.entries(system)]


def test_table_has_source_and_date_and_every_row_is_found_under_its_system() -> None:
    header = read_file("reasons")
    assert header["source"]
    assert header["date"]
    assert len(EVERY) == len(header["rows"])
    assert len(reasons.entries("slurm")) == 134


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: entry.id)
def test_row_is_whole(entry: Entry) -> None:
    assert entry.state in ("pending", "starting", "failed", "preempted", "cancelled")
    assert entry.role in ("cause", "symptom", "wrapper", "info")
    assert entry.class_ in get_args(ReasonClass)
    assert entry.retry in get_args(get_type_hints(Reason)["retry"])
    groups = set(re.compile(entry.pattern).groupindex) | set(entry.defaults)
    named = {name for text in (entry.sentence, entry.next_step) for _, name, _, _ in string.Formatter().parse(text)}
    assert named - {None} <= groups
