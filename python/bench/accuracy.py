# SPDX-License-Identifier: Apache-2.0
"""Test accuracy of GraphSAGE by PyG in memory, and by the same loop over gneiss_graph.pyg, of paired seeds.

    python python/bench/accuracy.py FOLDER… [--seeds N] [--epochs N]

FOLDER has edges.npy [edges, 2], each undirected pair once, features.npy [nodes, columns], labels.npy [nodes] and
split.npy [nodes] (0 train, 1 valid, 2 test). Rows of features are scaled to length 1: without that, some seeds learn
nothing for 20 epochs. Both sides train the model of python/examples/pyg_sage.py from the same weights: PyG's
NeighborLoader of a Data in memory, which needs pyg-lib or torch-sparse, and its NodeLoader over gneiss_graph.pyg.stores.
The accuracy is that of the test nodes after the epoch with the best validation accuracy. Prints each pair, and the mean
difference with its 95 % interval. Needs gneiss_graph, PyTorch and PyG.
"""
import argparse
import pathlib
import statistics
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader, NodeLoader
from torch_geometric.nn import GraphSAGE

import gneiss_graph as gn

FANOUT, BATCH, HIDDEN = [15, 10], 1024, 64
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 10: 2.26} # of the 95 % interval, by the number of pairs


def by_pyg(folder, features, nodes):
    """Returns a function that makes PyG's loader of a split: features and edges in memory."""
    pairs = torch.from_numpy(np.load(folder / "edges.npy").astype(np.int64).T)
    graph = Data(x=torch.from_numpy(features), y=torch.from_numpy(np.load(folder / "labels.npy").astype(np.int64)),
                 edge_index=torch.cat([pairs, pairs.flip(0)], 1).contiguous())
    return lambda split, epoch: NeighborLoader(graph, FANOUT, input_nodes=nodes[split], batch_size=BATCH,
                                               shuffle=split == 0)


def by_gneiss(data, nodes, seed):
    """Returns a function that makes PyG's loader of a split: features and edges of a dataset on disk."""
    rows = [torch.tensor([data.names.index(str(int(node))) for node in part]) for part in nodes]
    stores, sampler = gn.pyg.stores(data), gn.pyg.Sampler(data, FANOUT, seed=seed)

    def loader(split, epoch):
        sampler.set_epoch(epoch)
        return NodeLoader(stores, sampler, input_nodes=rows[split], batch_size=BATCH, shuffle=split == 0)

    return loader


def accuracy_of(loader, columns, classes, seed, epochs):
    """Trains a model and returns its test accuracy, in percent."""
    torch.manual_seed(seed)
    model = GraphSAGE(columns, HIDDEN, 2, classes, dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def predictions(batch):
        return model(batch.x, batch.edge_index)[:batch.batch_size], batch.y[:batch.batch_size]

    def right(split, epoch):
        model.eval()
        with torch.no_grad():
            found = [(scores.argmax(1) == labels) for scores, labels in map(predictions, loader(split, epoch))]
        return 100 * torch.cat(found).double().mean().item()

    best = (-1.0, 0.0)
    for epoch in range(epochs):
        model.train()
        for batch in loader(0, epoch):
            optimizer.zero_grad()
            F.cross_entropy(*predictions(batch)).backward()
            optimizer.step()
        valid = right(1, epoch)
        if valid > best[0]:
            best = (valid, right(2, epoch))
    return best[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=pathlib.Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=5, choices=STUDENT)
    parser.add_argument("--epochs", type=int, default=10)
    flags = parser.parse_args()
    for folder in flags.folders:
        split, labels = np.load(folder / "split.npy"), np.load(folder / "labels.npy")
        nodes = [torch.from_numpy(np.flatnonzero(split == part)) for part in range(3)]
        features = np.load(folder / "features.npy").astype(np.float32)
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
        with tempfile.TemporaryDirectory() as directory:
            data = gn.import_nodes(folder / "edges.npy", features=features, labels=folder / "labels.npy",
                                   split=folder / "split.npy", undirected=True, out=pathlib.Path(directory) / "data",
                                   quiet=True)
            pyg_loader, differences = by_pyg(folder, features, nodes), []
            for seed in range(1, flags.seeds + 1):
                pyg, ours = (accuracy_of(loader, data.num_features, int(labels.max()) + 1, seed, flags.epochs)
                             for loader in (pyg_loader, by_gneiss(data, nodes, seed)))
                differences.append(ours - pyg)
                print(f"{folder.name}, seed {seed}: PyG {pyg:.2f}, gneiss {ours:.2f}", flush=True)
        half = STUDENT[flags.seeds] * statistics.stdev(differences) / flags.seeds ** 0.5
        print(f"{folder.name}: gneiss minus PyG {statistics.mean(differences):+.2f} ± {half:.2f} points", flush=True)


if __name__ == "__main__":
    main()
