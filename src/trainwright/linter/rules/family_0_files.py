"""Rules TW0xx: files that cannot be read as they are."""

from __future__ import annotations

FILES: dict[str, str] = {
    "TW001": "TW001_unreadable:Unreadable",
    "TW002": "TW002_too_large:TooLarge",
    "TW004": "TW004_duplicate_key:DuplicateKey",
}
