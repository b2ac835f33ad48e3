"""Watch what NCCL logs of its network, so that a run that silently fell back to TCP ends early instead of crawling.

Takes the environment and the run's log folder; gives variables for the ranks and, later, a sentence. It runs only
where a target has said that the machine has EFA.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from trainwright.runs.fabric import NETWORK_VARIABLE, network_of, slow

_MOST_BYTES = 1 << 20  # NCCL decides among its first lines


class NetworkCheck:
    """The ranks of this node. Nothing is done unless ``TRAINWRIGHT_NETWORK`` is ``efa`` and NCCL's log is ours."""

    def __init__(self, folder: Path, environment: Mapping[str, str]):
        own = any(name in environment for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE"))
        self.active = environment.get(NETWORK_VARIABLE) == "efa" and not own
        self._folder = folder
        self._known: set[Path] = set()
        self.told = ""  # the sentence, once there is one

    def variables(self) -> dict[str, str]:
        """What the ranks need. NCCL fills in host and process; the file is no ``.log``: it is not a rank's output."""
        if not self.active:
            return {}
        return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(self._folder / "nccl-%h-%p.txt")}

    def look(self) -> str:
        """A sentence once a rank of this node is known not to use EFA; empty before that, and when it does."""
        if not self.active or self.told:
            return self.told
        for path in self._folder.glob(f"nccl-{socket.gethostname().partition('.')[0]}[-.]*.txt"):
            if path in self._known:
                continue
            try:
                with path.open("rb") as handle:
                    text = handle.read(_MOST_BYTES).decode(errors="replace")
            except OSError:
                continue
            whole = text[: text.rfind("\n") + 1]
            network = network_of(whole.splitlines())
            if network is not None:
                self._known.add(path)
                self.told = self.told or slow(network)
        return self.told
