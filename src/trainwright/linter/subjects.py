"""What each rule looks at, known without importing it: most rules have nothing to look at in most runs.

``rules/subjects.json`` says for each rule which documents it needs; it is derived from the classes by
``python -m trainwright.linter.subjects`` and a test holds the two together. Takes a rule's id and a project; gives
whether there can be anything to check. It must not know what is checked.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.linter.project import Project
    from trainwright.linter.rule import Rule

_TABLE = Path(__file__).parent / "rules" / "subjects.json"


def has_subjects(rule_id: str, project: Project) -> bool:
    """Whether the project holds something that the rule could be given. True for rules that need nothing special."""
    kind, _, names = read_table().get(rule_id, "").partition(":")
    wanted = names.split(",") if names else []
    if kind == "python":
        return bool(project.modules)
    if kind == "config":
        return bool(project.configs(*wanted))  # type: ignore[arg-type]
    if kind == "object":
        return bool(project.objects(*wanted))
    if kind == "script":
        return bool(project.scripts)
    if kind == "job":
        return any(not wanted or job.frontend in wanted for job in project.jobs)
    if kind == "launch":
        return any(job.training_launches for job in project.jobs)
    if kind == "trainer":
        return any(job.training_launches for job in project.jobs) or bool(project.configs("training", "accelerate"))
    if kind == "pod":
        return any(job.groups for job in project.jobs)
    return True


@cache
def read_table() -> dict[str, str]:
    """Rule ids with what they need: "python", "object:NodePool,Queue", "job:sbatch", …"""
    table: dict[str, str] = json.loads(_TABLE.read_text("utf-8"))
    return table


def needs(rule: Rule[Any]) -> str:
    """What a rule's class says that it looks at; "" when it must always run."""
    from trainwright.linter import rule as bases

    if isinstance(rule, bases.PythonRule):
        return "python"
    if isinstance(rule, bases.ConfigRule):
        return "config:" + ",".join(rule.roles)
    if isinstance(rule, bases.ObjectRule):
        return "object:" + ",".join(rule.kinds)
    if isinstance(rule, bases.ScriptRule):
        return "script"
    if isinstance(rule, bases.JobRule):
        return "job:" + ",".join(rule.frontends)
    if isinstance(rule, bases.LaunchRule):
        return "launch"
    if isinstance(rule, bases.TrainerRule):
        return "trainer"
    return "pod" if isinstance(rule, bases.PodRule) else ""


def derive() -> dict[str, str]:
    """The table as the classes have it."""
    from trainwright.linter.engine import load_rule
    from trainwright.linter.rules import RULES

    return {rule_id: found for rule_id in sorted(RULES) if (found := needs(load_rule(rule_id)))}


if __name__ == "__main__":
    _TABLE.write_text(json.dumps(derive(), indent=1) + "\n", "utf-8")
