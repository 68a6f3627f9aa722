# SPDX-License-Identifier: Apache-2.0
"""Runs: trained by a function, and read."""
import hashlib
import html
import json
import os
import re

import numpy as np

from . import _core
from ._data import Dataset
from ._errors import NotFound
from ._flags import flags_of, message_printer, warning_observer

PROGRAMS = ("armada", "ginex", "hanoi", "joestar", "marius", "mariusgnn")


def train(dataset, *, program, out=None, memory=None, resume=False, on_epoch=None, quiet=False, **flags):
    """Trains by one of the programs, in this process, and returns the run.

    dataset: a Dataset, or its directory.
    program: "marius" for embeddings; "mariusgnn", "ginex", "hanoi", "joestar" or "armada" for GNNs.
    out: directory of the run; None: runs/PROGRAM-DATASET-N.
    memory: what the call may add to the memory of the process: bytes, or a text such as "2GiB"; None: what is free.
    resume: continues the run in `out` from its last checkpoint, with its flags where none are given.
    on_epoch: called after each epoch with a dict of its record: "epoch", "loss", "seconds", "valid", …
    quiet: prints nothing. Warnings go to the module warnings in any case, and to `run.warnings`.
    flags: those of `gneiss-PROGRAM train`, such as epochs=20, dim=64, layers="sage:128,sage:128".

    The bits are those of the program with the same flags. Ctrl-C saves the state and raises KeyboardInterrupt with the
    directory; so does any exception of `on_epoch`, which is raised again. Python's other threads run meanwhile.
    Raises TypeError for an unknown flag, ValueError for a wrong value, OverBudget, Error.
    """
    name = program.removeprefix("gneiss-") if isinstance(program, str) else program
    if name not in PROGRAMS:
        raise ValueError(f"program is {program!r}: it is one of {', '.join(PROGRAMS)}")
    program = "gneiss-" + name
    path = dataset.path if isinstance(dataset, Dataset) else dataset
    given = flags_of("train", program, "train",
                     {**flags, "dataset": path, "out": out, "memory": memory, "resume": resume},
                     ("on_epoch", "program", "quiet"))
    config = os.path.join(os.fspath(out), "config.toml") if out is not None else None
    if resume and config is not None and os.path.exists(config):
        given["run-config"] = config
    observer = None if on_epoch is None else lambda text: on_epoch(json.loads(text))
    return Run(_core.train(program, given, observer, message_printer(quiet), warning_observer(2)))


class Run:
    """A run of a trainer: its record, and what it learned.

    path: directory that `train` or a program made.
    """

    def __init__(self, path):
        self.path = os.path.abspath(os.fspath(path))
        config = os.path.join(self.path, "config.toml")
        try:
            with open(config, encoding="utf-8") as file:
                first = file.readline()
        except OSError:
            raise NotFound(f"{self.path}: is not a run: it has no config.toml", path=self.path) from None
        found = re.match(r"# (gneiss-\w+) train ", first)
        self.program = found[1] if found else self.record["program"]

    def __reduce__(self):
        return Run, (self.path,)

    def __repr__(self):
        try:
            record = self.record
        except NotFound:
            return f"<Run {self.path} of {self.program}: not finished>"
        metrics = ", ".join(f"{split} {name} {value:.4g}" for split, values in record.get("metrics", {}).items()
                            if split != "per_class" for name, value in values.items())
        return f"<Run {self.path} of {self.program}: {record['status']}{'; ' + metrics if metrics else ''}>"

    @property
    def record(self):
        """The run's record, run.json, as a dict. Raises NotFound for a run that was killed before its end."""
        path = os.path.join(self.path, "run.json")
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            raise NotFound(f"{self.path}: has no run.json, since training has not ended: "
                           f"train(…, out={self.path!r}, resume=True) continues it", path=path) from None

    @property
    def status(self):
        """"done" or "interrupted"."""
        return self.record["status"]

    @property
    def metrics(self):
        """Metrics by split and name: metrics["test"]["mrr"]."""
        return self.record.get("metrics", {})

    @property
    def epochs(self):
        """Records of the epochs: a list of dicts."""
        return self.record["epochs"]

    @property
    def config(self):
        """Values of all flags, those that were chosen included."""
        return self.record["config"]

    @property
    def warnings(self):
        """Texts of the run's warnings."""
        return self.record.get("warnings", [])

    def embeddings(self, **flags):
        """Returns the embeddings of the nodes as a memory map, float32 [nodes, dim].

        Row i is of the node with the integer id i, or, if nodes have names, of `names()[i]`. Of a GNN they are outputs
        of its last layer. The first call writes them into the run's directory.

        flags: those of `gneiss-PROGRAM export`, such as memory="2GiB", or what="hidden", layer=1.
        """
        return np.load(os.path.join(self._export(flags), "nodes.npy"), mmap_mode="r", allow_pickle=False)

    def relations(self, **flags):
        """Returns the embeddings of the relations, float32 [relations, dim]; None: there are none."""
        path = os.path.join(self._export(flags), "relations.npy")
        return np.load(path, mmap_mode="r", allow_pickle=False) if os.path.exists(path) else None

    def names(self, **flags):
        """Returns the names of the rows of `embeddings`, a list."""
        with open(os.path.join(self._export(flags), "nodes.tsv"), encoding="utf-8") as file:
            return [line.rstrip("\n").split("\t", 1)[1] for line in file]

    def predict(self, *, head=None, relation=None, tail=None, similar=None, node=None, k=None, quiet=False, **flags):
        """Predicts, and returns columns: a dict of lists of equal lengths.

        head, relation, tail: names; the best tails of a head and a relation, or heads of a relation and a tail. Columns
            head, relation, tail, rank (from 1), score.
        similar: a name, or a list of names; the most similar nodes. Columns node, similar, rank, score.
        node: a name, or a list of names; None: all nodes. Labels of a run that classifies nodes. Columns node, class,
            probability; of several labels classes, probabilities; of a regression values.
        k: answers to each query; None: 10.
        flags: those of `gneiss-PROGRAM predict`, such as candidates="all", memory="2GiB".
        """
        asked = {"head": head, "relation": relation, "tail": tail, "k": k, "similar": _list(similar),
                 "node": _list(node)}
        given = {name: value for name, value in asked.items() if value is not None}
        return _columns(self._call("predict", {**given, **flags}, quiet)["predictions"])

    def evaluate(self, split="test", *, quiet=False, **flags):
        """Returns the metrics of a split, by name, as `gneiss-PROGRAM eval` computes them."""
        return self._call("eval", {"on": split, **flags}, quiet)["metrics"][split]

    def _repr_html_(self):
        """Shows the run's report in a notebook."""
        try:
            with open(os.path.join(self.path, "report.html"), encoding="utf-8") as file:
                page = file.read()
        except FileNotFoundError:
            return f"<pre>{html.escape(repr(self))}</pre>"
        return (f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" width="100%" height="700" '
                'style="border: 0"></iframe>')

    def _call(self, command, flags, quiet):
        function = "evaluate" if command == "eval" else command
        given = flags_of(function, self.program, command, {**flags, "run": self.path}, ("quiet",))
        return json.loads(_core.call(self.program, command, {**given, "json": "true"}, message_printer(quiet),
                                     warning_observer(3)))

    def _export(self, flags):
        """Returns the directory of the exported state, one for each set of flags.

        Writes it, unless there are no flags and it is newer than the state.
        """
        of_flags = hashlib.sha256(repr(sorted(flags.items())).encode()).hexdigest()[:12]
        to = os.path.join(self.path, "embeddings" + (f"-{of_flags}" if flags else ""))
        nodes = os.path.join(to, "nodes.npy")
        states = [os.path.join(self.path, kind, "checkpoint.bin") for kind in ("checkpoint", "best")]
        written = [os.stat(path).st_mtime_ns for path in states if os.path.exists(path)]
        if flags or not os.path.exists(nodes) or os.stat(nodes).st_mtime_ns < max(written, default=0):
            self._call("export", {"out": to, "force": os.path.exists(to), "what": "embeddings", **flags}, True)
        return to


def _list(value):
    """Returns a list for a name, which may have commas."""
    return [value] if isinstance(value, str) else value


def _columns(predictions):
    """Returns the lists of a prediction's columns."""
    rows = []
    for one in predictions:
        if "answers" not in one:
            rows.append(one)
            continue
        kind = "tail" if "head" in one else "head" if "tail" in one else "similar"
        for rank, answer in enumerate(one["answers"], 1):
            row = {**one, kind: answer["node"], "rank": rank, "score": answer["score"]}
            order = ("node", "similar", "head", "relation", "tail", "rank", "score")
            rows.append({name: row[name] for name in order if name in row})
    names = list(rows[0]) if rows else []
    return {name: [row.get(name) for row in rows] for name in names}
