"""Where a model, tokenizer or data set is on this machine, fetched first when it is on the Hub or in a bucket.

Takes what a spec names; gives a local path. Nothing is fetched twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from trainwright.data.tokenizer import FILES as TOKENIZER_FILES
from trainwright.errors import InputError, MissingExtra, Problem, SystemUnreachable
from trainwright.spec.model import Model, SecretRef
from trainwright.spec.paths import is_local


def tokenizer_folder(model: Model) -> Path:
    """The folder with the tokenizer's files."""
    location = model.tokenizer or model.path
    if is_local(location):
        return Path(location)
    patterns = [*TOKENIZER_FILES, "config.json"]
    revision = model.revision if model.tokenizer is None else None
    return from_hub(location, "model", patterns, revision, model.token)


def config_folder(model: Model) -> Path:
    """The folder with the model's config.json."""
    if is_local(model.path):
        return Path(model.path)
    return from_hub(model.path, "model", ["config.json"], model.revision, model.token)


def from_hub(
    name: str, kind: Literal["model", "dataset"], patterns: list[str], revision: str | None, token: SecretRef | None
) -> Path:
    """A snapshot of some files of a Hub repository, from its cache when it is there."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError:
        raise MissingExtra(f"fetching {name} from the Hub", "train") from None
    secret: Any = read_secret(token) if token else None
    try:
        folder = huggingface_hub.snapshot_download(
            name, repo_type=kind, revision=revision, allow_patterns=patterns, token=secret
        )
    except RepositoryNotFoundError:
        instead = "a folder beside the spec is written ./name; a private one needs model.token"
        raise InputError([Problem(name, what=f"the Hub has no {kind} of this name", instead=instead)]) from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        way_out = "check the network, or name a local folder"
        raise SystemUnreachable(f"{name} cannot be fetched from the Hub: {reason}", way_out) from None
    return Path(folder)


def read_secret(reference: SecretRef) -> str:
    """The value of a secret. Raises InputError that names the reference, never the value."""
    import os

    if reference.env is not None:
        value = os.environ.get(reference.env)
        where = f"environment variable {reference.env}"
    elif reference.file is not None:
        path = Path(reference.file)
        value = path.read_text().strip() if path.is_file() else None
        where = f"file {reference.file}"
    else:
        value, where = None, f"Kubernetes secret {reference.kubernetes}, which exists inside a pod only"
    if not value:
        raise InputError([Problem(where, what="holds no secret here", instead="set it, or name another reference")])
    return value
