"""Secrets are looked up by reference, and an error never shows one."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.spec.secret import read_secret
from trainwright.spec.section import SecretRef


def test_from_the_environment_and_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hidden\n")
    assert read_secret(SecretRef(env="T"), "model.token", {"T": "shown"}) == "shown"
    assert read_secret(SecretRef(file=str(tmp_path / "token")), "model.token") == "hidden"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ({"env": "T"}, r"model\.token: \$T is not set; export T"),
        ({"file": "/nowhere/token"}, "/nowhere/token cannot be read"),
        ({"kubernetes": "hub/token"}, "Kubernetes Secret hub/token"),
    ],
)
def test_what_is_missing_says_the_way_out(reference: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_secret(SecretRef(**reference), "model.token", {})


def test_an_empty_file_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(InputError, match="is empty; write the secret"):
        read_secret(SecretRef(file=str(tmp_path / "token")), "model.token")
