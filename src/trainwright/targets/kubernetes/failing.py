"""Why a run failed: of everything that ended badly, what ended first and is no consequence of something else. Pure.

Takes the pods of a stage (also those that are gone), the object's own verdict, events and the first error in the
logs; gives one reason, the rank and the node. Hardware, lost nodes, preemption and memory come before exit codes, an
exception before the summaries of launchers and controllers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainwright.runs.exit_codes import TrainExit, exit_words
from trainwright.runs.failures import Failure, first_error
from trainwright.runs.state import Reason, ReasonClass
from trainwright.targets.kubernetes.outcome import Outcome
from trainwright.targets.kubernetes.pod_view import Ended, PodView
from trainwright.targets.kubernetes.snapshot import Event
from trainwright.targets.local.policy import failure_class
from trainwright.targets.reasons import Match, earliest_cause, match

#: Whose messages the first error of a rank may be; causes among them know the next step better than we do.
LIBRARIES = (
    "nvidia-driver", "cuda", "nccl", "aws-ofi-nccl", "gloo", "neuron", "flash-attention", "huggingface", "deepspeed",
    "aws-sdk", "ray", "os",
)  # fmt: skip
#: What only the cluster knows, and no exit code can say.
_CLUSTERS_OWN = ("hardware", "node-lost", "preempted", "oom", "timeout")
_NODE_EVENTS = ("NodeNotReady", "SpotInterrupted", "InstanceUnhealthy", "InstanceTerminating", "InstanceStopping")
_FEW = 500  # characters
_ECHO_CODES = (TrainExit.RESUME_ME, 143)
Retry = Literal["none", "same-node-ok", "other-node", "after-wait"]


@dataclass(frozen=True)
class Cause:
    """One pod's end, explained. ``echo`` tells a pod that ended because another did."""

    pod: PodView
    reason: Reason
    at: float
    rank: int | None = None
    echo: bool = False
    weight: int = 3


@dataclass(frozen=True)
class Verdict:
    """What a failed run is told as."""

    reason: Reason
    rank: int | None = None
    node: str | None = None


def why_failed(
    stage: str, ended: Outcome, pods: Sequence[PodView], events: Sequence[Event], failure: Failure | None = None
) -> Verdict:
    """The one reason of a failed stage. ``failure`` is the first error in the run's folder, if it has one."""
    own = _by_object(ended)
    if own is not None and own.role == "cause" and own.reason.class_ == "timeout":
        return Verdict(own.reason)
    causes = [cause for pod in pods if (cause := explain_pod(stage, pod, events)) is not None]
    first = min(causes, key=lambda one: (one.echo, one.at, one.weight, one.pod.index or 0), default=None)
    told = failure if failure is not None and not failure.echo else None
    if first is not None and not (first.echo and told is not None):
        if told is not None and first.weight > 2 and first.rank in (None, told.rank):
            text = told.text + (f" ({told.where})" if told.where else "")
            return Verdict(_exception(stage, first, text, told.rank), told.rank, first.pod.node)
        return Verdict(first.reason, first.rank, first.pod.node)
    if told is not None:
        text = told.text + (f" ({told.where})" if told.where else "")
        return Verdict(_user_error(text, told.rank, raw=told.log), told.rank)
    if own is not None:
        return Verdict(own.reason)
    text = ended.message or ended.reason or f"{stage} failed, and nothing is left that says why"
    return Verdict(Reason(f"{ended.system}-unknown", "unknown", _sentence(text), "look at the logs", raw=text))


def explain_pod(stage: str, pod: PodView, events: Sequence[Event]) -> Cause | None:
    """Why one pod ended badly; None when it did not."""
    if not pod.failed and pod.disrupted is None and not pod.gone:
        return None
    last = min((one for one in pod.ended if one.code != 0), key=lambda one: one.at or float("inf"), default=None)
    at = (last.at if last is not None else None) or pod.ended_at or float("inf")
    known = list(_by_cluster(pod, events, at))
    best = earliest_cause(known)
    if best is not None and best.role == "cause" and best.reason.class_ in _CLUSTERS_OWN:
        rank = _rank(last)
        return Cause(pod, _placed(best.reason, pod, rank, last), at, rank, weight=_weight(best))
    if last is None:
        if best is None:
            return None
        return Cause(pod, _placed(best.reason, pod, None, None), at, echo=pod.gone, weight=_weight(best))
    return _by_program(stage, pod, last, at, best)


def _by_object(ended: Outcome) -> Match | None:
    for text in (ended.message, f"{ended.reason}: {ended.message}"):
        for system in dict.fromkeys((ended.system, "kubernetes-job")):
            found = match(system, text) if text else None
            if found is not None and found.state in ("failed", "preempted", "cancelled"):
                return found
    return None


def _by_cluster(pod: PodView, events: Sequence[Event], at: float) -> Iterator[Match]:
    """What the kubelet, the scheduler and the node's keepers say about a pod."""
    texts: list[tuple[str, str]] = []
    if pod.disrupted is not None:
        reason, message = pod.disrupted
        system = "kube-scheduler" if reason == "PreemptionByScheduler" else "kubelet"
        texts.append((system, message))
    if pod.reason or pod.message:
        texts += [("kubelet", pod.message), ("kubelet", f"{pod.reason}: {pod.message}")]
    for one in events:
        if one.about == ("Pod", pod.name) and one.reason in ("Preempted", "Evict", "Evicted", "TaintManagerEviction"):
            texts += [("kube-scheduler", one.message), ("volcano", one.message), ("karpenter", one.message)]
            texts.append(("kubelet", one.message))
        if pod.node and one.kind in ("Node", "NodeClaim") and one.name == pod.node and one.reason in _NODE_EVENTS:
            texts.append(("karpenter", one.message))
        if pod.gone and pod.node and one.about == ("Node", pod.node) and one.at >= (pod.started or 0.0):
            # nobody saw how the pod ended: what became of its node tells
            gone = f"Node {pod.node} which was running pod {pod.name} is unresponsive"
            texts += [("kubelet", "PodGC: node no longer exists")] if one.reason == "RemovingNode" else []
            texts += [("kubelet", gone)] if one.reason == "NodeNotReady" else []
    for ended in pod.ended:
        if ended.code != 0:
            texts += [("kubelet", f"reason={ended.reason} exitCode={ended.code}"), ("kubelet", ended.text)]
    for system, text in texts:
        found = match(system, text) if text.strip(": ") else None
        if found is not None and found.state in ("failed", "preempted", "cancelled"):
            yield found


def _by_program(stage: str, pod: PodView, last: Ended, at: float, best: Match | None) -> Cause:
    """The exception or exit code of the program itself."""
    told = last.told or {}
    code = int(told.get("code") or last.code)
    rank = _rank(last)
    text, where = str(told.get("exception") or ""), str(told.get("line") or "")
    said = first_error(text) if text else _few_words(last.text) or first_error(last.text)
    echo_text = said is not None and said.echo
    if said is not None and not text:
        text, where = said.text, said.where
    class_ = str(told.get("class") or failure_class(code))
    echo = class_ == "resume" or code in _ECHO_CODES or echo_text
    if text:
        reason = _exception(stage, Cause(pod, _nothing(), at, rank), text + (f" ({where})" if where else ""), rank)
        return Cause(pod, replace(reason, raw=_raw(pod, last)), at, rank, echo)
    if best is not None and code not in (TrainExit.NON_FINITE, TrainExit.HUNG_COLLECTIVE, TrainExit.RESUME_ME):
        return Cause(pod, _placed(best.reason, pod, rank, last), at, rank, echo, _weight(best))
    id_, class_name, sentence, next_step = _judge(stage, code)
    retry: Retry = "none" if class_name in ("user-error", "config") else "same-node-ok"
    reason = Reason(id_, class_name, _sentence(f"{_who(rank, pod)}{sentence}"), next_step, retry, _raw(pod, last))
    return Cause(pod, reason, at, rank, echo)


def _few_words(text: str) -> Failure | None:
    """A short message as it is: its last line alone would often be the advice, not the error."""
    lines = text.strip().splitlines()
    if not 1 < len(lines) <= 3 or len(text) > _FEW or "Traceback" in text:
        return None
    return first_error(" ".join(lines))


def _exception(stage: str, cause: Cause, text: str, rank: int | None) -> Reason:
    """An exception in its own words; a library that is known adds its class and its way out."""
    reason = _user_error(text, rank, pod=cause.pod, raw=cause.reason.raw)
    for system in LIBRARIES:
        found = match(system, text)
        if found is not None and found.role == "cause":
            return replace(
                reason, class_=found.reason.class_, next_step=found.reason.next_step, retry=found.reason.retry
            )
    return reason


def _user_error(text: str, rank: int | None, pod: PodView | None = None, raw: str = "") -> Reason:
    return Reason("k8s-user-error", "user-error", _sentence(f"{_who(rank, pod)}{text}"), "mend the error", raw=raw)


def _judge(stage: str, code: int) -> tuple[str, ReasonClass, str, str]:
    if code == TrainExit.NON_FINITE:
        return "k8s-non-finite", "user-error", f"{stage}: loss or gradients are not finite", (
            "lower optimizer.lr, look at the samples named in the log, or set nan: skip")  # fmt: skip
    if code == TrainExit.HUNG_COLLECTIVE:
        return "k8s-hung-collective", "timeout", f"{stage}: a collective never finished", "look at each rank's log"
    if code == TrainExit.RESUME_ME:
        return "k8s-saved", "preempted", f"{stage} saved its state on a signal and was not started again", ""
    if failure_class(code) == "user":
        return "k8s-user-error", "user-error", f"{stage} {exit_words(code)}", "mend the error"
    return "k8s-crash", "unknown", f"{stage} {exit_words(code)}", "look at the log"


def _placed(reason: Reason, pod: PodView, rank: int | None, last: Ended | None) -> Reason:
    """With the pod, so that the sentence says where; the raw text says how the container ended."""
    where = f"{pod.name} on {pod.node}" if pod.node else pod.name
    who = f"rank {rank} in {where}" if rank is not None else where
    text = reason.sentence
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    sentence = f"{who}: {text}" if text else who
    raw = f"{reason.raw}; {_raw(pod, last)}" if last is not None else reason.raw
    return replace(reason, sentence=_sentence(sentence), raw=raw)


def _who(rank: int | None, pod: PodView | None) -> str:
    if rank is not None:
        return f"rank {rank}: "
    return f"{pod.name}: " if pod is not None else ""


def _raw(pod: PodView, last: Ended | None) -> str:
    where = f"pod {pod.name}" + (f" on {pod.node}" if pod.node else "")
    if last is None:
        return where
    code = int((last.told or {}).get("code") or last.code)
    return f"{where}, container {last.container} {exit_words(code)}" + (f" ({last.reason})" if last.reason else "")


def _rank(last: Ended | None) -> int | None:
    value = (last.told or {}).get("rank") if last is not None else None
    return value if type(value) is int else None


def _weight(found: Match) -> int:
    if found.role != "cause":
        return 4
    return {"hardware": 0, "node-lost": 0, "preempted": 1, "timeout": 1, "oom": 2}.get(found.reason.class_, 3)


def _nothing() -> Reason:
    return Reason("", "unknown", "", "")


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?")) else f"{line}."
