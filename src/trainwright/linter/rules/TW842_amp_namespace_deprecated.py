"""TW842: torch.cuda.amp moved to torch.amp."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of


class AmpNamespaceDeprecated(PythonRule):
    """The device became an argument."""

    id = "TW842"
    severity = "note"
    category = "frameworks"
    summary = "torch.cuda.amp is deprecated"
    evidence = "reproduced"
    source = "reproduced in PyTorch 2.14: FutureWarning for torch.cuda.amp.autocast and GradScaler"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Calls by the old names."""
        for call in calls_of(subject, "torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler"):
            new = (
                'torch.autocast("cuda", dtype=torch.bfloat16)'
                if call.name.endswith("autocast")
                else 'torch.amp.GradScaler("cuda")'
            )
            yield self.hit(call.span, f"{call.name} is deprecated and prints a warning on every rank", new)
