"""What each token of a vocabulary looks like, as one byte a token: all that masking needs to know of a tokenizer.

Takes a tokenizer; gives flags: special, may continue a word, may be continued, ends a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trainwright.data.tokenizer import Tokenizer

Flags: TypeAlias = npt.NDArray[np.uint8]

SPECIAL, JOINS, OPEN, ENDS_SENTENCE, UNUSED = 1, 2, 4, 8, 16
_MARKERS = ("Ġ", "▁", "Ċ", "ĉ")  # a space, as byte-level and SentencePiece vocabularies write it; newline, tab
_ENDS = (".", "!", "?", "…", "。", "！", "？", "\n")
_PARTIAL = "\ufffd"  # part of a character of several bytes


def flags_of(tokenizer: Tokenizer) -> Flags:
    """uint8 [size], a sum of the flags above for each id.

    A word is what a reader would call one: WordPiece says so by ``##``; for the other kinds a token continues a word
    when it has no space in front and letters or digits meet.
    """
    flags: Flags = np.full(tokenizer.record.size, UNUSED, np.uint8)
    special = set(tokenizer.special_texts)
    model = json.loads(tokenizer.backend.to_str())["model"]
    prefix = model.get("continuing_subword_prefix") if model.get("type") == "WordPiece" else None
    decoder = tokenizer.backend.decoder
    decode: Callable[[str], str] = (lambda token: str(decoder.decode([token]))) if decoder else str
    for token, number in tokenizer.backend.get_vocab(with_added_tokens=True).items():
        if token in special:
            flags[number] = SPECIAL
        elif prefix is not None:
            flags[number] = _word_piece(token, prefix)
        else:
            flags[number] = _other(token, decode(token))
    return flags


def read_flags(path: Path) -> Flags:
    """The flags as prepare wrote them."""
    flags: Flags = np.fromfile(path, np.uint8)
    return flags


def _word_piece(token: str, prefix: str) -> int:
    joins = JOINS if token.startswith(prefix) and token != prefix else 0
    return OPEN | joins | _ends(token)


def _other(token: str, text: str) -> int:
    body = text.strip() or text
    joins = JOINS if not token.startswith(_MARKERS) and _in_word(body[:1]) else 0
    return joins | (OPEN if _in_word(body[-1:]) else 0) | _ends(text)


def _in_word(character: str) -> bool:
    return character == _PARTIAL or character.isalnum()


def _ends(text: str) -> int:
    return ENDS_SENTENCE if text.rstrip(" ").endswith(_ENDS) or "\n" in text else 0
