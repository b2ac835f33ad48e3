"""TW517: training in a workload that never completes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.saving import never_ends

_WORDS = ("train", "finetune", "fine_tune", "sft", "pretrain", "run_clm", "run_mlm", "dpo", "grpo")


class TrainingInADeployment(LaunchRule):
    """Deployments restart what has finished."""

    id = "TW517"
    severity = "error"
    category = "lifecycle"
    summary = "training runs in a workload that starts it again when it has finished"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 pkg/apis/apps/validation/validation.go: restartPolicy of the templates of "
        "Deployment, ReplicaSet, StatefulSet and DaemonSet is NotSupported unless Always"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Distributed launches of programs named as training."""
        job = subject.job
        if job.frontend not in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet") or job.object is None:
            return
        name = subject.launch.script.lower()
        if not any(word in name for word in _WORDS) or "serve" in name or "infer" in name:
            return
        container = subject.container
        if container is None or container.accelerator is None or never_ends(container) is not None:
            return
        distributed = subject.tool in ("torchrun", "accelerate", "deepspeed")
        yield self.hit(
            subject.launch.program,
            f"a {job.frontend} restarts its containers whenever they end: when {subject.launch.script} has "
            "finished it "
            "begins again, overwriting its results and holding the accelerators for ever",
            "a Job, JobSet, PyTorchJob or TrainJob",
            "error" if distributed and job.frontend in ("Deployment", "ReplicaSet") else "warning",
        )
