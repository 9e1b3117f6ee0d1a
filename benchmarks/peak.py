"""Peak memory of one job of one benchmark, in this process: ``peak.py <module> <job>``; see `harness.peak_of`."""

from __future__ import annotations

import importlib
import json
import sys

from harness import peak_beyond

if __name__ == "__main__":
    module, job = sys.argv[1:]
    print(json.dumps({"peak": peak_beyond(importlib.import_module(module).JOBS[job]())}))
