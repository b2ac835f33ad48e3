"""Versions that renderers know, and the options of sbatch by version."""

from __future__ import annotations

import pytest

from trainwright.errors import InputError
from trainwright.facts import slurm_options
from trainwright.facts.data import read_file, read_rows
from trainwright.facts.versions import choose, parts, versions


@pytest.mark.parametrize("kind", list(read_rows("versions")))
def test_table_is_in_order_and_its_default_is_known(kind: str) -> None:
    table = versions(kind)
    assert list(table.known) == sorted(table.known, key=parts)
    assert {*table.proved, table.default} <= set(table.known)
    assert read_file("versions")["date"]


@pytest.mark.parametrize(
    ("asked", "chosen"), [(None, "22.05"), ("22.05.8", "22.05"), ("24.11", "24.11"), ("26.11", "26.05")]
)
def test_a_release_belongs_to_its_version_and_a_newer_one_to_the_newest(asked: str | None, chosen: str) -> None:
    assert choose("slurm", asked) == chosen


@pytest.mark.parametrize("asked", ["19.05", "22", "x"])
def test_an_unknown_version_is_refused(asked: str) -> None:
    with pytest.raises(InputError, match="known are"):
        choose("slurm", asked)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="slrum"):
        versions("slrum")


@pytest.mark.parametrize(
    ("option", "version", "lacks"),
    [
        ("nodes", "20.11", False),
        ("prefer", "21.08", True),
        ("prefer", "22.05", False),
        ("export-file", "23.11", True),
    ],
)
def test_options_by_version(option: str, version: str, lacks: bool) -> None:
    assert bool(slurm_options.lacking(option, version)) is lacks
