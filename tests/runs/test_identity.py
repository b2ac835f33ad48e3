"""The same content is the same run."""

from __future__ import annotations

from trainwright.models.layout import Layout
from trainwright.runs import identity
from trainwright.spec.load import spec_from_values

SPEC = spec_from_values({"name": "a", "model": "/m", "data": {"sources": ["/d"]}})


def test_the_same_content_has_the_same_id_and_any_change_another() -> None:
    first = identity.run_id(SPEC, Layout(), {})
    assert first == identity.run_id(spec_from_values(SPEC.to_dict()), Layout(), {})
    assert first != identity.run_id(spec_from_values({**SPEC.to_dict(), "seed": 1}), Layout(), {})
    assert first != identity.run_id(SPEC, Layout(dp_replicate=2), {})
    assert first != identity.run_id(SPEC, Layout(), {"kubernetes": "1.33"})
    assert identity.is_run_id(first)


def test_fresh_counts_up_and_newest_finds_the_last() -> None:
    assert identity.fresh("a-00000000", set()) == "a-00000000"
    taken = {"a-00000000", "a-00000000.2", "a-00000000.10", "b-00000000"}
    assert identity.fresh("a-00000000", taken) == "a-00000000.3"
    assert identity.newest("a-00000000", taken) == "a-00000000.10"
    assert identity.newest("c-00000000", taken) is None
    assert identity.kubernetes_name("a-00000000.2") == "a-00000000-2"


def test_the_name_in_a_run_id() -> None:
    assert [identity.name_of(run) for run in ("x-0a1b2c3d", "a-b-0a1b2c3d.2")] == ["x", "a-b"]
