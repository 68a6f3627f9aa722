"""Compares filtered and sampled ranks and link predictions with NumPy and OGB's evaluator."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from ogb.linkproppred import Evaluator
from scipy.stats import binom

import oracle


class Scorer:
    """Computes scores in double from a run's export."""

    def __init__(self, folder: Path, decoder: str, reciprocal: bool):
        self.nodes, self.relations = (np.load(folder / f"{table}.npy").astype(float) for table in ("nodes", "relations"))
        self.node, self.relation = oracle.names(folder / "nodes.tsv"), oracle.names(folder / "relations.tsv")
        self.decoder, self.reciprocal = decoder, reciprocal

    def halves(self, rows: np.ndarray) -> np.ndarray:
        half = rows.shape[-1] // 2
        return rows[..., :half] + 1j * rows[..., half:]

    def scores(self, end: int, relation: int, tail: bool) -> np.ndarray:
        """Returns the score of each node as the missing tail or head."""
        if not tail and self.reciprocal:
            relation, tail = relation + len(self.relations) // 2, True
        row, by = self.nodes[end], self.relations[relation]
        if self.decoder == "distmult":
            return self.nodes @ (row * by)
        if self.decoder == "complex":
            query = self.halves(row) * (self.halves(by) if tail else self.halves(by).conj())
            return (self.halves(self.nodes) @ query.conj()).real
        return -np.linalg.norm(self.nodes - (row + by if tail else row - by), axis=1)


class Ranking:
    """Scores of a split's queries: the candidates' scores, the answer's score, and the answer."""

    def __init__(self, scorer: Scorer, triples: oracle.Triples, split: str):
        edges = {name: [(scorer.node[h], scorer.relation[r], scorer.node[t]) for h, r, t in listed] for name, listed in triples.split.items()}
        self.known = {True: defaultdict(set), False: defaultdict(set)}
        for listed in edges.values():
            for h, r, t in listed:
                self.known[True][h, r].add(t)
                self.known[False][t, r].add(h)
        self.queries = []  # (scores, answer, known answers)
        for h, r, t in edges[split]:
            for end, answer, tail in ((h, t, True), (t, h, False)):
                self.queries.append((scorer.scores(end, r, tail), answer, self.known[tail][end, r]))

    def filtered(self) -> list[tuple[float, np.ndarray]]:
        return [(scores[answer], np.delete(scores, list(known | {answer}))) for scores, answer, known in self.queries]


def bounds(ranked: list[tuple[float, np.ndarray]]) -> dict[str, tuple[float, float]]:
    """Returns the lowest and highest metrics, since float may break near-ties either way."""
    found: dict[str, tuple[float, float]] = {}
    slack = np.array([1e-6 * (1 + abs(answer)) for answer, _ in ranked])
    low, high = (1 + np.array([(others > answer + sign * s).sum() for (answer, others), s in zip(ranked, slack)]) for sign in (1, -1))
    found["mrr"] = (1 / high).mean(), (1 / low).mean()
    for k in (1, 3, 10):
        found[f"hits@{k}"] = (high <= k).mean(), (low <= k).mean()
    return found


def check_filtered(name: str, ranked, got: dict) -> None:
    error = max(max(low - got[key], got[key] - high, 0) for key, (low, high) in bounds(ranked).items())
    width = max(high - low for low, high in bounds(ranked).values())
    oracle.check(f"{name}: filtered ranks", error <= 1e-8, f"{error:.1e}, near-ties {width:.1e}, mrr {got['mrr']:.4f}")


def check_ogb(name: str, ranked, got: dict) -> None:
    width = max(len(others) for _, others in ranked)
    negatives = np.full((len(ranked), width), -np.inf)
    for row, (_, others) in zip(negatives, ranked):
        row[: len(others)] = others
    positives = np.array([answer for answer, _ in ranked])
    result = Evaluator(name="ogbl-wikikg2").eval({"y_pred_pos": torch.tensor(positives), "y_pred_neg": torch.tensor(negatives)})
    slack = max(high - low for low, high in bounds(ranked).values()) + 1e-6
    for key in ("mrr", "hits@1", "hits@3", "hits@10"):
        oracle.close(f"{name}: {key} by OGB", got[key], result[f"{key}_list"].double().mean().item(), slack)


def check_given(name: str, run: Path, scorer: Scorer, triples: oracle.Triples) -> None:
    """Ranks lists of random candidates, in an order other than the dataset's, with OGB's evaluator."""
    random = np.random.default_rng(3)
    edges = [triples.split["test"][i] for i in random.permutation(len(triples.split["test"]))]
    nodes = sorted(scorer.node)
    lines, ranked = [], []
    for h, r, t in edges:
        for end, answer, side in ((h, t, "tail"), (t, h, "head")):
            listed = random.choice([node for node in nodes if node != answer], 40)
            lines.append("\t".join((h, r, t, side, *listed)))
            scores = scorer.scores(scorer.node[end], scorer.relation[r], side == "tail")
            ranked.append((scores[scorer.node[answer]], scores[[scorer.node[node] for node in listed]]))
    (oracle.work / "candidates.tsv").write_text("\n".join(lines) + "\n")
    check_ogb(f"{name}, given candidates", ranked, oracle.evaluate("gneiss-marius", run, "test", "--eval-candidates", "candidates.tsv"))


def expected(uniform: np.ndarray, by_degree: np.ndarray, counts: tuple[int, int]) -> np.ndarray:
    """Returns expected MRR and hits at 1, 3 and 10, given the probability that a candidate of each kind beats the answer."""
    parts = [binom.pmf(np.arange(count + 1), count, p[:, None]) for count, p in zip(counts, (uniform, by_degree))]
    beaten = np.zeros((len(uniform), sum(counts) + 1))
    for i in range(counts[1] + 1):
        beaten[:, i : i + counts[0] + 1] += parts[1][:, [i]] * parts[0]
    ranks = 1 + np.arange(beaten.shape[1])
    return np.array([(beaten / ranks).sum(1).mean(), *(beaten[:, ranks <= k].sum(1).mean() for k in (1, 3, 10))])


def check_sampled(triples: oracle.Triples) -> None:
    """Tests that sampled metrics minus their expectation vanish on average over many seeds."""
    settings = [(0.0, 20), (0.5, 20), (1.0, 50)]
    residuals: dict[tuple, list] = {setting: [] for setting in settings}
    for seed in range(1, 31):
        run = oracle.train("gneiss-marius", triples.dataset, "sampled", "--decoder", "complex", "--dim", 8, "--epochs", 1, "--seed", seed,
                           "--no-eval")
        scorer = Scorer(oracle.export("gneiss-marius", run), "complex", True)
        ends = [scorer.node[x] for h, _, t in triples.split["train"] for x in (h, t)]
        degrees = np.bincount(ends, minlength=len(scorer.nodes)) / len(ends)
        queries = Ranking(scorer, triples, "test").queries
        better = np.array([(scores > scores[answer]) & (np.arange(len(scores)) != answer) for scores, answer, _ in queries])
        for share, candidates in settings:
            got = oracle.evaluate("gneiss-marius", run, "test", "--eval-negatives", candidates, "--eval-edges", "all",
                                  "--eval-negatives-by-degree", share)
            drawn = int(share * candidates + 0.5)
            want = expected(better.mean(1), better @ degrees, (candidates - drawn, drawn))
            residuals[share, candidates].append([got[key] for key in ("mrr", "hits@1", "hits@3", "hits@10")] - want)
    for (share, candidates), found in residuals.items():
        z = np.abs(np.mean(found, 0)) / (np.std(found, 0, ddof=1) / len(found) ** 0.5)
        oracle.check(f"sampled ranks, {candidates} candidates, a share of {share} by degree", z.max() < 5, f"|z| of the mean up to {z.max():.1f}")


def check_predictions(name: str, run: Path, scorer: Scorer, triples: oracle.Triples, ranking: Ranking) -> None:
    """Tests the best seven answers and their scores, with and without known ones and the query's own node."""
    random = np.random.default_rng(0)
    edges = sum(triples.split.values(), [])
    queries = [query for i in random.choice(len(edges), 60, replace=False) for query in ((*edges[i][:2], "?"), ("?", *edges[i][1:]))]
    (oracle.work / "queries.tsv").write_text("".join("\t".join(query) + "\n" for query in queries))
    names = {row: node for node, row in scorer.node.items()}
    wrong = 0
    for known in (False, True):
        printed = json.loads(oracle.run("gneiss-marius", "predict", run, "--queries", "queries.tsv", "--k", 7, "--json",
                                        *(["--known", "--self"] if known else [])))
        answers = next(printed[key] for key in ("queries", "predictions", "answers") if key in printed) if isinstance(printed, dict) else printed
        for (head, relation, tail), answer in zip(queries, answers, strict=True):
            ends = (scorer.node[head if tail == "?" else tail], scorer.relation[relation])
            scores = scorer.scores(*ends, tail == "?")
            if not known:
                scores[[ends[0], *ranking.known[tail == "?"][ends]]] = -np.inf
            best = [row for row in np.argsort(-scores)[:7] if np.isfinite(scores[row])]
            listed = answer.get("answers", answer.get("predictions"))
            rows = [scorer.node[item.get("node", item.get("name"))] for item in listed]
            printed_scores = np.array([item["score"] for item in listed])
            good = len(rows) == len(best) and len(set(rows)) == len(rows)
            good = good and np.abs(scores[rows] - scores[best]).max() <= 1e-5  # near-ties may be in either order
            wrong += not (good and np.abs(printed_scores - scores[rows]).max() <= 1e-4)
    oracle.check(f"{name}: predictions", wrong == 0, f"{wrong} of {2 * len(queries)} queries differ, of {len(names)} nodes")


def main() -> None:
    triples = oracle.Triples()
    check_sampled(triples)
    for decoder, reciprocal in (("complex", True), ("complex", False), ("distmult", True), ("distmult", False), ("transe", True), ("transe", False)):
        name = f"{decoder}{', reciprocal' if reciprocal else ''}"
        run = oracle.train("gneiss-marius", triples.dataset, "ranks", "--decoder", decoder, "--reciprocal", str(reciprocal).lower(),
                           "--dim", 16, "--epochs", 5, "--no-eval")
        scorer = Scorer(oracle.export("gneiss-marius", run), decoder, reciprocal)
        for split in ("valid", "test"):
            ranking = Ranking(scorer, triples, split)
            got = oracle.evaluate("gneiss-marius", run, split, "--eval-negatives", "all", "--eval-edges", "all")
            check_filtered(f"{name}, {split}", ranking.filtered(), got)
        check_ogb(f"{name}, test", ranking.filtered(), got)
        check_given(name, run, scorer, triples)
        check_predictions(name, run, scorer, triples, ranking)
    for decoder, reciprocal, layers in (("complex", True, "sage:16"), ("distmult", False, "gat:8x2"), ("transe", True, "gcn:16,sage:16")):
        run = oracle.train("gneiss-mariusgnn", triples.dataset, "ranks", "--task", "link", "--decoder", decoder, "--reciprocal",
                           str(reciprocal).lower(), "--layers", layers, "--dim", 16, "--epochs", 3, "--no-eval",
                           "--fanout", ",".join(["10"] * (layers.count(",") + 1)))
        scorer = Scorer(oracle.export("gneiss-mariusgnn", run), decoder, reciprocal)
        for split in ("valid", "test"):
            got = oracle.evaluate("gneiss-mariusgnn", run, split, "--eval-negatives", "all", "--eval-edges", "all")
            check_filtered(f"GNN {layers}, {decoder}, {split}", Ranking(scorer, triples, split).filtered(), got)
