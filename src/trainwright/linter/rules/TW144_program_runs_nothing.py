"""TW144: the program that is started only defines things."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import JobLaunch, TrainingJob

_HARMLESS = ("logging.getLogger", "getLogger", "get_logger", "TypeVar", "namedtuple", "Path", "pathlib.Path",
             "os.environ.get", "os.getenv", "typing.TypeVar", "collections.namedtuple")  # fmt: skip


class ProgramRunsNothing(JobRule):
    """Python ends with success when it has read the last definition."""

    id = "TW144"
    severity = "warning"
    category = "launch"
    summary = "the program that is started only defines functions and classes, and runs none"
    evidence = "verified"
    source = (
        "Python language reference, top-level components; NVIDIA/bionemo-framework tag v1.10: modules of classes "
        "without __main__ (facts/entry_modules.json)"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Programs in sight, and modules that are known to be none."""
        for launch in subject.launches:
            if not launch.launch.is_python or (launch.tool == "mpirun" and not launch.launch.of("python")):
                continue
            script = launch.launch.script
            row = read_rows("entry_modules").get(script) if launch.program.module else None
            if row is not None:
                yield self.hit(
                    launch.program.name.span,
                    f"{script} only defines classes: python -m reads it and ends at once with success, so the job is "
                    "Complete and nothing was computed",
                    f"python -m {row['instead']} with the same options",
                )
            elif (module := _module(launch, project)) is not None and (name := defines_only(module.tree)):
                yield self.hit(
                    launch.program.name.span,
                    f"{module.path.rsplit('/', 1)[-1]} defines {name} and calls nothing: it ends at once with "
                    "success, and nothing is trained",
                    f'if __name__ == "__main__": {name}(), at its end',
                )


def _module(launch: JobLaunch, project: Project) -> PythonDocument | None:
    name = launch.launch.script
    if launch.program.module:
        name = name.replace(".", "/") + ".py"
    found = project.file(name, launch.job.document) if name.endswith(".py") else None
    if not isinstance(found, PythonDocument) or (launch.program.module and not found.path.endswith(name)):
        return None
    return found


def _harmless(node: ast.stmt) -> bool:
    """Whether a statement at the top level only declares something."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.ClassDef | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign):
        return False
    called = [ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)]
    return isinstance(node, ast.ClassDef) or all(name in _HARMLESS for name in called)


def defines_only(tree: ast.Module) -> str:
    """The function that was meant to run, when a file holds only imports, definitions and constants; else ""."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.decorator_list:
                return ""  # A decorator may register it with something that runs it.
            names.append(node.name)
        elif not _harmless(node):
            return ""
    return next((n for n in names if n in ("main", "train", "run", "fit", "cli", "train_model", "run_training")), "")
