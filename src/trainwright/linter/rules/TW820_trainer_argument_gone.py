"""TW820: transformers 5 dropped arguments that many scripts still give."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Absent
from trainwright.linter.view.trainer import HUGGING_FACE, TrainerArguments


class TrainerArgumentGone(TrainerRule):
    """The argument parser stops on names that it does not know."""

    id = "TW820"
    severity = "note"
    category = "frameworks"
    summary = "an argument that newer versions of transformers no longer have"
    evidence = "reproduced"
    source = (
        "fields of transformers.TrainingArguments in 5.24.0; reproduced: the parser stops on unrecognized arguments"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Names with a version after which they are gone."""
        if not subject.is_hugging_face or subject.imports("lightning"):
            return
        # Axolotl has options of these names itself, whatever transformers has.
        if subject.file is not None and subject.file.get("base_model").exists and subject.file.get("datasets").exists:
            return
        for name, row in read_rows("hf_arguments").items():
            gone = project.versions.at_least("transformers", row["until"])
            value = subject.text(name)
            if gone is False or isinstance(value, Absent) or not (_is_option(subject, name)):
                continue
            yield self.hit(
                value,
                f"transformers {row['until']} has no {name}: its parser stops with an error"
                + ("" if gone else "; older versions have it"),
                row["instead"]
                + ("" if gone else f", or keep transformers below {row['until'].split('.')[0]} in the image"),
                severity="error" if gone else None,
            )


def _is_option(subject: TrainerArguments, name: str) -> bool:
    """Whether the run states it among other options of the Hugging Face Trainer."""
    keys = set(subject.flags.used) | set(subject.file.node.keys() if subject.file else ())
    return len(keys & HUGGING_FACE - {name}) >= 1
