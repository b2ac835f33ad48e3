"""The manifest of a prepared folder: what is in it, from what it was made, and the size and hash of every file.

It is written last, so a folder without one is not trusted. Reading it checks sizes; ``verify`` reads every byte.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from trainwright import plain_json
from trainwright.errors import AnswerNo
from trainwright.on_disk import sha256_of

VERSION = 1
NAME = "manifest.json"
FILES = "files.json"
VOCABULARY = "vocabulary"
_CHECKSUM = "checksum"
Split = Literal["train", "eval"]


@dataclass(frozen=True)
class FileRecord:
    """One file of the folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Shard:
    """Some sequences: ``<name>.tokens``, ``.bounds``, ``.documents``, ``.origins`` and, when masked, ``.loss``."""

    name: str
    split: str
    source: int
    """Index of the source within its list in the spec."""
    origin: str
    """Key of the list of file names in ``files.json``."""
    sequences: int
    tokens: int
    masked: bool
    """False when every token counts for the loss; there is no ``.loss`` file then."""


@dataclass
class Counts:
    """What was read and what became of it. ``bytes`` are bytes of UTF-8 text."""

    rows: int = 0
    documents: int = 0
    tokens: int = 0
    target_tokens: int = 0
    """Tokens that count for the loss."""
    bytes: int = 0
    target_bytes: int = 0
    """Bytes of the text that the target tokens spell; the divisor of bits per byte."""
    sequences: int = 0
    duplicates: int = 0
    """Documents left out because another one has exactly the same content."""
    bad_rows: int = 0
    over_long: int = 0
    """Documents longer than a sequence: split, truncated or dropped."""
    dropped: int = 0
    """Documents left out because they were too long or had nothing left to learn."""

    def add(self, other: Counts) -> None:
        """Sum of two counts, in place."""
        mine = vars(self)
        for name, value in vars(other).items():
            mine[name] += value


@dataclass(frozen=True)
class SourceRecord:
    """One source as it was read. ``sha256`` is over the names and hashes of its files."""

    path: str
    format: str
    split: str
    files: int
    bytes: int
    sha256: str
    counts: Counts


@dataclass(frozen=True)
class TokenizerRecord:
    """What the data is bound to: the tokenizer's files, its size and its special tokens."""

    sha256: str
    size: int
    bos: int | None
    eos: int | None
    pad: int | None
    mask: int | None
    cls: int | None
    sep: int | None
    prefix: list[int]
    """What the tokenizer puts before a text by itself, such as <s> or [CLS]."""
    suffix: list[int]
    """What it puts behind."""


@dataclass(frozen=True)
class Manifest:
    """Everything known about a prepared folder without opening its shards."""

    digest: str
    objective: str
    sequence_length: int
    token_type: str
    tokenizer: TokenizerRecord
    settings: dict[str, Any]
    train: Counts
    eval: Counts
    sources: list[SourceRecord]
    bad_rows: list[str]
    """The first ten, as ``file:line: why``."""
    shards: list[Shard]
    files: list[FileRecord] = field(default_factory=list)
    v: int = VERSION

    @property
    def counts(self) -> Counts:
        """Both splits and everything left out, together."""
        total = Counts()
        for source in self.sources:
            total.add(source.counts)
        return total

    def to_json(self) -> str:
        """The text of ``manifest.json``, with a hash of itself."""
        values = asdict(self)
        return json.dumps({**values, _CHECKSUM: _checksum(values)}, indent=1, ensure_ascii=False) + "\n"

    @property
    def bytes_per_eval_token(self) -> float | None:
        """Bytes of text that a held-out target token spells on average, the divisor of bits per byte.

        None where nothing is held out, and for masked models: the loss of the hidden tokens alone is no code length.
        """
        if self.objective == "masked" or not self.eval.target_tokens:
            return None
        return self.eval.target_bytes / self.eval.target_tokens

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read and check the sizes of all files. Raises AnswerNo for a folder that is missing, partial or damaged."""
        again = "remove the folder and run `trainwright prepare` again"
        try:
            values = plain_json.loads((folder / NAME).read_bytes())
        except FileNotFoundError:
            raise AnswerNo(f"{folder} holds no prepared data", "run `trainwright prepare` first") from None
        except (OSError, ValueError) as error:
            raise AnswerNo(f"{folder / NAME} cannot be read ({error})", again) from None
        if not isinstance(values, dict) or values.get("v") != VERSION:
            raise AnswerNo(f"{folder / NAME} is not of version {VERSION}", again)
        if values.pop(_CHECKSUM, None) != _checksum(values):
            raise AnswerNo(f"{folder / NAME} is damaged: it does not have the hash that it names", again)
        try:
            manifest = cls._from_values(values)
        except (KeyError, TypeError) as error:
            raise AnswerNo(f"{folder / NAME} is damaged ({error})", again) from None
        wrong = [found for record in manifest.files if (found := _wrong_size(folder, record))]
        if wrong:
            raise AnswerNo(f"prepared data is damaged: {'; '.join(wrong[:10])}", again)
        return manifest

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Manifest:
        nested = {
            "tokenizer": TokenizerRecord(**values["tokenizer"]),
            "train": Counts(**values["train"]),
            "eval": Counts(**values["eval"]),
            "sources": [SourceRecord(**{**s, "counts": Counts(**s["counts"])}) for s in values["sources"]],
            "shards": [Shard(**shard) for shard in values["shards"]],
            "files": [FileRecord(**record) for record in values["files"]],
        }
        return cls(**{**values, **nested})

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(record.bytes for record in self.files)

    def is_older_than_files(self, folder: Path) -> bool:
        """True when a file was written to after the manifest."""
        written = (folder / NAME).stat().st_mtime_ns
        return any((folder / record.path).stat().st_mtime_ns > written for record in self.files)

    def verify(self, folder: Path) -> list[str]:
        """Read every byte; gives a sentence for each file that is not what was written. Empty means good."""
        return [found for record in self.files if (found := _wrong_content(folder, record))]

    def read_files(self, folder: Path) -> dict[str, list[str]]:
        """Names of the files that were read, by shard origin."""
        return _read_files(folder / FILES)


@lru_cache(maxsize=4)
def _read_files(path: Path) -> dict[str, list[str]]:
    values: dict[str, list[str]] = plain_json.loads(path.read_bytes())
    return values


def _checksum(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _wrong_size(folder: Path, record: FileRecord) -> str | None:
    try:
        size = (folder / record.path).stat().st_size
    except OSError:
        return f"{record.path} is missing"
    return None if size == record.bytes else f"{record.path} has {size} bytes, not {record.bytes}"


def _wrong_content(folder: Path, record: FileRecord) -> str | None:
    try:
        found = sha256_of(folder / record.path)
    except OSError:
        return f"{record.path} is missing"
    return None if found == record.sha256 else f"{record.path} has another hash than was written"
