"""Which options of ``trainwright plan`` contradict each other: what would not be read is refused, not ignored.

Takes the names of what was given and the words before the options; gives problems, each with the way to say it. It
knows names alone: whether a value is legal is the planner's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from trainwright.errors import Problem

#: What an option says of the run, and how a spec says it.
_IN_A_SPEC = {
    "model": "--set model.path=…",
    "model_shape": "give it instead of the spec",
    "params": "give it instead of the spec",
    "machine": "--set compute.instance=…",
    "nodes": "--set compute.nodes=…",
    "sequence_length": "--set sequence_length=…",
    "global_batch_size": "--set global_batch_size=…",
    "micro_batch_size": "--set micro_batch_size=…",
    "precision": "--set precision=…",
    "optimizer": "--set optimizer.name=…",
    "method": "--set method=…",
    "lora_rank": "--set lora.rank=…",
    "recompute": "--set recompute=…",
    "offload_optimizer": "--set offload.optimizer=…",
    "stack": "--set engine=…",
    "tokens": "--set 'duration=2e9 tokens'",
    "price": "prices: {INSTANCE: …} in the site file",
    "region": "region: … in the site file",
    "capacity": "--set compute.capacity=…",
}
#: Of these, what ``--compare`` beside a spec reads: the clusters that are compared are not the spec's.
_OF_CLUSTERS = {"nodes", "price", "region", "capacity"}
_LIMITS = ("deadline", "budget")
#: Read by every way of asking.
_ALWAYS = {"what", "output"}


def contradictions(what: tuple[str, ...], given: Set[str], *, adapters: bool = False) -> list[Problem]:
    """What of ``given`` (names of parameters) would not be read. ``adapters``: whether the method trains any."""
    if what[:1] == ("diff",):
        return _unread(given - _ALWAYS, "is not read by diff", "leave it out: diff compares two files")
    problems = []
    if what:
        for name in sorted(given & set(_IN_A_SPEC)):
            if "compare" in given and name in _OF_CLUSTERS:
                continue
            problems.append(
                Problem("plan", field=_flag(name), what="is not read: the spec says it", instead=_IN_A_SPEC[name])
            )
    else:
        problems += _unread(given & {"set_", "site"}, "is not read without a spec", "name a spec, or use the options")
        models = [name for name in ("model", "model_shape", "params") if name in given]
        if len(models) > 1:
            way = "give one of them" if "model" in given else "write params=… in --model-shape"
            both = " and ".join(map(_flag, models[1:]))
            problems.append(Problem("plan", field=_flag(models[0]), what=f"is given beside {both}", instead=way))
        if "lora_rank" in given and not adapters:
            problems += _unread({"lora_rank"}, "is not read by --method full", "--method lora")
    return problems + _pairs(given)


def of_this_machine(given: Set[str]) -> list[Problem]:
    """What of ``given`` is not read where the spec runs on this machine, which is nobody's instance type."""
    what = "is not read for this machine, whose layout the spec and the number of devices decide"
    way = "--set compute.instance=p5.48xlarge plans for such nodes"
    return _unread(given - _ALWAYS - {"set_", "site", "save", "pictures", "why"}, what, way)


def _pairs(given: Set[str]) -> list[Problem]:
    problems = []
    limited = [name for name in _LIMITS if name in given]
    if "layout" in given:
        written = given & {"micro_batch_size", "recompute"}
        problems += _unread(written, "is given beside --layout", "write it there, such as --layout dp_shard=8,{}=…")
        several = given & {"compare", "calibrate", *_LIMITS}
        problems += _unread(several, "is given beside --layout, which is of one cluster", "leave one of them out")
    if limited and "nodes" in given:
        text = f"is given beside --{limited[0]}, which chooses the nodes"
        problems += _unread({"nodes"}, text, "--max-nodes bounds them")
    if not limited:
        problems += _unread(given & {"max_nodes"}, "bounds what --deadline and --budget try", "give one of them")
        if "compare" in given:
            problems += _unread(given & {"save"}, "keeps one plan, and --compare makes none", "--output json > FILE")
    if "calibrate" in given:
        asked = given & {"compare", *_LIMITS}
        problems += _unread(asked, "is given beside --calibrate, which plans nothing", "calibrate first")
    return problems


def _unread(names: Iterable[str], what: str, way: str) -> list[Problem]:
    return [Problem("plan", field=_flag(name), what=what, instead=way.replace("{}", name)) for name in sorted(names)]


def _flag(name: str) -> str:
    return f"--{name.strip('_').replace('_', '-')}"
