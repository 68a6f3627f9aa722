# SPDX-License-Identifier: Apache-2.0
"""Features of nodes, gathered from disk through a cache."""
from collections import namedtuple

import numpy as np

from . import _core
from ._data import Dataset
from ._flags import word
from ._sample import ids_of

GatherStatistics = namedtuple("GatherStatistics", "rows hits read_bytes")
GatherStatistics.__doc__ = """rows: gathered so far. hits: of these, rows that came from the cache.
read_bytes: read from disk."""


class Features:
    """The features of a dataset's nodes on disk, with a cache of some rows in memory.

    dataset: a Dataset with dense features of float32 or float16, or its directory.
    cache: "belady" keeps the rows whose next use comes first, by the batches that `plan` names: no cache reads less.
        "lru" keeps the rows used last, "static" those of the highest `rank`, "none" none.
    memory: of the cache and of reading: bytes, or a text such as "4GiB"; None: what is free. cache="belady" leaves a
        quarter of it for the batches of `plan`.
    rank: cache="static": a number for each node, integers [nodes]; None: edges that begin at it.
    threads: of a gather; None: all CPUs.

    columns, dtype: of a row. capacity: rows that the cache holds.
    One thread gathers at a time, others wait. It pickles as these arguments, with an empty cache.
    Raises ValueError, OverBudget, Error for features that are sparse or of another type.
    """

    def __init__(self, dataset, *, cache="lru", memory=None, rank=None, threads=None):
        if cache not in ("belady", "lru", "static", "none"):
            raise ValueError(f"cache is {cache!r}: it is belady, lru, static or none")
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        if rank is not None and np.shape(rank) != (self.dataset.nodes,):
            raise ValueError(f"rank is of shape {list(np.shape(rank))}: it has a number for each of "
                             f"{self.dataset.nodes} nodes")
        self._options = {"cache": cache, "memory": memory, "rank": rank, "threads": threads}
        size = None if memory is None else word("memory", memory)
        ranks = ids_of([] if rank is None else rank, 1 << 32, "rank", "ranks")
        self._core = _core.Features(self.dataset.core, cache, size, ranks, threads or 0)
        self.columns, self.dtype, self.capacity = self._core.columns, np.dtype(self._core.dtype), self._core.capacity

    def __reduce__(self):
        return _reopened, (self.dataset.path, self._options)

    def __repr__(self):
        return f"<Features {self.dataset.nodes:,} x {self.columns:,} {self.dtype}, {self.capacity:,} rows in the cache>"

    def plan(self, batches):
        """Names the batches to come, for cache="belady": a list of the ids that each will gather.

        The next gathers are these, in order, with the ids in the same order. The cache keeps the rows that it has, and
        reads the missing rows that are used first.
        """
        self._core.plan([ids_of(ids, self.dataset.nodes, "ids") for ids in batches])

    def gather(self, ids, out=None):
        """Reads the rows of nodes, and returns them, [ids, columns] of `dtype`.

        ids: distinct rows of nodes, integers [ids]; uint32 is taken without a copy.
        out: an array that rows are written into without a copy, of NumPy or of any library with DLPack, such as a
            tensor in pinned memory; None: a new array of NumPy.

        Raises ValueError for ids that are repeated or unknown, and an array of another shape or on a device; TypeError
        for another type; Error if the file changed under it.
        """
        return self._gather(ids, out, distinct=False)

    def _gather(self, ids, out, *, distinct):
        self.dataset.core # raises if it is closed
        rows = ids_of(ids, self.dataset.nodes, "ids")
        if out is None:
            out = np.empty((len(rows), self.columns), self.dtype)
        self._core.gather(rows, out, distinct)
        return out

    @property
    def statistics(self):
        """GatherStatistics."""
        return GatherStatistics(*self._core.statistics)


def _reopened(path, options):
    return Features(path, **options)
