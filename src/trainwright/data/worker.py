"""What a tokenising process runs: settings and tasks come in on stdin, results go out on stdout, both pickled.

Started by ``pool.py`` alone; both ends are the same program. It ends when its stdin does.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback

from trainwright.data.encode import Encoder
from trainwright.data.pool import run_task
from trainwright.errors import InputError, TrainwrightError


def main() -> None:
    """Serve tasks until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    results = os.fdopen(os.dup(1), "wb", buffering=1 << 20)
    os.dup2(2, 1)  # whatever a library prints must not land among the results
    source = sys.stdin.buffer
    try:
        encoder = Encoder(pickle.load(source))
        while True:
            task = pickle.load(source)
            try:
                for result in run_task(encoder, task):
                    pickle.dump(result, results, protocol=pickle.HIGHEST_PROTOCOL)
                    results.flush()
            except Exception as error:  # noqa: BLE001 - the parent raises it again, whatever it is
                pickle.dump(_portable(error), results, protocol=pickle.HIGHEST_PROTOCOL)
                results.flush()
    except (EOFError, BrokenPipeError):
        return


def _portable(error: Exception) -> TrainwrightError:
    """An error that can be pickled, with the text of the one that happened."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, TrainwrightError | OSError | ValueError):
        return TrainwrightError(str(error))
    return TrainwrightError(f"a tokenising process failed: {traceback.format_exc()}")


if __name__ == "__main__":
    main()
