"""The Kubernetes targets by name: one class a kind of training job, all over ``KubernetesTarget``."""

from __future__ import annotations

from trainwright.targets.kubernetes.target import KubernetesTarget


class JobTarget(KubernetesTarget):
    """Plain Indexed Jobs and a headless Service."""

    name = "job"


class JobSetTarget(KubernetesTarget):
    """JobSet."""

    name = "jobset"
    kinds = (("jobset.x-k8s.io/v1alpha2", "JobSet"),)


class MPIJobTarget(KubernetesTarget):
    """MPIJob v2beta1 of the MPI operator."""

    name = "mpijob"
    kinds = (("kubeflow.org/v2beta1", "MPIJob"),)


class TrainJobTarget(KubernetesTarget):
    """TrainJob of Kubeflow Trainer v2."""

    name = "trainjob"
    kinds = (("trainer.kubeflow.org/v1alpha1", "TrainJob"),)


class RayJobTarget(KubernetesTarget):
    """RayJob of KubeRay."""

    name = "rayjob"
    kinds = (("ray.io/v1", "RayJob"),)


class VolcanoTarget(KubernetesTarget):
    """Job of Volcano."""

    name = "volcano"
    kinds = (("batch.volcano.sh/v1alpha1", "Job"),)


class PyTorchJobTarget(KubernetesTarget):
    """PyTorchJob v1 of the training operator."""

    name = "pytorchjob"
    kinds = (("kubeflow.org/v1", "PyTorchJob"),)
