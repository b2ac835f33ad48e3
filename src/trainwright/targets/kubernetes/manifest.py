"""Manifests as plain values with reasons, and their text: YAML with a comment beside each value that needs one.

Takes nested dicts, lists and scalars, some wrapped by ``why``; gives text that reads back to the same values. Pure
and deterministic: keys stay in the order given. It must not know what any field means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"-{0,2}[A-Za-z/][A-Za-z0-9_./-]*|\d+[MGT]i")
_PLAIN_IN_BLOCK = re.compile(r"[A-Za-z/][A-Za-z0-9_./@:-]*[A-Za-z0-9]")  # a colon may end a word within brackets
#: Words that YAML 1.1 or 1.2 reads as something else than text.
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_INDENT = "  "


@dataclass(frozen=True)
class Why:
    """A value and the reason for it."""

    value: Any
    reason: str


def why(value: Any, reason: str) -> Why:
    """``value`` with a comment. A mapping or list carries its comment behind its key."""
    return Why(value, reason)


def plain(value: Any) -> Any:
    """The value without its reasons, all the way down."""
    if isinstance(value, Why):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Only the fields that have a value: what is None is not written."""
    return {key: value for key, value in fields.items() if value is not None}


def documents(objects: Iterable[Mapping[str, Any]], heading: str = "") -> str:
    """One YAML file of several objects, under comment lines."""
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    for index, value in enumerate(objects):
        if index:
            lines.append("---")
        lines += _mapping(value, 0)
    return "\n".join(lines) + "\n"


def _mapping(fields: Mapping[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    for key, value in fields.items():
        lines += _entry(f"{_flow(str(key))}:", value, depth)
    return lines


def _sequence(items: Sequence[Any], depth: int) -> list[str]:
    lines: list[str] = []
    for item in items:
        inner, reason = (item.value, item.reason) if isinstance(item, Why) else (item, "")
        if isinstance(inner, Mapping) and inner:
            first, *rest = _mapping(inner, depth + 1)
            # a comment of the whole item stands on a line of its own, above it
            lines += [f"{_INDENT * depth}# {reason}"] if reason else []
            lines += [f"{_INDENT * depth}- {first[len(_INDENT) * (depth + 1) :]}", *rest]
        else:
            lines += _entry("-", item, depth)
    return lines


def _entry(head: str, value: Any, depth: int) -> list[str]:
    inner, reason = (value.value, value.reason) if isinstance(value, Why) else (value, "")
    start = f"{_INDENT * depth}{head}"
    comment = f"  # {reason}" if reason else ""
    if isinstance(inner, Mapping) and inner:
        return [f"{start}{comment}", *_mapping(inner, depth + 1)]
    if isinstance(inner, list | tuple) and inner:
        if head != "-" and all(isinstance(item, str | int) for item in inner):
            words = (_flow(item) if isinstance(item, str) else _scalar(item) for item in inner)
            flow = f"{start} [{', '.join(words)}]{comment}"
            if len(flow) <= 118:
                return [flow]
        return [f"{start}{comment}", *_sequence(inner, depth + 1)]
    first, *rest = _scalar(inner).split("\n")
    text = f"{start} {first}" if first else start
    # a literal block takes its comment on the line of its indicator
    return [text + comment, *(f"{_INDENT * depth}{line}" if line else line for line in rest)]


def _flow(text: str) -> str:
    """Text on one line: quoted as soon as a reader of YAML could take it, or a part of it, for something else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    code = ord(character)
    if character.isprintable():
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _scalar(value: Any) -> str:
    """A scalar as it stands behind its key; of several lines, the later ones are indented by one step."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and _PLAIN_IN_BLOCK.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if isinstance(value, str):
        return _block(value) if _fits_block(value) else _flow(value)
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    return "{}" if isinstance(value, Mapping) else "[]"


def _fits_block(text: str) -> bool:
    """Whether a literal block gives the text back: no control characters, no blanks or line ends at its borders."""
    lines = text.removesuffix("\n").split("\n")
    visible = all(line.replace("\t", "").isprintable() for line in lines)
    return "\n" in text and visible and bool(lines[0].strip()) and lines[0][0] != " " and bool(lines[-1].strip())


def _block(text: str) -> str:
    lines = text.removesuffix("\n").split("\n")
    return "\n".join(
        ["|" if text.endswith("\n") else "|-", *(f"{_INDENT}{line}" if line else line for line in lines)]
    )
