"""Names that every object of a run carries: by them it is found, counted and deleted. Values only."""

from __future__ import annotations

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "trainwright"
RUN = "trainwright.dev/run"  # the run's object name: `runs.identity.kubernetes_name`
STAGE = "trainwright.dev/stage"  # config, prepare, train, finish; pipeline for one object that holds them all
SPEC = "trainwright.dev/spec-sha256"  # annotation

#: Labels and annotations in which controllers say which of its pods one is, best first.
INDEX_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
)
#: Labels that tell a launcher's pods from workers'.
ROLE_LABELS = ("training.kubeflow.org/replica-type", "volcano.sh/task-spec", "ray.io/node-type")
