# SPDX-License-Identifier: Apache-2.0
"""Batches of samples and features as tensors of PyTorch."""
import collections
import queue
import threading
import weakref

import numpy as np
import torch

from . import _core
from ._data import Dataset
from ._errors import NotFound, OverBudget
from ._features import Features
from ._flags import word
from ._sample import Layer, Sampler, ids_of

Batch = collections.namedtuple("Batch", "epoch number nodes seeds features labels layers")
Batch.__doc__ = """A batch for a GNN.

epoch, number: of the batch, both from 0.
nodes: int64 [nodes]: rows of the dataset; seeds: int64 [seeds]: those of them that the batch is for.
features: [nodes, columns], of the nodes; None: the dataset has none.
labels: int64 [seeds], -1 for none; or targets [seeds, classes]; None: the dataset has none.
layers: a list of gneiss_graph.Layer with int32 tensors, in the order of computation; the targets of the last are seeds.
"""


def tensor_of(array):
    """Returns an array as a tensor that shares its memory; unsigned ids as int32."""
    return torch.from_numpy(array.view(np.int32) if array.dtype == np.uint32 else array)


class Loader(torch.utils.data.IterableDataset):
    """Batches of a dataset's nodes, with samples of their neighbors and features, prepared ahead by threads of C++.

    Each iteration is an epoch. Samples are drawn a superbatch ahead, so that the cache of features can be Belady's: the
    order of Ginex (VLDB'22). Batches depend on the arguments, the epoch and their number alone.

    dataset: a Dataset, or its directory.
    fanout, kind, direction, replace, seed: as of Sampler; `seed` also shuffles.
    batch_size: seeds of a batch; the last of an epoch may have fewer.
    seeds: rows of nodes, distinct integers; None: those of `split`, "train", "valid" or "test".
    shuffle: in each epoch anew.
    cache: of features, as of Features.
    memory: of the lists of neighbors, and of the cache from what they leave: bytes, or a text such as "4GiB"; None:
        what is free. Batches that are drawn ahead come on top.
    superbatch: batches that are drawn ahead together, and planned together if the memory has room; two superbatches at
        a time are in memory, without their features.
    ahead: batches whose features are ready before they are asked for.
    device: of the tensors. For a GPU, features are gathered into pinned memory and copied from there; None: the CPU.
    threads: of C++; None: all CPUs.

    Pass it to torch.utils.data.DataLoader with batch_size=None and num_workers=0, or iterate over it. It pickles as its
    arguments and its place.
    """

    def __init__(self, dataset, fanout, batch_size, *, split="train", seeds=None, kind="dense", direction="in",
                 replace=False, seed=0, shuffle=True, cache="belady", memory=None, superbatch=32, ahead=2, device=None,
                 threads=None):
        if batch_size < 1 or superbatch < 1 or ahead < 1:
            raise ValueError("batch_size, superbatch and ahead are at least 1")
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self._arguments = (fanout, batch_size)
        self._options = {"split": split, "seeds": seeds, "kind": kind, "direction": direction, "replace": replace,
                         "seed": seed, "shuffle": shuffle, "cache": cache, "memory": memory, "superbatch": superbatch,
                         "ahead": ahead, "device": device, "threads": threads}
        self.seeds = self._seeds_of(seeds, split)
        self.batch_size, self.device = batch_size, None if device is None else torch.device(device)
        self._next = (0, 0) # epoch and batch
        self._in_epoch = False
        self.sampler = Sampler(self.dataset, fanout, kind=kind, direction=direction, seed=seed, replace=replace,
                               memory=memory, threads=threads)
        self.features = None
        if self.dataset.num_features:
            left = None if memory is None else max(_core.bytes_of(word("memory", memory)) - self.sampler.graph_bytes, 0)
            self.features = Features(self.dataset, cache=cache, memory=left, threads=threads)
        self._blocks = _Blocks(ahead + 2)
        self._labels = self.dataset.labels

    def _seeds_of(self, seeds, split):
        if seeds is not None:
            return ids_of(seeds, self.dataset.nodes, "seeds")
        names = ("train", "valid", "test")
        if split not in names:
            raise ValueError(f"split is {split!r}: it is train, valid or test")
        splits = self.dataset.split
        if splits is None:
            raise NotFound("the dataset has no split of its nodes: give seeds", path=self.dataset.path)
        return np.flatnonzero(splits == names.index(split)).astype(np.uint32)

    def __reduce__(self):
        return _reopened, (self.dataset.path, self._arguments, self._options, self.state_dict())

    def __len__(self):
        """Number of batches of an epoch."""
        return -(-len(self.seeds) // self.batch_size)

    def state_dict(self):
        """Returns the place after the last batch that was given out."""
        return {"epoch": self._next[0], "batch": self._next[1]}

    def load_state_dict(self, state):
        """Continues at a place: the next iteration yields exactly the rest of its epoch."""
        if not 0 <= state["batch"] < max(len(self), 1):
            raise ValueError(f"batch {state['batch']} is not one of the {len(self)} of an epoch")
        self._next, self._in_epoch = (state["epoch"], state["batch"]), False

    def __iter__(self):
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("num_workers must be 0: threads of C++ prepare the batches")
        epoch, first = self._next
        if self._in_epoch: # an iteration was left before its end
            epoch, first = epoch + 1, 0
            self._next = (epoch, first)
        self._in_epoch = True
        preparation = _Preparation(self, epoch, first)
        try:
            for number in range(first, len(self)):
                batch = self._finished(*preparation.next(), epoch, number)
                self._next = (epoch, number + 1) if number + 1 < len(self) else (epoch + 1, 0)
                self._in_epoch = number + 1 < len(self)
                yield batch
        finally:
            preparation.end()

    def batches(self, epoch):
        """Returns the seeds of each batch of an epoch, a list of uint32 [seeds]."""
        order = self.seeds
        if self._options["shuffle"]:
            order = order[_core.permutation(len(order), self._options["seed"], epoch)]
        return [order[at:at + self.batch_size] for at in range(0, len(order), self.batch_size)]

    def _gather(self, nodes):
        if self.features is None:
            return None
        if self.device is None or self.device.type == "cpu":
            out = self._blocks.rows(len(nodes), self.features.columns, self.features.dtype)
            return torch.from_numpy(self.features._gather(nodes, out, distinct=True)) # a sample names a node once
        dtype = torch.float16 if self.features.dtype == np.float16 else torch.float32
        out = torch.empty((len(nodes), self.features.columns), dtype=dtype, pin_memory=True)
        return self.features._gather(nodes, out, distinct=True)

    def _finished(self, sample, features, seeds, epoch, number):
        def placed(tensor):
            return tensor if tensor is None or self.device is None else tensor.to(self.device, non_blocking=True)

        labels = None
        if self._labels is not None:
            rows = self._labels[seeds]
            labels = torch.from_numpy(rows.astype(np.int64) if rows.ndim == 1 else rows)
        layers = [Layer(layer.targets, layer.sources, layer.first_target, placed(tensor_of(layer.offsets)),
                        placed(tensor_of(layer.neighbors))) for layer in sample.layers]
        return Batch(epoch, number, placed(torch.from_numpy(sample.nodes.astype(np.int64))),
                     placed(torch.from_numpy(seeds.astype(np.int64))), placed(features), placed(labels), layers)


def _reopened(path, arguments, options, state):
    loader = Loader(path, *arguments, **options)
    loader.load_state_dict(state)
    return loader


class _Blocks:
    """Memory of features that is used again once its batch is dropped, since fresh memory costs a quarter of a gather.

    most: blocks that are kept.
    """

    def __init__(self, most):
        self._free = collections.deque(maxlen=most)

    def rows(self, count, columns, dtype):
        """Returns an array [count, columns]. Who holds a view of it must hold the array itself, as a tensor does."""
        try:
            block = self._free.pop()
        except IndexError:
            block = np.empty(0, dtype)
        if block.size < count * columns:
            block = np.empty(count * columns + count * columns // 8, dtype) # room for batches that are a little larger
        rows = block[:count * columns].reshape(count, columns)
        weakref.finalize(rows, self._free.append, block).atexit = False
        return rows


class _Preparation:
    """Two threads that prepare the batches of an epoch: one draws superbatches, one gathers their features."""

    def __init__(self, loader, epoch, first):
        self._loader, self._epoch, self._first = loader, epoch, first
        self._drawn = queue.Queue(1)
        self._ready = queue.Queue(loader._options["ahead"])
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=work, daemon=True)
                         for work in ((self._draw, self._drawn), (self._gather, self._ready))]
        for thread in self._threads:
            thread.start()

    def next(self):
        """Returns the next batch: sample, features, seeds. Raises what a thread raised."""
        found = self._ready.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def end(self):
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work, to):
        try:
            work()
        except _Ended:
            pass
        except BaseException as error: # for the consumer
            try:
                self._put(to, error)
            except _Ended:
                pass

    def _put(self, to, what):
        while not self._ended.is_set():
            try:
                return to.put(what, timeout=0.05)
            except queue.Full:
                pass
        raise _Ended

    def _get(self, source):
        while not self._ended.is_set():
            try:
                return source.get(timeout=0.05)
            except queue.Empty:
                pass
        raise _Ended

    def _draw(self):
        batches = self._loader.batches(self._epoch)
        size = self._loader._options["superbatch"]
        for begin in range(self._first, len(batches), size):
            samples = []
            for number in range(begin, min(begin + size, len(batches))):
                if self._ended.is_set():
                    raise _Ended
                samples.append((self._loader.sampler(batches[number], self._epoch, number), batches[number]))
            self._put(self._drawn, samples)

    def _gather(self):
        loader, left = self._loader, len(self._loader) - self._first
        while left > 0:
            samples = self._get(self._drawn)
            if isinstance(samples, BaseException):
                raise samples
            left -= len(samples)
            while samples:
                count = self._plan(samples)
                for sample, seeds in samples[:count]:
                    self._put(self._ready, (sample, loader._gather(sample.nodes), seeds))
                samples = samples[count:]

    def _plan(self, samples):
        """Plans the cache for the first samples, as many as its memory has room for, and returns their number."""
        features, count = self._loader.features, len(samples)
        if features is None or self._loader._options["cache"] != "belady":
            return count
        while True:
            try:
                features.plan([sample.nodes for sample, _ in samples[:count]])
                return count
            except OverBudget:
                if count == 1:
                    raise
                count //= 2


class _Ended(Exception):
    """The consumer needs no more batches."""
