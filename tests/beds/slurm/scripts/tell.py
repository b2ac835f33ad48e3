"""Writes down its arguments and its environment, byte for byte."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

told = {"arguments": sys.argv[1:], "environment": {k: v for k, v in os.environ.items() if k.startswith("HOSTILE_")}}
(Path(os.environ["TRAINWRIGHT_RUN_DIR"]) / "told.json").write_text(json.dumps(told), encoding="utf-8")
