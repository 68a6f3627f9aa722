# SPDX-License-Identifier: Apache-2.0
"""Samples of neighbors."""
from collections import namedtuple

import numpy as np

from . import _core
from ._data import Dataset
from ._flags import word

Layer = namedtuple("Layer", "targets sources first_target offsets neighbors")
Layer.__doc__ = """Input of one layer of a GNN: a bipartite graph from `sources` rows to `targets` rows.

targets, sources: numbers of output and input rows. The input rows of the first layer are the nodes of the sample, those
    of the next layer are the output rows of this one.
first_target: the input row of target 0; targets follow.
offsets: uint32 [targets + 1]; the neighbors of target t are neighbors[offsets[t]:offsets[t + 1]].
neighbors: uint32 [edges] of input rows.
"""


def ids_of(ids, nodes, what, are="the rows of nodes"):
    """Returns ids below `nodes` as uint32 [n], without a copy if they are. Raises TypeError or ValueError for others."""
    array = np.asarray(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise TypeError(f"{what}: {are} are integers [n], not {array.dtype} {list(array.shape)}")
    if array.dtype != np.uint32:
        wrong = (array < 0) | (array >= nodes)
        if wrong.any():
            at = wrong.argmax()
            raise ValueError(f"{what}[{at}] is {array[at]}: {are} are 0 to {nodes - 1}")
        array = array.astype(np.uint32)
    return np.ascontiguousarray(array)


class Sample:
    """A sample of neighbors. Its arrays are views of one block of memory, which lives as long as any of them.

    nodes: uint32 [nodes]: rows of the dataset, each once, whose features are the input of the first layer.
    seeds: number of seeds. Of kind "neighbor" they are the first nodes, of kind "dense" the last.
    edges: number of drawn edges.
    layers: a list of Layer, in the order of computation: the seeds are the targets of the last.
    """

    def __init__(self, core, kind):
        self._core, self.kind = core, kind
        self.nodes, self.seeds, self.edges = core.nodes, core.seeds, core.edges

    def __repr__(self):
        return f"<Sample {self.kind}: {self.seeds:,} seeds, {len(self.nodes):,} nodes, {self.edges:,} edges>"

    @property
    def layers(self):
        return [Layer(*one) for one in self._core.layers()]

    @property
    def arrays(self):
        """The arrays as they are stored, by name: of kind "dense" those of the paper (MariusGNN, section 4)."""
        names = ("node_id_offsets", "node_ids", "nbr_offsets", "nbrs", "repr_map") if self.kind == "dense" else (
            "nodes", "node_counts", "edge_counts", "offsets", "neighbors")
        return dict(zip(names, self._core.arrays()))

    @property
    def xxh3(self):
        """XXH3 of the arrays."""
        return self._core.checksum


def samples_xxh3(samples):
    """Returns the checksum of samples in order: `samples_xxh3` of `gneiss-data sample --json`."""
    return f"{_core.samples_checksum([one.xxh3 for one in samples]):016x}"


class Sampler:
    """A sampler of neighbors in a dataset: `sampler(seeds, epoch, batch)` is a pure function, on any number of threads.

    dataset: a Dataset, or its directory.
    fanout: neighbors of each hop, the hop of the seeds first: [15, 10]; "all" takes all.
    kind: "neighbor" draws for every node at each hop, as DGL does; "dense" draws for each node once a batch, as PyG and
        MariusGNN do.
    direction: of edges to neighbors: "in", "out" or "both".
    seed: of the draws.
    replace: draws with replacement.
    memory: of the lists of neighbors, which are all in memory: bytes, or a text such as "2GiB"; None: what is free.
    threads: of a batch; None: all CPUs.

    It pickles as these arguments: another process opens the dataset again.
    Raises ValueError for a wrong argument, OverBudget, Corrupt, NotFound.
    """

    def __init__(self, dataset, fanout, *, kind="dense", direction="in", seed=0, replace=False, memory=None,
                 threads=None):
        if kind not in ("dense", "neighbor"):
            raise ValueError(f"kind is {kind!r}: it is dense or neighbor")
        if direction not in ("in", "out", "both"):
            raise ValueError(f"direction is {direction!r}: it is in, out or both")
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self.kind = kind
        self._options = {"kind": kind, "direction": direction, "seed": seed, "replace": replace, "memory": memory,
                         "threads": threads}
        self._fanout = fanout
        hops = fanout if isinstance(fanout, str) else ",".join(word("fanout", hop) for hop in fanout)
        size = None if memory is None else word("memory", memory)
        self._core = _core.Sampler(self.dataset.core, hops, kind, direction, seed, replace, size, threads or 0)

    @property
    def graph_bytes(self):
        """Memory of the lists of neighbors [bytes]."""
        return self._core.graph_bytes

    def __reduce__(self):
        return _reopened, (self.dataset.path, self._fanout, self._options)

    def __call__(self, seeds, epoch=0, batch=0):
        """Draws the sample of a batch.

        seeds: distinct rows of nodes, integers [n]; uint32 is taken without a copy.
        epoch, batch: numbers that make the draw, with the sampler's seed.

        Raises ValueError for a row that is repeated or unknown, TypeError for another type.
        """
        self.dataset.core # raises if it is closed
        return Sample(self._core.draw(ids_of(seeds, self.dataset.nodes, "seeds"), epoch, batch), self.kind)


def _reopened(path, fanout, options):
    return Sampler(path, fanout, **options)
