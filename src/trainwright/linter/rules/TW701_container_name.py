"""TW701: the training container has a name that its operator does not look for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_NAMES = {
    "PyTorchJob": "pytorch",
    "TFJob": "tensorflow",
    "XGBoostJob": "xgboost",
    "PaddleJob": "paddle",
    "JAXJob": "jax",
}


class ContainerName(JobRule):
    """The training operator configures the container of one fixed name."""

    id = "TW701"
    severity = "error"
    category = "operators"
    summary = "the training container is not named as its operator requires"
    evidence = "verified"
    source = "kubeflow training-operator v1.9.4, webhook and defaulting of each kind (default container name)"
    frontends: ClassVar[tuple[str, ...]] = tuple(_NAMES)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Replica groups without a container of that name."""
        wanted = _NAMES[subject.frontend]
        for group in subject.groups:
            names = [container.node.get("name") for container in group.main_containers]
            if (
                not names
                or any(name.unknown or name.string == wanted for name in names)
                or group.spec.get("containers").open
            ):
                continue
            yield self.hit(
                names[0],
                f"the operator looks for a container named {wanted!r} in every "
                f"replica of a {subject.frontend}; without one the job is refused",
                f"name: {wanted}",
                fix=[names[0].span.edit(wanted)] if len(names) == 1 and names[0].plain else (),
            )
