"""How long linting many manifests takes, beside other linters of YAML.

Writes ``--count`` manifests (the repository's own cases and examples of the rules' pages, repeated with other names)
into a folder, lints them in a process of its own and prints seconds of that process's CPU and of the clock; then the
same with ``yamllint`` and ``kube-linter`` when they are on the PATH. ``--require`` makes more CPU seconds a failure:
CPU and not clock, because a busy machine makes every clock slow.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = Path(__file__).parent.parent / "tests" / "linter" / "cases"


def write_manifests(folder: Path, count: int) -> int:
    """``count`` Kubernetes manifests, no two objects of one name; gives their size in bytes."""
    originals = [text for path in sorted(CASES.glob("*.yaml")) if "apiVersion:" in (text := path.read_text("utf-8"))]
    size = 0
    for number in range(count):
        text = originals[number % len(originals)]
        text = re.sub(r"(?m)^( *(?:- )?name: )([a-z][\w-]*)$", rf"\1\2-{number}", text, count=1)
        path = folder / f"{number:05}.yaml"
        path.write_text(text, "utf-8")
        size += path.stat().st_size
    return size


def measure(command: list[str]) -> tuple[float, float, int]:
    """CPU seconds, seconds on the clock, and lines printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    environment = {**os.environ, "GOMAXPROCS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    clock = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, clock, done.stdout.count("\n") + done.stderr.count("\n")


def main() -> int:
    """Print one line for each linter; 1 when trainwright needs more CPU seconds than ``--require``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--require", type=float, default=float("inf"), help="most CPU seconds that exit with 0")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        size = write_manifests(folder, options.count)
        print(f"{options.count} manifests, {size / 2**20:.1f} MiB, in one folder")
        commands = {
            "trainwright": [sys.executable, "-m", "trainwright", "lint", scratch, "-o", "github"],
            "yamllint": ["yamllint", "-f", "parsable", scratch],
            "kube-linter": ["kube-linter", "lint", scratch, "--format", "plain"],
        }
        needed = 0.0
        for name, command in commands.items():
            if name != "trainwright" and shutil.which(command[0]) is None:
                print(f"{name:12} is not installed")
                continue
            cpu, clock, lines = measure(command)
            needed = needed or cpu
            print(f"{name:12} {cpu:6.2f} s CPU  {clock:6.2f} s clock  {lines} lines printed")
    return 0 if needed <= options.require else 1


if __name__ == "__main__":
    raise SystemExit(main())
