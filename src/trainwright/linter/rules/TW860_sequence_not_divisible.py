"""TW860: the sequence does not divide among context- and sequence-parallel ranks."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import count, degrees


class SequenceNotDivisible(LaunchRule):
    """Each rank takes an equal part of every sequence."""

    id = "TW860"
    severity = "error"
    category = "frameworks"
    summary = "the sequence length does not divide by the ranks that share a sequence"
    evidence = "verified"
    source = (
        "NVIDIA/Megatron-LM megatron/training/arguments.py: seq_length % (context_parallel_size * 2) == 0; "
        "torchtitan "
        "parallel_dims.seq_len_divisor: tensor degree times twice the context degree"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Sequence length against the degrees."""
        found = degrees(subject)
        length = subject.arguments.number("seq_length", "encoder_seq_length", "training.seq_len", "model.seq_length")
        context, tensor = count(found.context), count(found.tensor)
        positions = subject.arguments.number("max_position_embeddings")
        if found.megatron and length.known and positions.known and positions.known < length.known:
            yield self.hit(
                positions,
                f"sequence length {length.known} is above max_position_embeddings {positions.known}: Megatron-LM "
                "stops with an assertion on every rank",
                f"--max-position-embeddings {length.known}",
            )
        if not isinstance(length, Known) or length.value < 1 or context is None or tensor is None:
            return
        titan = subject.arguments.has("training.seq_len")
        split = subject.arguments.has("sequence_parallel") or titan
        part = 2 * context if context > 1 else 1
        whole = part * tensor if titan else part
        if whole > 1 and length.value % whole:
            shares = f"2 × context-parallel size {context}" if context > 1 else ""
            shares += f"{' × ' if shares else ''}tensor-parallel size {tensor}" if titan and tensor > 1 else ""
            yield self._hit(length, whole, shares, "every rank stops with an assertion at start")
        elif split and tensor > 1 and (length.value // context) % tensor:
            yield self._hit(
                length,
                tensor * context,
                f"context-parallel size {context} × tensor-parallel size {tensor} (sequence parallelism)",
                "the parts of a sequence differ between ranks, and the first collective fails",
            )

    def _hit(self, length: Known[int], unit: int, shares: str, then: str) -> Hit:
        lower = length.value // unit * unit
        return self.hit(
            length,
            f"sequence length {length.value} is no multiple of {unit} ({shares}): {then}",
            f"{lower} or {lower + unit}" if lower else str(unit),
        )
