"""Compares node classification metrics with scikit-learn and OGB's evaluators, and tests the reported loss."""

import json

import numpy as np
from ogb.nodeproppred import Evaluator
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

import oracle


def check_nodes(name: str, graph: oracle.Labeled, program: str, *flags) -> None:
    folder = oracle.train(program, graph.dataset, "metrics", "--epochs", 8, *flags)
    what = ["--what", "predictions"] if program == "gneiss-mariusgnn" else []
    probabilities = oracle.by_node(oracle.export(program, folder, *what), "predictions").astype(float)
    reported = json.loads((folder / "run.json").read_text())["metrics"]["test"]
    by_eval = {split: oracle.evaluate(program, folder, split) for split in ("valid", "test")}
    for split, number in (("valid", 1), ("test", 2)):
        at = graph.split == number
        labels, rows = graph.labels[at], probabilities[at]
        rows = rows / rows.sum(1, keepdims=True)
        ranked = {"y_score": rows[:, 1]} if graph.classes == 2 else {"y_score": rows, "multi_class": "ovr", "average": "macro"}
        want = {"accuracy": accuracy_score(labels, rows.argmax(1)), "macro_f1": f1_score(labels, rows.argmax(1), average="macro"),
                "roc_auc": roc_auc_score(labels, **ranked)}
        for metric, value in want.items():
            oracle.close(f"{name}, {split}: {metric}", by_eval[split][metric], value, 1e-6 if metric != "roc_auc" else 1e-5)
        if split == "test":
            for metric, value in want.items():
                oracle.close(f"{name}, run.json: {metric}", reported[metric], value, 1e-6 if metric != "roc_auc" else 1e-5)
            accuracy = Evaluator(name="ogbn-arxiv").eval({"y_true": labels[:, None], "y_pred": rows.argmax(1)[:, None]})["acc"]
            oracle.close(f"{name}: accuracy by OGB", reported["accuracy"], accuracy, 1e-6)
            one_hot = np.eye(graph.classes, dtype=int)[labels] if graph.classes > 2 else labels[:, None]
            area = Evaluator(name="ogbn-proteins")
            area.num_tasks = one_hot.shape[1]
            value = area.eval({"y_true": one_hot, "y_pred": rows if graph.classes > 2 else rows[:, 1:]})["rocauc"]
            oracle.close(f"{name}: roc_auc by OGB", reported["roc_auc"], value, 1e-5)
    lines = [line.split("\t") for line in oracle.run(program, "predict", folder, "--format", "tsv").splitlines()[1:]]
    nodes, classes = np.array([int(line[0]) for line in lines]), np.array([int(line[1]) for line in lines])
    oracle.check(f"{name}: predict lists all nodes", sorted(nodes) == list(range(len(graph.labels))))
    oracle.check(f"{name}: predict names the likeliest class", (classes == probabilities[nodes].argmax(1)).all())
    oracle.close(f"{name}: predict's probabilities", [float(line[2]) for line in lines], probabilities[nodes].max(1), 1e-4)


def check_loss() -> None:
    """Tests that the loss is the mean per edge, whatever the batches and the reduction."""
    triples = oracle.Triples()
    seen = {}
    for reduction in ("sum", "mean"):
        for batch in (500, 10000):
            folder = oracle.train("gneiss-marius", triples.dataset, "loss", "--decoder", "complex", "--dim", 16, "--epochs", 1, "--lr", 1e-30,
                                  "--batch", batch, "--chunks", 1, "--negatives", "all", "--reduction", reduction, "--no-eval",
                                  "--regularizer", "none", "--staleness", 0)
            seen[reduction, batch] = oracle.losses(folder)[0]
    for (reduction, batch), loss in seen.items():
        oracle.close(f"loss per edge, {reduction}, batches of {batch}", loss / seen["sum", 10000], 1, 1e-5)


def main() -> None:
    five = oracle.Labeled("five", 900, 3600, 5, 20, noise=3)
    two = oracle.Labeled("two", 1200, 4000, 2, 8, noise=6, shares=[0.8, 0.2])
    check_nodes("five classes", five, "gneiss-mariusgnn", "--layers", "sage:16,sage")
    check_nodes("two classes", two, "gneiss-mariusgnn", "--layers", "sage:32,sage:32:norm,sage")
    check_nodes("two classes, gneiss-ginex", two, "gneiss-ginex", "--layers", "gcn:16,sage")
    check_nodes("five classes, gneiss-hanoi", five, "gneiss-hanoi", "--layers", "sage:16,gcn")
    check_loss()
