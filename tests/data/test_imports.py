from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["prepare", "objectives", "prepared", "worker"])
def test_no_module_of_the_room_loads_torch_or_transformers(module: str) -> None:
    """A tokenising process that loads torch takes seconds to start and a gigabyte of memory."""
    script = f"import sys, trainwright.data.{module}; print({{'torch', 'transformers'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
