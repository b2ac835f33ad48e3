"""Models on the Hugging Face Hub: fetched once into the Hub's own cache, then found there without a network.

Takes a Hub id and gives a folder. Imports huggingface_hub on use; must not know specs or runs.
"""

from __future__ import annotations

from pathlib import Path

from trainwright.errors import InputError, MissingExtra, Problem, SystemUnreachable

#: Weights in formats that run code when they are read, or that nothing here reads.
_IGNORED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "onnx/*", "original/*")


def download(
    repository: str, revision: str | None = None, token: str | None = None, *, offline: bool = False
) -> Path:
    """Folder of a model with config, tokenizer and safetensors weights; fetched when it is not in the cache yet.

    ``offline`` looks into the cache alone. InputError when there is no such model or revision or access is refused,
    SystemUnreachable when the Hub does not answer.
    """
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError:
        raise MissingExtra(f"the model {repository} from the Hub", "train") from None

    def problem(what: str, instead: str) -> InputError:
        return InputError([Problem(repository, what=what, instead=instead)])

    try:
        folder = huggingface_hub.snapshot_download(
            repository, revision=revision, token=token, local_files_only=offline, ignore_patterns=list(_IGNORED)
        )
    except errors.GatedRepoError:
        instead = "accept its terms on its page, and name a token as model.token"
        raise problem("needs its terms accepted on the Hub", instead) from None
    except errors.RevisionNotFoundError:
        raise problem(f"has no revision {revision}", "name a branch, tag or commit of it") from None
    except errors.RepositoryNotFoundError:
        instead = "check the name; for a private model, name a token as model.token"
        raise problem("is no model that the Hub shows us", instead) from None
    except errors.HFValidationError:
        raise problem("is no Hub id", "write owner/name, or ./name for a folder") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, ConnectionError, OSError) as error:
        raise unreachable(repository, error) from error
    except errors.HfHubHTTPError as error:
        raise unreachable(repository, error) from error
    return Path(folder)


def unreachable(repository: str, error: Exception) -> SystemUnreachable:
    """The Hub does not answer, or it may not be asked."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return SystemUnreachable(
        f"{repository} is not in the Hub cache, and the Hub cannot be reached ({first[:160]})",
        "fetch it where there is a network and share that cache (HF_HOME), or give a folder instead of a Hub id",
    )
