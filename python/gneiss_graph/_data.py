# SPDX-License-Identifier: Apache-2.0
"""Datasets: from well-known graphs and from files, and opened."""
import json
import os
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Sequence

import numpy as np

from . import _core
from ._errors import Error
from ._flags import flags_of, message_printer, warning_observer

SparseFeatures = namedtuple("SparseFeatures", "indptr indices values")
SparseFeatures.__doc__ = """Features as compressed rows: those of row i are values[indptr[i]:indptr[i + 1]], in
the columns indices[indptr[i]:indptr[i + 1]]. values is None if all are 1."""


def _make(function, command, flags, quiet, streams=()):
    observers = message_printer(quiet), warning_observer(3)
    if streams:
        _core.import_streams(flags, streams, *observers)
    else:
        _core.call("gneiss-data", command, flags, *observers)
    return Dataset(flags["out"])


def get(name, *, out, quiet=False, **flags):
    """Makes the dataset of a well-known graph, as `gneiss-data get` does, and opens it.

    name: "debian", "debian-files" or "wordnet", which come through apt, or a graph that is downloaded, such as
        "fb15k-237".
    out: directory of the dataset.
    flags: those of `gneiss-data get`, such as task="node", memory="2GiB".

    Raises ValueError for a value of a flag, NotFound, Error.
    """
    given = flags_of("get", "gneiss-data", "get", {**flags, "name": name, "out": out}, ("quiet",))
    return _make("get", "get", given, quiet)


def import_edges(source, *, out, quiet=False, **flags):
    """Makes a dataset from edges, as `gneiss-data import` does, and opens it.

    source: a file, several files, or a directory of a known layout; or an integer array [edges, 2] or [edges, 3] of
        head, tail or head, relation, tail; or anything with `__arrow_c_stream__`, such as a table or reader of pyarrow,
        a relation of DuckDB or a frame of Polars, with two or three columns of integers or text, or those of `columns`.
    out: directory of the dataset.
    flags: those of `gneiss-data import`, such as valid="valid.tsv", fractions=[0.9, 0.05, 0.05], memory="2GiB".
        `valid` and `test` are of Arrow if `source` is.

    An array is written next to `out` first: it needs its bytes there, and less memory than itself. A stream of Arrow is
    read once, a chunk at a time, whose memory is the producer's; integers are ids of nodes, as in an array, unless
    ids="string". Nothing stays of an import of a stream that fails.
    Raises ValueError for a value of a flag, Corrupt with the line for a wrong one, OverBudget, NotFound, Error.
    """
    return _import("import_edges", {**flags, "source": source}, out, quiet)


def import_nodes(source, *, out, labels=None, features=None, split=None, quiet=False, **flags):
    """Makes a dataset for node classification from edges and attributes of nodes, and opens it.

    source: as in `import_edges`.
    labels: a file, or an array [nodes] of classes, below 0 for none.
    features: a file, or an array [nodes, columns] of floats.
    split: a file, or an array [nodes]: 0 train, 1 valid, 2 test, 3 unused.
    flags: those of `gneiss-data import`.

    With arrays, row i is of the node with the integer id i. So it is with tables of Arrow, unless their first column is
    of integers or text and others follow: it names the node. Errors, arrays and tables are as in `import_edges`; arrays
    and tables of nodes are written next to `out` first.
    """
    given = {"task": "node", **flags, "source": source, "labels": labels, "features": features, "split": split}
    return _import("import_nodes", given, out, quiet)


# Flags of files of text.
_TEXT_ONLY = ("comment", "delimiter", "format", "graphbolt_task", "header", "skip_bad")


def _is_table(value):
    """True for what Arrow calls a stream; many of them are also arrays."""
    return hasattr(value, "__arrow_c_stream__")


def _take_streams(function, flags):
    """Moves edges of Arrow out of `flags`; returns them with their splits."""
    given = {name: flags.get(name) for name in ("source", "valid", "test")}
    if not any(map(_is_table, given.values())):
        return []
    for name, value in given.items():
        if value is not None and not _is_table(value):
            raise TypeError(f"{function}(): {name} is a {type(value).__name__}, other edges are tables of Arrow: "
                            "give all as tables, or all as files")
    for name in _TEXT_ONLY:
        if flags.get(name) is not None:
            raise TypeError(f"{function}(): {name} is for text, and source is a table of Arrow")
    columns = [str(name) for name in flags.get("columns") or []]
    streams = []
    for name, value in given.items():
        flags.pop(name, None)
        if value is not None:
            streams.append((_core.ArrowEdges(value, columns, name), "train" if name == "source" else name))
    widths = {edges.width for edges, _ in streams}
    if len(widths) > 1:
        raise ValueError(f"{function}(): the tables have {sorted(widths)} columns: edges of all splits have the same")
    flags["columns"] = list(range(widths.pop()))
    if all(edges.integers for edges, _ in streams) and not flags.get("bipartite"):
        flags.setdefault("ids", "int")
    return streams


def _import(function, flags, out, quiet):
    out = os.fspath(out)
    streams = _take_streams(function, flags)
    with _ArrayFiles(out) as files:
        source = flags.get("source")
        if hasattr(source, "__array__"):
            edges = np.asarray(source)
            if edges.ndim != 2 or edges.shape[1] not in (2, 3) or edges.dtype.kind not in "iu":
                raise ValueError(f"source is an array {list(edges.shape)} of {edges.dtype}: edges are integers "
                                 "[edges, 2], or [edges, 3] with the relation in the middle")
        for name, value in flags.items():
            if _is_table(value) or hasattr(value, "__array__"):
                flags[name] = files.path(name, value)
        if not streams and not isinstance(flags["source"], (list, tuple)):
            flags["source"] = [flags["source"]]
        given = flags_of(function, "gneiss-data", "import", {**flags, "out": out}, ("quiet",))
        return _make(function, "import", given, quiet, streams)


class _ArrayFiles:
    """Arrays and tables as files in a directory next to `out`, which ends with the block."""

    def __init__(self, out):
        self._parent, self._directory = os.path.dirname(os.path.abspath(out)), None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._directory is not None:
            shutil.rmtree(self._directory)

    def path(self, name, array):
        if self._directory is None:
            os.makedirs(self._parent, exist_ok=True)
            self._directory = tempfile.mkdtemp(prefix=".gneiss-arrays-", dir=self._parent)
        if _is_table(array):
            return _core.write_node_table(array, name, self._directory, name == "features")
        path = os.path.join(self._directory, name + ".npy")
        np.save(path, np.asarray(array), allow_pickle=False)
        return path


class Names(Sequence):
    """Names by number: `names[i]`, `names.index(name)`. Each is read from the dataset when it is asked for."""

    def __init__(self, size, name, find):
        self._size, self._name, self._find = size, name, find

    def __len__(self):
        return self._size

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [self._name(i) for i in range(*at.indices(self._size))]
        return self._name(int(at))

    def __contains__(self, name):
        return self._find(name) is not None

    def index(self, name):
        found = self._find(name)
        if found is None:
            raise ValueError(f"there is no {name!r}")
        return found

    def __repr__(self):
        some = ", ".join(repr(name) for name in self[:5])
        return f"<{self._size} names: {some}{', …' if self._size > 5 else ''}>"


class Dataset:
    """A dataset, opened for reading. Nothing is loaded: arrays are memory maps.

    Rows are the nodes in the dataset's own order, which partitions them: row i of `features`, `labels` and `split` is
    of the node `names[i]`, and `names.index(name)` is the row of a node. Names of nodes with integer ids are their
    digits.

    path: directory that `import_edges`, `import_nodes`, `get` or the program gneiss-data made.
    """

    def __init__(self, path):
        self.path = os.path.abspath(os.fspath(path))
        self._data = _core.Dataset(self.path)

    @property
    def core(self):
        """The dataset as C++ has it."""
        if self._data is None:
            raise ValueError(f"the dataset {self.path} is closed")
        return self._data

    def close(self):
        """Ends the use of the dataset. Arrays that it gave out stay valid."""
        self._data = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        return Dataset, (self.path,)

    def __repr__(self):
        parts = [f"{self.nodes:,} nodes", f"{self.edges:,} edges"]
        if self.relations > 1:
            parts.append(f"{self.relations:,} relations")
        if self.num_features:
            parts.append(f"{self.num_features:,} features")
        if self.classes:
            parts.append(f"{self.classes:,} classes")
        return f"<Dataset {self.name or os.path.basename(self.path)}: {', '.join(parts)}>"

    @property
    def name(self):
        """Name in reports."""
        return self.core.name

    @property
    def task(self):
        """Purpose: "link" or "node"."""
        return self.core.task

    @property
    def nodes(self):
        """Number of nodes."""
        return self.core.nodes

    @property
    def edges(self):
        """Number of edges of all splits."""
        return self.core.train_edges + self.core.valid_edges + self.core.test_edges

    @property
    def train_edges(self):
        """Number of training edges."""
        return self.core.train_edges

    @property
    def relations(self):
        """Number of relations; 0 or 1: edges have none."""
        return self.core.relations

    @property
    def partitions(self):
        """Number of partitions of the nodes."""
        return self.core.partitions

    @property
    def num_features(self):
        """Features of a node; 0: none."""
        return self.core.num_features

    @property
    def classes(self):
        """Number of classes, or of targets of a regression; 0: no labels."""
        return self.core.classes

    @property
    def names(self):
        """Names of the nodes, by row."""
        return Names(self.nodes, self.core.node_name, self.core.find_node)

    @property
    def relation_names(self):
        """Names of the relations, by number."""
        return Names(self.relations, self.core.relation_name, self.core.find_relation)

    @property
    def class_names(self):
        """Names of the classes, by number."""
        return Names(self.classes, self.core.class_name, self.core.find_class)

    @property
    def features(self):
        """Features as a memory map [nodes, num_features], or as SparseFeatures; None: there are none."""
        if not self.num_features:
            return None
        if self.core.has("features"):
            values = self._map("features")
            if values.dtype.kind != "f":
                raise Error("features of bf16 and int8 have no memory map: read them by Features.gather",
                            path=self._path("features"))
            return values
        return SparseFeatures(self._map("features.indptr"), self._map("features.indices"), self._map("features.values"))

    @property
    def labels(self):
        """Labels as a memory map: classes, int32 [nodes], -1 for none; or targets [nodes, classes] of a multi-label or
        regression task. None: there are none."""
        return self._map("labels") if self.core.has("labels") else self._map("targets")

    @property
    def split(self):
        """Split of each node as a memory map, uint8 [nodes]: 0 train, 1 valid, 2 test, 3 unused; None: there is
        none."""
        return self._map("split")

    def edges_of(self, split):
        """Returns the edges of the split "valid" or "test" as a memory map, uint32 [edges, 3]: the rows of head and
        tail in columns 0 and 2, the relation in column 1."""
        if split not in ("valid", "test"):
            raise ValueError(f"split is {split!r}: valid and test are arrays, training edges are in buckets on disk")
        edges = self._map(split)
        return np.empty((0, 3), np.uint32) if edges is None else edges

    def verify(self):
        """Reads everything, and raises Corrupt for what differs from its checksum."""
        self.core.check()

    def _path(self, array):
        return os.path.join(self.path, array + ".npy")

    def _map(self, array):
        return np.load(self._path(array), mmap_mode="r", allow_pickle=False) if self.core.has(array) else None
