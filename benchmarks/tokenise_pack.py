"""Tokenise and pack a JSONL file: ``trainwright.data.prepare`` against the usual recipe with ``datasets.map``.

Both start from the same file, use the same tokenizer object and the same number of processes, and end with packed
sequences on disk. Ours also hashes its input and output, drops duplicates, splits off held-out documents and syncs
the disk; the recipe (load_dataset, map to ids, map to blocks of ``--length``) does none of these. Each measurement is
a process of its own with empty caches; its clocks start after its imports. Every round runs all arms in random order;
``ours`` runs twice a round: the second is the A/A arm, and no difference inside its interval means anything.
Seconds are of the wall clock; CPU seconds are of all processes together and hardly notice other load on the machine.

    pip install "trainwright[train]" datasets
    python benchmarks/tokenise_pack.py --megabytes 16 --processes 2 --rounds 9
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ARMS = ("ours", "ours again", "datasets.map")


def main() -> None:
    """Measure and print medians, ratios of pairs and bootstrap intervals as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=16)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--tokenizer", type=Path, help="Folder with tokenizer.json. Default: one trained here.")
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        print(json.dumps(measure(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        options.file = write_corpus(Path(folder) / "corpus.jsonl", int(options.megabytes * 1e6))
        options.tokenizer = options.tokenizer or train_tokenizer(options.file, Path(folder) / "tokenizer")
        print(json.dumps(compare(options), indent=2, ensure_ascii=False))


def compare(options: argparse.Namespace) -> dict[str, object]:
    """All rounds, then what they say."""
    results: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    for number in range(options.rounds):
        for arm in random.Random(number).sample(ARMS, len(ARMS)):
            results[arm].append(run(arm, options))
            print(f"round {number + 1}: {arm:<13} {results[arm][-1]}", file=sys.stderr)
    return {
        "bytes": options.file.stat().st_size,
        "processes": options.processes,
        "rounds": options.rounds,
        "tokens": {arm: int(values[0]["tokens"]) for arm, values in results.items()},
        "seconds": ratios(results, "seconds"),
        "cpu_seconds": ratios(results, "cpu_seconds"),
    }


def ratios(results: dict[str, list[dict[str, float]]], clock: str) -> dict[str, object]:
    """Medians of one clock, and paired ratios; above 1 means that ours needs less."""
    seconds = {arm: [value[clock] for value in values] for arm, values in results.items()}
    mine, again, theirs = (seconds[arm] for arm in ARMS)
    return {
        "median": {arm: round(statistics.median(values), 3) for arm, values in seconds.items()},
        "datasets.map ÷ ours": summary([b / a for a, b in zip(mine, theirs, strict=True)]),
        "ours again ÷ ours": summary([b / a for a, b in zip(mine, again, strict=True)]),
    }


def summary(ratios: list[float]) -> dict[str, float]:
    """Median of paired ratios with a 95 % bootstrap interval."""
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(4000))
    return {
        "median": round(statistics.median(ratios), 3),
        "low": round(medians[100], 3),
        "high": round(medians[-101], 3),
    }


def run(arm: str, options: argparse.Namespace) -> dict[str, float]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--arm", arm, "--file", str(options.file)]
    command += ["--tokenizer", str(options.tokenizer), "--processes", str(options.processes)]
    command += ["--length", str(options.length)]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def measure(options: argparse.Namespace) -> dict[str, float]:
    """What the process of one arm does."""
    cache = Path(tempfile.mkdtemp(dir=options.file.parent))
    try:
        arm = with_datasets if options.arm == "datasets.map" else with_trainwright
        return arm(options, cache)
    finally:
        shutil.rmtree(cache)


def with_trainwright(options: argparse.Namespace, cache: Path) -> dict[str, float]:
    """Our way."""
    from trainwright.data.prepare import prepare
    from trainwright.spec.load import spec_from_values

    spec = spec_from_values(
        {
            "name": "benchmark",
            "model": str(options.tokenizer),
            "sequence_length": options.length,
            "data": {"sources": [str(options.file)], "workers": options.processes},
        }
    )
    clocks = Clocks()
    manifest = prepare(spec, cache).manifest
    return {**clocks.read(), "tokens": manifest.counts.tokens}


def with_datasets(options: argparse.Namespace, cache: Path) -> dict[str, float]:
    """The usual recipe: ids by one map, blocks by another."""
    import datasets
    from tokenizers import Tokenizer

    datasets.disable_progress_bars()
    tokenizer = Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
    tokenizer.no_truncation()
    end, length = 0, options.length

    def to_ids(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {
            "input_ids": [
                [*encoding.ids, end]
                for encoding in tokenizer.encode_batch_fast(batch["text"], add_special_tokens=False)
            ]
        }

    def to_blocks(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined = [number for ids in batch["input_ids"] for number in ids]
        return {"input_ids": [joined[start : start + length] for start in range(0, len(joined), length)]}

    clocks = Clocks()
    rows = datasets.load_dataset("json", data_files=str(options.file), split="train", cache_dir=str(cache))
    how = {"batched": True, "num_proc": options.processes, "load_from_cache_file": False}
    blocks = rows.map(to_ids, remove_columns=rows.column_names, **how).map(to_blocks, **how)
    return {**clocks.read(), "tokens": sum(map(len, blocks["input_ids"]))}


class Clocks:
    """The wall clock and the CPU time of this process and all it has started and waited for."""

    def __init__(self) -> None:
        self._began = self._now()

    def read(self) -> dict[str, float]:
        """Seconds since the start."""
        return {name: value - self._began[name] for name, value in self._now().items()}

    def _now(self) -> dict[str, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return {"seconds": time.perf_counter(), "cpu_seconds": sum(u.ru_utime + u.ru_stime for u in used)}


def write_corpus(path: Path, size: int) -> Path:
    """Rows of about two kilobytes from the sources of the standard library, no two alike."""
    with path.open("w") as handle:
        written = 0
        for number, text in enumerate(pieces()):
            line = json.dumps({"text": f"# piece {number}\n{text}"}) + "\n"
            handle.write(line)
            written += len(line)
            if written >= size:
                break
    return path


def pieces() -> Iterator[str]:
    """Parts of source files, again and again."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    while True:
        for file in files:
            text = file.read_text(errors="replace")
            yield from (text[start : start + 2000] for start in range(0, len(text), 2000))


def train_tokenizer(corpus: Path, folder: Path) -> Path:
    """A byte-level BPE of 8,000 tokens, trained on the first two megabytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=8000,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    lines = corpus.read_text()[: 2 * 10**6].splitlines()[:-1]
    tokenizer.train_from_iterator((json.loads(line)["text"] for line in lines), trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
    (folder / "config.json").write_text('{"vocab_size": 8000}')
    return folder


if __name__ == "__main__":
    main()
