"""Variables in ``command`` and ``args`` that nobody will replace: shell notation where no shell runs, and ``$(NAME)``
of a name that the container does not declare.

Takes a Container; gives the names with the words that hold them. Templates that replace ``$NAME`` before Kubernetes
sees it are the rule's concern, not this module's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.shell.chain import SHELLS
from trainwright.linter.shell.words import Word
from trainwright.linter.view.pods import Container

_SHELL = re.compile(r"(?<![\\$])\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_KUBERNETES = re.compile(r"(?<!\$)\$\(([A-Z_][A-Z0-9_]*)\)")


def has_shell(container: Container) -> bool:
    """Whether a shell reads the command: ``sh -c``, or a script that is started by one."""
    if not container.words:
        return True
    for word in container.words:
        name = (word.known or "").rsplit("/", 1)[-1]
        if name in SHELLS or name.endswith(".sh"):
            return True
    return False


def shell_variables(container: Container) -> Iterator[tuple[str, Word]]:
    """``$NAME`` and ``${NAME}`` in a command that no shell reads."""
    if has_shell(container):
        return
    for word in container.words:
        for match in _SHELL.finditer(word.written):
            yield match[1] or match[2], word


def undeclared(container: Container) -> Iterator[tuple[str, Word]]:
    """``$(NAME)`` whose name is not in the container's environment. Names of service links are left out: Kubernetes
    declares them by itself."""
    if container.env_open:
        return
    for word in container.words:
        for match in _KUBERNETES.finditer(word.written):
            if match[1] not in container.env and not re.search(
                r"_(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\w+)?)$", match[1]
            ):
                yield match[1], word
