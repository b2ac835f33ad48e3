"""Which jobs a run becomes and what each asks for; golden files in golden/ show them whole.

UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from specs import own_script, plan_of, site_of, spec_of

from trainwright.errors import InputError
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets.slurm.render import scripts
from trainwright.targets.slurm.target import Slurm

GOLDEN = Path(__file__).parent / "golden"
A100 = {"gres": "gpu:a100", "cpu_partition": "cpu", "account": "team", "qos": "high", "time_limit": "24h"}


def texts(spec: RunSpec, site: Site, world: int = 16, version: str | None = None, **plan: Any) -> dict[str, str]:
    bundle = Slurm().render(plan_of(spec, world, **plan), spec, site, {"slurm": version} if version else {})
    return {file.path: file.text for file in bundle.files}


def options(text: str) -> dict[str, str]:
    found = re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?", text, re.M)
    return dict(found)


@pytest.mark.parametrize(
    ("name", "spec", "site", "world"),
    [
        ("two-p4d", spec_of(register="demo", evaluate={"samples": ["Once"]}), site_of(**A100), 16),
        ("own-script", own_script(), site_of(), 2),
        ("pyxis", spec_of(image="nvcr.io#nvidia/pytorch:26.01", env={"NCCL_DEBUG": "WARN"},
                          secrets={"HF_TOKEN": {"file": "/home/ada/.token"}}),
         site_of(container={"runtime": "pyxis", "mounts": ["/scratch:/scratch"]}), 16),
    ],
)  # fmt: skip
def test_golden(name: str, spec: RunSpec, site: Site, world: int) -> None:
    # a fixed id: that of the content changes with every field that a spec gains
    for stage, text in scripts("demo-00000000", plan_of(spec, world), spec, site, "22.05").items():
        golden = GOLDEN / f"{name}.{stage}.sbatch"
        if os.environ.get("UPDATE_GOLDEN"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(text, "utf-8")
        assert text == golden.read_text("utf-8")


def test_equal_input_gives_equal_bytes_and_the_chain_has_an_order() -> None:
    spec = spec_of()
    one, two = (Slurm().render(plan_of(spec), spec, site_of(), {}) for _ in range(2))
    assert one == two
    order = [file.path for file in sorted(one.files, key=lambda file: file.apply_order) if file.apply_order]
    assert order == ["prepare.sbatch", "train.sbatch", "finish.sbatch"]
    assert one.where == {"cluster": "hpc", "partition": "gpu"}
    assert dict(one.versions) == {"slurm": "22.05"}


def test_no_stage_holds_an_accelerator_that_it_does_not_use() -> None:
    files = texts(spec_of(), site_of(**A100))
    for stage in ("prepare", "finish"):
        asked = options(files[f"{stage}.sbatch"])
        assert asked["partition"] == "cpu"
        assert asked["nodes"] == "1"
        assert not {"gres", "gpus-per-node", "exclusive"} & set(asked)
    sampled = options(texts(spec_of(evaluate={"samples": ["Once"]}), site_of(**A100))["finish.sbatch"])
    assert (sampled["partition"], sampled["gpus-per-node"]) == ("gpu", "a100:1")


@pytest.mark.parametrize(
    ("site", "per_node", "expected"),
    [
        ({"gres": "gpu:a100"}, 8, {"gpus-per-node": "a100:8", "exclusive": "", "mem": "0"}),
        ({"gpus": "gres", "gres": "gpu:a100"}, 8, {"gres": "gpu:a100:8", "exclusive": "", "mem": "0"}),
        ({"gpus": "exclusive"}, 8, {"exclusive": "", "mem": "0"}),
        ({}, 4, {"gpus-per-node": "4", "cpus-per-task": "48"}),
    ],
)
def test_accelerators_are_asked_for_as_the_site_counts_them(
    site: dict[str, str], per_node: int, expected: dict[str, str]
) -> None:
    compute = {"instance": "p4d.24xlarge", "nodes": 2, "processes_per_node": per_node}
    asked = options(texts(spec_of(compute=compute), site_of(**site), 2 * per_node)["train.sbatch"])
    mine = {k: asked[k] for k in ("gres", "gpus-per-node", "exclusive", "mem", "cpus-per-task") if k in asked}
    assert mine == expected


@pytest.mark.parametrize(
    ("site", "plan", "time", "signal"),
    [
        ({"time_limit": "24h"}, {"hours": 2.0}, "180", "B:USR1@120"),
        ({"time_limit": "2h"}, {"hours": 20.0}, "120", "B:USR1@120"),
        ({"time_limit": "2m"}, {"hours": None}, "2", "B:USR1@60"),
        ({}, {"hours": None}, None, "B:USR1@120"),
    ],
)
def test_the_time_limit_and_the_signal_ahead_of_it(
    site: dict[str, Any], plan: dict[str, Any], time: str | None, signal: str
) -> None:
    asked = options(texts(spec_of(), site_of(**site), **plan)["train.sbatch"])
    assert asked.get("time") == time
    assert asked["signal"] == signal


def test_a_large_state_has_a_long_notice() -> None:
    from trainwright.planner.plan import RankBytes, RankClass

    ranks = (RankClass(0, RankBytes(weights=20_000_000_000, optimizer=20_000_000_000)),)
    spec = spec_of()
    plan = plan_of(spec, 16)
    from dataclasses import replace

    text = {f.path: f.text for f in Slurm().render(replace(plan, ranks=ranks), spec, site_of(), {}).files}
    # 640 GB at 1 GB/s, twice, two steps, a minute
    assert options(text["train.sbatch"])["signal"] == "B:USR1@1380"


def test_overrides_replace_add_and_remove_options_and_say_so() -> None:
    target = {"name": "slurm", "overrides": {"train": {"partition": "debug", "mail-type": "END", "requeue": None}}}
    text = texts(spec_of(target=target), site_of())["train.sbatch"]
    assert "#SBATCH --partition=debug  # target.overrides" in text
    assert "#SBATCH --mail-type=END  # target.overrides" in text
    assert "--requeue" not in text


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"train": {"partitoin": "x"}}, ["target.overrides.train.partitoin", "did you mean partition?"]),
        ({"trian": {}}, ["target.overrides.trian", "did you mean train?"]),
        ({"train": 3, "notice_seconds": "x"}, ["overrides.train", "overrides.notice_seconds"]),
        ({"train": {"comment": "a\nb"}}, ["overrides.train.comment"]),
        ({"train": {"segment": 4}}, ["Slurm 22.05 does not know --segment, which came with 24.05"]),
    ],
)
def test_overrides_that_mean_nothing_are_refused_all_at_once(overrides: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as told:
        texts(spec_of(target={"name": "slurm", "overrides": overrides}), site_of())
    assert all(word in str(told.value) for word in words)


def test_a_newer_slurm_gets_its_option_and_the_file_says_what_is_proved() -> None:
    target = {"name": "slurm", "overrides": {"train": {"segment": 4}}}
    files = texts(spec_of(target=target), site_of(), version="25.11.2")
    assert "#SBATCH --segment=4" in files["train.sbatch"]
    assert "Slurm 25.11, which no test of trainwright ran on" in files["train.sbatch"]
    assert "which no test" not in texts(spec_of(), site_of())["train.sbatch"]


@pytest.mark.parametrize("version", ["20.11", "21.08.8", "22.05", "23.02", "23.11", "24.11.5", "26.05", "26.11"])
def test_every_known_version_and_the_next_are_rendered(version: str) -> None:
    assert "#SBATCH --nodes=2" in texts(spec_of(), site_of(), version=version)["train.sbatch"]


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"known are 20\.11"):
        texts(spec_of(), site_of(), version="19.05")


@pytest.mark.parametrize(
    ("spec", "site", "words"),
    [
        ({"storage": "s3://bucket/runs"}, {}, "storage"),
        ({"storage": None}, {"login": "login1"}, "storage"),
        ({"image": "x.sif"}, {}, "image"),
        ({}, {"container": {"runtime": "pyxis"}}, "image"),
        ({"secrets": {"A": {"kubernetes": "a/b"}}}, {}, "secrets.A"),
        (
            {"image": "x.sif", "data": {"sources": ["/data/a:b"]}},
            {"container": {"runtime": "apptainer"}},
            "/data/a:b",
        ),
    ],
)
def test_contradictions_are_told(spec: dict[str, Any], site: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        texts(spec_of(**spec), site_of(**site))


def test_efa_nodes_get_the_variables_they_need_and_the_users_own_win() -> None:
    text = texts(spec_of(env={"FI_EFA_USE_HUGE_PAGE": "1"}), site_of())["train.sbatch"]
    default = text.index("export FI_EFA_USE_HUGE_PAGE=${FI_EFA_USE_HUGE_PAGE:-0}")
    assert default < text.index("export FI_EFA_USE_HUGE_PAGE=1")
    assert (
        "NCCL_SOCKET_IFNAME" not in texts(spec_of(compute={"instance": "p4d.24xlarge"}), site_of(), 8)["train.sbatch"]
    )
