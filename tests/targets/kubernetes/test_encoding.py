"""Whatever stands in arguments, variables and names arrives in the process as it was written."""

from __future__ import annotations

import re

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes_specs import own_script, plan_of, site_of
from test_render import objects, templates

from trainwright.spec.load import spec_from_values
from trainwright.targets.kubernetes.pods import escaped
from trainwright.targets.kubernetes.render import render

# what an environment variable or an argument of a process can hold
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
DOLLARS = st.text("$()AB ", max_size=12)
KNOWN = {"A": "<a>", "TRAINWRIGHT_RUN_DIR": "<dir>"}


def kubelet(text: str) -> str:
    """How the kubelet expands a value: k8s.io/kubernetes third_party/forked/golang/expansion."""
    out, at = [], 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            out.append(text[at])
            at += 1
        elif text[at + 1] == "$":  # an escaped operator
            out.append("$")
            at += 2
        elif text[at + 1] == "(" and (end := text.find(")", at + 2)) != -1:
            name = text[at + 2 : end]
            out.append(KNOWN.get(name, f"$({name})"))
            at = end + 1
        else:
            out.append(text[at : at + 2])
            at += 2
    return "".join(out)


@given(TEXT | DOLLARS)
def test_the_kubelet_gives_the_text_back(text: str) -> None:
    assert kubelet(escaped(text)) == text


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXT, max_size=4), TEXT | DOLLARS)
def test_arguments_and_variables_reach_the_process_unchanged(arguments: list[str], value: str) -> None:
    spec = own_script(train={"script": "/shared/train.py", "args": arguments}, env={"A": value})
    for kind in ("jobset", "mpijob"):
        config, *rest = objects(render(kind, plan_of(spec, 2), spec, site_of(), {}))
        assert spec_from_values(yaml.safe_load(config["data"]["spec.yaml"])).train == spec.train
        for template in templates(rest, "train"):
            found = {one["name"]: one.get("value", "") for one in template["spec"]["containers"][0]["env"]}
            assert kubelet(found["A"]) == value


def test_every_name_is_one_that_kubernetes_takes() -> None:
    label = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
    spec = own_script(name="9" * 30)
    for found in objects(render("jobset", plan_of(spec, 2), spec, site_of(), {})):
        assert label.fullmatch(found["metadata"]["name"])
        for value in found["metadata"]["labels"].values():
            assert len(value) <= 63
