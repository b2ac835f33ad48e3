"""``trainwright rule``: explain a lint rule."""

from __future__ import annotations

from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, emit
from trainwright.errors import InputError, Problem, did_you_mean


def rule(
    rule_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="A rule's id, such as TW101. Default: list all.")
    ] = None,
    output: OutputOption = Output.text,
) -> None:
    """Print the page of a rule: what it does, why it hurts, examples, exceptions, sources."""
    from trainwright.linter.pages import page
    from trainwright.linter.rules import RULES

    if rule_id is None:
        titles = {name: page(name).partition("\n")[0].removeprefix("# ") for name in sorted(RULES)}
        emit([{"rule": name, "title": title} for name, title in titles.items()], "\n".join(titles.values()), output)
        return
    wanted = rule_id.upper()
    if wanted not in RULES:
        raise InputError([Problem("rule", what=f"unknown {rule_id!r}", instead=did_you_mean(wanted, RULES))])
    emit({"rule": wanted, "page": page(wanted)}, page(wanted), output)
