"""What a run learns from, its prepared data and its base model: settled when it begins, the same ever after.

Takes the folder of a run; prepares for it and writes ``data.json``. Once there is a checkpoint, its position counts
samples of exactly this data and its weights belong to exactly this model, so anything else is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainwright.data import locate
from trainwright.data.base_model import BaseModel, hub_commit, identify, pin
from trainwright.data.changes import changed_sources
from trainwright.data.prepare import prepare
from trainwright.data.prepared import PreparedData
from trainwright.data.report import record
from trainwright.data.whole_model import refuse_damaged
from trainwright.errors import AnswerNo
from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.runs.progress import Progress, silent
from trainwright.spec.model import Model, RunSpec

_WAY_OUT = "put back what it began with, or start another run of the same spec with --fresh"


def prepare_run(run: RunFolder, progress: Progress) -> PreparedData:
    """Prepare a run's data, or find what it was prepared with, and note both inputs in ``data.json``.

    AnswerNo when the run has checkpoints and its data or base model is no longer the one that they belong to;
    InputError for a folder of the model that is not whole, before any time goes into its data.
    """
    cache = run.root.parent / "data"
    known = (read_json(run.data) or {}) if has_begun(run) else {}
    spec = run.spec()
    begun_with = pin(spec, BaseModel.from_record(known.get("model")))
    folder = None
    if begun_with.model is not None:
        folder = locate.model_folder(begun_with.model, cache, progress)
        refuse_damaged(folder, weights=not begun_with.model.from_scratch)
    prepared = _kept(known) or prepare(begun_with, cache, progress)
    if known and prepared.manifest.digest != known.get("digest"):
        raise AnswerNo(
            f"the data of {run.run_id} changed since it began ({_what(spec, known, prepared, cache)})", _WAY_OUT
        )
    values = record(prepared)
    if begun_with.model is not None and folder is not None:
        values |= _models(begun_with.model, folder, known, cache, progress)
        _refuse_other_model(run, known, values)
    write_atomically(run.data, json.dumps(values, indent=1))
    return prepared


def has_begun(run: RunFolder) -> bool:
    """True once a checkpoint is there, whole or not."""
    found = run.checkpoints.glob("step-*/manifest.json")
    return any("." not in path.parent.name for path in found)


def base_of(run: RunFolder) -> BaseModel | None:
    """The base model that a run was prepared with; None before, and for runs of a script of the user's."""
    return BaseModel.from_record((read_json(run.data) or {}).get("model"))


def pinned(run: RunFolder, spec: RunSpec) -> RunSpec:
    """The run's spec with the very commit of the base model that the run began with."""
    return pin(spec, base_of(run))


def tokenizer_of(run: RunFolder, spec: RunSpec, progress: Progress = silent) -> Path:
    """Folder of the tokenizer that the data was made with."""
    found = (read_json(run.data) or {}).get("tokenizer")
    revision = found.get("revision") if isinstance(found, dict) else None
    model = pinned(run, spec).model
    assert model is not None
    return locate.tokenizer_folder(model, run.root.parent / "data", progress, revision)


def inputs_of(run: RunFolder) -> dict[str, str | None]:
    """Digest of the data and identity of the base model, as every checkpoint notes them."""
    base = base_of(run)
    return {"data": (read_json(run.data) or {}).get("digest"), "model": base.identity if base else None}


def refuse_other_inputs(now: dict[str, str | None], saved: object, where: Path) -> None:
    """AnswerNo when a checkpoint was made with other data or another base model. Unknown on one side is no answer."""
    there = saved if isinstance(saved, dict) else {}
    words = {"data": "other data", "model": "another base model"}
    wrong = [words[name] for name in words if there.get(name) and now.get(name) and there[name] != now[name]]
    if wrong:
        raise AnswerNo(f"{where} was saved by training on {' and '.join(wrong)}", _WAY_OUT)


def _kept(known: dict[str, Any]) -> PreparedData | None:
    """The folder that a run was prepared with, when it is still whole; then nothing needs to be read again."""
    if not isinstance(known.get("folder"), str):
        return None
    try:
        prepared = PreparedData.trusted(Path(known["folder"]))
    except AnswerNo:
        return None
    return prepared if prepared.manifest.digest == known.get("digest") else None


def _what(spec: RunSpec, known: dict[str, Any], prepared: PreparedData, cache: Path) -> str:
    """Names what changed. Where no source did, it is the tokenizer, or this release prepares in another way."""
    found = [Path(path).name for path in changed_sources(spec, known, cache)]
    if prepared.manifest.tokenizer.sha256 != known.get("tokenizer_sha256"):
        found.append("the tokenizer or its library")
    return ", ".join(found) or "its preparation by this release, or a source that is not on this machine"


def _models(model: Model, folder: Path, known: dict[str, Any], cache: Path, progress: Progress) -> dict[str, Any]:
    """What ``data.json`` says of the base model in ``folder``, and of a tokenizer with an address of its own."""
    base = identify(model, folder, cache / "hashes")
    values: dict[str, Any] = {"model": base.to_dict(), "tokenizer": None}
    if model.tokenizer is not None:
        before = known.get("tokenizer")
        revision = before.get("revision") if isinstance(before, dict) else None
        found = locate.tokenizer_folder(model, cache, progress, revision)
        values["tokenizer"] = {"path": model.tokenizer, "revision": hub_commit(found)}
    return values


def _refuse_other_model(run: RunFolder, known: dict[str, Any], values: dict[str, Any]) -> None:
    before, now = (BaseModel.from_record(each.get("model")) for each in (known, values))
    if before and now and before.identity and before.identity != now.identity:
        raise AnswerNo(f"the base model of {run.run_id} changed since it began ({now.path})", _WAY_OUT)
