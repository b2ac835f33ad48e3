"""TW605: a job needs more accelerators than its pool or queue may ever give."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.machines import accepting


class GangAboveQuota(JobRule):
    """A limit that is smaller than one job."""

    id = "TW605"
    severity = "error"
    category = "scheduling"
    summary = "the job needs more accelerators than its node pools or its queue may ever hold"
    evidence = "verified"
    source = (
        "sigs.k8s.io/karpenter@v1.14.3 pkg/apis/v1/nodepool.go, Limits.ExceededBy; sigs.k8s.io/kueue@v0.17.0 "
        "flavorassigner.go, fitsResourceQuota; volcano-sh/volcano pkg/scheduler/plugins/proportion/proportion.go, "
        "AddJobEnqueueableFn (minAvailable pods against capability)"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Accelerators of all pods against limits in the same set of files."""
        if subject.object is None or not subject.ends:
            return
        needed: dict[str, int] = {}
        for group in subject.groups:
            for container in group.accelerated:
                each, count = container.accelerators.known, group.count.known
                if each is None or count is None or container.accelerator is None:
                    return
                needed[container.accelerator] = needed.get(container.accelerator, 0) + each * count
        for resource, amount in needed.items():
            yield from self._pools(subject, project, resource, amount)
            yield from self._volcano(subject, project, resource, amount)
            yield from self._kueue(subject, project, resource, amount)

    def _pools(self, job: TrainingJob, project: Project, resource: str, amount: int) -> Iterator[Hit]:
        groups = [group for group in job.groups if group.accelerated]
        pools = list(dict.fromkeys(pool for group in groups for pool in accepting(job, group, project)))
        limits = [pool.get("spec", "limits", resource) for pool in pools]
        if not limits or any(limit.quantity is None for limit in limits):
            return
        total = sum(limit.quantity or 0 for limit in limits)
        if total < amount:
            yield self.hit(
                limits[0],
                f"the job needs {amount} of {resource} at once, and the node pools that accept it may hold "
                f"{total:.0f}: the last pods stay Pending while the first hold their accelerators",
                f"limits: {{{resource}: {amount}}} or more, or fewer pods",
                "warning",  # Other pools may exist, and pods that need not run together wait for their turn.
            )

    def _volcano(self, job: TrainingJob, project: Project, resource: str, amount: int) -> Iterator[Hit]:
        name = job.get("spec", "queue").string if job.frontend == "VolcanoJob" else None
        queue = project.find(job.document, "Queue", name)
        limit = queue.get("spec", "capability", resource) if queue is not None else None
        least, pods = job.get("spec", "minAvailable"), sum(group.count.known or 0 for group in job.groups)
        if (
            least.unknown
            or (least.integer or pods) < pods
            or any(group.entry.get("minAvailable").exists for group in job.groups)
        ):
            return  # The queue admits the smallest gang, whose resources depend on which tasks are in it.
        if limit is not None and limit.quantity is not None and limit.quantity < amount:
            yield self.hit(
                limit,
                f"the job needs {amount} of {resource}, and queue {name!r} may hold {limit.raw}: the job is never "
                "taken from the queue",
                f"capability: {{{resource}: {amount}}} or more",
            )

    def _kueue(self, job: TrainingJob, project: Project, resource: str, amount: int) -> Iterator[Hit]:
        name = (
            job.object.metadata.get("labels", "kueue.x-k8s.io/queue-name").string if job.object is not None else None
        )
        local = project.find(job.document, "LocalQueue", name, job.object.namespace if job.object else None)
        if local is None or (
            job.object is not None
            and job.object.metadata.get("annotations", "kueue.x-k8s.io/job-min-parallelism").exists
        ):
            return
        queue = project.find(local, "ClusterQueue", local.get("spec", "clusterQueue").string)
        if queue is None or queue.get("spec", "cohort").exists or queue.get("spec", "cohortName").exists:
            return
        quotas = [
            entry.get("nominalQuota")
            for group in queue.get("spec", "resourceGroups").elements()
            for flavor in group.get("flavors").elements()
            for entry in flavor.get("resources").elements()
            if entry.get("name").string == resource
        ]
        if not quotas or any(quota.quantity is None for quota in quotas):
            return
        largest = max(quotas, key=lambda quota: quota.quantity or 0)
        total = sum(quota.quantity or 0 for quota in quotas)
        if total < amount:
            yield self.hit(
                largest,
                f"the job needs {amount} of {resource}, and ClusterQueue {queue.object_name!r} has {total:.0f} and "
                "belongs to no cohort to borrow from: the job is never admitted",
                f"nominalQuota: {amount} or more",
            )
