"""The Dockerfile of a run holds what its pods, its launcher and its spec need, and nothing else."""

from __future__ import annotations

import re
import subprocess

import pytest
from kubernetes_specs import own_script, site_of, spec_of

from trainwright import __version__
from trainwright.targets.image import dockerfile, extras


@pytest.mark.parametrize(
    ("instance", "target", "has", "has_not"),
    [
        ("p5.48xlarge", "jobset", ["pytorch/pytorch:", "efa_installer.sh", "ofi-nccl/lib"], ["openssh", "[ray"]),
        ("p5.48xlarge", "mpijob", ["openssh-server", "openmpi/bin"], ["openmpi-bin"]),
        ("g5.xlarge", "jobset", ["pytorch/pytorch:"], ["efa_installer.sh"]),
        ("trn1.32xlarge", "jobset", ["neuronx", "us-east-1", "bring a train.script"], ["efa_installer.sh", "train]"]),
        ("local", "rayjob", ["python:", "whl/cpu torch", "[ray,report,train]"], ["efa"]),
        ("local", "mpijob", ["openmpi-bin", "openssh-server"], ["efa"]),
    ],
)
def test_by_node_and_launcher(instance: str, target: str, has: list[str], has_not: list[str]) -> None:
    text = dockerfile(own_script(compute={"instance": instance, "nodes": 1}), site_of(), target)
    assert [word for word in has if word not in text] == []
    assert [word for word in has_not if word in text] == []
    assert f"=={__version__}" in text


def test_every_shell_line_is_one_that_a_shell_reads() -> None:
    text = dockerfile(spec_of(), site_of(), "mpijob").replace("\\\n", " ")
    commands = re.findall(r"^RUN (.*)$", text, re.M)
    assert len(commands) == 4
    for command in commands:
        assert subprocess.run(["sh", "-n", "-c", command], capture_output=True).returncode == 0


def test_the_image_knows_the_user_that_pods_run_as() -> None:
    assert "useradd --uid 1000" in dockerfile(spec_of(), site_of(), "jobset")
    assert "useradd --uid 4711" in dockerfile(spec_of(), site_of(user=4711), "jobset")
    assert "USER" not in dockerfile(spec_of(), site_of(user=0), "jobset")


def test_extras_follow_from_the_spec() -> None:
    assert extras(own_script(), "cuda") == ["report", "train"]
    spec = spec_of(data={"sources": [{"path": "s3://bucket/text", "format": "jsonl"}]}, tracking=["wandb"])
    assert extras(spec, "cuda") == ["report", "s3", "train", "wandb"]
