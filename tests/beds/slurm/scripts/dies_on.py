"""Is killed on one node and works on every other."""

from __future__ import annotations

import os
import signal
import sys

print(f"on {os.uname().nodename}", flush=True)
if os.uname().nodename == sys.argv[1]:
    os.kill(os.getpid(), signal.SIGKILL)
