"""What prepared data is, in the words of a person and in the record that a run keeps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trainwright.data.manifest import Counts
from trainwright.data.prepared import PreparedData
from trainwright.errors import AnswerNo


def record(prepared: PreparedData) -> dict[str, Any]:
    """Content of a run's ``data.json``: where the data is, its digest, and the counts of both splits."""
    manifest = prepared.manifest
    return {
        "v": 1,
        "folder": str(prepared.folder),
        "digest": manifest.digest,
        "tokenizer_sha256": manifest.tokenizer.sha256,
        "sources": [{"path": source.path, "sha256": source.sha256} for source in manifest.sources],
        "sequence_length": manifest.sequence_length,
        "train": _of_split(manifest.train),
        "eval": _of_split(manifest.eval),
        "counts": asdict(manifest.counts),
    }


def _of_split(counts: Counts) -> dict[str, int]:
    """What belongs to a split. Rows are read, and left out, before anything is split: ``counts`` has them."""
    return {name: n for name, n in asdict(counts).items() if name not in ("rows", "duplicates", "bad_rows")}


def summary(prepared: PreparedData) -> str:
    """A few lines for the terminal."""
    manifest, total = prepared.manifest, prepared.manifest.counts
    lines = [
        f"{name:<6} {counts.documents:>12,} documents  {counts.tokens:>14,} tokens  {counts.sequences:>10,} sequences"
        for name, counts in (("train", manifest.train), ("eval", manifest.eval))
    ]
    left_out = {"duplicates": total.duplicates, "bad rows": total.bad_rows, "dropped": total.dropped}
    said = ", ".join(f"{number:,} {what}" for what, number in left_out.items() if number)
    lines += [f"left out: {said}"] if said else []
    lines += [f"  {row}" for row in manifest.bad_rows]
    return "\n".join([*lines, f"in {prepared.folder}"])


def damaged(prepared: PreparedData, wrong: list[str]) -> AnswerNo:
    """The answer when files are not what was written."""
    return AnswerNo(
        f"{prepared.folder}: {'; '.join(wrong[:10])}", "remove the folder and run `trainwright prepare` again"
    )
