# SPDX-License-Identifier: Apache-2.0
"""Stores and a sampler for the loaders of PyTorch Geometric: NodeLoader and LinkLoader.

    import gneiss_graph as gn
    loader = NodeLoader(gn.pyg.stores(ds), gn.pyg.Sampler(ds, [15, 10]), batch_size=1024, input_nodes=...)
    loader = LinkLoader(gn.pyg.stores(ds), gn.pyg.Sampler(ds, [15, 10]), edge_label_index=(None, edges), ...)
"""
import hashlib

import numpy as np
import torch
from torch_geometric.data import FeatureStore as PygFeatureStore
from torch_geometric.data import GraphStore as PygGraphStore
from torch_geometric.data import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout
from torch_geometric.sampler import BaseSampler, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample

from ._data import Dataset
from ._features import Features
from ._sample import Sampler as CoreSampler

EDGE_TYPE = ("node", "to", "node") # of a graph with one type of nodes


def stores(dataset, *, cache="lru", memory=None, threads=None):
    """Returns the stores of a dataset, (FeatureStore, GraphStore), for the loaders of PyG.

    A batch gets `x`, the features, and `y`, the labels, of its nodes; both are read from disk when it is made.

    dataset: a Dataset, or its directory.
    cache, memory, threads: of the features, as of gneiss_graph.Features.
    """
    dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    return FeatureStore(dataset, cache=cache, memory=memory, threads=threads), GraphStore(dataset)


class FeatureStore(PygFeatureStore):
    """Features and labels of a dataset, read only."""

    def __init__(self, dataset, **options):
        super().__init__()
        self._dataset = dataset
        self._features = Features(dataset, **options) if dataset.num_features else None
        self._labels = dataset.labels

    def __reduce__(self):
        return _reopened_features, (self._dataset.path, self._features._options if self._features else {})

    def get_all_tensor_attrs(self):
        names = [("x", self._features), ("y", self._labels)]
        return [TensorAttr(None, name, None) for name, source in names if source is not None]

    def _get_tensor(self, attr):
        if attr.attr_name == "y" and self._labels is not None:
            rows = self._labels if attr.index is None else self._labels[_rows(attr.index)]
            return torch.from_numpy(rows.astype(np.int64) if rows.ndim == 1 else np.array(rows))
        if attr.attr_name != "x" or self._features is None:
            return None
        if attr.index is None or isinstance(attr.index, slice):
            raise ValueError("all features at once may exceed memory: Dataset.features is a memory map of them")
        return torch.from_numpy(self._features.gather(_rows(attr.index)))

    def _get_tensor_size(self, attr):
        return (self._dataset.nodes, self._features.columns) if attr.attr_name == "x" else tuple(self._labels.shape)

    def _put_tensor(self, tensor, attr):
        raise TypeError("the features of a dataset are read only: import_nodes makes a dataset of others")

    def _remove_tensor(self, attr):
        raise TypeError("the features of a dataset are read only: import_nodes makes a dataset of others")


def _reopened_features(path, options):
    return FeatureStore(Dataset(path), **options)


def _rows(index):
    return index.cpu().numpy() if isinstance(index, torch.Tensor) else np.asarray(index)


class GraphStore(PygGraphStore):
    """The graph of a dataset, which `Sampler` reads: the store gives out no edges itself."""

    def __init__(self, dataset):
        super().__init__()
        self._dataset = dataset

    def __reduce__(self):
        return _reopened_graph, (self._dataset.path,)

    def get_all_edge_attrs(self):
        size = (self._dataset.nodes, self._dataset.nodes)
        return [EdgeAttr(EDGE_TYPE, EdgeLayout.CSC, size=size)]

    def _get_edge_index(self, edge_attr):
        raise ValueError("all edges at once may exceed memory: gneiss_graph.pyg.Sampler draws from them where they are")

    def _put_edge_index(self, edge_index, edge_attr):
        raise TypeError("the edges of a dataset are read only: import_edges makes a dataset of others")

    def _remove_edge_index(self, edge_attr):
        raise TypeError("the edges of a dataset are read only: import_edges makes a dataset of others")


def _reopened_graph(path):
    return GraphStore(Dataset(path))


class Sampler(BaseSampler):
    """Samples neighbors of a dataset for NodeLoader and LinkLoader, as PyG's NeighborSampler does without pyg-lib.

    Each node of a batch draws once. A draw depends on the seed, the epoch and the seed nodes, so that any worker makes
    the same; call `set_epoch` before each epoch, else equal seed nodes have equal samples.

    dataset: a Dataset, or its directory.
    fanout: neighbors of each hop, the hop of the seeds first; -1 takes all.
    options: direction, seed, replace, memory, threads, as of gneiss_graph.Sampler.
    """

    def __init__(self, dataset, fanout, **options):
        if "kind" in options:
            raise TypeError("kind is dense: PyG draws once for each node of a batch")
        hops = fanout if isinstance(fanout, str) else ["all" if hop == -1 else hop for hop in fanout]
        self._core = CoreSampler(dataset, hops, kind="dense", **options)
        self._epoch = 0

    def set_epoch(self, epoch):
        """Sets the number of the epoch that later samples belong to."""
        self._epoch = epoch

    def sample_from_nodes(self, index, **_):
        if index.time is not None:
            raise ValueError("samples by time are not drawn: leave input_time out")
        out = self._draw(index.node)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index, neg_sampling=None, **_):
        if index.time is not None:
            raise ValueError("samples by time are not drawn: leave edge_label_time out")
        return edge_sample(index, lambda seeds, _: self._draw(seeds), self._core.dataset.nodes, disjoint=False,
                           neg_sampling=neg_sampling)

    def _draw(self, seeds):
        rows = seeds.cpu().numpy().astype(np.int64, copy=False)
        digest = hashlib.blake2b(rows.tobytes(), digest_size=8).digest()
        return _output_of(self._core(rows, self._epoch, int.from_bytes(digest, "little")).arrays)


def _output_of(dense):
    """Returns a DENSE sample in the order of PyG: seeds first, edges by hop.

    DENSE keeps the deltas newest first; each stays as it is, and so do the edges of its nodes.
    """
    starts = dense["node_id_offsets"].astype(np.int64)
    hops, nodes = len(starts) - 2, int(starts[-1])
    ids = dense["node_ids"].astype(np.int64)
    parts = [slice(starts[d], starts[d + 1]) for d in range(hops, -1, -1)] # from the seeds on
    place = np.empty(nodes, np.int64)
    place[np.concatenate([np.arange(nodes)[part] for part in parts])] = np.arange(nodes)
    offsets = dense["nbr_offsets"].astype(np.int64)
    targets = np.repeat(np.arange(starts[1], nodes), np.diff(offsets))
    edges = [slice(offsets[part.start - starts[1]], offsets[part.stop - starts[1]]) for part in parts[:-1]]
    row = np.concatenate([place[dense["repr_map"][part]] for part in edges])
    col = np.concatenate([place[targets[part]] for part in edges])
    return SamplerOutput(node=torch.from_numpy(np.concatenate([ids[part] for part in parts])),
                         row=torch.from_numpy(row), col=torch.from_numpy(col), edge=None,
                         num_sampled_nodes=[int(part.stop - part.start) for part in parts],
                         num_sampled_edges=[int(part.stop - part.start) for part in edges])
