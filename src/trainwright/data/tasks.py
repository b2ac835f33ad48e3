"""The files of a source → tasks of about one megabyte each, so that processes stay equally busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.data.pool import Task
from trainwright.data.readers import UNREADABLE, ReadSettings, Span, reader, text
from trainwright.data.sources import FoundSource
from trainwright.errors import InputError, Problem

_TASK_BYTES = 1 << 20
_TASK_FILES = 256


def tasks_of(
    found: FoundSource, index: int, settings: ReadSettings, held_out: Mapping[int, int] | None = None
) -> list[Task]:
    """Tasks in the order of the files; several small files share one, a large one has several.

    ``held_out`` maps files of plain text to the byte from which they are held out; those parts come first, so that a
    limit on the source cannot leave them out. None: the content of each document decides.
    """
    spans = list(_spans(found))
    if held_out is None:
        return list(_grouped(found, index, settings, spans, None))
    parts = [part for span in spans for part in _divided(span, held_out)]
    return [
        task
        for apart in (True, False)
        for task in _grouped(found, index, settings, [span for kept, span in parts if kept is apart], apart)
    ]


def _grouped(
    found: FoundSource, index: int, settings: ReadSettings, spans: list[Span], held_out: bool | None
) -> Iterator[Task]:
    group: list[Span] = []
    for span in spans:
        full = sum(s.weight for s in group) + span.weight > _TASK_BYTES or len(group) >= _TASK_FILES
        if group and (full or group[-1].file == span.file):
            yield Task(index, found.format, settings, tuple(group), held_out)
            group = []
        group.append(span)
    if group:
        yield Task(index, found.format, settings, tuple(group), held_out)


def _divided(span: Span, held_out: Mapping[int, int]) -> Iterator[tuple[bool, Span]]:
    """A part of a text file, cut in two where its held-out region begins: (held out, part)."""
    begin = held_out.get(span.file)
    if not begin:
        yield begin is not None, span
        return
    place = text.cut(span.path, begin)
    if span.start < place:
        yield False, replace(span, stop=min(span.stop, place), end=place)
    if span.stop > place:
        yield True, replace(span, start=max(span.start, place), begin=place)


def _spans(found: FoundSource) -> Iterator[Span]:
    """Parts of all files. Raises InputError for every file that is not of the format."""
    chosen = reader(found.format)
    problems = []
    for number, file in enumerate(found.files):
        try:
            parts = chosen.spans(file.path, file.size)
        except UNREADABLE as error:
            problems.append(Problem(str(file.path), field=found.where, what=str(error)))
            continue
        for start, stop in parts:
            yield Span(number, file.path, start, stop, file.size // len(parts))
    if problems:
        raise InputError(problems)
