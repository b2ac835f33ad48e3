"""Where a model or tokenizer is on this machine, fetched first when it is on the Hub or in a bucket.

Takes what a spec names; gives a local folder. Nothing is fetched twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from trainwright.data.staging import stage
from trainwright.errors import InputError, MissingExtra, Problem
from trainwright.models import hub
from trainwright.runs.progress import Progress
from trainwright.spec.model import Model, Source
from trainwright.spec.paths import is_local, is_remote
from trainwright.spec.secret import read_secret


def model_folder(model: Model, cache: Path, progress: Progress) -> Path:
    """The folder with the model's config, and its weights."""
    revision = model.revision
    return _folder(model.path, revision, model, cache, progress)


def tokenizer_folder(model: Model, cache: Path, progress: Progress, revision: str | None = None) -> Path:
    """The folder with the tokenizer's files; ``revision`` is of a tokenizer with an address of its own."""
    if model.tokenizer is None:
        return model_folder(model, cache, progress)
    return _folder(model.tokenizer, revision, model, cache, progress)


def source_path(source: Source, where: str, cache: Path, progress: Progress) -> Path:
    """A local path for a source: itself, a staged copy of a bucket's objects, or a snapshot of a Hub data set."""
    if is_local(source.path):
        return Path(source.path)
    if is_remote(source.path):
        return stage(source.path, cache / "staged", progress, source.include, source.exclude)
    return _hub_dataset(source, where)


def _folder(location: str, revision: str | None, model: Model, cache: Path, progress: Progress) -> Path:
    if is_local(location):
        return Path(location)
    if is_remote(location):
        return stage(location, cache / "staged", progress)
    token = read_secret(model.token, "model.token") if model.token else None
    return hub.download(location, revision, token)


def _hub_dataset(source: Source, where: str) -> Path:
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError:
        raise MissingExtra(f"the data set {source.path} from the Hub", "train") from None
    kind: Literal["dataset"] = "dataset"
    try:
        folder = huggingface_hub.snapshot_download(
            source.path, repo_type=kind, allow_patterns=list(source.include) or None
        )
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        instead = "check the name; a file or folder beside the spec is written ./name"
        problem = Problem(
            source.path, field=where, what="is neither a path here nor a data set on the Hub", instead=instead
        )
        raise InputError([problem]) from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, ConnectionError, OSError) as error:
        raise hub.unreachable(source.path, error) from None
    return Path(folder)
