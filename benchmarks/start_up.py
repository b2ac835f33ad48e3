"""CPU time of ``trainwright --help`` beyond a bare interpreter, interleaved, each a process of its own.

python benchmarks/start_up.py --rounds 21
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

ARMS = {
    "bare": ["-c", "pass"],
    "bare again": ["-c", "pass"],
    "trainwright --help": ["-m", "trainwright", "--help"],
}


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run all rounds and print a table. The first round fills caches and does not count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    found = [{arm: cpu_seconds(arguments) for arm, arguments in ARMS.items()} for _ in range(rounds + 1)][1:]
    for arm in ARMS:
        more = sorted(one[arm] - one["bare"] for one in found)
        print(f"{arm:<20} {statistics.median(more):+.3f} s of CPU [{more[0]:.3f}, {more[-1]:.3f}]")


if __name__ == "__main__":
    main()
