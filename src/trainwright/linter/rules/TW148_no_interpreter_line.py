"""TW148: a batch script that sbatch refuses."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ScriptRule
from trainwright.linter.text import Span


class NoInterpreterLine(ScriptRule):
    """The first line of a batch script names its shell."""

    id = "TW148"
    severity = "error"
    category = "launch"
    summary = "a batch script without an interpreter line"
    evidence = "verified"
    source = "SchedMD/slurm src/sbatch/sbatch.c: This does not look like a batch script. The first line …"

    def check(self, subject: ScriptDocument, project: Project) -> Iterator[Hit]:
        """Files with directives in effect whose first line is something else."""
        content = subject.text.content
        if subject.holder is not None or not subject.directives.flags.used or content.startswith("#!"):
            return
        if subject.path.endswith((".md", ".mdx", ".markdown")) or subject.path == "<stdin>":
            return
        end = content.find("\n")
        yield self.hit(
            Span(subject.text, 0, len(content) if end == -1 else max(1, end)),
            "sbatch wants a first line that begins with #! and refuses the script: this does not look like a batch "
            "script",
            "#!/bin/bash as the first line, with nothing before it",
        )
