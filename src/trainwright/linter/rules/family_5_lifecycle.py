"""Rules TW5xx: start, signals, end, restart and checkpoints."""

from __future__ import annotations

LIFECYCLE: dict[str, str] = {
    "TW501": "TW501_sidecar_blocks_completion:SidecarBlocksCompletion",
}
