"""One line that says what a verb is doing, for a person at a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainwright.cli.output import is_terminal

Progress = Callable[[str, int, int | None], None]


@contextmanager
def working(first: str) -> Iterator[Progress]:
    """A progress callback with a spinner on standard error; silence where nobody watches."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    _hush_transformers()
    if not is_terminal():
        yield lambda what, done, total: None
        return
    from rich.console import Console

    with Console(stderr=True).status(first) as status:

        def show(what: str, done: int, total: int | None) -> None:
            status.update(f"{what} {done:,}/{total:,}" if total else what)

        yield show


def _hush_transformers() -> None:
    """Its bars for loading weights would be the only thing that some verbs print."""
    try:
        from transformers.utils import logging
    except ImportError:
        return
    logging.disable_progress_bar()
