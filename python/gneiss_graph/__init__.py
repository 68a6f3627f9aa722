# SPDX-License-Identifier: Apache-2.0
"""Graph learning on graphs larger than memory.

    import gneiss_graph as gn
    gn.import_edges("likes.tsv", out="d/likes", fractions=[0.9, 0.05, 0.05])
    run = gn.train("d/likes", program="marius", out="runs/likes")
    run.predict(head="ann", relation="likes", k=5)

Functions take the flags of the programs as keywords: `eval_every=2` is `--eval-every 2`, a list is `10,10`, and None is
a flag that is not given. Sizes are bytes or texts such as "2GiB".
"""
import importlib

from ._core import version as __version__
from ._data import Dataset, SparseFeatures, get, import_edges, import_nodes
from ._errors import Corrupt, Error, NotFinite, NotFound, OverBudget
from ._features import Features, GatherStatistics
from ._run import Run, train
from ._sample import Layer, Sample, Sampler, samples_xxh3
from ._staging import stage


__all__ = ["Corrupt", "Dataset", "Error", "Features", "GatherStatistics", "Layer", "NotFinite", "NotFound", "OverBudget",
           "Run", "Sample", "Sampler", "SparseFeatures", "get", "import_edges", "import_nodes", "samples_xxh3", "stage",
           "train"]


def __getattr__(name):
    """Imports what needs PyTorch when it is first used: gneiss_graph.torch, gneiss_graph.pyg."""
    if name in ("pyg", "torch"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
