"""Tests draws of neighbors, negatives and dropout by chi-square. Seeds are fixed, so results are repeatable."""

from collections import Counter, defaultdict
from itertools import combinations, product

import numpy as np
from scipy.stats import chi2, chisquare

import oracle

least_p = 1e-5


def check_p(name: str, p: float) -> None:
    oracle.check(name, p >= least_p, f"p = {p:.3g}")


def outcomes(name: str, seen: list, expected: dict) -> None:
    """Compares counts of outcomes with their probabilities; other outcomes are errors."""
    counts = Counter(seen)
    if not set(counts) <= {key for key, p in expected.items() if p > 0}:
        return oracle.check(name, False, "an outcome of probability 0")
    keys = [key for key, p in expected.items() if p > 0]
    probabilities = np.array([expected[key] for key in keys])
    check_p(name, chisquare([counts[key] for key in keys], probabilities / probabilities.sum() * len(seen)).pvalue)


def evenly(name: str, lists: list, edges: np.ndarray, count: int) -> None:
    """Lists of `count` distinct edges: tests the frequency of each edge and each pair."""
    at = {edge: i for i, edge in enumerate(edges.tolist())}
    there = np.zeros((len(lists), len(edges)))
    for row, drawn in enumerate(lists):
        there[row, [at[edge] for edge in drawn]] = 1
    if not (there.sum(1) == count).all():
        return oracle.check(name, False, "a list of another size, or an edge twice")
    n, share = len(edges), count / len(edges)
    variance = len(lists) * share * (1 - share)
    check_p(f"{name}: edges", chi2.sf(((there.sum(0) - len(lists) * share) ** 2).sum() / variance * (n - 1) / n, n - 1))
    pairs = (there.T @ there)[np.triu_indices(n, 1)]
    both = share * (count - 1) / (n - 1)
    z = (pairs - len(lists) * both) / np.sqrt(len(lists) * both * (1 - both))
    check_p(f"{name}: pairs", min(1.0, len(pairs) * chi2.sf((z**2).max(), 1)))


def sets_of(edges, count: int) -> dict:
    sets = [frozenset(chosen) for chosen in combinations(edges, count)]
    return dict.fromkeys(sets, 1 / len(sets))


def joint(*probabilities: dict) -> dict:
    return {keys: np.prod([p[key] for p, key in zip(probabilities, keys)]) for keys in product(*probabilities)}


def weighted_pairs(weight: dict) -> dict:
    """Two draws without replacement, each in proportion to the remaining weights."""
    total = sum(weight.values())
    return {frozenset((a, b)): weight[a] / total * weight[b] / (total - weight[a]) + weight[b] / total * weight[a] / (total - weight[b])
            for a, b in combinations(weight, 2)}


def check_neighbors(sampler: str, draws: dict[str, np.ndarray], edges: np.ndarray) -> None:
    def into(node):
        return np.flatnonzero(edges[:, 1] == node)

    def out_of(node):
        return np.flatnonzero(edges[:, 0] == node)

    def lists(name, node, hop=0) -> list:
        """Returns the edges drawn for a node, by batch."""
        rows = draws[name]
        found = defaultdict(list)
        for batch, edge in rows[(rows[:, 2] == node) & (rows[:, 1] == hop)][:, [0, 3]]:
            found[batch].append(int(edge))
        return [found[batch] for batch in sorted(found)]

    def sets(name, node, hop=0) -> list:
        return [frozenset(drawn) for drawn in lists(name, node, hop)]

    def test(name, seen, expected):
        outcomes(f"{sampler} sampler, {name}", seen, expected)

    zero, three = sets("3 of 6", 0), sets("3 of 6", 3)
    of_zero, of_three = sets_of(into(0), 3), sets_of(into(3), 3)
    oracle.check(f"{sampler} sampler, 3 of 6: three distinct", all(len(drawn) == 3 == len(set(drawn)) for drawn in lists("3 of 6", 0)))
    test("3 of 6: sets", zero, of_zero)
    test("3 of 6: sets of two nodes", list(zip(zero, three)), joint(of_zero, of_three))
    test("3 of 6: sets of consecutive batches", list(zip(zero, zero[1:])), joint(of_zero, of_zero))
    evenly(f"{sampler} sampler, 5 of 20", lists("5 of 20", 1), into(1), 5)
    evenly(f"{sampler} sampler, 40 of 60", lists("40 of 60", 2), into(2), 40)
    test("3 of 6 with replacement: sequences", [tuple(drawn) for drawn in lists("3 of 6 with replacement", 0)],
         dict.fromkeys(product(into(0), repeat=3), 1 / 216))
    drawn = lists("8 of 6 with replacement", 0)
    oracle.check(f"{sampler} sampler, 8 of 6 with replacement: eight", all(len(x) == 8 for x in drawn))
    test("8 of 6 with replacement: edges", sum(drawn, []), dict.fromkeys(into(0), 1 / 6))
    test("4 of both: sets", sets("4 of both", 4), sets_of([*into(4), *out_of(4)], 4))
    inward = set(into(4).tolist())
    test("2 in and 3 out: sets", [(x & inward, x - inward) for x in sets("2 in and 3 out", 4)], joint(sets_of(into(4), 2), sets_of(out_of(4), 3)))
    test("2 of 5 with a self-loop: sets", sets("2 of 5 with a self-loop", 5), sets_of(into(5), 2))
    once = Counter(tuple(sorted(map(int, x))) for x in combinations(sorted({*into(5), *out_of(5)}), 3))  # the self-loop counts once
    test("3 of both with a self-loop: sets", [tuple(sorted(x)) for x in lists("3 of both with a self-loop", 5)],
         {key: count / once.total() for key, count in once.items()})
    two_of_six = sets_of(into(6), 2)
    if sampler == "neighbor":
        for hop in (0, 1):
            test(f"three hops: sets of hops {hop} and {hop + 1}", list(zip(sets("three hops", 6, hop), sets("three hops", 6, hop + 1))),
                 joint(two_of_six, two_of_six))
    else:
        test("three hops: sets of the seed", sets("three hops", 6), two_of_six)
        test("three hops: sets of a later node", sets("three hops", 7), sets_of(into(7), 2))
    for node in (0, 5):
        test(f"weighted: sets of node {node}", sets("weighted", node), weighted_pairs({int(e): float(e % 5) for e in into(node)}))
    weight = {int(e): e % 5 for e in into(0)}
    one = {edge: value / sum(weight.values()) for edge, value in weight.items()}
    test("weighted with replacement: sequences", [tuple(x) for x in lists("weighted with replacement", 0)], joint(one, one, one))
    pairs = [(a[0], b[0]) for a, b in zip(lists("1 of 20 and 1 of 60", 1), lists("1 of 20 and 1 of 60", 2))]
    test("1 of 20 and 1 of 60: pairs", pairs, dict.fromkeys(product(into(1), into(2)), 1 / 1200))
    test("2 of 5 with two excluded: sets", sets("2 of 5 with two excluded", 5), sets_of(set(into(5)) - {104, 105}, 2))
    test("3 of 6 with two excluded: sets", sets("3 of 6 with two excluded", 0), sets_of(set(into(0)) - {0, 4}, 3))


def check_negatives(case: dict, load) -> None:
    lists, ends = load("lists"), load("edges").ravel()
    degrees = np.bincount(ends, minlength=60) / ends.size
    resident = np.zeros(60)
    resident[np.r_[0:30, 40:60]] = 1 / 50
    by_degree = int(100 * case["share"])
    name = f"negatives, a share of {case['share']} by degree"
    for part, columns, expected in (("by degree", slice(0, by_degree), degrees), ("uniform", slice(by_degree, 100), resident)):
        drawn = lists[:, columns]
        if drawn.size:
            outcomes(f"{name}: {part}", drawn.ravel().tolist(), dict(enumerate(expected)))
    tables = np.zeros((60, 60))  # lists of tails and heads of a chunk, by their last entries
    np.add.at(tables, (lists[0::2, -1], lists[1::2, -1]), 1)
    last = degrees if case["share"] == 1 else resident
    there = last > 0
    expected = np.outer(last[there], last[there]) * tables.sum()
    seen = tables[np.ix_(there, there)]
    check_p(f"{name}: tails and heads are independent", chi2.sf(((seen - expected) ** 2 / expected).sum(), expected.size - 1))


def check_dropout(case: dict, load) -> None:
    values, kept = load("values"), 1 - case["rate"]
    there = values != 0
    name = f"dropout {case['rate']}"
    scale = float(np.abs(values[there] * kept - 1).max())
    oracle.check(f"{name}: scale", scale < 1e-4, f"{scale:.1e}")
    variance = kept * (1 - kept)
    rows, columns = there.shape
    check_p(f"{name}: share", chi2.sf((there.sum() - there.size * kept) ** 2 / (there.size * variance), 1))
    check_p(f"{name}: columns", chi2.sf(((there.sum(0) - rows * kept) ** 2).sum() / (rows * variance), columns))
    check_p(f"{name}: rows", chi2.sf(((there.sum(1) - columns * kept) ** 2).sum() / (columns * variance), rows))
    for way, both in (("columns", there[:, 1:] & there[:, :-1]), ("rows", there[1:] & there[:-1])):
        # neighbors overlap: Var = n q²(1 - q²) + 2 n (q³ - q⁴)
        spread = both.size * (kept**2 * (1 - kept**2) + 2 * (kept**3 - kept**4))
        check_p(f"{name}: pairs of adjacent {way}", chi2.sf((both.sum() - both.size * kept**2) ** 2 / spread, 1))


def main() -> None:
    drawn: dict[str, dict] = {"neighbor": {}, "dense": {}}
    edges = np.zeros((0, 2))
    for case, load in oracle.cases("draws"):
        if case["kind"] == "graph":
            edges = load("edges")
        elif case["kind"] == "neighbors":
            drawn[case["sampler"]][case["name"]] = load("draws")
        else:
            {"negatives": check_negatives, "dropout": check_dropout}[case["kind"]](case, load)
    for sampler, draws in drawn.items():
        check_neighbors(sampler, draws, edges)
