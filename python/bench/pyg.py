# SPDX-License-Identifier: Apache-2.0
"""Batches a second of PyG's loaders in a memory cgroup of a quarter of features and graph.

    python python/bench/pyg.py [--limit MIB] [--times N] [--memory MIB] [--directory DIR] [--only NAME…]

Runs each by scripts/capped (root), in a process of its own, one after the other:

    memory           features and edges of a PyG Data in memory
    memmap           PyG's NodeLoader over np.memmap of the features, with the readahead of the disk
    memmap-random    the same with MADV_RANDOM, so that a row costs a page
    loader           gneiss_graph.torch.Loader
    stores           PyG's NodeLoader over gneiss_graph.pyg.stores
    …+model          the same with steps of GraphSAGE
    ginex            gneiss-ginex, with the model and the batches of these

memmap draws by gneiss_graph.pyg.Sampler as stores does, so that features alone make the difference: PyG without pyg-lib
samples by torch-sparse, which is slower. Needs gneiss_graph, PyTorch and PyG.
"""
import argparse
import json
import mmap
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS, DEGREE, CLASSES, HIDDEN = 128, 8, 16, 64
FANOUT, BATCH = [10, 5], 500


def make(at, size):
    """Writes features and edges of `size` bytes, each edge in 8, as arrays and as a dataset."""
    import gneiss_graph as gn
    nodes = size // (4 * COLUMNS + 8 * DEGREE)
    random = np.random.default_rng(1)
    features = np.lib.format.open_memmap(at / "features.npy", "w+", np.float32, (nodes, COLUMNS))
    for first in range(0, nodes, 1 << 18):
        block = features[first:first + (1 << 18)]
        block[:] = random.random(block.shape, dtype=np.float32)
    features.flush()
    del features, block
    edges = np.empty((nodes * DEGREE, 2), np.int64)
    edges[:, 0] = nodes * random.random(len(edges), dtype=np.float32).astype(np.float64) ** 2 # some have more neighbors
    edges[:, 1] = np.repeat(np.arange(nodes), DEGREE)
    np.save(at / "edges.npy", edges)
    np.save(at / "labels.npy", random.integers(0, CLASSES, nodes))
    split = np.full(nodes, 3, np.uint8)
    split[random.permutation(nodes)[:100 * BATCH]] = 0
    np.save(at / "split.npy", split)
    gn.import_nodes(at / "edges.npy", features=at / "features.npy", labels=at / "labels.npy", split=at / "split.npy",
                    partitions=8, out=at / "data", memory="6GiB", quiet=True)
    print(f"{nodes:,} nodes, {nodes * DEGREE:,} edges, {COLUMNS} features: {size >> 20} MiB; batches of {BATCH} seeds, "
          f"fan-out {FANOUT}", flush=True)


def drained(loader, batches, step=None):
    """Prints the batches a second, those before the third aside."""
    rows, begin = 0, time.perf_counter()
    for number, batch in enumerate(loader):
        rows += len(batch.nodes if hasattr(batch, "layers") else batch.x)
        if step is not None:
            step(batch)
        if number == 1:
            begin = time.perf_counter()
        if number + 1 == batches:
            break
    print(json.dumps({"batches_per_second": (batches - 2) / (time.perf_counter() - begin), "rows": rows // batches}),
          flush=True)


def training_step():
    import torch
    from torch_geometric.nn import GraphSAGE
    torch.manual_seed(1)
    model = GraphSAGE(COLUMNS, HIDDEN, 2, CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(batch):
        optimizer.zero_grad()
        scores = model(batch.x, batch.edge_index, num_sampled_nodes_per_hop=batch.num_sampled_nodes,
                       num_sampled_edges_per_hop=batch.num_sampled_edges)[:batch.batch_size]
        torch.nn.functional.cross_entropy(scores, batch.y[:batch.batch_size]).backward()
        optimizer.step()

    return step


def mapped_stores(data, random):
    import torch
    import gneiss_graph as gn
    features = data.features
    if random:
        features._mmap.madvise(mmap.MADV_RANDOM)

    class Mapped(gn.pyg.FeatureStore):
        """Features by np.memmap."""

        def _get_tensor(self, attr):
            if attr.attr_name == "x":
                return torch.from_numpy(features[attr.index.numpy()])
            return super()._get_tensor(attr)

    return Mapped(data, cache="none", memory="2MiB"), gn.pyg.GraphStore(data)


def run(name, at, batches, memory):
    import torch
    import gneiss_graph as gn
    kind, _, model = name.partition("+")
    if kind == "memory":
        from torch_geometric.data import Data
        data = Data(x=torch.from_numpy(np.load(at / "features.npy")),
                    edge_index=torch.from_numpy(np.load(at / "edges.npy").T.copy()))
        return print(json.dumps({"nodes": data.num_nodes}))
    data = gn.Dataset(at / "data")
    if kind == "loader":
        return drained(gn.torch.Loader(data, FANOUT, BATCH, seed=1, memory=memory, superbatch=16), batches)
    from torch_geometric.loader import NodeLoader
    sampler = gn.pyg.Sampler(data, FANOUT, seed=1)
    graph = 4 * data.edges + 8 * data.nodes
    stores = (mapped_stores(data, kind == "memmap-random") if kind.startswith("memmap") else
              gn.pyg.stores(data, memory=memory - graph))
    train = torch.from_numpy(np.flatnonzero(data.split == 0))
    torch.manual_seed(1)
    return drained(NodeLoader(stores, sampler, input_nodes=train, batch_size=BATCH, shuffle=True), batches,
                   training_step() if model else None)


NAMES = ("memory", "memmap-random", "loader", "stores", "memmap-random+model", "stores+model", "ginex", "memmap")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=1024, help="of the cgroup [MiB]")
    parser.add_argument("--times", type=float, default=4, help="features and graph, of the limit")
    parser.add_argument("--memory", type=int, default=480, help="of gneiss_graph [MiB]")
    parser.add_argument("--batches", type=int, default=34, help="of each run; two do not count")
    parser.add_argument("--directory", type=pathlib.Path, help="for the files (default: TMPDIR)")
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.run:
        return run(flags.run[0], pathlib.Path(flags.run[1]), flags.batches, flags.memory << 20)
    with tempfile.TemporaryDirectory(dir=flags.directory) as directory:
        at = pathlib.Path(directory)
        make(at, int(flags.times * flags.limit) << 20)
        for name in flags.only:
            command = [sys.executable, __file__, "--run", name, at, "--batches", flags.batches, "--memory",
                       flags.memory]
            if name == "ginex":
                command = [pathlib.Path(sys.executable).parent / "gneiss-ginex", "train", at / "data", "--layers",
                           f"sage:{HIDDEN},sage", "--fanout", "10,5", "--batch", BATCH, "--epochs", 2, "--no-eval",
                           "--memory", f"{flags.limit * 3 // 4}MiB", "--out", at / "run", "--json", "--quiet"]
            subprocess.run(["sync"], check=True)
            log = at / "log.jsonl"
            subprocess.run([str(word) for word in (ROOT / "scripts/capped", "--log", log, "--name", name,
                                                   f"{flags.limit}MiB", *command)],
                           check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            found = json.loads(log.read_text().splitlines()[-1])
            output = found["output"]
            if name == "ginex" and output:
                output = {"batches_per_second": [100 / epoch["seconds"] for epoch in output["epochs"]]}
            print(name, json.dumps({key: found[key] for key in ("exit", "killed", "seconds", "cgroup_peak_bytes",
                                                                "read_bytes")}), output, flush=True)
    return None


if __name__ == "__main__":
    main()
