"""TW104: #SBATCH lines below the first command."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ScriptRule
from trainwright.linter.shell.words import Command
from trainwright.linter.text import Span


class DirectiveAfterCommand(ScriptRule):
    """Slurm reads directives only down to the first command."""

    id = "TW104"
    severity = "error"
    category = "launch"
    summary = "#SBATCH lines stand below the first command and are ignored"
    evidence = "verified"
    source = "sbatch(1): directives after the first non-comment line are not processed; aws/aws-parallelcluster#3809"

    def check(self, subject: ScriptDocument, project: Project) -> Iterator[Hit]:
        """One hit, at the first ignored directive."""
        late, first = subject.directives.late, subject.directives.first_command
        if subject.path.endswith((".md", ".markdown")) and not subject.text.content.lstrip().startswith("#!"):
            return  # a terminal session that shows a script, not the script itself
        place = subject.directives.late_place
        if place is not None and any(_holds(command, place) for command in subject.plain.commands):
            return  # lines of another script, which this one writes or submits
        if late and first is not None:
            names = ", ".join(dict.fromkeys("--" + name.replace("_", "-") for name in late[:4]))
            yield self.hit(
                subject.directives.late_place or subject,
                f"Slurm stops reading directives at "
                f"the command on line {first.line} ({first.quoted}), so {names} has no effect",
                "move every #SBATCH line directly below the shebang",
            )


def _holds(command: Command, place: Span) -> bool:
    """Whether a place lies in the here-document of a command."""
    body = command.body
    if body is None or body.parent is not place.text or not isinstance(body.offsets, int):
        return False
    return body.offsets <= place.start < body.offsets + len(body.content)
