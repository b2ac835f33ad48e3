"""CPU and wall time of `trainwright submit` against the native command on the same objects, interleaved.

Needs a cluster (KUBECONFIG) and a rendered bundle: both let the API server check every object without effect.

python benchmarks/submit_start_up.py out/ --rounds 11
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def cost(command: list[str]) -> tuple[float, float]:
    """CPU seconds of one process and its children, and seconds by the clock."""
    before, started = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, time.perf_counter() - started


def main() -> None:
    """Run all rounds and print a table. The first round fills caches and does not count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--rounds", type=int, default=11)
    asked = parser.parse_args()
    files = json.loads((asked.bundle / "bundle.json").read_text())["files"]
    native = [word for file in files if file["apply_order"] for word in ("-f", str(asked.bundle / file["path"]))]
    arms = {
        "kubectl apply": ["kubectl", "apply", "--server-side", "--validate=strict", "--dry-run=server", *native],
        "trainwright submit": [sys.executable, "-m", "trainwright", "submit", str(asked.bundle), "--dry-run=server"],
    }
    found = [{arm: cost(command) for arm, command in arms.items()} for _ in range(asked.rounds + 1)][1:]
    for arm in arms:
        cpu, wall = (sorted(one[arm][place] for one in found) for place in (0, 1))
        print(
            f"{arm:<20} {statistics.median(cpu):.3f} s of CPU [{cpu[0]:.3f}, {cpu[-1]:.3f}], "
            f"{statistics.median(wall):.3f} s by the clock"
        )


if __name__ == "__main__":
    main()
