"""Every family against the model that transformers builds: each parameter counted, each module named once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from trainwright.facts import models as table
from trainwright.models import FAMILIES, family, from_config, load
from trainwright.models.family import BlockNames, ModuleNames
from trainwright.models.shape import ModelShape

from .architectures import CASES, FULL_SIZE


@pytest.fixture(scope="module")
def small_models(build_model: Any) -> dict[str, Any]:
    return {name: build_model(*case) for name, case in CASES.items()}


def as_built_from_scratch(shape: ModelShape) -> ModelShape:
    """transformers 5 ties the head of every T5 that it does not load from a checkpoint, whatever the config says."""
    return shape.with_(tied=True) if shape.family == "t5" else shape


def test_every_family_has_a_small_and_a_full_size_case() -> None:
    assert {model_type for model_type, _ in CASES.values()} == set(FAMILIES)
    full = {table.find(name)["config"]["model_type"] for name in FULL_SIZE}  # type: ignore[index]
    assert full == set(FAMILIES) - {"mt5"}


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_those_of_transformers(name: str, small_models: dict[str, Any]) -> None:
    model_type, config = CASES[name]
    shape = as_built_from_scratch(from_config({"model_type": model_type, **config}))
    assert shape.parameters.total == sum(p.numel() for p in small_models[name].parameters())


@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_parameters_are_those_of_transformers(name: str, build_model: Any) -> None:
    row = table.find(name)
    assert row is not None
    model = build_model(row["config"]["model_type"], row["config"])
    shape = as_built_from_scratch(load(name))
    assert shape.parameters.total == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_has_exactly_one_name(name: str, small_models: dict[str, Any]) -> None:
    model, modules = small_models[name], family(CASES[name][0]).modules
    owners = _owners(model, modules)
    assert [parameter for parameter, count in owners.items() if count != 1] == []


@pytest.mark.parametrize("name", CASES)
def test_counts_by_kind_are_those_of_the_named_modules(name: str, small_models: dict[str, Any]) -> None:
    model_type, config = CASES[name]
    shape = from_config({"model_type": model_type, **config})
    counted = _count_by_kind(small_models[name], family(model_type).modules)
    expected = shape.parameters
    assert counted["norms"] == expected.norms
    assert counted["experts"] == expected.experts
    assert counted["embedding"] == expected.embedding
    assert counted["linears"] == expected.attention + expected.mlp + expected.router


@pytest.mark.parametrize("name", CASES)
def test_tensor_parallel_cuts_are_those_of_the_shape(name: str, small_models: dict[str, Any]) -> None:
    model_type, config = CASES[name]
    shape = from_config({"model_type": model_type, **config})
    names = family(model_type).modules
    for split in ("column", "row", "replicated"):
        cut = sum(
            linear.parameters
            for block in range(shape.blocks)
            for linear in shape.block_linears(block)
            if linear.split == split and linear.kind != "experts"
        )
        found = 0
        for stack in names.stacks:
            for block in small_models[name].get_submodule(stack.path):
                found += sum(_parameters_of(block, path) for path in getattr(stack.block, split))
        assert found == cut, split


@pytest.mark.parametrize("name", CASES)
def test_matrices_lie_as_the_names_say(name: str, small_models: dict[str, Any]) -> None:
    """Weights are (outputs, inputs), or (inputs, outputs) where ``transposed``; fused ones are on the output side."""
    model_type, config = CASES[name]
    shape = from_config({"model_type": model_type, **config})
    modules = family(model_type).modules
    by_name = {linear.name: linear for linear in shape.block_linears(shape.blocks - 1)}
    stack = modules.stacks[-1]
    block = small_models[name].get_submodule(stack.path)[-1]
    checked = 0
    for key, path in stack.block.linears.items():
        parts = [by_name.get(part) for part in key.split("@")[0].split("+")]
        if not _has(block, path) or None in parts or parts[0].kind == "experts":  # type: ignore[union-attr]
            continue
        size = (sum(part.outputs for part in parts if part), parts[0].inputs)  # type: ignore[union-attr]
        assert tuple(block.get_submodule(path).weight.shape) == (size[::-1] if modules.transposed else size), path
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize("name", CASES)
def test_shared_modules_and_stacks_exist(name: str, small_models: dict[str, Any]) -> None:
    model, modules = small_models[name], family(CASES[name][0]).modules
    shape = from_config({"model_type": CASES[name][0], **CASES[name][1]})
    if shape.positions == "rope" or modules.shared == ():
        assert [path for path in modules.shared if not _has(model, path)] == []
    assert sum(len(model.get_submodule(stack.path)) for stack in modules.stacks) == shape.blocks
    assert _has(model, modules.head)


FUSED = ("gpt2", "phi3", "gpt-neox", "falcon-one-kv-head", "falcon-grouped", "falcon-rw", "bloom", "mpt")


@pytest.mark.parametrize("name", FUSED)
def test_fused_projections_are_laid_out_as_named(name: str, build_model: Any) -> None:
    """With only head 4's output let through, gradients reach exactly its query rows and its group's key and value."""
    import torch

    torch.manual_seed(0)
    model_type, config = CASES[name]
    shape = from_config({"model_type": model_type, **config})
    modules = family(model_type).modules
    stack = modules.stacks[0]
    model = build_model(model_type, config, device="cpu", attn_implementation="eager").eval()
    block = model.get_submodule(stack.path)[0]
    fused = block.get_submodule(stack.block.linears["q+k+v"])
    out = block.get_submodule(stack.block.linears["o"])
    head, width = 4, shape.head_dim
    with torch.no_grad():
        mask = torch.zeros(shape.query_width)
        mask[head * width : (head + 1) * width] = 1
        out.weight.copy_(torch.randn_like(out.weight) * (mask[:, None] if modules.transposed else mask[None, :]))
    seen: list[Any] = []
    handle = out.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    model(torch.randint(3, 100, (1, 9)))
    handle.remove()
    (seen[0] ** 2).sum().backward()
    gradient = fused.weight.grad.abs().sum(0 if modules.transposed else 1)
    touched = {row for row in range(len(gradient)) if gradient[row] > 0}
    assert touched == _expected_rows(shape, stack.block.fused[stack.block.linears["q+k+v"]], head)


def _expected_rows(shape: Any, fusion: str, head: int) -> set[int]:
    width, per_group = shape.head_dim, shape.heads // shape.kv_heads
    group = head // per_group
    if fusion == "stacked":
        starts = (head, shape.heads + group, shape.heads + shape.kv_heads + group)
    else:
        first = group * (per_group + 2)
        starts = (first + head % per_group, first + per_group, first + per_group + 1)
    return {row for start in starts for row in range(start * width, (start + 1) * width)}


def _has(module: Any, path: str) -> bool:
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True


def _parameters_of(module: Any, path: str) -> int:
    return sum(p.numel() for p in module.get_submodule(path).parameters()) if _has(module, path) else 0


def _outer(modules: ModuleNames) -> tuple[str, ...]:
    return (
        modules.embedding,
        *modules.positions,
        *modules.embedding_norms,
        *modules.final_norms,
        *modules.head_transform,
        modules.head,
    )


def _block_paths(names: BlockNames) -> tuple[str, ...]:
    return (*names.linears.values(), *names.norms, *names.inner_norms, *names.other)


def _owners(model: Any, modules: ModuleNames) -> Counter[str]:
    """How many names claim each parameter. Tied ones are claimed where they are first found."""
    claims: Counter[str] = Counter({name: 0 for name, _ in model.named_parameters()})
    prefixes = [*_outer(modules)]
    exact: list[str] = []
    for stack in modules.stacks:
        for index in range(len(model.get_submodule(stack.path))):
            prefixes += [f"{stack.path}.{index}.{path}" for path in _block_paths(stack.block)]
            exact += [f"{stack.path}.{index}.{path}" for path in stack.block.experts.values()]
    # A head's bias may be held beside the head (BERT keeps it one level up and ties it).
    loose = {f"{modules.head.rpartition('.')[0]}.bias".lstrip(".")}
    owners = {*prefixes, *exact}
    for name in claims:
        own = name.rpartition(".")[0]
        claims[name] = (own in owners) + (name in owners) + (name in loose)
    return claims


def _count_by_kind(model: Any, modules: ModuleNames) -> dict[str, int]:
    embedding = _parameters_of(model, modules.embedding)
    counted = {
        "embedding": embedding + sum(_parameters_of(model, path) for path in modules.positions),
        "norms": sum(
            _parameters_of(model, path)
            for path in (*modules.embedding_norms, *modules.final_norms, *modules.head_transform[1:])
        ),
        "linears": 0,
        "experts": 0,
    }
    for stack in modules.stacks:
        for block in model.get_submodule(stack.path):
            names = stack.block
            counted["norms"] += sum(_parameters_of(block, path) for path in (*names.norms, *names.inner_norms))
            counted["linears"] += sum(_parameters_of(block, path) for path in (*names.linears.values(), *names.other))
            named = dict(block.named_parameters())
            counted["experts"] += sum(named[path].numel() for path in names.experts.values() if path in named)
    return counted
