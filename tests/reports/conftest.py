"""Run folders as a training run leaves them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_runs import build

from trainwright.runs.folder import RunFolder


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunFolder]:
    """Make a run's folder; ``without`` names files that it lacks, as after an early end."""

    def make(run_id: str = "quickstart-0a1b2c3d", *, without: tuple[str, ...] = (), **changes: Any) -> RunFolder:
        return build(tmp_path / run_id, without, changes)

    return make
