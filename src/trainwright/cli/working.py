"""One line that says what a verb is doing, for a person at a terminal."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.cli.output import is_terminal
from trainwright.runs.progress import Progress


@contextmanager
def working(first: str) -> Iterator[Progress]:
    """A progress callback with a spinner on standard error; silence where nobody watches."""
    hush()
    if not is_terminal():
        yield lambda what, done, total: None
        return
    from rich.console import Console

    with Console(stderr=True).status(first) as status:

        def show(what: str, done: int, total: int | None) -> None:
            status.update(f"{what} {done:,}/{total:,}" if total else what)

        yield show


def hush() -> None:
    """Keep the libraries' own bars and deprecations out of what a verb prints."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        from transformers.utils import logging
    except ImportError:
        return
    logging.disable_progress_bar()
