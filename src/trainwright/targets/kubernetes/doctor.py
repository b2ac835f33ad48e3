"""``doctor`` on Kubernetes: what a cluster has and lacks for a run, each line with its fix.

Takes a ``Cluster`` and the needs of a bundle; only reads. What a user may not read is told as unknown, never as
missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainwright.errors import SystemUnreachable, TrainwrightError
from trainwright.targets.doctor import Check
from trainwright.targets.kubernetes.amounts import quantity
from trainwright.targets.kubernetes.cluster import Cluster, Object, Objects
from trainwright.targets.kubernetes.needs import Needs, PodNeed, fits
from trainwright.targets.kubernetes.resources import (
    CLAIM,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    QUOTA,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    Resource,
)

_PRIORITY = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
_KUEUE = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
_KARPENTER = ("karpenter.sh/v1", "karpenter.sh/v1beta1")
_PLUGINS = {
    "nvidia.com/gpu": "helm install nvidia-device-plugin nvidia-device-plugin"
    " --repo https://nvidia.github.io/k8s-device-plugin -n kube-system",
    "vpc.amazonaws.com/efa": "helm install aws-efa-k8s-device-plugin aws-efa-k8s-device-plugin"
    " --repo https://aws.github.io/eks-charts -n kube-system",
    "aws.amazon.com/neuron": "helm install neuron oci://public.ecr.aws/neuron/neuron-helm-chart -n kube-system",
}


def examine(cluster: Cluster, needs: Needs) -> list[Check]:
    """Every check, in the order in which a run would meet what it looks at."""
    found = [*_namespace(cluster)]
    if found[-1].state == "missing":
        return found
    for check in (_kinds, _permissions, _names, _storage, _quotas, _queue, _nodes, _dns):
        found += check(cluster, needs)
    return found


def _namespace(cluster: Cluster) -> Iterator[Check]:
    try:
        there = cluster.get(NAMESPACE, cluster.namespace)
    except SystemUnreachable as error:
        if "may not" not in str(error):
            raise  # nothing else can be looked at either
        yield Check("unknown", f"namespace {cluster.namespace}", error.message, error.way_out)
        return
    if there is None:
        fix = f"kubectl create namespace {cluster.namespace}, or name another in the site file"
        yield Check("missing", f"namespace {cluster.namespace}", f"is not in the cluster of {cluster.context}", fix)
        return
    yield Check("ok", f"namespace {cluster.namespace}", f"context {cluster.context}")


def _kinds(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    for version, kind in needs.kinds:
        try:
            cluster.resource(version, kind)
            yield Check("ok", kind, version)
        except SystemUnreachable:
            raise
        except TrainwrightError as error:
            yield Check("missing", kind, error.message, error.way_out)


def _permissions(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    """Every verb that submit, status, logs, cancel and resume use, asked of the server for this user."""
    wanted: dict[Resource, tuple[str, ...]] = {
        POD: ("get", "list", "delete"), EVENT: ("list",),
    }  # fmt: skip
    for version, kind in needs.kinds:
        try:
            # server-side apply of an object that is not there needs both of the first two
            wanted[cluster.resource(version, kind)] = ("create", "patch", "get", "list", "delete")
        except TrainwrightError:
            continue
    denied = {
        (resource.group, resource.plural): verbs_
        for resource, verbs in wanted.items()
        if (verbs_ := [verb for verb in verbs if not _may(cluster, verb, resource)])
    }
    if not _may(cluster, "get", POD, "log"):
        denied["", "pods/log"] = ["get"]
    if not denied:
        yield Check("ok", "permissions", "submit, watch, read logs, cancel")
    for (group, plural), verbs_ in denied.items():
        name = f"{plural}.{group}" if group else plural
        shown = ", ".join(verbs_)
        fix = f'a Role rule in {cluster.namespace}: apiGroups: ["{group}"], resources: [{plural}], verbs: [{shown}]'
        yield Check("missing", f"permission to {shown} {name}", "is denied to you", fix)


def _may(cluster: Cluster, verb: str, resource: Resource, sub: str = "") -> bool:
    asked = {
        "namespace": cluster.namespace, "verb": verb, "group": resource.group, "resource": resource.plural,
        "subresource": sub,
    }  # fmt: skip
    review: Object = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in asked.items() if value}},
    }  # fmt: skip
    answer = cluster.create(review)
    return bool((answer.get("status") or {}).get("allowed"))


def _names(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    """Objects that pods name and that must be there before them."""
    every: list[tuple[Resource, str, str]] = []
    for pod in needs.pods:
        every += [(SECRET, name, "a secret of the spec") for name in pod.secrets]
        every += [(SECRET, name, "an image pull secret") for name in pod.pull_secrets]
        every += [(SERVICE_ACCOUNT, pod.service_account, "the pods' service account")]
        every += [(_PRIORITY, pod.priority_class, "the pods' priority")] if pod.priority_class else []
    for resource, name, why in dict.fromkeys(every):
        if (resource.kind, name) not in needs.made:
            fix = f"create it, or name another: kubectl -n {cluster.namespace} get {resource.plural}"
            yield _there(cluster, resource, name, why, fix)


def _storage(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    nodes = max((pod.count for pod in needs.pods), default=1)
    for name in dict.fromkeys(claim for pod in needs.pods for claim in pod.claims):
        if ("PersistentVolumeClaim", name) in needs.made:
            continue
        try:
            claim = cluster.get(CLAIM, name)
        except TrainwrightError as error:
            yield Check("unknown", f"claim {name}", _first(error))
            continue
        if claim is None:
            fix = f"kubectl -n {cluster.namespace} get pvc, and name one under kubernetes.claims"
            yield Check("missing", f"claim {name}", f"is not in namespace {cluster.namespace}", fix)
            continue
        yield _claim(name, claim, nodes)
    if any(kind == "PersistentVolumeClaim" for kind, _ in needs.made):
        yield from _classes(cluster)


def _claim(name: str, claim: Object, nodes: int) -> Check:
    spec, phase = claim.get("spec") or {}, (claim.get("status") or {}).get("phase")
    modes = spec.get("accessModes") or []
    if nodes > 1 and not set(modes) & {"ReadWriteMany"}:
        fix = "use shared storage (FSx for Lustre, EFS): a claim with accessModes [ReadWriteMany]"
        return Check("missing", f"claim {name}", f"is {', '.join(modes)}, but {nodes} nodes write to it", fix)
    if phase != "Bound":
        fix = f"kubectl describe pvc {name}"
        return Check("warning", f"claim {name}", f"is {phase}, storage class {spec.get('storageClassName')}", fix)
    return Check("ok", f"claim {name}", f"bound, {', '.join(modes)}")


def _classes(cluster: Cluster) -> Iterator[Check]:
    try:
        classes = [str(one["metadata"]["name"]) for one in cluster.list(STORAGE_CLASS)]
    except TrainwrightError as error:
        yield Check("unknown", "storage classes", _first(error))
        return
    state = "ok" if classes else "missing"
    detail = ", ".join(classes) or "the cluster has none"
    yield Check(state, "storage classes", detail, "install a CSI driver and a StorageClass, or name a claim")  # type: ignore[arg-type]


def _quotas(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    try:
        quotas = cluster.list(QUOTA)
    except TrainwrightError as error:
        yield Check("unknown", "resource quotas", _first(error))
        return
    wanted: dict[str, float] = {"pods": float(sum(pod.count for pod in _peak(needs)))}
    for pod in _peak(needs):
        for name, amount in pod.requests.items():
            wanted[f"requests.{name}"] = wanted.get(f"requests.{name}", 0.0) + amount * pod.count
    tight = False
    for quota in quotas:
        status = quota.get("status") or {}
        for name, hard in (status.get("hard") or {}).items():
            used = quantity((status.get("used") or {}).get(name, "0"))
            key = f"requests.{name}" if f"requests.{name}" in wanted else name
            if wanted.get(key, 0.0) > quantity(hard) - used:
                tight = True
                total = quota["metadata"]["name"]
                state = "missing" if wanted[key] > quantity(hard) else "warning"
                detail = f"{name}: the run needs {_shown(wanted[key])}, {_shown(used)} of {hard} are used"
                yield Check(state, f"quota {total}", detail, "ask for more, or take fewer nodes")  # type: ignore[arg-type]
    if not tight:
        yield Check("ok", "resource quotas", f"{len(quotas)} in the namespace, with room for the run")


def _queue(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    if needs.queue is None:
        return
    version = _served(cluster, _KUEUE, "LocalQueue")
    if version is None:
        try:
            cluster.resource(_KUEUE[-1], "LocalQueue")
        except TrainwrightError as error:
            yield Check("missing", f"queue {needs.queue}", error.message, error.way_out)
        return
    try:
        local = cluster.get(cluster.resource(version, "LocalQueue"), needs.queue)
        names = [str(one["metadata"]["name"]) for one in cluster.list(cluster.resource(version, "LocalQueue"))]
    except TrainwrightError as error:
        yield Check("unknown", f"queue {needs.queue}", _first(error))
        return
    if local is None:
        fix = f"name one of {', '.join(names)} as kubernetes.queue" if names else "create a LocalQueue"
        yield Check("missing", f"queue {needs.queue}", f"is not in namespace {cluster.namespace}", fix)
        return
    name = str((local.get("spec") or {}).get("clusterQueue"))
    try:
        queue = cluster.get(cluster.resource(version, "ClusterQueue"), name)
    except TrainwrightError as error:
        yield Check("unknown", f"cluster queue {name}", _first(error))
        return
    if queue is None:
        fix = f"create ClusterQueue {name}, or point the LocalQueue to another"
        yield Check("missing", f"cluster queue {name}", "is not there", fix)
        return
    yield from _covers(name, queue, needs)


def _covers(name: str, queue: Object, needs: Needs) -> Iterator[Check]:
    nominal: dict[str, float] = {}
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for one in flavor.get("resources") or ():
                nominal[one["name"]] = nominal.get(one["name"], 0.0) + quantity(one.get("nominalQuota"))
    wanted: dict[str, float] = {}
    for pod in _peak(needs):
        for resource, amount in pod.requests.items():
            wanted[resource] = wanted.get(resource, 0.0) + amount * pod.count
    wrong = False
    for resource, amount in wanted.items():
        if resource not in nominal:
            wrong = True
            fix = f"add {resource} to coveredResources of ClusterQueue {name}"
            yield Check("missing", f"cluster queue {name}", f"has no quota for {resource}: never admitted", fix)
        elif amount > nominal[resource]:
            wrong = True
            detail = f"gives {_shown(nominal[resource])} {resource}, the run needs {_shown(amount)}"
            yield Check("missing", f"cluster queue {name}", detail, "take fewer nodes, or ask for more quota")
    active = [one for one in (queue.get("status") or {}).get("conditions") or () if one.get("type") == "Active"]
    if active and active[0].get("status") != "True":
        wrong = True
        yield Check(
            "missing", f"cluster queue {name}", str(active[0].get("message")), "kubectl describe clusterqueue"
        )
    if not wrong:
        yield Check("ok", f"queue {needs.queue}", f"cluster queue {name} covers the run")


def _nodes(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    try:
        nodes = cluster.list(NODE)
    except TrainwrightError as error:
        yield Check("unknown", "nodes", _first(error))
        return
    grows = _served(cluster, _KARPENTER, "NodePool") is not None
    for resource in dict.fromkeys(name for pod in needs.pods for name in pod.devices):
        yield _device(resource, nodes, needs, grows)
    for pod in needs.pods:
        yield _placed(pod, nodes, grows)


def _device(resource: str, nodes: Objects, needs: Needs, grows: bool) -> Check:
    have = [amount for one in nodes if (amount := quantity(_allocatable(one).get(resource, "0"))) > 0]
    plugin = _PLUGINS.get(resource, f"install the device plugin of {resource}")
    if have:
        return Check(
            "ok", resource, f"{len(have)} node(s) with {_shown(max(have))} each at most, {_shown(sum(have))} in all"
        )
    if grows:
        detail = "no node has it now; Karpenter may start one"
        return Check("warning", resource, detail, f"check that its device plugin runs on new nodes: {plugin}")
    return Check("missing", resource, "no node offers it", plugin)


def _placed(pod: PodNeed, nodes: Objects, grows: bool) -> Check:
    what = f"nodes for {pod.stage}"
    reasons: dict[str, int] = {}
    fitting = 0
    for node in nodes:
        why = fits(node, pod)
        if why:
            reasons[why] = reasons.get(why, 0) + 1
        else:
            fitting += 1
    told = ", ".join(
        f"{count} lack {why}" if "taint" not in why else f"{count} have {why}" for why, count in reasons.items()
    )
    if fitting >= pod.count:
        return Check("ok", what, f"{fitting} of {len(nodes)} fit, {pod.count} needed")
    detail = f"{fitting} of {len(nodes)} fit, {pod.count} needed" + (f" ({told})" if told else "")
    fix = "name node_labels and tolerations of the right nodes, ask for less, or add nodes"
    return Check("warning" if grows or fitting else "missing", what, detail, fix)


def _dns(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    """Ranks meet by a service's name."""
    if not any(pod.count > 1 for pod in needs.pods):
        return
    try:
        services = cluster.list(SERVICE, labels="k8s-app=kube-dns", namespace="kube-system")
    except TrainwrightError as error:
        yield Check("unknown", "DNS", _first(error))
        return
    if services:
        yield Check("ok", "DNS", f"service {services[0]['metadata']['name']}")
    else:
        yield Check("missing", "DNS", "no service k8s-app=kube-dns in kube-system", "install CoreDNS")


def _peak(needs: Needs) -> Sequence[PodNeed]:
    """Pods that run at one time: those of the largest stage."""
    stages: dict[str, list[PodNeed]] = {}
    for pod in needs.pods:
        stages.setdefault(pod.stage, []).append(pod)
    return max(
        stages.values(), key=lambda pods: sum(pod.count * sum(pod.devices.values()) for pod in pods), default=[]
    )


def _there(cluster: Cluster, resource: Resource, name: str, why: str, fix: str) -> Check:
    what = f"{resource.kind} {name}"
    try:
        found = cluster.get(resource, name)
    except TrainwrightError as error:
        return Check("unknown", what, _first(error))
    return Check("ok", what, why) if found is not None else Check("missing", what, f"{why}, is not there", fix)


def _served(cluster: Cluster, versions: Iterable[str], kind: str) -> str | None:
    for version in versions:
        try:
            cluster.resource(version, kind)
        except SystemUnreachable:
            raise
        except TrainwrightError:
            continue
        return version
    return None


def _allocatable(node: Object) -> Object:
    return (node.get("status") or {}).get("allocatable") or {}


def _first(error: TrainwrightError) -> str:
    return str(error).splitlines()[0]


def _shown(amount: float) -> str:
    for unit, size in (("Ti", 2.0**40), ("Gi", 2.0**30), ("Mi", 2.0**20)):
        if amount >= size:
            return f"{amount / size:.4g}{unit}"
    return f"{amount:.6g}"
