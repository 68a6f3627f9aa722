"""Runs every line of docs/guide/use-results.md: commands by the shell, Python in one namespace, and checks some results."""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np

import oracle

page = Path(__file__).parents[2] / "docs/guide/use-results.md"


def prepare() -> None:
    """Makes the datasets of the page."""
    draw = np.random.default_rng(7)
    names = ["ann", "NA", 'quoted "name"', *(f"user{i}" for i in range(57))]
    lines = [f"{names[u]}\tlikes\titem{i}" for u in range(60) for i in range(24) if u % 4 == i % 4 or draw.random() < 0.05]
    (oracle.work / "likes.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    oracle.data("import", "likes.tsv", "--fractions", ".8,.1,.1", "--out", "data/likes")
    classes = draw.integers(0, 3, 400)
    ends = draw.integers(0, 400, (2, 6000))
    ends = ends[:, (classes[ends[0]] == classes[ends[1]]) & (ends[0] != ends[1])]
    np.save(oracle.work / "edges.npy", ends)
    np.save(oracle.work / "x.npy", (np.eye(3)[classes] + draw.normal(size=(400, 3)) / 2).astype("float32"))
    np.save(oracle.work / "y.npy", np.where(np.arange(400) % 10 == 0, -1, classes))
    np.save(oracle.work / "split.npy", np.where(np.arange(400) % 10 == 0, 3, np.arange(400) % 3))
    oracle.data("import", "edges.npy", "--undirected", "--features", "x.npy", "--labels", "y.npy", "--split", "split.npy",
                "--out", "data/mine")


def main() -> None:
    prepare()
    os.chdir(oracle.work)
    known: dict = {}
    blocks = re.findall(r"^```python\n(.*?)^```|^    (gneiss-[^\n]*)$", page.read_text(encoding="utf-8"), re.M | re.S)
    for python, command in blocks:
        if command:
            subprocess.run(command, shell=True, check=True, env={**os.environ, "PATH": f"{oracle.programs}:{os.environ['PATH']}"})
        else:
            exec(compile(python, str(page), "exec"), known)  # noqa: S102
    oracle.check("the page has commands and Python", sum(bool(p) for p, _ in blocks) >= 7 and len(blocks) >= 10)
    answers, names, rows = known["answers"], known["names"], np.array(known["rows"])
    oracle.check("pandas has the five answers in order", list(answers["rank"]) == [1, 2, 3, 4, 5])
    oracle.check("DuckDB has the three best", list(known["top"]["tail"]) == list(answers["tail"])[:3])
    oracle.check("names are texts, NA and quotes too", {"NA", "ann", 'quoted "name"'} <= set(names))
    oracle.close("the row of ann", known["ann"], rows[list(names).index("ann")], 0)
    printed = oracle.run("gneiss-marius", "export", "runs/likes", "--out", "again").splitlines()[-2:]
    own = {"pandas": known["pandas"], "numpy": np}
    exec("\n".join(printed), own)  # noqa: S102
    oracle.check("the lines that export prints give the same rows by name",
                 list(own["rows"].index) == list(names) and np.array_equal(own["rows"].to_numpy(), rows))
    similar = json.loads(oracle.run("gneiss-marius", "predict", "runs/likes", "--similar", names[0], "--k", 5, "--candidates", "all", "--json"))
    expected = [one["node"] for one in similar["predictions"][0]["answers"]]
    oracle.check("Faiss finds the nodes that predict finds", list(known["nearest"])[1:] == expected)
    oracle.check("USearch finds most of them", len(set(names.iloc[known["keys"]]) & set(expected)) >= 4)
    oracle.check("KMeans has a group for each node", len(known["groups"]) == len(rows))
    right = known["probability"][known["known"]].argmax(axis=1) == known["truth"][known["known"]]
    oracle.check("columns are the classes", right.mean() > 0.8 and list(known["labels"]) == ["0", "1", "2"], f"{right.mean():.2f}")
