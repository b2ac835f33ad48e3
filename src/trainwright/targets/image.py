"""The Dockerfile of a run: what its pods need beside the code, for GPUs with EFA, for Neuron, or for CPUs.

Pure: a spec, a site and a target in, text out. Nothing is built here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainwright import __version__
from trainwright.facts import machine_file
from trainwright.facts.data import read_rows
from trainwright.facts.machines import Machine
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_remote
from trainwright.spec.site import Site

_USER = 1000
_APT = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"


def dockerfile(spec: RunSpec, site: Site, target: str) -> str:
    """The text. ``target`` decides on what is particular to a launcher: sshd and Open MPI, or Ray."""
    name = spec.compute.instance
    node = None
    if name != "local":
        node = machine_file.read(Path(site.machines)) if name == "site" and site.machines else machine_file.find(name)
    kind = _kind(node)
    # Neuron's images bring EFA and Open MPI
    efa = kind == "cuda" and node is not None and node.nic == "efa" and node.nics > 0
    user = _USER if site.kubernetes is None or site.kubernetes.user is None else site.kubernetes.user
    parts = [
        _heading(spec, target),
        f"FROM {_base(kind, site)}",
        *_packages(kind, target, efa),
        *(_efa() if efa else ()),
        *_python(spec, kind, target),
        *_user(user),
    ]
    return "\n\n".join(parts) + "\n"


def extras(spec: RunSpec, kind: str) -> list[str]:
    """The extras of trainwright that the stages of a run use."""
    found = ["report", *spec.tracking]
    if kind != "neuron":
        found.append("train")
    paths = [source.path for source in (*spec.data.sources, *spec.data.eval_sources)] if spec.data else []
    if any(is_remote(path) for path in (*paths, spec.model.path if spec.model else "")):
        found.append("s3")
    if spec.data and any(source.format in ("auto", "parquet", "dataset") for source in spec.data.sources):
        found.append("parquet")
    if any(task.kind == "lm_eval" for task in spec.evaluate.tasks):
        found.append("lm-eval")
    if spec.attention == "flash":
        found.append("flash")
    return sorted(set(found))


def _kind(node: Machine | None) -> Literal["cuda", "neuron", "cpu"]:
    if node is None:
        return "cpu"
    return "neuron" if node.accelerator.vendor.lower() == "aws" else "cuda"


def _base(kind: str, site: Site) -> str:
    row = read_rows("images")[kind]
    return str(row["base"]).format(region=site.region or row.get("region", ""))


def _heading(spec: RunSpec, target: str) -> str:
    return (
        f"# Image of run {spec.name} for target {target}, written by trainwright {__version__}.\n"
        "# docker build -t REGISTRY/NAME:TAG . && docker push REGISTRY/NAME:TAG, and name it as image in the spec"
    )


def _packages(kind: str, target: str, efa: bool) -> Iterator[str]:
    wanted = ["ca-certificates", "curl"]
    why = ""
    if target == "mpijob":
        wanted += ["openssh-client", "openssh-server"] + (["openmpi-bin"] if kind == "cpu" else [])
        why = "# mpirun reaches the workers over ssh\n"
    if efa or target == "mpijob" or kind == "cpu":
        yield f"{why}RUN {_APT} \\\n    {' '.join(wanted)} \\\n    && rm -rf /var/lib/apt/lists/*"


def _efa() -> Iterator[str]:
    version = read_rows("images")["efa"]["version"]
    yield (
        "# libfabric, NCCL's plugin for it and Open MPI; the kernel's part is on the node\n"
        f"ARG EFA_INSTALLER={version}\n"
        "RUN cd /tmp \\\n"
        "    && curl -fsSLO https://efa-installer.amazonaws.com/aws-efa-installer-${EFA_INSTALLER}.tar.gz \\\n"
        "    && tar -xf aws-efa-installer-${EFA_INSTALLER}.tar.gz && cd aws-efa-installer \\\n"
        "    && apt-get update && ./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify \\\n"
        "    && rm -rf /tmp/aws-efa-installer* /var/lib/apt/lists/*\n"
        "ENV PATH=/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:$PATH \\\n"
        "    LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:/opt/amazon/openmpi/lib:/opt/amazon/efa/lib:$LD_LIBRARY_PATH"
    )


def _python(spec: RunSpec, kind: str, target: str) -> Iterator[str]:
    if kind == "cpu":
        yield "RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch"
    if kind == "neuron":
        yield "# Neuron's last image has an older PyTorch than the built-in trainer needs: bring a train.script"
    wanted = ",".join(sorted([*extras(spec, kind), *(["ray"] if target in ("rayjob", "ray") else [])]))
    yield (
        "# a requirement for pip, or the name of a wheel that is copied before\n"
        f'ARG TRAINWRIGHT="trainwright[{wanted}]=={__version__}"\n'
        f'RUN python3 -m pip install --no-cache-dir "${{TRAINWRIGHT}}"'
    )
    if spec.train is not None:
        yield "# code of more than one file: COPY it here, and name its place in the image as train.script"


def _user(user: int) -> Iterator[str]:
    if user != 0:
        yield (
            "# ssh and PyTorch ask for the name of the user that pods run as\n"
            f"RUN getent passwd {user} || useradd --uid {user} --create-home trainwright\nUSER {user}"
        )
