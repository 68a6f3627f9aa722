# SPDX-License-Identifier: Apache-2.0
"""Drains gneiss_graph.torch.Loader without a model, and the same batches by two threads of C++, in turns.

    python python/bench/loader.py --drain build/…/gneiss_python_drain [--directory DIR] [--nodes N] [--edges N]

Prints batches a second of both, from disk and with a cache of all features, and what a second thread gains. Needs the
package gneiss_graph and PyTorch; `cmake --build` with the target gneiss_python_drain makes the program. Each run is a
process of its own, whose first epoch does not count.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

SUPERBATCH, AHEAD, SEED = 8, 2, 3
PYTHON = """
import json, sys, time
import gneiss_graph as gn
path, fanout, batch, superbatch, ahead, seed, threads, memory, epochs = sys.argv[1:]
loader = gn.torch.Loader(path, fanout, int(batch), superbatch=int(superbatch), ahead=int(ahead), seed=int(seed),
                         threads=int(threads), memory=memory)
print(json.dumps({"capacity": loader.features.capacity, "graph": loader.sampler.graph_bytes}))
for epoch in range(int(epochs)):
    begin, nodes, first = time.perf_counter(), 0, 0.0
    for made in loader:
        nodes += len(made.nodes)
        first += float(made.features[0, 0])
    print(json.dumps({"epoch": epoch, "seconds": time.perf_counter() - begin, "nodes": nodes, "sum": first}))
"""


def lines(command):
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def make(path, flags):
    import gneiss_graph as gn
    import numpy as np
    random = np.random.default_rng(1)
    ends = (flags.nodes * random.random((flags.edges, 2)) ** 2).astype(np.int64) # some nodes have more neighbors
    split = np.full(flags.nodes, 3, np.uint8)
    split[random.permutation(flags.nodes)[:flags.batches * flags.batch]] = 0
    features = random.random((flags.nodes, flags.columns), dtype=np.float32)
    gn.import_nodes(ends, features=features, labels=random.integers(0, 8, flags.nodes), split=split, out=path,
                    quiet=True)
    print(f"{flags.nodes:,} nodes, {flags.edges:,} edges, features of {features.nbytes >> 20} MiB; {flags.batches} "
          f"batches of {flags.batch} seeds, fan-out {flags.fanout}; superbatches of {SUPERBATCH}, {AHEAD} ahead")


def measure(path, name, memory, threads, flags):
    """Prints the batches a second of both, in turns, and returns those of the loader."""
    python, cpp, ratios = [], [], []
    for _ in range(flags.rounds):
        common = [path, flags.fanout, flags.batch, SUPERBATCH, AHEAD, SEED, threads]
        first, *epochs = lines([sys.executable, "-c", PYTHON, *common, memory, flags.epochs + 1])
        left = memory - first["graph"]
        others = lines([flags.drain, *common, first["capacity"], left, flags.epochs + 1])
        for one, other in zip(epochs, others, strict=True):
            if one["nodes"] != other["nodes"] or abs(one["sum"] - other["sum"]) > 1e-3 * abs(one["sum"]):
                raise SystemExit(f"the batches differ: {one}, {other}")
        python.append(statistics.median(flags.batches / one["seconds"] for one in epochs[1:]))
        cpp.append(statistics.median(flags.batches / one["seconds"] for one in others[1:]))
        ratios.append(python[-1] / cpp[-1])
    nodes = epochs[-1]["nodes"] // flags.batches
    print(f"{name}, {threads} threads: loader {statistics.median(python):.2f} batches/s ({min(python):.2f} to "
          f"{max(python):.2f}), C++ {statistics.median(cpp):.2f} ({min(cpp):.2f} to {max(cpp):.2f}); ratio "
          f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); {nodes:,} nodes a batch, a cache "
          f"of {first['capacity']:,} rows", flush=True)
    return statistics.median(python)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drain", type=pathlib.Path, required=True, help="the program gneiss_python_drain")
    parser.add_argument("--nodes", type=int, default=400_000)
    parser.add_argument("--edges", type=int, default=8_000_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--batches", type=int, default=64, help="of an epoch")
    parser.add_argument("--fanout", default="10,5")
    parser.add_argument("--epochs", type=int, default=2, help="timed in each process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=pathlib.Path, help="for the dataset (default: TMPDIR)")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=flags.directory) as directory:
        path = pathlib.Path(directory) / "data"
        make(path, flags)
        graph = 4 * flags.edges + 8 * flags.nodes
        bytes_of_features = 4 * flags.columns * flags.nodes
        memories = {"from disk": graph + bytes_of_features // 3, "all cached": graph + 2 * bytes_of_features}
        for name, memory in memories.items():
            two, one = (measure(path, name, memory, threads, flags) for threads in (2, 1))
            print(f"{name}: a second thread gives {two / one:.2f} times the batches/s")


if __name__ == "__main__":
    main()
