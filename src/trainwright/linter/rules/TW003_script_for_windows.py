"""TW003: a shell script with a byte order mark or with the line ends of Windows."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project, SourceFile
from trainwright.linter.rule import FileRule, Hit


class ScriptForWindows(FileRule):
    """Both are invisible in an editor. bash gets over the mark, with a message; sbatch and the kernel do not."""

    id = "TW003"
    severity = "error"
    category = "files"
    summary = "a shell script with a byte order mark or Windows line ends"
    evidence = "reproduced"
    source = (
        "sbatch refuses DOS line breaks and scripts that do not begin with #!; bash 5.2 runs 'set -e\\r' as an option"
    )

    def check(self, subject: SourceFile, project: Project) -> Iterator[Hit]:
        """The first line of such scripts."""
        if subject.language != "shell":
            return
        end = subject.text.content.find("\n")
        first = subject.text.span(0, len(subject.text.content) if end == -1 else end)
        if subject.marked:
            yield self.hit(
                first,
                "an invisible byte order mark stands before #!: the kernel and sbatch do not see a script",
                "save the file as UTF-8 without a byte order mark",
                None if "\n#SBATCH" in subject.text.content else "warning",
            )
        if subject.carriage:
            yield self.hit(
                first,
                "lines end in CR LF: sbatch refuses the file, and bash takes the CR as part of every last word",
                "save the file with Unix line ends (dos2unix, or * text eol=lf in .gitattributes)",
            )
