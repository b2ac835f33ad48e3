"""``trainwright lint``: find what will hang, crash or waste in manifests, scripts and configs."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.cli.output import is_terminal
from trainwright.errors import InputError, Problem

if TYPE_CHECKING:
    from trainwright.linter.configuration import LintConfig
    from trainwright.linter.engine import Options


class Format(StrEnum):
    """For people, programs, code scanning, GitHub Actions, and CI systems that show tests."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"
    junit = "junit"


def lint(
    paths: Annotated[list[str], typer.Argument(metavar="PATH…", help="Files and folders; - is standard input.")],
    select: Annotated[str, typer.Option("--select", help="Only rules with these prefixes: TW1,TW205.")] = "",
    ignore: Annotated[str, typer.Option("--ignore", help="Not the rules with these prefixes.")] = "",
    versions: Annotated[
        str | None,
        typer.Option(
            "--versions",
            metavar="NAME=VERSION,…",
            help="What will read the files, such as kubernetes=1.33,slurm=23.11.",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Default: the nearest above the paths.")] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Report only what this file lacks.")] = None,
    write_baseline: Annotated[
        bool, typer.Option("--write-baseline", help="Write what is found now to the file of --baseline.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Correct what is safe to correct, and report the rest.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what --fix would change; write nothing.")] = False,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="Format of the findings. github is for workflow logs.")
    ] = Format.text,
) -> None:
    """Exit code 0: no error (with --diff: nothing to change); 1: at least one; 2: bad input.

    Rules, paths to pass over, ignores for paths and versions may stand in pyproject.toml ([tool.trainwright.lint]) or
    trainwright.toml ([lint])."""
    from trainwright.linter import fixing
    from trainwright.linter.baseline import without_known
    from trainwright.linter.baseline import write_baseline as write
    from trainwright.linter.engine import lint_files
    from trainwright.linter.files import load_files, read_source
    from trainwright.linter.output import render
    from trainwright.linter.output.terminal import render_terminal

    named = [path for path in paths if path != "-"]
    missing = [path for path in named if not os.path.lexists(path)]
    if missing:
        raise InputError([Problem(path, what="no such file or folder") for path in missing])
    settings = _configuration(named, config)
    options = _options(settings, select, ignore, versions)
    if write_baseline and baseline is None:
        raise InputError([Problem("--write-baseline", what="needs a file", instead="add --baseline FILE")])
    if fix and "-" in paths:
        raise InputError([Problem("--fix", what="cannot write standard input back", instead="use --diff")])
    # Half a million small objects that all live to the end: looking for cycles among them is a fifth of the time.
    gc.disable()
    files = list(load_files(named, settings.excludes if settings.exclude else None))
    if "-" in paths:
        files.append(read_source("<stdin>", sys.stdin.buffer.read().decode("utf-8", "replace")))
    if diff:
        changes, _ = fixing.correct(files, options)
        print(fixing.show(changes), end="")
        raise typer.Exit(1 if changes else 0)
    if fix:
        changes, findings = fixing.correct(files, options)
        fixing.write(changes)
        print(f"{sum(c.count for c in changes)} findings corrected in {len(changes)} files", file=sys.stderr)
    else:
        findings = lint_files(files, options)
    if baseline is not None and write_baseline:
        write(baseline, findings)
        print(f"{baseline}: {len(findings)} findings are known from now on", file=sys.stderr)
        raise typer.Exit(0)
    if baseline is not None:
        findings, gone = without_known(baseline, findings)
        if gone:
            print(f"{baseline}: {gone} findings no longer occur; --write-baseline drops them", file=sys.stderr)
    contents = {file.path: file.text.shown or file.text.content for file in files}
    if output is Format.text:
        print(render_terminal(findings, contents, colour=is_terminal()))
    else:
        text = render(output.value, findings, contents)
        print(text, end="\n" if text else "")
    raise typer.Exit(1 if any(finding.severity == "error" for finding in findings) else 0)


def _configuration(paths: Sequence[str], config: Path | None) -> LintConfig:
    """What the configuration file says: the one that was named, else the nearest above the paths."""
    from trainwright.linter.configuration import LintConfig, find_config, read_config

    path = config or find_config(paths)
    return read_config(path) if path is not None else LintConfig()


def _options(project: LintConfig, select: str, ignore: str, versions: str | None) -> Options:
    """The configuration, and the command line over it: ``--select`` replaces, the others add."""
    from trainwright.linter.engine import Options

    return Options(
        _prefixes("--select", select) or project.select,
        [*project.ignore, *_prefixes("--ignore", ignore)],
        {**project.versions, **_versions(versions or "")},
        per_path=project.per_path,
        root=project.root,
    )


def _prefixes(option: str, text: str) -> list[str]:
    from trainwright.linter.configuration import check_prefixes

    prefixes = [part.strip() for part in text.split(",") if part.strip()]
    problems = [
        Problem(option, what=f"no rule begins with {prefix!r}", instead=hint)
        for prefix, hint in check_prefixes(prefixes)
    ]
    if problems:
        raise InputError(problems)
    return prefixes


def _versions(text: str) -> dict[str, str]:
    pairs = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [pair for pair in pairs if not re.fullmatch(r"[\w.-]+=v?\d[\w.+-]*", pair)]
    if wrong:
        instead = "write kubernetes=1.33,kueue=0.17"
        raise InputError([Problem("--versions", what=f"{pair!r} is no version", instead=instead) for pair in wrong])
    return dict(pair.split("=", 1) for pair in pairs)
