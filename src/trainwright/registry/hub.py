"""Push a registered version to the Hugging Face Hub, with a token by reference.

Takes a version and a repository; gives the commit's address. What tells of the machine (spec, paths, metrics) stays.
"""

from __future__ import annotations

import os

from trainwright.errors import InputError, MissingExtra, Problem, SystemUnreachable
from trainwright.registry.version import Version
from trainwright.spec.model import RunSpec
from trainwright.spec.secret import read_secret

_KEPT_HOME = ["run/**", "manifest.json"]


def write_token(spec: RunSpec) -> str | None:
    """The token that may write: register.token, else the model's, else ``$HF_TOKEN``; None leaves it to a login."""
    if spec.register_ and spec.register_.token:
        return read_secret(spec.register_.token, "register.token")
    if spec.model and spec.model.token:
        return read_secret(spec.model.token, "model.token")
    return os.environ.get("HF_TOKEN") or None


def push(version: Version, repository: str, token: str | None) -> str:
    """Upload weights, tokenizer and card to a repository, made private if it is new; gives the address of the commit.

    InputError when the Hub refuses, SystemUnreachable when it cannot be asked. The version itself stays registered.
    """
    try:
        from huggingface_hub import HfApi, errors
    except ImportError:
        raise MissingExtra("pushing to the Hub", "train") from None
    api = HfApi(token=token)
    again = (
        f"the model is registered as {version.folder}; push it later: `trainwright register RUN --hub {repository}`"
    )
    try:
        api.create_repo(repository, private=True, exist_ok=True)
        message = f"{version.record.name} version {version.number}"
        commit = api.upload_folder(
            repo_id=repository, folder_path=version.folder, ignore_patterns=_KEPT_HOME, commit_message=message
        )
    except errors.HFValidationError as error:
        what = f"is no repository name ({_first_line(error)})"
        raise InputError([Problem("register.hub", what=f"{repository} {what}", instead="write owner/name")]) from None
    except errors.OfflineModeIsEnabled:
        raise SystemUnreachable("pushing to the Hub: HF_HUB_OFFLINE forbids it", again) from None
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403):
            raise SystemUnreachable(
                f"the Hub does not let this token write to {repository} (HTTP {status})",
                f"name a token with write access as register.token; {again}",
            ) from None
        raise SystemUnreachable(f"the Hub refused the push to {repository}: {_first_line(error)}", again) from None
    except (ConnectionError, OSError) as error:
        raise SystemUnreachable(f"the Hub cannot be reached: {_first_line(error)}", again) from None
    return str(commit.commit_url)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
