"""What a run becomes on Kubernetes, for every kind; golden files in golden/ show each kind whole.

UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_specs import own_script, plan_of, site_of, spec_of

from trainwright.errors import InputError
from trainwright.facts.pod_fields_since import lacking
from trainwright.facts.versions import versions
from trainwright.linter import lint
from trainwright.planner.plan import RankBytes, RankClass
from trainwright.spec.load import load
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.targets.bundle import Bundle
from trainwright.targets.kubernetes.render import KINDS, render

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[3] / "examples"
CASES: dict[str, tuple[RunSpec, Site, int]] = {
    "two-p4d": (spec_of(evaluate={"samples": ["Once"]}), site_of(), 16),
    "own-script": (own_script(), site_of(queue=None), 2),
    "one-g5": (spec_of(compute={"instance": "g5.xlarge", "nodes": 1}, global_batch_size=8),
               site_of(claims=[], storage_class="fsx", queue=None), 1),
    "spot": (spec_of(compute={"instance": "g6e.48xlarge", "nodes": 2, "capacity": "spot"}),
             site_of(node_labels={"karpenter.sh/capacity-type": "spot"}), 16),
    "trainium": (spec_of(compute={"instance": "trn1.32xlarge", "nodes": 4}, global_batch_size=128), site_of(), 128),
    "p5": (spec_of(compute={"instance": "p5.48xlarge", "nodes": 8}, global_batch_size=64,
                   secrets={"HF_TOKEN": {"kubernetes": "hf/token"}}, env={"A": "1"}),
           site_of(priority_class="high", service_account="train", image_pull_secrets=["ecr"],
                   tolerations=[{"key": "team", "operator": "Exists"}]), 64),
}  # fmt: skip


def bundle_of(kind: str, case: str, **versions: str) -> Bundle:
    spec, site, world = CASES[case]
    return render(kind, plan_of(spec, world), spec, site, versions)


def objects(bundle: Bundle) -> list[dict[str, Any]]:
    """Every object in the order of submission."""
    files = sorted((file for file in bundle.files if file.apply_order), key=lambda file: file.apply_order)
    return [found for file in files for found in yaml.safe_load_all(file.text)]


def templates(value: Any, stage: str | None = None) -> Iterator[dict[str, Any]]:
    """Every pod template in an object or a list of them, or those of one stage."""
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
            if stage in (None, value["metadata"]["labels"]["trainwright.dev/stage"]):
                yield value
            return
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from templates(inner, stage)


def devices(template: dict[str, Any]) -> dict[str, int]:
    """Accelerators and network devices that a pod holds."""
    containers = template["spec"]["containers"]
    return {k: v for c in containers for k, v in c["resources"]["limits"].items() if "/" in k}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["two-p4d"])
def test_golden(kind: str, case: str) -> None:
    spec, site, world = CASES[case]
    # a fixed id: that of the content changes with every field that a spec gains
    for file in render(kind, plan_of(spec, world), spec, site, {}, run_id="demo-00000000").files:
        shared = file.path in ("prepare.yaml", "finish.yaml") and kind != "job"  # the same for every kind
        if not file.apply_order or file.path == "config.yaml" or shared:
            continue
        golden = GOLDEN / f"{case}.{kind}.{file.path}"
        if os.environ.get("UPDATE_GOLDEN"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(file.text, "utf-8")
        assert file.text == golden.read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_input_gives_equal_bytes(kind: str) -> None:
    assert bundle_of(kind, "two-p4d") == bundle_of(kind, "two-p4d")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_our_own_linter_has_nothing_to_say(kind: str, case: str, tmp_path: Path) -> None:
    bundle_of(kind, case).write(tmp_path)
    found = [f for f in lint([tmp_path]) if f.severity != "note"]
    assert found == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["1.31", "1.32", "1.33", "1.34", "1.35", "1.36"])
def test_every_example_renders_for_every_kubernetes(kind: str, version: str, tmp_path: Path) -> None:
    for example in sorted(EXAMPLES.glob("*/*.yaml")):
        spec = load(example, ["image=registry.example.com/train:1.4"]).spec
        world = spec.compute.processes_per_node
        bundle = render(kind, plan_of(spec, world if isinstance(world, int) else 1), spec, site_of(),
                        {"kubernetes": version})  # fmt: skip
        assert bundle.versions["kubernetes"] == version
        bundle.write(tmp_path / example.parent.name / example.stem)
    found = lint([tmp_path], versions={"kubernetes": version})
    assert [f for f in found if f.severity != "note"] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_pods_have_no_field_that_the_oldest_kubernetes_lacks(kind: str, case: str) -> None:
    oldest = versions("kubernetes").known[0]
    for template in templates(objects(bundle_of(kind, case))):
        assert list(lacking(template, oldest)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_object_and_pod_carries_the_labels_by_which_it_is_found(kind: str) -> None:
    bundle = bundle_of(kind, "two-p4d")
    name = bundle.where["name"]
    for found in objects(bundle):
        assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "trainwright"
        if found["kind"] != "Queue":
            assert found["metadata"]["namespace"] == "training"
        assert found["metadata"]["labels"]["trainwright.dev/run"] == name
    stages = [t["metadata"]["labels"]["trainwright.dev/stage"] for t in templates(objects(bundle))]
    assert list(dict.fromkeys(stages)) == ["prepare", "train", "finish"]
    assert all(t["metadata"]["labels"]["trainwright.dev/run"] == name for t in templates(objects(bundle)))


@pytest.mark.parametrize("kind", KINDS)
def test_no_stage_holds_an_accelerator_that_it_does_not_use(kind: str) -> None:
    plain = objects(bundle_of(kind, "p5"))
    assert all(devices(t) == {} for stage in ("prepare", "finish") for t in templates(plain, stage))
    sampled = objects(bundle_of(kind, "two-p4d"))
    assert [devices(t) for t in templates(sampled, "finish")] == [{"nvidia.com/gpu": 1}]
    own = objects(bundle_of(kind, "own-script"))
    assert {t["metadata"]["labels"]["trainwright.dev/stage"] for t in templates(own)} == {"train", "finish"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("two-p4d", {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 4}),
        ("p5", {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}),
        ("trainium", {"aws.amazon.com/neuron": 16, "vpc.amazonaws.com/efa": 8}),
        ("one-g5", {"nvidia.com/gpu": 1}),
        ("own-script", {}),
    ],
)
def test_training_holds_whole_nodes_with_all_their_interfaces(kind: str, case: str, expected: dict[str, int]) -> None:
    held = [devices(t) for t in templates(objects(bundle_of(kind, case)), "train")]
    assert expected in held
    assert all(one in ({}, expected) for one in held), "a launcher or head holds nothing"


def test_what_deepspeed_offloads_lies_on_the_drives_of_the_node() -> None:
    zero = {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}
    spec = spec_of(engine="deepspeed", offload={"optimizer": "nvme"}, deepspeed={"zero_optimization": zero})
    for found in objects(render("jobset", plan_of(spec), spec, site_of(), {})):
        for template in templates(found, "train"):
            container = template["spec"]["containers"][0]
            assert container["resources"]["requests"]["ephemeral-storage"] == "5960Gi"
            assert "/nvme" in [mount["mountPath"] for mount in container["volumeMounts"]]
            assert {"name": "scratch", "emptyDir": {"sizeLimit": "5960Gi"}} in template["spec"]["volumes"]
        assert all("/nvme" not in str(template) for template in templates(found, "prepare"))


def test_zones_are_asked_for_only_where_nodes_have_them() -> None:
    for instance, expected in (("p4d.24xlarge", True), ("dgx-h100", False)):
        spec = spec_of(compute={"instance": instance, "nodes": 2})
        train = next(templates(objects(render("jobset", plan_of(spec), spec, site_of(), {})), "train"))["spec"]
        assert ("affinity" in train) == expected
        assert ("nodeSelector" in train) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_pods_fit_into_a_restricted_namespace(kind: str) -> None:
    for template in templates(objects(bundle_of(kind, "p5"))):
        pod = template["spec"]["securityContext"]
        assert pod["runAsNonRoot"] is True
        assert pod["runAsUser"] > 0
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*template["spec"]["containers"], *template["spec"].get("initContainers", [])]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_are_references_and_the_sites_words_are_in_every_pod(kind: str) -> None:
    for template in templates(objects(bundle_of(kind, "p5"))):
        spec = template["spec"]
        assert spec["priorityClassName"] == "high"
        assert spec["serviceAccountName"] == "train"
        assert spec["imagePullSecrets"] == [{"name": "ecr"}]
        assert {"key": "team", "operator": "Exists"} in spec["tolerations"]
        secret = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
        assert secret in spec["containers"][0]["env"]


def test_stages_wait_in_the_queue_of_what_they_need() -> None:
    def queues(kind: str) -> dict[str, str | None]:
        spec = spec_of(evaluate={"samples": ["Once"]})
        found = objects(render(kind, plan_of(spec), spec, site_of(cpu_queue="cpu"), {}))
        label = "kueue.x-k8s.io/queue-name"
        return {o["metadata"]["name"].split("-")[-1]: o["metadata"]["labels"].get(label) for o in found[1:]}

    names = queues("mpijob")
    assert (names.pop("prepare"), names.pop("finish")) == ("cpu", "team")
    assert list(names.values()) == ["team"]
    assert set(queues("volcano").values()) == {None}, "Volcano's queues are not Kueue's"


def test_a_secret_that_only_this_machine_has_is_refused_with_the_command_that_makes_one() -> None:
    spec = spec_of(secrets={"A": {"env": "A"}, "B": {"kubernetes": "no-key"}})
    with pytest.raises(InputError, match=r"(?s)secrets\.A.*kubectl create secret.*secrets\.B.*'no-key'"):
        render("jobset", plan_of(spec), spec, site_of(), {})


@pytest.mark.parametrize(
    ("fields", "site", "message"),
    [
        ({"image": None}, {}, r"image.*trainwright image"),
        ({"storage": "/elsewhere"}, {}, r"storage.*only /shared"),
        ({"storage": "s3://bucket/runs"}, {}, r"storage.*only /shared"),
        ({}, {"claims": []}, r"kubernetes\.claims"),
    ],
)
def test_what_cannot_run_is_refused(fields: dict[str, Any], site: dict[str, Any], message: str) -> None:
    spec = spec_of(**fields)
    with pytest.raises(InputError, match=f"(?s){message}"):
        render("job", plan_of(spec), spec, site_of(**site), {})


def test_a_version_of_something_unknown_is_refused() -> None:
    spec = spec_of()
    render("job", plan_of(spec), spec, site_of(), {"kueue": "0.17"})
    with pytest.raises(InputError, match=r"no versions of kubernets are known.*did you mean kubernetes"):
        render("job", plan_of(spec), spec, site_of(), {"kubernets": "1.36"})


def test_a_name_that_begins_with_a_digit_still_names_services() -> None:
    spec = spec_of(name="7b-" + "x" * 27)
    bundle = render("jobset", plan_of(spec), spec, site_of(), {}, run_id="7b-" + "x" * 27 + "-00000000.12")
    name = bundle.where["name"]
    assert name == "r-7b-" + "x" * 27 + "-00000000-12"
    assert bundle.where["run_dir"].endswith("x-00000000.12")
    assert len(f"{name}-prepare-0-0-abcde") <= 63


def test_a_script_on_this_machine_travels_with_the_bundle(tmp_path: Path) -> None:
    script = tmp_path / "it's $(mine).py"
    script.write_text("print('π')\n")
    spec = own_script(train={"script": str(script), "args": []})
    bundle = render("jobset", plan_of(spec, 2), spec, site_of(), {})
    config, *rest = objects(bundle)
    assert config["data"]["script.py"] == "print('π')\n"
    mounts = next(templates(rest, "train"))["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "config", "mountPath": str(script), "subPath": "script.py", "readOnly": True} in mounts
    script.write_bytes(b"\xff")
    with pytest.raises(InputError, match="cannot be carried: it is not text"):
        render("jobset", plan_of(spec, 2), spec, site_of(), {})
    script.write_text("#" * 2**20)
    with pytest.raises(InputError, match="is too large"):
        render("jobset", plan_of(spec, 2), spec, site_of(), {})


def test_paths_that_no_claim_holds_are_named_in_the_file() -> None:
    spec = spec_of(model="/models/llama", data={"sources": ["/shared/text", "/data/*.txt"]})
    text = next(f.text for f in render("jobset", plan_of(spec), spec, site_of(), {}).files if f.path == "jobset.yaml")
    assert "must be in the image: /models/llama\n" in text
    assert "must be in the image: /data/*.txt\n" in text
    assert "image: /shared" not in text


@pytest.mark.parametrize(
    ("capacity", "bandwidth", "seconds"), [("on_demand", None, 120), ("on_demand", 0.1, 120), ("spot", None, 110)]
)
def test_the_grace_period_holds_the_checkpoint(capacity: str, bandwidth: float | None, seconds: int) -> None:
    spec = spec_of(compute={"instance": "p4d.24xlarge", "nodes": 2, "capacity": capacity})
    found = objects(render("job", plan_of(spec), spec, site_of(storage_gb_s=bandwidth), {}))
    assert next(templates(found, "train"))["spec"]["terminationGracePeriodSeconds"] == seconds


def test_the_grace_period_grows_with_the_model() -> None:
    spec = spec_of()
    plan = plan_of(spec)
    large = replace(plan, ranks=(RankClass(0, RankBytes(weights=280 * 10**9)),))
    found = objects(render("job", large, spec, site_of(storage_gb_s=2), {}))
    assert next(templates(found, "train"))["spec"]["terminationGracePeriodSeconds"] == 360
