"""The tokenizer of a run: found, loaded, hashed and checked against the model.

Takes the folder of a model or tokenizer in Hugging Face format; gives a Tokenizer value with a Rust tokenizer
inside. It imports neither torch nor transformers: ``tokenizer.json`` holds all that is needed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright import plain_json
from trainwright.data.manifest import TokenizerRecord
from trainwright.errors import InputError, MissingExtra, Problem

if TYPE_CHECKING:
    import tokenizers

FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
)  # fmt: skip
_SPECIAL = ("bos", "eos", "pad", "mask", "cls", "sep", "unk")


@dataclass(frozen=True)
class Tokenizer:
    """A loaded tokenizer. Ids are below ``size``."""

    folder: Path
    backend: tokenizers.Tokenizer
    record: TokenizerRecord
    special: dict[str, str]
    """Text of the special tokens by role: ``bos``, ``eos``, ``pad``, ``mask``, ``cls``, ``sep``, ``unk``."""
    special_texts: tuple[str, ...]
    """Text of every special token, with or without a role."""
    chat_template: str | None

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read a folder. Raises InputError when it holds no tokenizer.json."""
        try:
            import tokenizers
        except ImportError:
            raise MissingExtra("tokenising", "train") from None
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise InputError([_no_tokenizer(folder)])
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # noqa: BLE001 - the Rust side raises bare Exception
            raise InputError([Problem(str(path), what=f"is no tokenizer ({error})")]) from None
        backend.no_truncation()
        backend.no_padding()
        config = {**_read_json(folder / "special_tokens_map.json"), **_read_json(folder / "tokenizer_config.json")}
        special = {role: text for role in _SPECIAL if (text := _token_text(config.get(f"{role}_token")))}
        ids = {role: backend.token_to_id(text) for role, text in special.items()}
        size = 1 + max(backend.get_vocab(with_added_tokens=True).values(), default=-1)
        named = {role: ids.get(role) for role in _SPECIAL if role != "unk"}
        prefix, suffix = _wrapping(backend)
        template = _chat_template(folder, config)
        record = TokenizerRecord(fingerprint(folder), size, **named, prefix=prefix, suffix=suffix)
        added = tuple(token.content for token in backend.get_added_tokens_decoder().values() if token.special)
        return cls(folder, backend, record, special, added, template)


def fingerprint(folder: Path) -> str:
    """Hash of everything that decides which ids a text becomes: the tokenizer's files and the library's version."""
    whole = hashlib.sha256()
    for name in FILES:
        path = folder / name
        if path.is_file():
            whole.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    try:
        whole.update(f"tokenizers {importlib.metadata.version('tokenizers')}\n".encode())
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtra("tokenising", "train") from None
    return whole.hexdigest()


def check_against_model(record: TokenizerRecord, folder: Path, model: Path) -> None:
    """Raise InputError when the tokenizer in ``folder`` has ids that the model's embedding does not."""
    path = model / "config.json"
    config = _read_json(path)
    text_config = config.get("text_config")
    size = config.get("vocab_size", text_config.get("vocab_size") if isinstance(text_config, dict) else None)
    if isinstance(size, int) and record.size > size:
        what = f"is {size}, but the tokenizer in {folder} has ids up to {record.size - 1}"
        instead = "use the model's own tokenizer, or resize the model's embedding and its vocab_size"
        raise InputError([Problem(str(path), field="vocab_size", what=what, instead=instead)])


def _no_tokenizer(folder: Path) -> Problem:
    if not folder.is_dir():
        return Problem(str(folder), what="no such folder", instead="name a folder in Hugging Face format")
    if any((folder / name).is_file() for name in ("tokenizer.model", "spiece.model", "vocab.txt", "vocab.json")):
        instead = "write one with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        return Problem(str(folder), what="holds a tokenizer in an old format, no tokenizer.json", instead=instead)
    instead = "set model.tokenizer to a folder that has one"
    return Problem(str(folder), what="holds no tokenizer.json", instead=instead)


def _wrapping(backend: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """What the post-processor adds around a text, seen by adding it to one."""
    plain, whole = (backend.encode("a", add_special_tokens=special).ids for special in (False, True))
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain:
            return whole[:start], whole[start + len(plain) :]
    return [], []


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):  # several by name, as older folders have them
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _token_text(value: Any) -> str | None:
    """A special token is written as text or as an object that holds it."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = plain_json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError([Problem(str(path), what=f"cannot be read ({error})")]) from None
    if not isinstance(value, dict):
        raise InputError([Problem(str(path), what="is no JSON object")])
    return value
