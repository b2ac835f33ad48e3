"""Add to a container runtime's default spec what lets containers run this very Python: ``runtime_spec.py <SPEC``.

Its environment, its installation and folders of sources that it imports from are mounted read-only where they are.
So pods run what a test runs, without an image to build and with no change to the objects under test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    spec = json.load(sys.stdin)
    spec["process"]["rlimits"] = []  # the default asks for more than a restricted root may give
    spec["mounts"] += [
        {"destination": folder, "source": folder, "type": "bind", "options": ["rbind", "ro"]} for folder in folders()
    ]
    json.dump(spec, sys.stdout)


def folders() -> list[str]:
    """What Python reads, none of it inside another. Debian's own Python is in the image instead."""
    found: list[Path] = []
    for name in (sys.prefix, sys.base_prefix, *sys.path):
        folder = Path(name).resolve()
        inside = folder == Path("/usr") or any(folder.is_relative_to(other) for other in (*found, Path("/usr/lib")))
        if folder.is_dir() and not inside:
            found.append(folder)
    return [str(folder) for folder in found]


if __name__ == "__main__":
    main()
