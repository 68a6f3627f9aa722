# SPDX-License-Identifier: Apache-2.0
"""Datasets, programs and processes of the tests. The environment names the programs' directory: GNEISS_BIN."""
import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

BIN = pathlib.Path(os.environ["GNEISS_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]


def module_of_script(name):
    loader = SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


bits = module_of_script("bits") # knows how to read checkpoints


def program(name, *arguments, code=0):
    """Runs a program, and returns its output."""
    done = subprocess.run([BIN / f"gneiss-{name}", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise AssertionError(f"gneiss-{name} {arguments}: {done.returncode}\n{done.stderr}")
    return done.stdout


def python(text, *arguments, code=0):
    """Runs a program of Python in a process of its own, and returns its output and its errors."""
    text = "import os, signal, sys\nimport gneiss_graph as gn\n" + text
    done = subprocess.run([sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode != code:
        raise AssertionError(f"{text}\n{done.returncode}\n{done.stderr}")
    return done.stdout, done.stderr


def script(path, text):
    """Runs a program of Python from a file, as spawned processes need it, and returns its output."""
    path.write_text(text)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def edges():
    """Edges of nodes in rings: training edges, and edges for validation."""
    train, valid = [], []
    for v in range(60):
        for r in range(3):
            (valid if v % 10 == r else train).append((f"node{v}", f"ring{r}", f"node{(v + 1 + 5 * r) % 60}"))
    return train, valid


def write_tsv(path, rows):
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def sha256(raw):
    return hashlib.sha256(raw).hexdigest()


class Case(unittest.TestCase):
    """Tests in a directory of their own, with the datasets "links" and "classes"."""

    @classmethod
    def setUpClass(cls):
        cls._directory = tempfile.TemporaryDirectory(prefix="gneiss-python-")
        cls.addClassCleanup(cls._directory.cleanup)
        cls.at = pathlib.Path(cls._directory.name)
        train, valid = edges()
        program("data", "import", write_tsv(cls.at / "train.tsv", train), "--valid",
                write_tsv(cls.at / "valid.tsv", valid), "--out", cls.at / "links", "--partitions", 4, "--quiet")
        program("data", "generate", "planted", "--nodes", 300, "--edges", 2000, "--classes", 3, "--task", "node",
                "--num-features", 8, "--train-fraction", ".3", "--partitions", 3, "--seed", 5, "--undirected", "--out",
                cls.at / "classes", "--quiet")

    def bits_of(self, run):
        """SHA-256 of what a run learned: exported arrays, sections of the checkpoint; and its losses and metrics."""
        run = pathlib.Path(run)
        record = json.loads((run / "run.json").read_text())
        found = {"metrics": record["metrics"],
                 "epochs": [(epoch["loss"], epoch["valid"]) for epoch in record["epochs"]]}
        sections = bits.checkpoint_of(run / "checkpoint/checkpoint.bin")[-1]
        found["sections"] = {name: sha256(raw) for name, raw in sections.items() if name != "progress"} # it has times
        with tempfile.TemporaryDirectory(dir=self.at) as to:
            out = pathlib.Path(to) / "export"
            program(record["program"].removeprefix("gneiss-"), "export", run, "--out", out)
            found["arrays"] = {path.name: sha256(path.read_bytes()) for path in out.glob("*.npy")}
        self.assertTrue(found["arrays"])
        return found
