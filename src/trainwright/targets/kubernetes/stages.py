"""Jobs of one stage: preparing data and finishing a run, and what all Jobs say about failures.

Shared by every kind. A pod that was taken away, or that saved on a signal, costs nothing; an error of code or data
ends the Job at once; anything else is tried again until its budget is used up.
"""

from __future__ import annotations

from typing import Any

from trainwright.runs.exit_codes import Exit, TrainExit
from trainwright.targets.kubernetes import pods
from trainwright.targets.kubernetes.manifest import why
from trainwright.targets.kubernetes.run import Run

#: Ends that another try cannot mend: errors of code and data, bad input, a loss that is not finite.
STOP = (TrainExit.USER_ERROR, Exit.BAD_INPUT, TrainExit.NON_FINITE)
KEPT_SECONDS = 3 * 24 * 3600


def failure_policy(container: str) -> dict[str, Any]:
    """``podFailurePolicy`` by the exit codes of the pod. The first rule that fits decides."""
    taken = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "rules": [
            why(taken, "evicted, preempted or lost with its node: a new pod, at no cost"),
            why(_on_codes("FailJob", container, STOP), "an error of code or data would happen again"),
            why(_on_codes("Ignore", container, (TrainExit.RESUME_ME,)), "saved on a signal: go on, at no cost"),
        ]
    }


def kept() -> Any:
    """``ttlSecondsAfterFinished`` of a finished object."""
    return why(KEPT_SECONDS, "three days; logs and checkpoints lie on the storage and stay")


def job(run: Run, stage: str, *, kueue: bool = True) -> dict[str, Any]:
    """The Job of one stage on one node. Without ``kueue`` the site's queues are another scheduler's."""
    queue = run.cluster.queue if pods.resources_of(run, stage).devices else run.cluster.cpu_queue
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pods.metadata(run, stage, f"{run.name}-{stage}", queue=queue if kueue else None),
        "spec": {**spec(run, stage), "ttlSecondsAfterFinished": kept()},
    }


def spec(run: Run, stage: str) -> dict[str, Any]:
    """The Job's spec, also inside of a JobSet."""
    return {
        "backoffLimit": why(run.spec.retry.infrastructure + run.spec.retry.user, "crashes that are tried again"),
        "podFailurePolicy": failure_policy(pods.Shape().container),
        "template": pods.template(run, stage),
    }


def _on_codes(action: str, container: str, codes: tuple[int, ...]) -> dict[str, Any]:
    return {
        "action": action,
        "onExitCodes": {"containerName": container, "operator": "In", "values": [int(code) for code in codes]},
    }
