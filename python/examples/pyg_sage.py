# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE of PyTorch Geometric on a dataset on disk: the lines with `gn.` replace NeighborLoader's data in memory.

    python python/examples/pyg_sage.py DATASET [EPOCHS]

DATASET is a directory that gneiss_graph.import_nodes or gneiss-data made.
"""
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE

import gneiss_graph as gn


def main(path, epochs):
    torch.manual_seed(1)
    data = gn.Dataset(path)
    stores, sampler = gn.pyg.stores(data), gn.pyg.Sampler(data, [15, 10], seed=1)

    def loader(split, shuffle):
        nodes = torch.from_numpy(np.flatnonzero(data.split == split))
        return NodeLoader(stores, sampler, input_nodes=nodes, batch_size=1024, shuffle=shuffle)

    def predictions(batch):
        scores = model(batch.x, batch.edge_index, num_sampled_nodes_per_hop=batch.num_sampled_nodes,
                       num_sampled_edges_per_hop=batch.num_sampled_edges)
        return scores[:batch.batch_size], batch.y[:batch.batch_size]

    model = GraphSAGE(data.num_features, 64, 2, data.classes, dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for batch in loader(0, True):
            optimizer.zero_grad()
            loss = F.cross_entropy(*predictions(batch))
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    model.eval()
    right = count = 0
    with torch.no_grad():
        for batch in loader(2, False):
            scores, labels = predictions(batch)
            right += int((scores.argmax(1) == labels).sum())
            count += len(labels)
    print(f"accuracy {right / count:.4f} of {count} test nodes")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10)
