"""Show a bundle: as text for people, as a difference from what is on disk; and read ``--versions``."""

from __future__ import annotations

import difflib
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.targets.bundle import Bundle


def listing(bundle: Bundle, folder: Path | None) -> str:
    """Every native file in full, or only the names once they are on disk."""
    if folder is not None:
        lines = [f"{folder / file.path}" for file in bundle.files]
        return "\n".join([*lines, f"next: trainwright submit {folder}"])
    parts = [f"# ---- {file.path}\n{file.text.rstrip()}" for file in bundle.files]
    return "\n\n".join([*parts, f"# run {bundle.run_id} on {bundle.target}: {' '.join(bundle.command)}"])


def difference(bundle: Bundle, folder: Path) -> str:
    """Unified diff from the files in a folder to the bundle; empty when they are equal."""
    parts: list[str] = []
    for file in bundle.files:
        path = folder / file.path
        try:
            before = path.read_text().splitlines(keepends=True) if path.is_file() else []
        except UnicodeDecodeError:
            raise InputError([Problem(str(path), what="is not text in UTF-8")]) from None
        after = file.text.splitlines(keepends=True)
        parts += difflib.unified_diff(before, after, str(path), f"rendered/{file.path}")
    return "".join(parts).rstrip("\n")


def parse_versions(text: str | None) -> dict[str, str]:
    """Read ``kubernetes=1.33,jobset=0.11``."""
    versions: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, equals, version = part.partition("=")
        if not equals or not name.strip() or not version.strip():
            instead = "write for example --versions kubernetes=1.33,jobset=0.11"
            raise InputError([Problem(f"--versions {text}", what=f"{part!r} is no version", instead=instead)])
        versions[name.strip()] = version.strip()
    return versions
