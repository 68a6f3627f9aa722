# SPDX-License-Identifier: Apache-2.0
"""Checks the installed package, for scripts/wheel --check.

    python check_wheel.py [MODULE…]     imports these modules first, in this order, such as torch gneiss_graph
"""
import contextlib
import importlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

begin = time.perf_counter()
for name in sys.argv[1:]:
    importlib.import_module(name)
import gneiss_graph as gn
import numpy as np

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def first_example():
    """Runs the first example of README.md in Python, in this directory, and returns its names."""
    with open("likes.tsv", "w", encoding="utf-8") as file:
        for node in range(300):
            for relation, step in (("likes", 1), ("knows", 7), ("near", 31)):
                file.write(f"{'ann' if node == 0 else f'n{node}'}\t{relation}\tn{(node + step) % 299 + 1}\n")
    names, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        exec(re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)[1], names)
    return names


def check():
    others = {"pyarrow", "torch"} & set(sys.modules) - set(sys.argv)
    assert not others, f"the import loads {others}"
    assert "site-packages" in gn.__file__, gn.__file__
    if sys.version_info >= (3, 12): # such a wheel is for all later versions, too
        assert gn._core.__file__.endswith(".abi3.so"), gn._core.__file__
    run = first_example()["run"]
    seconds = time.perf_counter() - begin
    assert run.metrics["test"]["mrr"] > 0.02, run.metrics # by chance

    data = gn.import_nodes(np.array([[0, 1], [1, 2], [2, 0]]), features=np.eye(3, dtype=np.float32),
                           labels=np.array([0, 1, 0]), out="nodes", quiet=True)
    sample = gn.Sampler(data, [2], seed=1)([0])
    assert (gn.Features(data, memory="4MiB").gather(sample.nodes) == data.features[sample.nodes]).all()
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        assert (torch.ones(64, 64) @ torch.ones(64, 64) == 64).all()

    # The programs are beside the interpreter, and open what the functions made.
    for name in ("armada", "data", "ginex", "hanoi", "joestar", "marius", "mariusgnn"):
        path = shutil.which(f"gneiss-{name}", path=os.path.dirname(sys.executable))
        assert path, f"there is no gneiss-{name}"
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        assert said.startswith(f"gneiss-{name} {gn.__version__}"), said
    subprocess.run([path.replace("mariusgnn", "marius"), "predict", run.path, "--head", "ann", "--relation", "likes"],
                   stdout=subprocess.DEVNULL, check=True)
    print(f"gneiss_graph {gn.__version__} with Python {sys.version.split()[0]}, NumPy {np.__version__}"
          f"{', after ' + ' and '.join(sys.argv[1:]) if sys.argv[1:] else ''}: the first metric after {seconds:.1f} s")


with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    try:
        check()
    finally:
        os.chdir("/")
