"""From facts and shapes to the planner's values: nothing is lost on the way."""

from __future__ import annotations

import pytest

from trainwright.facts import instances, models
from trainwright.models import registry
from trainwright.models.flops import flops_per_token
from trainwright.planner.constants import accelerator_family, constants_for, stacks
from trainwright.planner.evaluate import model_flops_per_token
from trainwright.planner.inputs import dims_of, machine_of


@pytest.mark.parametrize("name", models.names())
def test_every_known_model_keeps_its_parameters_and_flops(name: str) -> None:
    shape = registry.load(name)
    dims = dims_of(shape)
    assert dims.params == shape.parameters.total
    assert dims.active_params == pytest.approx(shape.active_parameters, rel=1e-3)
    if not shape.encoder_layers and shape.causal:
        full = flops_per_token(shape, 1024, "full").model
        assert model_flops_per_token(dims, 1024) == pytest.approx(full, rel=0.03)


def test_a_scale_up_domain_is_one_large_node() -> None:
    eighteen = machine_of(instances.get("dgx-gb200"), 18, price=10.0)
    assert (eighteen.nodes, eighteen.per_node, eighteen.price) == (1, 72, 180.0)
    two = machine_of(instances.get("dgx-h100"), 2, price=10.0)
    assert (two.nodes, two.per_node, two.price) == (2, 8, 10.0)


@pytest.mark.parametrize("name", instances.names())
def test_every_instance_becomes_a_machine_with_constants(name: str) -> None:
    machine = machine_of(instances.get(name), 2)
    assert machine.memory_bytes > 0
    assert machine.memory_bandwidth > 0
    assert machine.inter_bandwidth > 0
    constants = constants_for(machine.accelerator, machine.fabric, "native")
    assert 0 < constants.chip.gemm_efficiency < 1
    assert constants.source


@pytest.mark.parametrize("stack", stacks())
def test_every_stack_is_complete(stack: str) -> None:
    constants = constants_for("h100", "nvswitch", stack)
    assert constants.stack.layer_forward_seconds > 0
    assert 0 <= constants.stack.overlap_window <= 1


def test_accelerators_are_recognised_by_family() -> None:
    assert [accelerator_family(n) for n in ("a100-80gb", "H200", "h100-pcie", "a10g")] == [
        "a100",
        "h100",
        "h100",
        "a10g",
    ]
    assert not constants_for("a10g", "pcie", "native").calibrated
    assert constants_for("a10g", "pcie", "native").error_time_pct > constants_for("a100", "x", "fsdp").error_time_pct
