"""Whatever an API server refuses becomes one error that names what is wrong and the way out."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.errors import AnswerNo, InputError, SystemUnreachable, TrainwrightError
from trainwright.targets.kubernetes.refusal import Asked, missing_kind, refusal

ASKED = Asked(
    "eks", "patch", "jobsets.jobset.x-k8s.io", "JobSet", "jobset.x-k8s.io/v1alpha2", "demo", "ml", "train.yaml"
)


def status(message: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "message": message, "details": details}


@pytest.mark.parametrize(
    ("code", "body", "kind", "words"),
    [
        (401, status("Unauthorized"), SystemUnreachable, ["expired", "log in again"]),
        (403, status('jobsets.jobset.x-k8s.io "demo" is forbidden: User "ada" cannot patch resource "jobsets" in API'
                     ' group "jobset.x-k8s.io" in the namespace "ml"'),
         SystemUnreachable, ["ada may not patch jobsets.jobset.x-k8s.io in namespace ml", "kubectl auth can-i"]),
        (403, status('nodes is forbidden: User "ada" cannot list resource "nodes" in API group ""'
                     " at the cluster scope"),
         SystemUnreachable, ["ada may not list nodes (context eks)"]),
        (403, status('pods "x" is forbidden: exceeded quota: team, requested: pods=2, used: pods=1, limited: pods=2'),
         AnswerNo, ["namespace quota team"]),
        (403, status("unable to create new content in namespace ml because it is being terminated"),
         AnswerNo, ["namespace ml is being deleted"]),
        (404, status('namespaces "ml" not found', kind="namespaces", name="ml"), InputError,
         ["no namespace ml", "kubectl create namespace ml"]),
        (404, "404 page not found", AnswerNo,
         ["JobSet (jobset.x-k8s.io/v1alpha2) is not served", "JobSet 0.11.1 is not installed", "helm install"]),
        (422, status('JobSet "demo" is invalid', causes=[
            {"field": "spec.replicatedJobs[0].name", "message": "Invalid value"},
            {"field": "spec.network", "message": "too long"}]),
         InputError, ["spec.replicatedJobs[0].name: Invalid value", "spec.network: too long"]),
        (400, status('failed to create typed patch object: .spec.suspnd: field not declared in schema'),
         InputError, ["spec.suspnd", "no such field", "--versions"]),
        (400, status('admission webhook "vjobset.kb.io" denied the request: name too long'),
         AnswerNo, ["webhook vjobset.kb.io refuses JobSet/demo: name too long"]),
        (403, status('admission webhook "policy" denied the request: hostPath volumes are not allowed'),
         AnswerNo, ["hostPath volumes are not allowed", "target.overrides"]),
        (500, status('Internal error occurred: failed calling webhook "vjobset.kb.io": failed to call webhook: Post'
                     ' "https://x": dial tcp 127.0.0.1:9451: connect: connection refused'),
         SystemUnreachable, ["webhook vjobset.kb.io does not answer", "connection refused"]),
        (409, status("object is being deleted: jobsets demo already exists"), AnswerNo, ["still being deleted"]),
        (500, "boom", SystemUnreachable, ["API server of context eks failed: boom"]),
    ],
)  # fmt: skip
def test_a_refusal_becomes_one_sentence_and_a_way_out(
    code: int, body: Any, kind: type[TrainwrightError], words: list[str]
) -> None:
    error = refusal(code, body, ASKED)
    assert type(error) is kind
    assert [word for word in words if word not in str(error)] == []


def test_a_kind_of_nobody_is_told_without_a_chart() -> None:
    assert "operator that brings it" in str(missing_kind("example.com/v1", "Thing", "eks"))


def test_of_two_operators_that_share_a_group_the_one_with_the_kind_is_named() -> None:
    assert "MPI operator" in str(missing_kind("kubeflow.org/v2beta1", "MPIJob", "eks"))
    assert "Training operator" in str(missing_kind("kubeflow.org/v1", "PyTorchJob", "eks"))
