"""Compares gneiss with NumPy, SciPy, scikit-learn, PyTorch, PyG and OGB, and runs the page "Use the results".

usage: run.py PROGRAMS [CHECK...]    PROGRAMS: the folder of gneiss's programs and of oracle_driver
"""

import importlib
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import oracle

all_checks = ["formats", "ranks", "metrics", "layers", "optimizers", "draws", "results"]


def main() -> int:
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(all_checks):
        print(f"{__doc__}CHECK: {', '.join(all_checks)}", file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore")
    os.environ["OMP_NUM_THREADS"] = "1"  # tensors are small: threads would slow them down
    oracle.programs = Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or all_checks:
        start = time.monotonic()
        print(f"-- {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="gneiss-oracle-") as folder:
            oracle.work = Path(folder)
            try:
                importlib.import_module(f"check_{name}").main()
            except Exception:  # the other checks still run
                traceback.print_exc(file=sys.stdout)
                oracle.check(f"{name} ends", False)
        print(f"-- {name}: {time.monotonic() - start:.0f} s", flush=True)
    print(f"\n{oracle.passed} passed, {oracle.failed} failed")
    return 1 if oracle.failed else 0


if __name__ == "__main__":
    sys.exit(main())
