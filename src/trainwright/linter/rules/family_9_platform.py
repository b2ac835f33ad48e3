"""Rules TW9xx: storage, security, Helm and Argo CD."""

from __future__ import annotations

PLATFORM: dict[str, str] = {
    "TW901": "TW901_fsx_size:FsxSize",
}
