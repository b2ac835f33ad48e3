"""What trainwright costs beside Slurm's own commands: submitting a run, and the status of 100 runs.

Interleaved rounds, each command a process of its own; wall and CPU seconds of it and its children. With Slurm's
commands on PATH a real cluster is asked (jobs are held, and cancelled at the end); ``--stub`` answers at once: only
our own part is left. ``--peers PYTHON`` is an interpreter with submitit and torchx installed.

python benchmarks/slurm_speed.py --stub --rounds 11
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 100
SPEC = """version: 1
name: speed
target: slurm
storage: {here}/runs
train: {{script: {here}/own.py}}
compute: {{nodes: 1, processes_per_node: 1}}
global_batch_size: 1
"""
SITE = "version: 1\nslurm: {cluster: bench}\n"
NAME = "trainwright-speed"  # of what is to be cancelled at the end
JOB = f"#!/bin/bash\n#SBATCH --job-name={NAME}\n#SBATCH --hold\n#SBATCH --output=/dev/null\ntrue\n"
SUBMITIT = """import submitit, sys
executor = submitit.SlurmExecutor(folder=sys.argv[1])
executor.update_parameters(job_name="trainwright-speed", time=5, additional_parameters={"hold": True})
print(executor.submit(print, 1).job_id)
"""
Arm = tuple[list[str], dict[str, str]]


def measured(arm: Arm, here: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a command and all that it starts."""
    command, extra = arm
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=here, env={**os.environ, **extra}, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stub(here: Path) -> None:
    """Commands that answer at once: a job's number, or the jobs of ``squeue.json``."""
    folder = here / "stub"
    folder.mkdir()
    (here / "squeue.json").write_text('{"jobs": []}')
    squeue = f"exec cat {here}/squeue.json"
    bodies = {
        "sbatch": 'case "$*" in *--version*) echo "slurm-wlm 22.05.8";; '
        '*--parsable*) echo "$$";; *) echo "Submitted batch job $$";; esac',
        "squeue": f'case "$*" in *--me*) echo \'{{"jobs": []}}\';; *) {squeue};; esac',
        "scontrol": "echo 'ClusterName = bench'",
    }
    for name in ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo"):
        (folder / name).write_text(f"#!/bin/sh\n{bodies.get(name, ':')}\n")
        (folder / name).chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def make_runs(here: Path, jobs: list[str]) -> None:
    """A hundred submitted runs, as the client keeps them, each waiting in the queue."""
    for run, job in enumerate(jobs):
        root = here / "many" / f"speed-{run:08x}"
        (root / "bundle").mkdir(parents=True)
        submission = {"at": time.time(), "jobs": {"train": job}, "attempt": 1, "exclude": []}
        about = {"v": 1, "target": "slurm", "cluster": "bench", "login": None, "folder": str(root), "cwd": str(here)}
        (root / "job.json").write_text(json.dumps({**about, "submissions": [submission]}))
        shutil.copy(here / "bundle" / "spec.yaml", root / "spec.yaml")
    row = {"job_state": "PENDING", "state_reason": "Resources", "state_description": "", "nodes": "", "exit_code": 0}
    rows = [{**row, "job_id": int(job), "name": f"speed-{i:08x}.train"} for i, job in enumerate(jobs)]
    (here / "squeue.json").write_text(json.dumps({"jobs": rows}))


def table(title: str, found: dict[str, list[tuple[float, float]]], bare: str) -> None:
    """Medians, what is beyond the bare command, and the ratio to it."""
    print(f"\n{title:<34} {'wall s':>8} {'beyond':>8} {'CPU s':>8} {'beyond':>8} {'ratio':>7}")
    base_wall, base_cpu = (statistics.median(one[i] for one in found[bare]) for i in (0, 1))
    for name, rounds in found.items():
        wall, cpu = (statistics.median(one[i] for one in rounds) for i in (0, 1))
        beyond = f"{wall:8.3f} {wall - base_wall:+8.3f} {cpu:8.3f} {cpu - base_cpu:+8.3f}"
        print(f"{name:<34} {beyond} {wall / base_wall:7.1f}")


def main() -> None:
    """Run all rounds and print two tables. The first round fills caches and does not count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--stub", action="store_true")
    parser.add_argument("--peers", help="an interpreter with submitit and torchx")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "own.py").write_text("print('done')\n")
        (here / "run.yaml").write_text(SPEC.format(here=here))
        (here / "site.yaml").write_text(SITE)
        (here / "job.sh").write_text(JOB)
        if arguments.stub:
            stub(here)
        elif shutil.which("sbatch") is None:
            sys.exit("there is no sbatch on PATH; --stub measures without one")
        trainwright = [sys.executable, "-m", "trainwright"]
        overrides = "target={name: slurm, overrides: {train: {hold: true}}}"
        measured(([*trainwright, "render", "run.yaml", "--set", overrides, "--dir", "bundle"], {}), here)
        submit: dict[str, Arm] = {
            "sbatch": (["sbatch", "job.sh"], {}),
            "sbatch, as often as a run needs it": (["sh", "-c", "sbatch job.sh; sbatch job.sh"], {}),
            "trainwright submit": ([*trainwright, "submit", "bundle", "--fresh"], {}),
        }
        if arguments.peers:
            submit["submitit"] = ([arguments.peers, "-c", SUBMITIT, "submitit"], {})
            command = ["run", "-s", "slurm", "-cfg", "time=5", "utils.sh", "true"]
            submit["torchx run -s slurm"] = ([arguments.peers, "-m", "torchx.cli.main", *command], {})
        rounds: dict[str, list[tuple[float, float]]] = {arm: [] for arm in submit}
        for _ in range(arguments.rounds + 1):
            for arm, what in submit.items():
                rounds[arm].append(measured(what, here))
        table("submit", {arm: values[1:] for arm, values in rounds.items()}, "sbatch")

        bare = ["sbatch", "--parsable", "job.sh"]
        jobs = [str(1000 + i) for i in range(RUNS)]
        if not arguments.stub:
            jobs = [subprocess.check_output(bare, cwd=here, text=True).strip() for _ in range(RUNS)]
        make_runs(here, jobs)
        status: dict[str, Arm] = {
            "squeue": (["squeue", "--json", f"--jobs={','.join(jobs)}"], {}),
            f"trainwright ls of {RUNS} runs": ([*trainwright, "ls", "--runs", "many"], {}),
        }
        rounds = {arm: [] for arm in status}
        for _ in range(arguments.rounds + 1):
            for arm, what in status.items():
                rounds[arm].append(measured(what, here))
        table("status", {arm: values[1:] for arm, values in rounds.items()}, "squeue")
        if not arguments.stub:
            books = [json.loads(path.read_text()) for path in (here / "runs").glob("*/job.json")]
            queued = [job for book in books for job in book["submissions"][-1]["jobs"].values()]
            subprocess.run(["scancel", *queued], check=False)
            subprocess.run(["scancel", f"--name={NAME}"], check=False)


if __name__ == "__main__":
    main()
