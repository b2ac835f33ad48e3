"""Rules TW4xx: memory, shared memory and files of one node."""

from __future__ import annotations

MEMORY: dict[str, str] = {
    "TW401": "TW401_no_shared_memory:NoSharedMemory",
}
