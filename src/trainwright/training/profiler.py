"""Profile some steps with torch's profiler: one Chrome trace of rank 0 in the run's folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from trainwright.errors import InputError, Problem


def parse_steps(text: str) -> range:
    """``10..12`` is steps 10, 11 and 12 (1-based). Anything else is an InputError that shows the form."""
    match = re.fullmatch(r"(\d+)\.\.(\d+)", text.strip())
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(
            [Problem("--profile", what=f"{text!r} is no range of steps", instead="write for example 10..12")]
        )
    return range(int(match[1]), int(match[2]) + 1)


class Profiler:
    """Switched on before the first and off after the last step of ``steps``; does nothing when that is None."""

    def __init__(self, steps: range | None, folder: Path, device_type: str):
        self._steps, self._folder, self._device_type = steps, folder, device_type
        self._profile: Any = None  # torch.profiler.profile

    def before(self, step: int) -> None:
        """Called before step ``step`` (1-based)."""
        if self._steps is None or step != self._steps.start:
            return
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self._device_type == "cuda" else [])
        self._profile = profile(activities=activities, record_shapes=True, profile_memory=True)
        self._profile.start()

    def after(self, step: int) -> None:
        """Called after step ``step``; writes the trace when it was the last one asked for."""
        if self._profile is not None and self._steps is not None and step == self._steps.stop - 1:
            self.close()

    def close(self) -> None:
        """Write what was recorded, also when the run ended early."""
        if self._profile is None:
            return
        profile, self._profile = self._profile, None
        profile.stop()
        assert self._steps is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        profile.export_chrome_trace(str(self._folder / f"steps-{self._steps.start}-{self._steps.stop - 1}.json"))
