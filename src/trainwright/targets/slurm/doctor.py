"""``doctor`` on Slurm: what a cluster has and lacks for a run, each line with its fix.

Takes a client and the rendered scripts; only asks, queues nothing. Slurm itself judges each script, by
``--test-only``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.errors import InputError, SystemUnreachable, TrainwrightError
from trainwright.facts.versions import choose, versions
from trainwright.spec.site import SlurmSite
from trainwright.targets.doctor import Check
from trainwright.targets.slurm.queue import Partition, Queue

_DIRECTIVE = re.compile(r"^#SBATCH\s+--([\w-]+)(?:[= ](\S+))?", re.M)
_DOWN = re.compile(r"down|drain|fail|unk|maint|boot|power", re.I)


def examine(client: Queue, scripts: Mapping[str, str], site: SlurmSite) -> list[Check]:
    """Every check. SystemUnreachable when Slurm does not answer at all."""
    partitions = client.partitions()
    asked = {path: dict(_DIRECTIVE.findall(text)) for path, text in scripts.items()}
    named = [site.partition, site.cpu_partition, *(one.get("partition") for one in asked.values())]
    wanted = list(dict.fromkeys(name for part in named if part for name in part.split(",")))
    found = [*_version(client), *_partitions(partitions, wanted), *_gres(partitions, site, asked)]
    for path, text in scripts.items():
        found.append(_tried(client, path, text))
    return found


def _version(client: Queue) -> Iterator[Check]:
    number = ".".join(f"{part:02d}" if place == 1 else str(part) for place, part in enumerate(client.version()))
    if not number:
        yield Check("unknown", "version", "sbatch does not tell its version")
        return
    try:
        known = choose("slurm", number)
    except TrainwrightError as error:
        yield Check(
            "warning", "version", f"{number}: {error}", "name the nearest version as slurm.version in the site"
        )
        return
    proved = known in versions("slurm").proved
    detail = f"{number}, " + ("the suites ran on it" if proved else f"written for {known}; no suite ran on it")
    yield Check("ok" if proved else "warning", "version", detail, "try a small run first")


def _partitions(partitions: list[Partition], wanted: list[str]) -> Iterator[Check]:
    names = sorted({one.name for one in partitions})
    for name in wanted or names:
        rows = [one for one in partitions if one.name == name]
        if not rows:
            yield Check("missing", f"partition {name}", "is not there", f"name one of {', '.join(names)}")
            continue
        total = sum(one.nodes for one in rows)
        usable = sum(one.nodes for one in rows if not _DOWN.search(one.state))
        detail = f"{usable} of {total} node(s) usable, time limit {rows[0].time_limit}"
        if not rows[0].up:
            yield Check("missing", f"partition {name}", "is down", "ask the operators, or name another partition")
        elif usable == 0:
            yield Check("missing", f"partition {name}", detail, "scontrol show nodes says why they are down")
        else:
            yield Check("ok" if usable == total else "warning", f"partition {name}", detail, "sinfo -R says why")


def _gres(partitions: list[Partition], site: SlurmSite, asked: Mapping[str, Mapping[str, str]]) -> Iterator[Check]:
    """Whether the nodes of a script's partition declare the accelerators that it asks for."""
    for path, directives in asked.items():
        text = directives.get("gres") or directives.get("gpus-per-node")
        if not text:
            continue
        kind, count = _count(text)
        named = (directives.get("partition") or site.partition or "").split(",")
        rows = [one for one in partitions if one.name in named or named == [""]]
        have = max((_declared(one.gres, kind) for one in rows), default=0)
        what = f"{kind} for {path}"
        if have >= count:
            yield Check("ok", what, f"nodes have {have}, {count} needed")
        elif have:
            yield Check("missing", what, f"nodes have {have} at most, {count} needed", "ask for fewer a node")
        else:
            fix = "name slurm.gres as sinfo -o %G shows it, or slurm.gpus: exclusive for clusters without GRES"
            yield Check("missing", what, "no node of the partition declares it", fix)


def _tried(client: Queue, path: str, text: str) -> Check:
    try:
        return Check("ok", path, f"sbatch --test-only: {client.try_out(text, name=path)}")
    except SystemUnreachable as error:
        return Check("missing", path, error.message, error.way_out)
    except InputError as error:
        problem = error.problems[0]
        return Check("missing", path, problem.what, problem.instead)
    except TrainwrightError as error:
        return Check("missing", path, error.message, error.way_out)


def _count(text: str) -> tuple[str, int]:
    """``gpu:a100:8`` → (``gpu:a100``, 8); ``8`` alone is of ``gpu``."""
    head, _, last = text.rpartition(":")
    return (head or "gpu", int(last)) if last.isdigit() else (text, 1)


def _declared(gres: str, kind: str) -> int:
    """How many of a kind a node declares: ``gpu:a100:8(S:0-1)``."""
    total = 0
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, count = _count(part) if part not in ("", "(null)") else ("", 0)
        if name == kind or (":" not in kind and name.split(":")[0] == kind):
            total += count
    return total
