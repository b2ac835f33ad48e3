"""TW831: what torch.load does depends on the version of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, literal


class LoadWithoutWeightsOnly(PythonRule):
    """The default changed in PyTorch 2.6."""

    id = "TW831"
    severity = "note"
    category = "frameworks"
    summary = "torch.load without weights_only"
    evidence = "verified"
    source = "PyTorch 2.6 release notes: the default of weights_only became True; torch.load documentation"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Calls that leave it open, or allow everything."""
        for call in calls_of(subject, "torch.load"):
            stated = call.keyword("weights_only")
            if call.has_star() or call.keyword("pickle_module") is not None:
                continue
            if stated is None:
                yield self.hit(
                    call.span,
                    "weights_only is not stated: before PyTorch 2.6 this unpickles anything (and runs code from the "
                    "file), "
                    "from 2.6 on it refuses whatever is not a tensor, often first when a run resumes",
                    "weights_only=True, and torch.serialization.add_safe_globals for other types in the file",
                )
            elif literal(stated) is False:
                yield self.hit(
                    call.span,
                    "weights_only=False unpickles anything in the file, which may run code",
                    "weights_only=True for files that others could have written, or safetensors",
                )
