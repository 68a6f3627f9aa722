"""Shared by the checks: gneiss's programs, small graphs with a fixed seed, and counts of results."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np

programs = Path()  # set by run.py
work = Path()  # an empty folder for the files of a check
passed = failed = 0


def check(name: str, good: bool, detail: str = "") -> None:
    """Counts and prints one result."""
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(f"{'ok  ' if good else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)


def close(name: str, got, want, tolerance: float, detail: str = "") -> None:
    """Compares the largest difference of two arrays with an absolute tolerance."""
    got, want = np.asarray(got, float), np.asarray(want, float)
    if got.shape != want.shape:
        return check(name, False, f"shape {got.shape}, not {want.shape}")
    worst = float(np.abs(got - want).max(initial=0))
    check(name, worst <= tolerance, f"{worst:.1e} of {tolerance:.0e} {detail}".rstrip())


def relative(got, want, floor: float = 1e-3) -> float:
    """Returns the largest difference relative to the largest value."""
    got, want = np.asarray(got, float), np.asarray(want, float).reshape(np.shape(got))
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), floor))


class Worst:
    """Records the worst error of each kind of case, and checks each kind once."""

    def __init__(self, tolerance: float):
        self.tolerance, self.errors, self.counts = tolerance, {}, {}

    def note(self, kind: str, error: float, case: str = "") -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if not error <= self.errors.get(kind, (-1.0, ""))[0]:  # keeps a NaN
            self.errors[kind] = (error, case)

    def close(self) -> None:
        for kind, (error, case) in self.errors.items():
            good = error <= self.tolerance
            check(kind, good, f"{error:.1e} of {self.tolerance:.0e} in {self.counts[kind]} cases" + ("" if good else f", worst: {case}"))


def run(program: str, *arguments, expect: int = 0) -> str:
    """Runs a program and returns its output; raises with its message unless it exits as expected."""
    done = subprocess.run([programs / program, *map(str, arguments)], capture_output=True, text=True, cwd=work)
    if done.returncode != expect:
        raise RuntimeError(f"{program} {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout if expect == 0 else done.stderr


def data(command: str, *arguments, **options) -> str:
    return run("gneiss-data", command, *arguments, **options)


def train(program: str, dataset, out: str, *flags) -> Path:
    run(program, "train", dataset, "--out", out, "--force", "--quiet", "--no-report", *flags)
    return work / out


def export(program: str, folder: Path, *flags) -> Path:
    out = folder.with_name(folder.name + "-export")
    run(program, "export", folder, "--out", out, "--force", *flags)
    return out


def evaluate(program: str, folder: Path, split: str, *flags) -> dict:
    return json.loads(run(program, "eval", folder, "--on", split, "--json", *flags))["metrics"][split]


def cases(command: str):
    """Yields the driver's cases: a description each, and a function that loads its arrays."""
    root = work / command
    run("oracle_driver", command, root)
    for number, line in enumerate((root / "cases.jsonl").read_text().splitlines()):
        folder = root / str(number)
        description = json.loads(line)
        description["arrays"] = sorted(path.stem for path in folder.iterdir())
        yield description, lambda name, folder=folder: np.load(folder / f"{name}.npy")
    shutil.rmtree(root)


def names(path: Path) -> dict[str, int]:
    """Returns rows by name from a table of lines `row TAB name`; the first row of a repeated name."""
    table: dict[str, int] = {}
    for line in path.read_text().splitlines():
        row, name = line.split("\t")[:2]
        table.setdefault(name, int(row))
    return table


def by_node(folder: Path, array: str) -> np.ndarray:
    """Returns rows of an exported array in the order of integer node ids."""
    rows = np.load(folder / f"{array}.npy")
    out = np.empty_like(rows)
    for name, row in names(folder / "nodes.tsv").items():
        out[int(name)] = rows[row]
    return out


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def with_width(layers: str, width: int) -> str:
    """Returns the layers with the width of the last one, as the trainer sets it."""
    *front, last = layers.split(",")
    kind, *options = last.split(":")
    if not (options and re.match(r"\d", options[0])):
        options.insert(0, f"{width}x1" if kind == "gat" else str(width))
    return ",".join([*front, ":".join([kind, *options])])


def weights(folder: Path, layers: str, columns: int, sparse: bool = False, best: bool = True) -> dict[str, np.ndarray]:
    """Returns a run's arrays by name; names of decaying ones end with `.decays`."""
    checkpoint = folder / "best/checkpoint.bin"
    if not best or not checkpoint.exists():
        checkpoint = folder / "checkpoint/checkpoint.bin"
    out = work / "weights"
    shutil.rmtree(out, ignore_errors=True)
    run("oracle_driver", "weights", checkpoint, layers, columns, "sparse" if sparse else "dense", out)
    return {path.stem: np.load(path) for path in sorted(out.iterdir())}


class Triples:
    """Makes a learnable knowledge graph of named nodes: targets of relations depend on hidden groups."""

    def __init__(self, nodes: int = 130, relations: int = 12, edges: int = 5000, seed: int = 7):
        random = np.random.default_rng(seed)
        group = random.integers(0, 8, nodes)
        leads_to = random.integers(0, 8, (relations, 8))
        popular = 1 / np.arange(1, nodes + 1) ** 0.7
        found = set()
        while len(found) < edges:
            head, relation = random.choice(nodes, p=popular / popular.sum()), random.integers(relations)
            likely = np.where(group == leads_to[relation, group[head]], 80.0, 0.1) * popular
            found.add((int(head), int(relation), int(random.choice(nodes, p=likely / likely.sum()))))
        triples = sorted(found)
        random.shuffle(triples)
        for i in range(nodes):  # each node trains
            triples.insert(0, (i, i % relations, (i + 1) % nodes))
        triples = list(dict.fromkeys(triples))
        named = [(f"n{h}", f"r{r}", f"n{t}") for h, r, t in triples]
        cut = len(named) - 800
        self.split = {"train": named[:cut], "valid": named[cut : cut + 400], "test": named[cut + 400 :]}
        self.dataset = work / "triples.dataset"
        for split, edges_ in self.split.items():
            (work / f"triples.{split}.tsv").write_text("".join("\t".join(e) + "\n" for e in edges_))
        data("import", "triples.train.tsv", "--valid", "triples.valid.tsv", "--test", "triples.test.tsv",
             "--out", self.dataset, "--force", "--quiet")


class Labeled:
    """Makes a graph of integer nodes with features, labels that correlate with features and neighbors, and a split."""

    def __init__(self, name: str, nodes: int, edges: int, classes: int, columns: int, *, undirected: bool = True, noise: float = 1.5,
                 sparse: bool = False, shares=None, seed: int = 3):
        random = np.random.default_rng(seed)
        self.labels = random.choice(classes, nodes, p=shares)
        pairs = random.integers(0, nodes, (8 * edges, 2))
        alike = self.labels[pairs[:, 0]] == self.labels[pairs[:, 1]]
        pairs = pairs[random.random(len(pairs)) < np.where(alike, 1.0, 0.25)]
        if undirected:
            pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
            random.shuffle(pairs)
            self.edges = pairs[:edges]
        else:  # self-loops, edges that occur three times, a hub, and isolated nodes
            pairs = pairs[(pairs < nodes - nodes // 8).all(axis=1)][:edges]
            hub = np.c_[random.integers(0, nodes - nodes // 8, 150), np.full(150, 5)]
            loops = np.repeat(random.integers(0, nodes - nodes // 8, (40, 1)), 2, axis=1)
            self.edges = np.r_[pairs, hub, loops, np.repeat(pairs[:30], 2, axis=0)]
        centers = random.normal(size=(classes, columns))
        features = centers[self.labels] + noise * random.normal(size=(nodes, columns))
        if sparse:
            features = np.where(features > 1, features, 0)
        self.features = features.astype(np.float32)
        self.split = random.choice(3, nodes, p=[0.5, 0.2, 0.3]).astype(np.uint8)
        self.classes, self.undirected, self.sparse = classes, undirected, sparse
        self.dataset = work / f"{name}.dataset"
        arrays = {"edges": self.edges, "labels": self.labels, "split": self.split, "features": self.features}
        for key, array in arrays.items():
            np.save(work / f"{name}.{key}.npy", array)
        features_file = f"{name}.features.npy"
        if sparse:
            import scipy.sparse
            features_file = f"{name}.features.npz"
            scipy.sparse.save_npz(work / features_file, scipy.sparse.csr_matrix(self.features))
        data("import", f"{name}.edges.npy", "--features", features_file, "--labels", f"{name}.labels.npy", "--split", f"{name}.split.npy",
             "--out", self.dataset, "--force", "--quiet", *(["--undirected"] if undirected else []))

    def edge_index(self, direction: str | None = None) -> np.ndarray:
        """Returns [2, edges] from neighbor to node, in the direction that trainers use. A self-loop counts once."""
        edges = self.edges
        others = edges[edges[:, 0] != edges[:, 1]]
        if (direction or ("in" if self.undirected else "both")) == "out":
            edges = edges[:, ::-1]
        if self.undirected or direction in (None, "both"):
            edges = np.r_[edges, others[:, ::-1]]
        return np.ascontiguousarray(edges.T)
