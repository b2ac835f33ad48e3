"""Models from the Hub: what is in the cache needs no network; what is not there says the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError, MissingExtra, SystemUnreachable
from trainwright.models.hub import download

hub = pytest.importorskip("huggingface_hub")
errors = pytest.importorskip("huggingface_hub.errors")
constants = pytest.importorskip("huggingface_hub.constants")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hub cache with one model in it."""
    folder = tmp_path / "hub" / "models--someone--small"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return snapshot


def test_a_cached_model_is_found_without_a_network(cache: Path) -> None:
    assert download("someone/small", offline=True) == cache
    assert download("someone/small", COMMIT, offline=True) == cache


def test_what_is_not_cached_is_unreachable_and_says_the_way_out(cache: Path) -> None:
    with pytest.raises(SystemUnreachable, match=r"someone/other is not in the Hub cache.*HF_HOME"):
        download("someone/other", offline=True)


def test_no_hub_id_is_an_input_error(cache: Path) -> None:
    with pytest.raises(InputError, match="is no Hub id; write owner/name"):
        download("a/b/c/d", offline=True)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("GatedRepoError", "accept its terms"),
        ("RevisionNotFoundError", "has no revision v9; name a branch"),
        ("RepositoryNotFoundError", "is no model that the Hub shows us"),
    ],
)
def test_refusals_of_the_hub_are_input_errors(monkeypatch: pytest.MonkeyPatch, error: str, says: str) -> None:
    kind = getattr(errors, error)

    def refuse(*args: Any, **more: Any) -> str:
        raise kind.__new__(kind)

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    with pytest.raises(InputError, match=says):
        download("someone/small", "v9")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"trainwright\[train\]"):
        download("someone/small")
