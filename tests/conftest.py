"""What every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

# A loaded machine is no defect: no example of a property test fails for its duration.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(autouse=True)
def _private_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads the developer's site file or writes into the checkout's runs."""
    monkeypatch.delenv("TRAINWRIGHT_SITE", raising=False)
    monkeypatch.setenv("TRAINWRIGHT_RUNS", str(tmp_path_factory.mktemp("runs")))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
