"""The Kubernetes bed in the hands of a test: kubectl as admin, objects in, conditions out, processes killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 180  # seconds; only what hangs uses them up
IMAGE = "localhost/trainwright:bed"
_CANNOT = 77  # exit code of the scripts
#: The taint of fake accelerator nodes, tolerated.
TOLERATIONS = [{"operator": "Exists", "effect": "NoSchedule"}]


class CannotBeHereError(Exception):
    """This machine cannot have the bed; says why."""


@dataclass(frozen=True)
class Bed:
    """``folder`` holds the bed's scripts; ``state`` its logs and ``shared``, the files of shared storage."""

    folder: Path
    kubeconfig: Path

    @property
    def state(self) -> Path:
        """Where the running bed keeps what it writes."""
        return self.kubeconfig.parent.parent

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl printed; with ``check`` a refusal is an AssertionError, else it is returned."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            ["kubectl", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE + 30,
            check=False,
            env=environment,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout if check else done.stdout + done.stderr

    def get(self, what: str, namespace: str | None = None, labels: str | None = None) -> dict[str, Any]:
        """An object, ``kind/name``, or a list, ``kind``, of what carries ``labels``."""
        selector = [f"--selector={labels}"] if labels else []
        found: dict[str, Any] = json.loads(self.kubectl("get", what, *_in(namespace), *selector, "-o", "json"))
        return found

    def apply(self, *objects: Mapping[str, Any], check: bool = True) -> str:
        """Apply objects with strict validation by the server; returns what it said."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        return self.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=text, check=check)

    def wait(self, what: str, until: str, namespace: str | None = None) -> None:
        """Until a condition (``Complete``) holds, or what kubectl takes (``jsonpath=…``). Else AssertionError."""
        condition = until if "=" in until else f"condition={until}"
        said = self.kubectl(
            "wait", f"--for={condition}", what, *_in(namespace), f"--timeout={PATIENCE}s", check=False
        )
        if " met" not in said:
            status = self.kubectl("get", what, *_in(namespace), "-o", "jsonpath={.status}", check=False)
            raise AssertionError(f"{what} never became {until}: {said}{status}")

    def logs(self, what: str, namespace: str) -> str:
        """Log of a pod, or of all pods of a selector ``-l…``."""
        return self.kubectl("logs", what, "--namespace", namespace, "--tail=-1")

    def script(self, *words: str, **environment: str) -> str:
        """``bed.sh WORDS``; what it printed. Raises AssertionError with its messages, or CannotBeHereError."""
        done = subprocess.run(
            [self.folder / "bed.sh", *words],
            capture_output=True,
            text=True,
            timeout=3000,  # the first build of all
            check=False,
            env={**os.environ, "BED_PYTHON": sys.executable, **environment},
        )
        if done.returncode == _CANNOT:
            raise CannotBeHereError(done.stderr.strip().splitlines()[-1])
        if done.returncode != 0:
            raise AssertionError(f"testbeds/kubernetes/bed.sh {' '.join(words)}: {done.stderr}")
        return done.stdout

    def volume(self, name: str, namespace: str) -> Path:
        """A claim ``name`` in the namespace, bound to a folder that all real nodes share; returns the folder."""
        folder = self.state / "shared" / f"{namespace}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        claim = {"name": name, "namespace": namespace}
        shape = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": folder.name},
                "spec": {
                    **shape,
                    "capacity": {"storage": "100Gi"},
                    "claimRef": claim,
                    "hostPath": {"path": str(folder), "type": "Directory"},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": claim,
                "spec": {**shape, "volumeName": folder.name, "resources": {"requests": {"storage": "100Gi"}}},
            },
        )
        return folder


def until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.2)


def _in(namespace: str | None) -> list[str]:
    return ["--namespace", namespace] if namespace else []
