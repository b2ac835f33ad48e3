"""One rank of the built-in trainer: ``python -m trainwright.training.worker``, started by ``launch``.

Reads the run's folder and attempt from the environment, trains, reports how it ended as an event and as an exit code.
No exception leaves without having been told.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import sys
import traceback
from pathlib import Path

from trainwright.errors import SystemUnreachable, TrainwrightError
from trainwright.runs.events import EventLog
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.folder import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, RunFolder
from trainwright.training.whereabouts import FOLDER_VARIABLE, Whereabouts, stack_file

PROFILE_VARIABLE = "TRAINWRIGHT_PROFILE"
CRASH = 70  # neither the user's error nor a wish to resume: start again
_NETWORK = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused")
_NCCL = ("NCCL",)
#: What a device says of itself. An assertion that failed on it is the program's error, and memory has its own class.
_DEVICE = ("CUDA error", "CUDA driver error", "cuDNN error", "CUBLAS_STATUS_", "CUSOLVER_STATUS_", "NRT_", "nrt_")
_NOT_THE_DEVICE = ("device-side assert", "invalid device ordinal", "no kernel image", "invalid argument")
#: Storage that is full, gone or sick: the same steps may well go on elsewhere or later.
_STORAGE = frozenset(
    {errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT, errno.ETIMEDOUT, errno.ENOTCONN, errno.EREMOTEIO}
)
_MEMORY = ("can't allocate memory", "out of memory")
_HUNG = ("Timed out waiting", "Timed out after", "Watchdog caught collective operation timeout")


def main() -> int:
    """Train; gives the exit code."""
    run = RunFolder(Path(os.environ[RUN_DIR_VARIABLE]))
    attempt, rank = int(os.environ.get(ATTEMPT_VARIABLE, "1")), int(os.environ.get("RANK", "0"))
    events = run.event_log(attempt, rank)
    # Bars that redraw themselves are no lines of a log.
    for quiet in ("HF_HUB_DISABLE_PROGRESS_BARS", "TQDM_DISABLE"):
        os.environ.setdefault(quiet, "1")
    from trainwright.training.signals import StopRequest

    stop = StopRequest()
    stop.install()
    answer_with_stack(rank)
    try:
        return _train(run, attempt, stop, Whereabouts.of_rank(rank))
    except Exception as error:  # noqa: BLE001 - the last line of defence of a rank
        return report(error, events, asked_to_stop=bool(stop))


def answer_with_stack(rank: int) -> None:
    """On SIGUSR2, write this process's Python stacks where the launcher looks for them, whatever it waits for."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        stream = stack_file(Path(folder), rank).open("w")  # stays open: a signal handler can open nothing
        faulthandler.register(signal.SIGUSR2, stream)


def report(error: Exception, events: EventLog, *, asked_to_stop: bool = False) -> int:
    """Tell an error to the log and as a ``failed`` event; gives the exit code that says whether to try again."""
    code, kind = classify(error)
    sentence = isinstance(error, TrainwrightError) or code == TrainExit.NON_FINITE
    if sentence:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201 - a rank's log is its standard error
    else:
        traceback.print_exception(error)
    text = str(error) if sentence else f"{type(error).__name__}: {error}"
    events.write("failed", **{"class": kind}, code=code, exception=" ".join(text.split())[:2000], line=where(error))
    if asked_to_stop and kind == "network":
        # The others are leaving on the same signal: an ended connection is how that looks from here.
        return TrainExit.RESUME_ME
    return code


def classify(error: BaseException) -> tuple[int, str]:
    """(exit code, class) of an exception. Classes are those of ``runs.state.ReasonClass``, and ``non-finite``."""
    import torch

    from trainwright.checkpoints.failures import CheckpointFailed
    from trainwright.training.guard import NonFinite

    text = str(error)
    if isinstance(error, NonFinite):
        return TrainExit.NON_FINITE, "non-finite"
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in text for words in _MEMORY):
        return TrainExit.USER_ERROR, "oom"
    if any(words in text for words in _HUNG):
        return TrainExit.HUNG_COLLECTIVE, "network"
    if isinstance(error, CheckpointFailed):
        return CRASH, "volume"
    if isinstance(error, torch.distributed.DistError | SystemUnreachable):
        return CRASH, "network"
    if isinstance(error, OSError):
        # A connection that ended is an OSError too.
        if any(words in text for words in _NETWORK):
            return CRASH, "network"
        return (CRASH, "volume") if error.errno in _STORAGE else (TrainExit.USER_ERROR, "user-error")
    if isinstance(error, RuntimeError):
        if any(words in text for words in (*_NETWORK, *_NCCL)):
            return CRASH, "network"
        if any(words in text for words in _DEVICE) and not any(words in text for words in _NOT_THE_DEVICE):
            return CRASH, "hardware"
    return TrainExit.USER_ERROR, "user-error"


def where(error: BaseException) -> str:
    """``file:line`` of the innermost frame outside of installed packages, or of the innermost one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename and not frame.filename.startswith("<")]
    found = own or list(frames)
    return f"{found[-1].filename}:{found[-1].lineno}" if found else ""


def _train(run: RunFolder, attempt: int, stop: object, place: Whereabouts) -> int:
    import torch
    import torch.distributed as dist

    from trainwright.training.profiler import parse_steps
    from trainwright.training.signals import StopRequest
    from trainwright.training.trainer import train

    assert isinstance(stop, StopRequest)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    profile = os.environ.get(PROFILE_VARIABLE)
    code = train(run, attempt, stop, parse_steps(profile) if profile else None, place)
    place.at("leave")
    # Nobody leaves before all have saved: the launcher ends the others as soon as one is gone with a code.
    dist.barrier()
    dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
