"""Has the data of a run changed since it was prepared? Answered from file stamps and remembered hashes.

Takes a spec and a run's ``data.json``; gives the sources that differ. Light enough for a command that only reports:
no numpy, no tokenizer, no network (sources in buckets and on the Hub are not looked at).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.data import fingerprints, sources
from trainwright.errors import InputError
from trainwright.spec.model import RunSpec, Source
from trainwright.spec.paths import is_local

_WORKERS = 8
_QUICK_BYTES = 1 << 30  # a larger source that was touched counts as changed, unread


def changed_sources(spec: RunSpec, record: dict[str, Any], cache: Path) -> list[str]:
    """Paths of the local sources whose files are no longer those that ``record`` (of ``data.json``) was made from."""
    told = record.get("sources")
    if spec.data is None or not isinstance(told, list):
        return []
    lists = (("eval_sources", spec.data.eval_sources), ("sources", spec.data.sources))
    listed = [(f"data.{name}.{index}", source) for name, each in lists for index, source in enumerate(each)]
    pairs = zip(listed, told, strict=False)
    return [
        source.path
        for (where, source), known in pairs
        if is_local(source.path) and _differs(source, where, known, cache)
    ]


def _differs(source: Source, where: str, known: Any, cache: Path) -> bool:
    try:
        found = sources.find(source, where, Path(source.path))
        memory = cache / "hashes"
        if found.size > _QUICK_BYTES and not fingerprints.all_remembered(found, memory):
            return True
        hashes = fingerprints.hash_source(found, memory, _WORKERS, lambda _: None)
    except InputError:
        return True  # gone, or not to be read any more
    return isinstance(known, dict) and fingerprints.combined(hashes) != known.get("sha256")
