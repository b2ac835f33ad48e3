"""From the spec's sources to a prepared folder: list, hash, read and tokenise in parallel, pack, write, commit.

The folder's name is the hash of everything that its content depends on, so unchanged inputs are found,
not made again.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.data import fingerprints, locate, sources
from trainwright.data.build import Builder, BuildSettings, refuse_bad_rows
from trainwright.data.chat import ChatTemplate, TemplateError
from trainwright.data.encode import EncoderSettings
from trainwright.data.fingerprints import Stamp
from trainwright.data.held_out_text import TextFile, held_out_from
from trainwright.data.manifest import FILES, NAME, VERSION, VOCABULARY, Counts, FileRecord, Manifest, SourceRecord
from trainwright.data.pool import TaskEnd, available_cores, run_tasks
from trainwright.data.prepared import PreparedData
from trainwright.data.prepared_folder import building, discard
from trainwright.data.progress import Teller, silent
from trainwright.data.readers import ReadSettings
from trainwright.data.shard_writer import HashedFile
from trainwright.data.sources import FoundSource
from trainwright.data.tasks import tasks_of
from trainwright.data.tokenizer import Tokenizer, check_against_model, fingerprint
from trainwright.data.vocabulary import flags_of
from trainwright.errors import AnswerNo, InputError, Problem, SystemUnreachable
from trainwright.runs.progress import Progress
from trainwright.spec.model import Data, Model, RunSpec

_PART_BYTES_PER_TOKEN = 16  # a long text file becomes documents of about four sequences
RULES = 2
"""Raised when the same settings come to make other sequences."""
_ALONE_BYTES = 1 << 18  # so little is tokenised faster than processes start


@dataclass(frozen=True)
class _Input:
    """A source of the spec with the hashes of its files."""

    found: FoundSource
    index: int
    """Within its list in the spec."""
    held_out: bool
    hashes: dict[str, tuple[Stamp, str]]


@dataclass(frozen=True)
class _Job:
    """Everything that is settled before the first row is read."""

    spec: RunSpec
    data: Data
    inputs: list[_Input]
    template: str | None
    workers: int
    teller: Teller
    content: dict[str, Any]
    """What the prepared data depends on; its hash names the folder."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()[:32]


def prepare(spec: RunSpec, cache: Path, progress: Progress = silent) -> PreparedData:
    """Make or find the prepared data of a spec under ``cache``.

    Raises InputError for what is wrong with the data, the tokenizer or the model, SystemUnreachable for a store or
    the Hub.
    """
    data, model = _needed(spec)
    config_folder = locate.model_folder(model, cache, progress)
    tokenizer_folder = locate.tokenizer_folder(model, cache, progress)
    job = _job(spec, data, tokenizer_folder, cache, progress)
    final = cache / job.digest
    ready = _ready(final, data.bad_rows)
    if ready is not None:
        check_against_model(ready.manifest.tokenizer, tokenizer_folder, config_folder)
        return ready
    tokenizer = Tokenizer.load(tokenizer_folder)
    check_against_model(tokenizer.record, tokenizer_folder, config_folder)
    _check_special(spec, tokenizer)
    try:
        with building(final) as (temporary, commit):
            _write(job, tokenizer, temporary)
            commit()
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        way_out = "free some space, or name another storage" if full else "look at that path and its permissions"
        raise SystemUnreachable(f"{error.filename or final}: {error.strerror or error}", way_out) from error
    return PreparedData.open(final)


def _needed(spec: RunSpec) -> tuple[Data, Model]:
    if spec.data is None or spec.model is None:
        missing = "data" if spec.data is None else "model"
        what, instead = "is missing", "a run of your own script (train.script) prepares no data"
        raise InputError([Problem("spec", field=missing, what=what, instead=instead)])
    return spec.data, spec.model


def _job(spec: RunSpec, data: Data, tokenizer: Path, cache: Path, progress: Progress) -> _Job:
    workers = available_cores() if data.workers == "auto" else data.workers
    found = _find(data, cache, progress)
    teller = Teller(progress)
    teller.begin("hash", sum(source.size for _, _, source in found))
    memory = cache / "hashes"
    inputs = [
        _Input(source, index, held_out, fingerprints.hash_source(source, memory, workers, teller.advance))
        for held_out, index, source in found
    ]
    template = _template(data)
    content = {
        "version": VERSION,
        "rules": RULES,
        "tokenizer": fingerprint(tokenizer),
        "chat_template": hashlib.sha256(template.encode()).hexdigest() if template else None,
        "objective": spec.objective,
        "sequence_length": spec.sequence_length,
        "packing": _packing(spec, data),
        **data.model_dump(mode="json", include={"shuffle", "eval_fraction", "over_long", "drop_duplicates"}),
        "sources": [
            {
                "held_out": one.held_out,
                "files": fingerprints.combined(one.hashes),
                "format": one.found.format,
                **one.found.source.model_dump(mode="json", include={"field", "limit"}),
            }
            for one in inputs
        ],
    }
    return _Job(spec, data, inputs, template, workers, teller, content)


def _template(data: Data) -> str | None:
    """Text of the template file, if one is named, and known to compile."""
    if data.chat_template is None:
        return None
    try:
        source = Path(data.chat_template).read_text(encoding="utf-8")
        ChatTemplate(source, {}, ())
    except OSError as error:
        what = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        what = "is not text in UTF-8"
    except TemplateError as error:
        what = str(error)
    else:
        return source
    raise InputError([Problem(data.chat_template, field="data.chat_template", what=what)])


def _find(data: Data, cache: Path, progress: Progress) -> list[tuple[bool, int, FoundSource]]:
    """(held out, index, source) for all sources, those for evaluation first. Every problem at once."""
    problems: list[Problem] = []
    found = []
    for held_out, name, listed in ((True, "eval_sources", data.eval_sources), (False, "sources", data.sources)):
        for index, source in enumerate(listed):
            try:
                where = f"data.{name}.{index}"
                path = locate.source_path(source, where, cache, progress)
                found.append((held_out, index, sources.find(source, where, path)))
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _ready(final: Path, bad_rows: float) -> PreparedData | None:
    """The folder, when it is there and whole; a damaged one is removed."""
    if not final.is_dir():
        return None
    try:
        prepared = PreparedData.trusted(final)
    except AnswerNo:
        discard(final)
        return None
    counts = prepared.manifest.counts
    refuse_bad_rows(counts.rows, counts.bad_rows, prepared.manifest.bad_rows, bad_rows)
    return prepared


def _write(job: _Job, tokenizer: Tokenizer, folder: Path) -> None:
    """Build everything into ``folder``, the manifest last."""
    builder = Builder(folder, _build_settings(job, tokenizer))
    counts = _run(job, tokenizer, builder)
    total = Counts()
    for one in counts:
        total.add(one)
    builder.check(total.rows, total.bad_rows)
    _refuse_empty(job, builder, total)
    altered = [path for one in job.inputs for path in fingerprints.changed(one.found, one.hashes)]
    if altered:
        raise InputError([Problem(path, what="changed while it was read; run again") for path in altered[:10]])
    names = {one.found.where: [file.name for file in one.found.files] for one in job.inputs}
    listing = HashedFile(folder / FILES)
    listing.write(json.dumps(names).encode())
    manifest = Manifest(
        digest=job.digest,
        objective=job.spec.objective,
        sequence_length=job.spec.sequence_length,
        token_type=_token_type(tokenizer),
        tokenizer=tokenizer.record,
        settings=job.content,
        train=builder.splits["train"],
        eval=builder.splits["eval"],
        sources=[_record(one, count) for one, count in zip(job.inputs, counts, strict=True)],
        bad_rows=builder.bad,
        shards=builder.shards,
        files=[*builder.files, listing.close(), *_vocabulary(job, tokenizer, folder)],
    )
    whole = HashedFile(folder / NAME)
    whole.write(manifest.to_json().encode())
    whole.close()


def _packing(spec: RunSpec, data: Data) -> bool:
    """Sentence pairs are cut from one document, so a sequence then holds one."""
    return data.packing and not (spec.objective == "masked" and spec.masked.sentence_pairs)


def _vocabulary(job: _Job, tokenizer: Tokenizer, folder: Path) -> list[FileRecord]:
    if job.spec.objective != "masked":
        return []
    whole = HashedFile(folder / VOCABULARY)
    whole.write(flags_of(tokenizer).tobytes())
    return [whole.close()]


def _check_special(spec: RunSpec, tokenizer: Tokenizer) -> None:
    """Masked models need their special tokens; say so before anything is read."""
    if spec.objective != "masked":
        return
    needed = ("mask", "cls", "sep") if spec.masked.sentence_pairs else ("mask",)
    missing = [f"{role}_token" for role in needed if getattr(tokenizer.record, role) is None]
    if missing:
        what = f"has no {', '.join(missing)}, which objective: masked needs"
        instead = "use the tokenizer of an encoder such as BERT, or objective: causal"
        raise InputError([Problem(str(tokenizer.folder), field="objective", what=what, instead=instead)])


def _build_settings(job: _Job, tokenizer: Tokenizer) -> BuildSettings:
    masked = job.spec.objective == "masked"
    return BuildSettings(
        sequence_length=job.spec.sequence_length,
        packing=_packing(job.spec, job.data),
        keep_order=not job.data.shuffle,
        eval_fraction=_held_out_fraction(job.data),
        over_long=None if job.data.over_long == "auto" else job.data.over_long,
        drop_duplicates=job.data.drop_duplicates,
        bad_rows=job.data.bad_rows,
        around=(tokenizer.record.prefix, tokenizer.record.suffix) if masked else ([], []),
        token_type=_token_type(tokenizer),
    )


def _held_out_fraction(data: Data) -> float:
    return 0.0 if data.eval_sources else data.eval_fraction


def _run(job: _Job, tokenizer: Tokenizer, builder: Builder) -> list[Counts]:
    """Read, tokenise and pack all sources; gives the counts of each."""
    part = _PART_BYTES_PER_TOKEN * job.spec.sequence_length
    held_out = _held_out_text(job)
    tasks = [
        task
        for number, one in enumerate(job.inputs)
        for task in tasks_of(one.found, number, ReadSettings(one.found.source.field, part), held_out.get(number))
    ]
    total = sum(one.found.size for one in job.inputs)
    job.teller.begin("tokenise", total)
    full: set[int] = set()
    counts: list[Counts] = []
    settings = EncoderSettings(tokenizer.folder, job.spec.objective, job.template)
    workers = 1 if total < _ALONE_BYTES else job.workers
    with closing(run_tasks(settings, tasks, workers, lambda task: task.source not in full)) as results:
        for task, result in results:
            while len(counts) <= task.source:
                _next_source(job, builder, counts)
            if isinstance(result, TaskEnd):
                builder.count_lines(result.lines)
            elif task.source not in full:
                builder.add(result, task.held_out)
                job.teller.advance(result.read)
                limit = job.inputs[task.source].found.source.limit
                if limit is not None and counts[-1].bytes >= limit.bytes:
                    full.add(task.source)
    while len(counts) < len(job.inputs):
        _next_source(job, builder, counts)
    builder.end()
    builder.finish()
    return counts


def _held_out_text(job: _Job) -> dict[int, dict[int, int]]:
    """For each source of plain text, the files that are held out and from which byte on."""
    fraction = _held_out_fraction(job.data)
    text = [number for number, one in enumerate(job.inputs) if one.found.format == "text" and not one.held_out]
    files = [
        TextFile(number, index, file.size, one.found.source.limit.bytes if one.found.source.limit else file.size, sha)
        for number in text
        for one in (job.inputs[number],)
        for index, file in enumerate(one.found.files)
        for sha in (one.hashes[file.name][1],)
    ]
    total = sum(one.found.size for one in job.inputs)
    chosen = held_out_from(files, fraction, total, alone=len(text) == len(job.inputs))
    return {number: {file: begin for (source, file), begin in chosen.items() if source == number} for number in text}


def _next_source(job: _Job, builder: Builder, counts: list[Counts]) -> None:
    if counts:
        builder.end()
    one = job.inputs[len(counts)]
    names: Callable[[int], str] = lambda file: str(one.found.files[file].path)  # noqa: E731 - binds this source
    builder.start(one.index, one.found.where, one.found.where, one.held_out, names)
    counts.append(builder.counts)


def _refuse_empty(job: _Job, builder: Builder, total: Counts) -> None:
    where = ", ".join(one.found.source.path for one in job.inputs)
    left_out = f"{total.duplicates} duplicates, {total.bad_rows} bad rows, {total.dropped} dropped"
    if not builder.splits["train"].sequences:
        left_out += f", {builder.splits['eval'].documents} held out"
        what = f"{total.rows} rows give no document to train on ({left_out})"
        raise InputError([Problem(where, field="data", what=what, instead="name more data, or lower eval_fraction")])
    wanted = job.data.eval_fraction > 0 or job.data.eval_sources
    if wanted and not builder.splits["eval"].sequences:
        what = f"there is no document to hold out ({total.documents} in all, {left_out})"
        instead = "name more data or data.eval_sources, or set data.eval_fraction: 0"
        raise InputError([Problem(where, field="data", what=what, instead=instead)])


def _record(one: _Input, counts: Counts) -> SourceRecord:
    found = one.found
    split = "eval" if one.held_out else "train"
    sha256 = fingerprints.combined(one.hashes)
    return SourceRecord(found.source.path, found.format, split, len(found.files), found.size, sha256, counts)


def _token_type(tokenizer: Tokenizer) -> str:
    return "uint16" if tokenizer.record.size <= 1 << 16 else "uint32"
