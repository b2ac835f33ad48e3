"""Derive the field trees in ``facts/fields.json`` from published definitions: names, types, enums, required fields.

Takes the OpenAPI of k8s.io/kubernetes (``--openapi DIR``: its api/openapi-spec/v3) and CRDs
(``--crds COMPONENT=VERSION=PATH``) as Go modules carry them: ``go mod download k8s.io/kubernetes@v1.36.3``, then
``api/openapi-spec/v3`` in the module's folder; operators keep theirs under ``config/crd`` or ``manifests``. Volcano's
come from its API types (volcano.sh/apis) by controller-gen. Descriptions are dropped, equal subtrees stored once, and
pod templates inside CRDs become the core API's. ``--onto FILE`` adds to an existing file: a kind
that is there already gets the fields of both versions, so that files written for either pass.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CORE_FILES = (
    "api__v1", "apis__apps__v1", "apis__batch__v1", "apis__storage.k8s.io__v1", "apis__policy__v1",
    "apis__scheduling.k8s.io__v1", "apis__autoscaling__v2", "apis__networking.k8s.io__v1",
    "apis__rbac.authorization.k8s.io__v1",
)  # fmt: skip
CORE_KINDS = frozenset({
    "Pod", "Service", "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "Namespace",
    "ServiceAccount", "ResourceQuota", "LimitRange", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job",
    "CronJob", "StorageClass", "CSIDriver", "PodDisruptionBudget", "PriorityClass", "HorizontalPodAutoscaler",
    "Ingress", "NetworkPolicy", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
})  # fmt: skip
POD_SPEC, OBJECT_META = "io.k8s.api.core.v1.PodSpec", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
ANYTHING = frozenset({
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "io.k8s.apimachinery.pkg.runtime.RawExtension",
})  # fmt: skip
# Closed lists that the OpenAPI of Kubernetes does not state; from the API's own documentation of each field.
ENUMS = {
    ("Container", "imagePullPolicy"): ["Always", "IfNotPresent", "Never"],
    ("PodSpec", "restartPolicy"): ["Always", "Never", "OnFailure"],
    ("PodSpec", "dnsPolicy"): ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ("PodSpec", "preemptionPolicy"): ["Never", "PreemptLowerPriority"],
    ("Toleration", "operator"): ["Equal", "Exists", "Gt", "Lt"],
    ("Toleration", "effect"): ["", "NoExecute", "NoSchedule", "PreferNoSchedule"],
    ("JobSpec", "completionMode"): ["Indexed", "NonIndexed"],
    ("JobSpec", "podReplacementPolicy"): ["Failed", "TerminatingOrFailed"],
    ("CronJobSpec", "concurrencyPolicy"): ["Allow", "Forbid", "Replace"],
    ("StorageClass", "volumeBindingMode"): ["Immediate", "WaitForFirstConsumer"],
    ("StorageClass", "reclaimPolicy"): ["Delete", "Retain"],
    ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy"): ["Delete", "Recycle", "Retain"],
    ("PersistentVolumeSpec", "volumeMode"): ["Block", "Filesystem"],
    ("PersistentVolumeClaimSpec", "volumeMode"): ["Block", "Filesystem"],
    ("ServiceSpec", "type"): ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    ("NodeSelectorRequirement", "operator"): ["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"],
    ("TopologySpreadConstraint", "whenUnsatisfiable"): ["DoNotSchedule", "ScheduleAnyway"],
}


class Shapes:
    """Shapes by number, equal ones once. A shape is a text (a scalar type) or a mapping with one-letter keys."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._known: dict[str, int] = {}

    def add(self, shape: Any) -> int:
        """The number of a shape."""
        key = json.dumps(shape, sort_keys=True)
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(shape)
        return self._known[key]


class Reader:
    """Turns schemas into shapes. ``core`` holds the Kubernetes definitions that references name."""

    def __init__(self, core: Mapping[str, Any]):
        self.core = core
        self.shapes = Shapes()
        self.any = self.shapes.add("any")
        self._named: dict[str, int] = {}

    def named(self, name: str) -> int:
        """The shape of a Kubernetes definition. Recursive ones (JSONSchemaProps) are not followed."""
        if name in ANYTHING or "JSONSchema" in name:
            return self.any
        if name.endswith((".Quantity", ".IntOrString")):
            return self.shapes.add("scalar")
        if name.endswith((".Time", ".MicroTime", ".Duration")):
            return self.shapes.add("string")
        if name not in self._named:
            self._named[name] = self.any
            self._named[name] = self.shape(self.core[name], name.rsplit(".", 1)[-1])
        return self._named[name]

    def shape(self, schema: Mapping[str, Any], owner: str = "") -> int:
        """The shape of one schema."""
        for part in ("allOf", "anyOf", "oneOf"):
            refs = [s for s in schema.get(part, ()) if "$ref" in s]
            if len(refs) == 1 and not schema.get("properties"):
                return self.shape(refs[0])
        if "$ref" in schema:
            return self.named(schema["$ref"].rsplit("/", 1)[-1])
        if schema.get("x-kubernetes-int-or-string"):
            return self.shapes.add("scalar")
        kind, fields = schema.get("type"), schema.get("properties")
        if fields and _is_pod_spec(fields) and not owner:
            return self.named(POD_SPEC)
        if kind == "array":
            return self.shapes.add({"l": self.shape(schema.get("items", {}))})
        if fields:
            return self._fields(schema, fields, owner)
        if isinstance(schema.get("additionalProperties"), dict):
            return self.shapes.add({"m": self.shape(schema["additionalProperties"])})
        if kind in ("string", "integer", "number", "boolean"):
            return self._scalar(schema, kind)
        return self.any

    def _scalar(self, schema: Mapping[str, Any], kind: str) -> int:
        listed = [value for value in schema.get("enum", ()) if value is not None]
        if listed and kind == "string":
            return self.shapes.add({"e": sorted(map(str, listed))})
        return self.shapes.add(kind)

    def _fields(self, schema: Mapping[str, Any], fields: Mapping[str, Any], owner: str) -> int:
        made: dict[str, int] = {}
        for name in sorted(fields):
            if name == "metadata" and fields[name].get("type") == "object" and not fields[name].get("properties"):
                made[name] = self.named(OBJECT_META)
            elif (owner, name) in ENUMS:
                made[name] = self.shapes.add({"e": ENUMS[owner, name]})
            else:
                made[name] = self.shape(fields[name])
        row: dict[str, Any] = {"f": made}
        # A required field with a default may be left out.
        required = [r for r in schema.get("required", ()) if "default" not in fields.get(r, {})]
        if required:
            row["r"] = sorted(required)
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            row["o"] = 1
        return self.shapes.add(row)

    def union(self, first: int, second: int) -> int:
        """A shape that both fit: the fields and texts of either, required what both require."""
        if first == second:
            return first
        one, two = self.shapes.rows[first], self.shapes.rows[second]
        if isinstance(one, str) or isinstance(two, str):
            # A closed list in one version only, or another type: what is left open fits both.
            return self.shapes.add("string") if "string" in (one, two) and ("e" in one or "e" in two) else self.any
        if set(one) - {"r", "o"} != set(two) - {"r", "o"}:
            return self.any
        if "e" in one:
            return self.shapes.add({"e": sorted({*one["e"], *two["e"]})})
        for key in ("l", "m"):
            if key in one:
                return self.shapes.add({key: self.union(one[key], two[key])})
        fields = {**one["f"], **two["f"]}
        fields |= {name: self.union(one["f"][name], two["f"][name]) for name in one["f"].keys() & two["f"].keys()}
        row: dict[str, Any] = {"f": dict(sorted(fields.items()))}
        if required := sorted(set(one.get("r", ())) & set(two.get("r", ()))):
            row["r"] = required
        if one.get("o") or two.get("o"):
            row["o"] = 1
        return self.shapes.add(row)

    def top(self, schema: Mapping[str, Any], owner: str) -> int:
        """The shape of a whole object: its own fields, with status left open and identity always allowed."""
        fields = {**schema.get("properties", {}), "status": {}, "apiVersion": {"type": "string"}}
        fields |= {"kind": {"type": "string"}, "metadata": {"type": "object"}}
        return self._fields({"required": schema.get("required", ())}, fields, owner)


def _is_pod_spec(fields: Mapping[str, Any]) -> bool:
    return {"containers", "restartPolicy", "volumes", "tolerations", "nodeSelector"} <= set(fields)


def core_definitions(folder: Path) -> dict[str, Any]:
    """All definitions of the core API groups."""
    found: dict[str, Any] = {}
    for name in CORE_FILES:
        found |= json.loads((folder / f"{name}_openapi.json").read_text("utf-8"))["components"]["schemas"]
    return found


def crds(path: Path) -> Iterator[Mapping[str, Any]]:
    """The CRDs in a file or folder."""
    files: Iterable[Path] = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in files:
        for document in yaml.load_all(file.read_text("utf-8"), Loader=loader):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                yield document


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def main() -> None:
    """Write the trees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openapi", type=Path, required=True)
    parser.add_argument("--kubernetes", required=True, help="version of the OpenAPI, e.g. 1.36")
    parser.add_argument("--crds", action="append", default=[], metavar="COMPONENT=VERSION=PATH")
    parser.add_argument("--onto", type=Path, help="an existing file: its other kinds are kept")
    parser.add_argument("--date", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    reader = Reader(core_definitions(given.openapi))
    rows: dict[str, dict[str, Any]] = {}
    kept: dict[str, Any] = json.loads(given.onto.read_text("utf-8")) if given.onto else {"shapes": [], "rows": {}}
    for shape in kept["shapes"]:
        reader.shapes.add(shape)
    for schema in list(reader.core.values()):
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            if gvk["kind"] in CORE_KINDS and gvk["version"] in ("v1", "v2"):
                shape = reader.top(schema, gvk["kind"])
                rows[f"{gvk['kind']}.{gvk['group']}/{gvk['version']}"] = {
                    "shape": shape, "component": "kubernetes", "version": given.kubernetes,
                }  # fmt: skip
    sources = [f"k8s.io/kubernetes {given.kubernetes}"]
    replaced = {text.split("=", 1)[0] for text in given.crds}
    before: dict[str, Any] = {k: r for k, r in kept["rows"].items() if r["component"] in replaced}
    if given.onto:
        old = [source for source in kept["source"].split(", ")[1:] if source.rpartition(" ")[0] not in replaced]
        sources += old
        rows |= {key: row for key, row in kept["rows"].items() if row["component"] not in {"kubernetes", *replaced}}
    for text in given.crds:
        component, version, path = text.split("=", 2)
        sources.append(f"{component} {version}")
        for crd in crds(Path(path)):
            names, group = crd["spec"]["names"], crd["spec"]["group"]
            for served in crd["spec"]["versions"]:
                schema = served.get("schema", {}).get("openAPIV3Schema", {})
                if not schema.get("properties", {}).get("spec", {}).get("properties"):
                    continue
                row = {"shape": reader.top(schema, names["kind"]), "component": component, "version": version}
                key = f"{names['kind']}.{group}/{served['name']}"
                if key in before:
                    row["shape"] = reader.union(before[key]["shape"], row["shape"])
                rows.setdefault(key, row)
    shapes = used_shapes(reader.shapes.rows, rows)
    write(given.out, shapes, rows, ", ".join(sources), given.date)


def used_shapes(shapes: list[Any], rows: Mapping[str, dict[str, Any]]) -> list[Any]:
    """The shapes that ``rows`` need, in their order; numbers in ``rows`` are changed to the new ones."""
    needed: set[int] = set()
    waiting = [row["shape"] for row in rows.values()]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            waiting += _inner(shapes[number])
    new = {old: number for number, old in enumerate(sorted(needed))}
    for row in rows.values():
        row["shape"] = new[row["shape"]]
    return [_renumbered(shapes[old], new) for old in sorted(needed)]


def _inner(shape: Any) -> list[int]:
    if isinstance(shape, str):
        return []
    return [*shape.get("f", {}).values(), *(shape[key] for key in ("l", "m") if key in shape)]


def _renumbered(shape: Any, new: Mapping[int, int]) -> Any:
    if isinstance(shape, str):
        return shape
    made = {key: new[value] if key in ("l", "m") else value for key, value in shape.items()}
    if "f" in made:
        made["f"] = {name: new[number] for name, number in made["f"].items()}
    return made


def write(path: Path, shapes: list[Any], rows: Mapping[str, Any], source: str, date: str) -> None:
    """One shape and one kind per line, so that a new version gives a readable difference."""
    about = (
        "Field trees. rows: Kind.group/version -> number of its shape, and the component and version it was read "
        "from. shapes: scalar types (string, integer, number, boolean, scalar: a number or text, any), {f: fields, "
        "r: required, o: 1 if other fields are allowed}, {l: shape of elements}, {m: shape of values}, {e: allowed "
        "texts}."
    )
    lines = ["{", *(f'"{key}": {json.dumps(text)},' for key, text in
                    (("about", about), ("source", source), ("date", date)))]  # fmt: skip
    lines.append('"rows": {')
    lines.append(",\n".join(f"{json.dumps(key)}: {_compact(rows[key])}" for key in sorted(rows)))
    lines.append('},\n"shapes": [')
    lines.append(",\n".join(_compact(shape) for shape in shapes))
    lines.append("]\n}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
