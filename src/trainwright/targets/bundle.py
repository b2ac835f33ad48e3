"""Bundle: the files of one run for one target, as they will be submitted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright import plain_json
from trainwright.errors import InputError, Problem
from trainwright.planner.plan import Plan
from trainwright.runs.folder import write_atomically
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site
from trainwright.spec.write import spec_to_yaml, to_yaml

NAME = "bundle.json"
SITE = "site.yaml"  # carried along, beside the spec, where a later `resume --set` looks for it


@dataclass(frozen=True)
class BundleFile:
    """One native file; ``apply_order`` is the order of submission, 0 for files that are only carried along."""

    path: str
    text: str
    apply_order: int = 0

    @property
    def sha256(self) -> str:
        """Hash of the text in UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Bundle:
    """What ``render`` made and ``submit`` takes. ``command`` is the command that every node runs."""

    run_id: str
    target: str
    versions: Mapping[str, str]
    where: Mapping[str, str]
    files: tuple[BundleFile, ...]
    command: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Content of ``bundle.json``."""
        files = [{"path": f.path, "sha256": f.sha256, "apply_order": f.apply_order} for f in self.files]
        return {
            "v": 1,
            "run_id": self.run_id,
            "target": self.target,
            "versions": dict(self.versions),
            "where": dict(self.where),
            "files": files,
            "command": list(self.command),
        }

    def write(self, folder: Path) -> None:
        """Write every file and then ``bundle.json``, which makes the folder a bundle."""
        folder.mkdir(parents=True, exist_ok=True)
        for file in self.files:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, file.text)
        write_atomically(folder / NAME, json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Bundle:
        """Read a bundle back; a missing, changed or foreign file is an InputError that names it."""
        path = folder / NAME
        try:
            values = plain_json.loads(path.read_text())
            listed = [(str(f["path"]), str(f["sha256"]), int(f["apply_order"])) for f in values["files"]]
            head = (values["run_id"], values["target"], values["versions"], values["where"], tuple(values["command"]))
        except NotADirectoryError as error:
            instead = (
                f"`trainwright run {folder}` starts it; `trainwright render {folder} --dir FOLDER` writes its bundle"
            )
            raise InputError(
                [Problem(str(folder), what="is a file; a bundle is a folder", instead=instead)]
            ) from error
        except OSError as error:
            instead = "`trainwright render SPEC --dir FOLDER` writes a bundle"
            problem = Problem(str(path), what=f"cannot be read: {error.strerror}", instead=instead)
            raise InputError([problem]) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                [Problem(str(path), what="is no bundle", instead="`trainwright render` writes one")]
            ) from error
        problems, files = [], []
        for name, digest, order in listed:
            inside = (folder / name).resolve()
            if not inside.is_relative_to(folder.resolve()) or not inside.is_file():
                problems.append(Problem(str(folder / name), what="is missing", instead="render the bundle again"))
                continue
            file = BundleFile(name, inside.read_text(), order)
            if file.sha256 != digest:
                what = "was changed after it was rendered"
                problems.append(Problem(str(inside), what=what, instead="use target.overrides, or render again"))
            files.append(file)
        if problems:
            raise InputError(problems)
        return cls(head[0], head[1], head[2], head[3], tuple(files), head[4])


def read_for(folder: Path, target: str) -> Bundle:
    """Read and check a bundle; InputError for a damaged one and for another target's."""
    bundle = Bundle.read(folder)
    if bundle.target != target:
        what = f"is a bundle for target {bundle.target}"
        raise InputError([Problem(str(folder), what=what, instead=f"render it for {target}")])
    return bundle


def carried_site(site: Site) -> BundleFile:
    """The site that a bundle was rendered for, which those for clusters carry."""
    return BundleFile(SITE, to_yaml(site.model_dump(mode="json", by_alias=True)))


def carried(spec: RunSpec, plan: Plan) -> tuple[BundleFile, ...]:
    """The resolved spec and the plan, which every bundle carries."""
    return BundleFile("spec.yaml", spec_to_yaml(spec)), BundleFile("plan.json", plan.to_json())
