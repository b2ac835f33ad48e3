"""TW826: every tensor-parallel rank gets whole heads."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import count, degrees


class HeadsNotDivisible(LaunchRule):
    """Heads, and the hidden size by heads, must divide evenly."""

    id = "TW826"
    severity = "error"
    category = "frameworks"
    summary = "the attention heads cannot be divided among the tensor-parallel ranks"
    evidence = "verified"
    source = (
        "NVIDIA/Megatron-LM, TransformerConfig.__post_init__: num_attention_heads must be a multiple of "
        "tensor_model_parallel_size; NVIDIA/Megatron-LM#5768; num_query_groups "
        "read in 0.12.1, 0.14.0, 0.15.0 (a multiple) and 0.16.1 (a multiple or divisor)"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Heads that leave a remainder."""
        found = degrees(subject)
        arguments = subject.arguments
        heads, tensor = arguments.number("num_attention_heads", "model.num_attention_heads"), count(found.tensor)
        if not heads.known or not found.megatron:
            return
        if tensor and heads.known % tensor:
            fitting = [str(number) for number in range(2, 17) if heads.known % number == 0]
            yield self.hit(
                heads,
                f"{heads.known} attention heads do not divide by tensor-parallel size {tensor}: Megatron-LM stops "
                f"with a "
                f"ValueError when it builds the model",
                f"a tensor-parallel size that divides {heads.known} ({', '.join(fitting) or '1'})",
            )
        hidden = arguments.number("hidden_size", "model.hidden_size").known
        if hidden and hidden % heads.known and not arguments.has("kv_channels"):
            yield self.hit(
                heads,
                f"hidden size {hidden} does not divide by {heads.known} attention heads",
                "heads that divide the hidden size, or --kv-channels for the size of one head",
            )
        groups = arguments.number("num_query_groups")
        if tensor and groups.known and groups.known % tensor and tensor % groups.known:
            yield self.hit(
                groups,
                f"{groups.known} query groups and tensor-parallel size {tensor} do not divide one another: "
                f"Megatron-LM stops "
                f"when it builds the model",
                f"a tensor-parallel size that divides {groups.known}",
            )
        elif tensor and groups.known and groups.known % tensor:
            yield self.hit(
                groups,
                f"{groups.known} query groups are fewer than tensor-parallel size {tensor}: Megatron-Core before "
                "0.16 stops with a ValueError when it builds the model (newer ones copy the groups)",
                f"a tensor-parallel size that divides {groups.known}, or Megatron-Core 0.16",
                severity="warning",
            )
