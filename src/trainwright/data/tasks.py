"""The files of a source → tasks of about one megabyte each, so that processes stay equally busy."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.data.pool import Task
from trainwright.data.readers import ReadSettings, Span, reader
from trainwright.data.sources import FoundSource
from trainwright.errors import InputError, Problem

_TASK_BYTES = 1 << 20
_TASK_FILES = 256


def tasks_of(found: FoundSource, index: int, settings: ReadSettings) -> list[Task]:
    """Tasks in the order of the files; several small files share one, a large one has several."""
    tasks: list[Task] = []
    spans: list[Span] = []
    for span in _spans(found):
        full = sum(s.weight for s in spans) + span.weight > _TASK_BYTES or len(spans) >= _TASK_FILES
        if spans and (full or spans[-1].file == span.file):
            tasks.append(Task(index, found.format, settings, tuple(spans)))
            spans = []
        spans.append(span)
    return [*tasks, Task(index, found.format, settings, tuple(spans))] if spans else tasks


def _spans(found: FoundSource) -> Iterator[Span]:
    """Parts of all files. Raises InputError for every file that is not of the format."""
    chosen = reader(found.format)
    problems = []
    for number, file in enumerate(found.files):
        try:
            parts = chosen.spans(file.path, file.size)
        except (ValueError, OSError) as error:
            problems.append(Problem(str(file.path), field=found.where, what=str(error)))
            continue
        for start, stop in parts:
            yield Span(number, file.path, start, stop, file.size // len(parts))
    if problems:
        raise InputError(problems)
