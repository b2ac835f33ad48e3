"""Rows → what there is to learn in them: plain text, a prompt with its completion, or a conversation.

Takes a mapping as a reader found it; gives a Content or says in one sentence why the row is bad.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from trainwright.errors import did_you_mean

_KEY_BYTES = 16


class RowError(Exception):
    """Why a row is bad, in one sentence."""


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text. A part of a longer one says whether it starts and ends it."""

    text: str
    first: bool = True
    last: bool = True


@dataclass(frozen=True, slots=True)
class Completion:
    """A prompt, and the completion that is to be learnt."""

    prompt: str
    completion: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages with ``role`` and ``content``; the assistant's are to be learnt."""

    messages: list[Mapping[str, Any]]
    tools: list[Any] | None = None


Content: TypeAlias = Text | Completion | Conversation


def content(row: object, field: str | None = None) -> Content:
    """What is to be learnt in a row. Raises RowError."""
    if not isinstance(row, Mapping):
        raise RowError(f"is a JSON {_kind(row)}, not an object with text, prompt and completion, or messages")
    if field is not None:
        if field not in row:
            raise RowError(f"has no field {field}; {did_you_mean(field, row)}")
        value = row[field]
        return _conversation(value, row) if isinstance(value, list) else Text(_string(value, field))
    if "text" in row:
        return Text(_string(row["text"], "text"))
    if "prompt" in row and "completion" in row:
        return Completion(_string(row["prompt"], "prompt", empty=True), _string(row["completion"], "completion"))
    if "messages" in row:
        return _conversation(row["messages"], row)
    fields = ", ".join(map(str, row)) or "no fields"
    raise RowError(f"has {fields}; text, prompt and completion, or messages is needed, or data.sources.field")


def key(value: Content) -> bytes:
    """16 bytes that are equal for equal content alone: for duplicates and for the split."""
    if isinstance(value, Text):
        parts = ["text", value.text]
    elif isinstance(value, Completion):
        parts = ["completion", value.prompt, value.completion]
    else:
        parts = ["messages", json.dumps([value.messages, value.tools], sort_keys=True, default=str)]
    whole = hashlib.blake2b(digest_size=_KEY_BYTES)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        whole.update(len(encoded).to_bytes(8, "little") + encoded)
    return whole.digest()


def _string(value: object, name: str, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise RowError(f"field {name} is a {_kind(value)}, not a text")
    if not value and not empty:
        raise RowError(f"field {name} is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RowError(f"field {name} holds half of a surrogate pair at character {error.start}") from None
    return value


def _conversation(value: object, row: Mapping[str, Any]) -> Conversation:
    if not isinstance(value, list) or not value:
        raise RowError("messages is no list of messages, or an empty one")
    for number, message in enumerate(value, 1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RowError(f"message {number} is no object with role and content")
        if message.get("content") is not None and not isinstance(message["content"], str | list):
            raise RowError(f"message {number}: content is a {_kind(message['content'])}, not a text")
    if not any(message["role"] == "assistant" for message in value):
        raise RowError("has no assistant turn, so there is nothing to learn")
    tools = row.get("tools")
    return Conversation(value, tools if isinstance(tools, list) and tools else None)


def _kind(value: object) -> str:
    """The JSON name of a value's type."""
    names = {dict: "object", list: "list", str: "text", bool: "boolean", int: "number", float: "number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
