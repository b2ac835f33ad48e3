"""Stories 1 and 3 on every kind but JobSet whose controller runs: two real nodes, all kinds at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes_bed import Bed
from real_runs import RealRuns

KINDS = ("job", "mpijob", "trainjob", "pytorchjob")


@pytest.mark.ci
def test_every_kind_trains_and_goes_on_from_the_checkpoint_when_a_rank_was_killed(
    real_kubernetes: Bed, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(real_kubernetes.kubeconfig))
    runs = RealRuns(real_kubernetes, namespace, tmp_path)
    retry = {"infrastructure": 3, "user": 0}
    started = {kind: runs.submit(runs.script(f"dies-{kind}", kind, "dies_once.py", retry=retry)) for kind in KINDS}
    for kind, run in started.items():
        state = run.until(lambda s: s.final, f"the end of {kind}")
        assert state.phase == "SUCCEEDED", (kind, state, run.lines())
        lines = run.lines(rank=0)
        assert lines.count("step 6 sum 2") == 1, (kind, lines)
        assert [line for line in lines if line.startswith("from")][-1] == "from step 3", (kind, lines)
