"""Kubeconfig files are read as kubectl reads them, and everything wrong with one is told in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError
from trainwright.targets.kubernetes.kubeconfig import read_kubeconfig

GOOD: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Config", "current-context": "dev",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "pki/ca.crt"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
}  # fmt: skip


def write(path: Path, **changes: Any) -> dict[str, str]:
    path.write_text(json.dumps({**GOOD, **changes}))
    return {"KUBECONFIG": str(path), "HOME": str(path.parent)}


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    config = read_kubeconfig(write(tmp_path / "config"))
    assert config["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "pki/ca.crt")
    assert config["current-context"] == "dev"


def test_of_several_files_the_first_to_name_something_counts(tmp_path: Path) -> None:
    write(tmp_path / "a")
    other = {
        "contexts": [{"name": "dev", "context": {"cluster": "x"}}, {"name": "prod", "context": {"cluster": "c"}}]
    }
    write(tmp_path / "b", **other, **{"current-context": "prod"})
    config = read_kubeconfig({"KUBECONFIG": f"{tmp_path / 'a'}:{tmp_path / 'b'}:{tmp_path / 'missing'}"})
    assert config["current-context"] == "dev"
    assert [one["context"]["cluster"] for one in config["contexts"]] == ["c", "c"]


def test_an_exec_plugin_is_told_which_version_it_answers_for(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}
    config = read_kubeconfig(write(tmp_path / "config", users=[{"name": "u", "user": {"exec": plugin}}]))
    found = config["users"][0]["user"]["exec"]
    told = json.loads(found["env"][0]["value"])
    assert found["apiVersion"] == told["apiVersion"] == "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("changes", "context", "words"),
    [
        ({}, "devv", "did you mean dev?"),
        ({"current-context": ""}, None, "names no context"),
        ({"contexts": [{"name": "dev", "context": {"cluster": "nope", "user": "u"}}]}, None, "'nope'"),
        ({"contexts": [{"name": "dev", "context": {"user": "u"}}]}, None, "contexts.dev.cluster: is missing"),
        ({"users": "x"}, None, "is not a list"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_told(
    tmp_path: Path, changes: dict[str, Any], context: str | None, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_kubeconfig(write(tmp_path / "config", **changes), context)
    assert words in str(caught.value)


def test_no_kubeconfig_and_no_yaml_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no kubeconfig"):
        read_kubeconfig({"HOME": str(tmp_path)})
    (tmp_path / "config").write_text("a: [")
    with pytest.raises(InputError, match="is not YAML"):
        read_kubeconfig({"KUBECONFIG": str(tmp_path / "config")})
