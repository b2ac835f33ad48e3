"""The commented spec that ``trainwright init`` writes. A test loads it, so it cannot go stale."""

from __future__ import annotations

from trainwright.spec.write import to_yaml

_TEMPLATE = """\
# What to train. Every field and its meaning: `trainwright schema`
version: 1
name: {name}

model: {model}        # folder in Hugging Face format, or Hub id
method: lora          # adapters on a frozen base; `full` trains every weight
lora: {{rank: 16, alpha: 32}}

data:
  sources:
    - {data}          # a file or folder of .txt, .jsonl (text, prompt/completion or messages), .parquet
  eval_fraction: 0.02 # held out for evaluation, chosen by content

sequence_length: 1024 # tokens; several documents share a sequence, attention stays inside each
global_batch_size: 8  # sequences in one optimizer step, over all ranks
duration: 1 epochs    # or 200 steps, or 2e9 tokens

optimizer: {{lr: 2.0e-4, weight_decay: 0.1}}
schedule: {{name: cosine, warmup: 0.03, min_ratio: 0.1}}

compute:
  processes_per_node: auto  # one for each accelerator

checkpoint: {{every: 10m, keep: 2}}
evaluate:
  every: 100 steps
  gate: eval_loss < baseline  # only a model that got better is registered
register: {name}
"""


def template(name: str, model: str, data: str) -> str:
    """A spec for the given model and data, with a comment on every line that people change."""
    return _TEMPLATE.format(name=name, model=_scalar(model), data=_scalar(data))


def _scalar(text: str) -> str:
    """The text as a YAML scalar on one line, quoted where it must be."""
    return to_yaml([text]).removeprefix("- ").rstrip("\n")
