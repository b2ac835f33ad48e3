"""What accelerators that do nothing cost: said in a finding when the machine and its price are known.

Takes a job, its pods and a number of devices; gives a clause of a sentence. Only on-demand prices are used, and only
where all machines that the pods may land on are of one type; otherwise nothing is said rather than something guessed.
"""

from __future__ import annotations

from trainwright.facts import prices
from trainwright.linter.project import Project
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.machines import machines
from trainwright.linter.view.nodepools import on_spot
from trainwright.linter.view.pods import PodGroup

DEVICES = ("nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
"""Resources that count whole accelerators, as prices do; cores and slices are parts of one."""


def an_hour_of(devices: int | None, job: TrainingJob, group: PodGroup | None, project: Project) -> str:
    """ " (32 × A100-40GB, about $88 an hour on demand)", with the blank in front; "" when it is not known."""
    if not devices or group is None or devices < 1:
        return ""
    kinds = {kind.name: kind for _, kind in machines(job, group, project)}
    if len(kinds) != 1 or on_spot(job, group, project) is not None:
        return ""
    (kind,) = kinds.values()
    price = prices.find(kind.name)
    if price is None or not kind.count:
        return ""
    dollars = price.usd_per_hour / kind.count * devices
    amount = f"{dollars:,.0f}" if dollars >= 10 else f"{dollars:.2f}"
    return f" ({devices} × {kind.accelerator.name.upper()}, about ${amount} an hour on demand)"
