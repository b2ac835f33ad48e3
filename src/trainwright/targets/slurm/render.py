"""From a plan, a spec and a site to the values of the sbatch files: which jobs, what each asks for, and why.

Pure, but for the file of a user's own machine, which is read to learn its accelerators. Writes no text itself; that
is ``script``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.facts import machine_file, slurm_options
from trainwright.facts.machines import Machine
from trainwright.facts.versions import versions
from trainwright.planner.plan import Plan
from trainwright.runs.fabric import NETWORK_VARIABLE
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_remote
from trainwright.spec.site import Site, SlurmSite
from trainwright.targets.slurm.record import STAGES
from trainwright.targets.slurm.script import Container, Directive, Shell, Step, quote, sbatch

#: Bytes/s at which a checkpoint is assumed to reach shared storage when nobody measured it: one gigabyte a second
#: is what a small parallel file system takes.
_STORAGE = 1e9
_LEAST_NOTICE = 120  # seconds; Slurm sends the signal up to a minute early or late


@dataclass(frozen=True)
class Overrides:
    """``target.overrides``: options for the #SBATCH lines of each stage (None removes one), and times."""

    options: Mapping[str, Mapping[str, str | int | bool | None]]
    notice_seconds: int | None = None


def scripts(run_id: str, plan: Plan, spec: RunSpec, site: Site, version: str) -> dict[str, str]:
    """The sbatch file of each stage, in the order of the chain. Raises InputError with every contradiction."""
    slurm = site.slurm or SlurmSite()
    overrides = read_overrides(spec.target.overrides)
    node = node_of(spec, site)
    shell = _shell(spec, slurm, node)
    container = _container(spec, slurm, node)
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for stage in stages_of(spec):
        directives = _patched(
            _directives(stage, run_id, plan, spec, slurm, node, overrides), overrides.options.get(stage, {})
        )
        problems += _unknown_to(version, directives)
        texts[stage] = sbatch(
            heading=_heading(stage, run_id, plan, spec, version),
            directives=directives,
            shell=shell,
            steps=_steps(stage, spec),
            stage=stage,
            container=container,
        )
    if problems:
        raise InputError(problems)
    return texts


def stages_of(spec: RunSpec) -> tuple[str, ...]:
    """The jobs of a run. An own script brings its own data."""
    return ("train", "finish") if spec.train else STAGES


def node_of(spec: RunSpec, site: Site) -> Machine | None:
    """The node type that the spec names; None for ``local``: then nothing is known of the nodes but their number."""
    name = spec.compute.instance
    if name == "local":
        return None
    return machine_file.read(Path(site.machines)) if name == "site" and site.machines else machine_file.find(name)


def read_overrides(values: Mapping[str, Any]) -> Overrides:
    """Check ``target.overrides``; InputError with every name and value that means nothing."""
    problems: list[Problem] = []
    options: dict[str, Mapping[str, str | int | bool | None]] = {}
    notice: int | None = None
    legal = (*STAGES, "notice_seconds")
    for name, value in values.items():
        field = f"target.overrides.{name}"
        if name in STAGES and isinstance(value, Mapping):
            options[name] = value
            problems += _bad_options(field, value)
        elif name == "notice_seconds" and type(value) is int and value > 0:
            notice = value
        elif name in legal:
            needed = "a whole number of seconds" if name == "notice_seconds" else "sbatch options and their values"
            problems.append(Problem("", field=field, what=f"is {value!r}", instead=f"{needed} is needed"))
        else:
            problems.append(Problem("", field=field, what="unknown field", instead=did_you_mean(str(name), legal)))
    if problems:
        raise InputError(problems)
    return Overrides(options, notice)


def _bad_options(field: str, values: Mapping[str, Any]) -> Iterable[Problem]:
    known = slurm_options.names()
    for option, value in values.items():
        if option not in known:
            yield Problem(
                "", field=f"{field}.{option}", what="is no option of sbatch", instead=did_you_mean(option, known)
            )
        elif not (value is None or isinstance(value, str | int)) or (
            isinstance(value, str) and not value.isprintable()
        ):
            yield Problem(
                "", field=f"{field}.{option}", what=f"is {value!r}", instead="write text, a number, true or null"
            )


def _directives(
    stage: str, run_id: str, plan: Plan, spec: RunSpec, slurm: SlurmSite, node: Machine | None, overrides: Overrides
) -> list[Directive]:
    train = stage == "train"
    # answers are generated after training: on an accelerator where there are any
    one = stage == "finish" and node is not None and bool(spec.evaluate.tasks or spec.evaluate.samples)
    nodes = spec.compute.nodes if train else 1
    first = [
        Directive("job-name", f"{run_id}.{stage}"),
        Directive("partition", slurm.partition if train or one else slurm.cpu_partition or slurm.partition),
        Directive("account", slurm.account),
        Directive("qos", slurm.qos),
        Directive("constraint", slurm.constraint if train else None),
        Directive("reservation", slurm.reservation if train else None),
        Directive("exclude", ",".join(slurm.exclude) or None),
        Directive("nodes", nodes),
        Directive("ntasks-per-node", 1, "one torchrun agent a node" if train else ""),
    ]
    last = [
        Directive("wait-all-nodes", 1 if nodes > 1 else None, "start when every node has booted: they meet at once"),
        Directive("requeue", True, "after a preemption or the loss of a node"),
        Directive("open-mode", "append", "a requeued job must not erase its log"),
        Directive("output", "logs/slurm-%j.log", "inside the run's folder; what Slurm itself has to say"),
        Directive("propagate", "NONE", "the limits of the node, not of the login shell: locked memory above all"),
        Directive("kill-on-invalid-dep", "yes", "do not wait for ever for a stage that failed"),
    ]
    if not train:
        asks = _one_accelerator(slurm, node) if one else _cpus(stage, spec)
        return [*first, *asks, *last]
    return [*first, *_accelerators(plan, spec, slurm, node), *_time(plan, spec, slurm, overrides), *last]


def _accelerators(plan: Plan, spec: RunSpec, slurm: SlurmSite, node: Machine | None) -> list[Directive]:
    processes = max(1, plan.layout.world_size // spec.compute.nodes)
    if node is None:
        return [Directive("cpus-per-task", processes, "a core for each rank; the nodes are not described")]
    _, _, kind = slurm.gres.partition(":")
    whole = processes >= node.count
    kinds: list[Directive] = []
    if slurm.gpus == "gres":
        kinds = [Directive("gres", f"{slurm.gres}:{processes}", _devices(node, processes))]
    elif slurm.gpus == "gpus-per-node":
        kinds = [Directive("gpus-per-node", f"{kind}:{processes}" if kind else processes, _devices(node, processes))]
    if whole or slurm.gpus == "exclusive":
        return [
            *kinds,
            Directive("exclusive", True, f"all accelerators of a {node.name} are used: nobody else on its CPUs"),
            Directive("mem", 0, "all memory of the node, not the cluster's default per CPU"),
        ]
    share = math.floor(node.vcpus * processes / node.count) if node.vcpus else processes
    return [*kinds, Directive("cpus-per-task", share, f"the share of {processes} of {node.count} accelerators")]


def _one_accelerator(slurm: SlurmSite, node: Machine | None) -> list[Directive]:
    _, _, kind = slurm.gres.partition(":")
    why = "task evaluation and samples"
    share = node.vcpus // node.count if node and node.vcpus else 1
    if slurm.gpus == "exclusive":
        return [Directive("exclusive", True, why), Directive("mem", 0, "all memory of the node")]
    if slurm.gpus == "gres":
        return [Directive("gres", f"{slurm.gres}:1", why), Directive("cpus-per-task", share)]
    return [Directive("gpus-per-node", f"{kind}:1" if kind else 1, why), Directive("cpus-per-task", share)]


def _devices(node: Machine, processes: int) -> str:
    chip = node.accelerator.name
    return f"all {chip} of a {node.name}" if processes >= node.count else f"{processes} of {node.count} {chip}"


def _cpus(stage: str, spec: RunSpec) -> list[Directive]:
    workers = spec.data.workers if spec.data and isinstance(spec.data.workers, int) else 4
    return [Directive("cpus-per-task", workers if stage == "prepare" else 2, "no accelerator: this stage uses none")]


def _time(plan: Plan, spec: RunSpec, slurm: SlurmSite, overrides: Overrides) -> list[Directive]:
    limit = math.ceil(slurm.time_limit.seconds / 60) if slurm.time_limit else None
    why = "longest job of the site; the run goes on in another"
    if plan.hours is not None:
        planned = math.ceil(plan.hours * 75 + 30)
        if limit is None or planned < limit:
            limit, why = (
                planned,
                f"{plan.hours:.1f} h planned, a quarter and 30 min to spare: short jobs start earlier",
            )
    asked = (overrides.options.get("train") or {}).get("time")
    minutes = _minutes(asked) if asked is not None else limit
    notice = overrides.notice_seconds or _notice(plan)
    if minutes is not None:
        notice = min(notice, minutes * 30)
    return [
        Directive("time", limit, why),
        Directive("signal", f"B:USR1@{notice}", "ahead of the time limit: finish the step, save, queue again"),
    ]


def _notice(plan: Plan) -> int:
    """Seconds from the signal to the time limit: two steps, and the state written at ``_STORAGE``."""
    ranks = plan.ranks
    per_stage = plan.layout.world_size / max(1, len(ranks))
    saved = sum((r.bytes.weights + r.bytes.master + r.bytes.optimizer) * per_stage for r in ranks)
    steps = 2 * plan.step_seconds.total if plan.step_seconds else 0.0
    seconds = 60 + steps + 2 * saved / _STORAGE
    return max(_LEAST_NOTICE, math.ceil(seconds / 60) * 60)


def _minutes(asked: object) -> int | None:
    """Minutes of a ``--time`` value: ``90``, ``1:30:00``, ``2-12``; None when it is written otherwise."""
    text = str(asked)
    days, dash, clock = text.rpartition("-")
    try:
        fields = [int(part) for part in clock.split(":")]
        if dash:
            hours, minutes = (*fields, 0)[:2]
            return int(days) * 1440 + hours * 60 + minutes
        return fields[0] if len(fields) < 3 else fields[0] * 60 + fields[1]
    except ValueError:
        return None


def _patched(directives: list[Directive], options: Mapping[str, str | int | bool | None]) -> list[Directive]:
    """With the user's options in place of ours, and what we do not set at the end."""
    ours = {directive.option for directive in directives}
    changed = [
        Directive(d.option, options[d.option], "target.overrides") if d.option in options else d for d in directives
    ]
    return changed + [
        Directive(name, value, "target.overrides") for name, value in options.items() if name not in ours
    ]


def _unknown_to(version: str, directives: Iterable[Directive]) -> Iterable[Problem]:
    for directive in directives:
        if directive.line() and (why := slurm_options.lacking(directive.option, version)):
            yield Problem("", field=f"--{directive.option}", what=why, instead="leave it out of target.overrides")


def _heading(stage: str, run_id: str, plan: Plan, spec: RunSpec, version: str) -> str:
    proved = "" if version in versions("slurm").proved else ", which no test of trainwright ran on"
    lines = [
        f"Stage {stage} of run {run_id}, written for Slurm {version}{proved}.",
        "trainwright submit adds --chdir (the run's folder), --dependency (the stage before) and, for a resumed run,",
        "--exclude (nodes that failed twice).",
    ]
    if stage == "train":
        lines.append(f"{plan.layout.world_size} rank(s) on {spec.compute.nodes} node(s): {plan.machine}.")
    return "\n".join(lines)


def _steps(stage: str, spec: RunSpec) -> tuple[Step, ...]:
    if stage == "prepare":
        return (Step("prepare"),)
    if stage == "train":
        # SLURM_NODEID is expanded on each node, not here: here it is always 0
        place = (
            "--nodes",
            '"$SLURM_JOB_NUM_NODES"',
            "--node-rank",
            '"$SLURM_NODEID"',
            "--rendezvous",
            '"$TRAINWRIGHT_RENDEZVOUS"',
        )
        return (Step("train", place),)
    report = Step("report", required=False)
    return (report,) if spec.train else (Step("finish"), report)


def _shell(spec: RunSpec, slurm: SlurmSite, node: Machine | None) -> Shell:
    secrets: dict[str, tuple[Literal["env", "file"], str]] = {}
    problems = []
    for name, reference in spec.secrets.items():
        if reference.env is not None:
            secrets[name] = ("env", reference.env)
        elif reference.file is not None:
            secrets[name] = ("file", reference.file)
        else:
            what = "is a Kubernetes Secret, which Slurm cannot read"
            problems.append(
                Problem("", field=f"secrets.{name}", what=what, instead="name an environment variable or a file")
            )
    if problems:
        raise InputError(problems)
    own = slurm.container.runtime == "none" and not slurm.setup
    return Shell(
        modules=slurm.modules,
        setup=slurm.setup,
        defaults=_network(spec, node),
        environment=spec.env,
        secrets=secrets,
        # the interpreter that submits, where the nodes see the same files
        interpreter='"${TRAINWRIGHT_PYTHON:-python3}"' if own else "python3",
    )


def _network(spec: RunSpec, node: Machine | None) -> tuple[tuple[str, str, str], ...]:
    """NCCL's and EFA's variables for this machine; nothing that recent releases find out by themselves."""
    if node is None or spec.compute.nodes == 1 or node.nics == 0:
        return ()
    found = [
        ("NCCL_SOCKET_IFNAME", "^lo,docker,veth", "NCCL's first contact must not try interfaces that end on the node")
    ]
    if node.nic == "efa":
        found.append(("FI_EFA_USE_HUGE_PAGE", "0", "huge pages make the fork of data workers fail"))
        if node.fabric != "neuronlink":
            found.append((NETWORK_VARIABLE, "efa", "a run that NCCL's own log shows on TCP ends in its first minute"))
        if "trainium" in node.accelerator.name or node.accelerator.name.startswith("trn"):
            found += [
                ("FI_PROVIDER", "efa", "Neuron's libfabric does not choose EFA by itself"),
                ("FI_EFA_USE_DEVICE_RDMA", "1", "device memory straight to the network"),
                ("FI_EFA_FORK_SAFE", "1", "data workers fork"),
            ]
    return tuple(found)


def _container(spec: RunSpec, slurm: SlurmSite, node: Machine | None) -> Container | None:
    runtime = slurm.container.runtime
    if runtime == "none":
        if spec.image is not None:
            what = "is given, but the site says that jobs run without containers"
            instead = "set slurm.container.runtime in the site file, or leave image out"
            raise InputError([Problem("", field="image", what=what, instead=instead)])
        return None
    if spec.image is None:
        what = f"is missing: jobs of this site run in a container ({runtime})"
        raise InputError([Problem("", field="image", what=what, instead="name an image")])
    paths = [*dict.fromkeys(_paths(spec))]
    unusable = [path for path in paths if set(path) & set(":,")]
    if unusable:
        what = "holds a colon or a comma, which cannot be mounted into a container"
        raise InputError([Problem(path, what=what, instead="rename it") for path in unusable])
    # the folder around the run's own: prepared data lies beside it
    mounts = (
        '"${TRAINWRIGHT_RUN_DIR%/*}:${TRAINWRIGHT_RUN_DIR%/*}"',
        *(quote(f"{path}:{path}") for path in paths),
        *map(quote, slurm.container.mounts),
    )
    variables = [name for name, _, _ in _network(spec, node)] + [*spec.env, *spec.secrets]
    nvidia = node is not None and node.fabric != "neuronlink"
    return Container(runtime, spec.image, mounts, nvidia=nvidia, variables=tuple(variables))


def _paths(spec: RunSpec) -> Iterable[str]:
    """Folders outside the run that a stage reads or writes."""
    model, data = spec.model, spec.data
    found = [model.path if model else None, model.tokenizer if model else None]
    found += [source.path for source in (*data.sources, *data.eval_sources)] if data else []
    found += [data.chat_template if data else None, spec.register_.path if spec.register_ else None]
    found += [task.path for task in spec.evaluate.tasks]
    for path in found:
        if path is not None and path.startswith("/") and not is_remote(path):
            yield _without_glob(path)
    if spec.train is not None:
        yield str(PurePosixPath(spec.train.script).parent)


def _without_glob(path: str) -> str:
    parts = PurePosixPath(path).parts
    plain = next((i for i, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    return str(PurePosixPath(*parts[:plain]))
