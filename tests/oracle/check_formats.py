"""Tests gneiss-data: import of files written by SciPy, networkx, pandas and NumPy; splits; and export."""

import gzip
import itertools
import json
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp

import oracle

nodes = 60
random = np.random.default_rng(5)
# 50 nodes have edges, including a repeated self-loop and an edge that occurs three times
edges = [tuple(map(int, e)) for e in random.integers(0, 50, (300, 2))] + [(7, 7), (7, 7), (3, 4), (3, 4), (3, 4), (49, 0)]
directed = Counter(edges)
both_ways = directed + Counter({(b, a): count for (a, b), count in directed.items() if a != b})
table = np.array(edges)
features = np.where(random.random((nodes, 9)) < 0.4, random.random((nodes, 9)), 0).astype(np.float32)
labels = random.integers(0, 4, nodes)
split = random.integers(0, 4, nodes).astype(np.uint8)


def text(name: str, content: str) -> Path:
    path = oracle.work / name
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_bytes(content.encode())
    return path


def lines(rows, between: str = "\t", end: str = "\n") -> str:
    return "".join(between.join(map(str, row)) + end for row in rows)


def read(source: Path, *flags) -> tuple[dict[str, list], int]:
    """Imports, verifies and exports; returns the edges of each split by name, and the number of nodes."""
    oracle.data("import", source, "--out", "read.dataset", "--force", "--quiet", *flags)
    oracle.data("verify", "read.dataset", "--quiet")
    oracle.data("export", "read.dataset", "--out", "read.export", "--force", "--quiet")
    found = {}
    for part in ("train", "valid", "test"):
        path = oracle.work / f"read.export/{part}.tsv"
        found[part] = [tuple(line.split("\t")) for line in path.read_text().splitlines()] if path.exists() else []
    return found, json.loads((oracle.work / "read.dataset/manifest.json").read_text())["nodes"]


def pairs(listed) -> Counter:
    """Returns the ends of edges between integer nodes."""
    return Counter((int(edge[0]), int(edge[-1])) for edge in listed)


def check_edges(name: str, source: Path, want: Counter, count: int, *flags) -> None:
    try:
        found, got_nodes = read(source, *flags)
    except RuntimeError as refused:
        return oracle.check(name, False, str(refused))
    got = pairs(itertools.chain(*found.values()))
    good = got == +want and got_nodes == count
    oracle.check(name, good, "" if good else f"{got.total()} edges of {got_nodes} nodes, not {want.total()} of {count}")


def check_refused(name: str, source: Path, *flags) -> None:
    try:
        oracle.data("import", source, "--out", "refused.dataset", "--force", "--quiet", *flags, expect=1)
        oracle.check(name, True)
    except RuntimeError as wrong:
        oracle.check(name, False, str(wrong))


def check_text() -> None:
    plain = lines(edges)
    ints = ["--ids", "int"]
    for name, path, flags in [
        ("TSV", text("a.tsv", plain), ints),
        ("TSV without a final newline", text("a.tsv", plain.rstrip("\n")), ints),
        ("TSV, CRLF", text("crlf.tsv", lines(edges, end="\r\n")), ints),
        ("TSV, CRLF, names", text("crlf.tsv", lines(edges, end="\r\n")), []),
        ("TSV, gzip", text("a.tsv.gz", plain), ints),
        ("TSV, comments", text("comments.tsv", "# from\tto\n" + plain.replace("\n", "\n# between\n", 3)), ints),
        ("TSV, blank lines", text("blank.tsv", plain.replace("\n", "\n\n", 5) + "\n\n"), ints),
        ("TSV, byte order mark", text("mark.tsv", "\ufeff" + plain), ints),
        ("KONECT", text("a.txt", "% asym unweighted\n" + lines(edges, " ")), ints),
        ("edge list, runs of blanks", text("a.edgelist", "".join(f"  {a}   {b}\n" for a, b in edges)), [*ints, "--format", "edgelist"]),
        ("edge list with weights", text("w.edgelist", "".join(f"{a} {b} 0.5\n" for a, b in edges)), [*ints, "--format", "edgelist"]),
        ("CSV", text("a.csv", lines(edges, ",")), ints),
        ("CSV with a header", text("h.csv", "source,target,weight\n" + lines(((a, b, 0.5) for a, b in edges), ",")),
         [*ints, "--header", "--columns", "source,target"]),
        ("CSV, quoted", text("q.csv", "".join(f'"{a}","{b}"\n' for a, b in edges)), []),
    ]:
        check_edges(name, path, directed, 50, *flags)
    two_members = oracle.work / "two.tsv.gz"
    two_members.write_bytes(gzip.compress(plain[:999].encode()) + gzip.compress(plain[999:].encode()))
    check_edges("TSV, gzip of two members", two_members, directed, 50, *ints)
    check_edges("TSV --undirected", text("a.tsv", plain), both_ways, 50, *ints, "--undirected")
    for with_data in (False, True):
        nx.write_edgelist(nx.MultiDiGraph(edges), oracle.work / "nx.edgelist", data=with_data)
        name = f"networkx edge list{' with data' if with_data else ''}"
        check_edges(name, oracle.work / "nx.edgelist", directed, 50, *ints, "--format", "edgelist")
    odd_names = ["a b", "ü", '"q"', "007", "7", "-1", "x,y", "o'k", "#no"]
    triples = [(odd_names[i % 9], f"r{i % 3}", odd_names[(i * 4 + 1) % 9]) for i in range(40)]
    found, count = read(text("names.tsv", lines(triples)))
    oracle.check("names of any characters", Counter(found["train"]) == Counter(triples) and count == 9)


def check_arrays() -> None:
    for name, array in [("NumPy [edges, 2]", table), ("NumPy i32 [edges, 3]", np.array([(a, 0, b) for a, b in edges], np.int32)),
                        ("NumPy u64", table.astype(np.uint64))]:
        np.save(oracle.work / "edges.npy", array)
        check_edges(name, oracle.work / "edges.npy", directed, 50)
    np.savez(oracle.work / "index.npz", edge_index=np.ascontiguousarray(table.T))
    check_edges("npz, edge_index [2, edges]", oracle.work / "index.npz", directed, 50)
    np.savez_compressed(oracle.work / "compressed.npz", edges=table)
    check_edges("npz, compressed", oracle.work / "compressed.npz", directed, 50)


def check_matrix_market() -> None:
    path = oracle.work / "m.mtx"

    def entries() -> Counter:
        matrix = scipy.io.mmread(path).tocoo()
        return Counter(zip(matrix.row.tolist(), matrix.col.tolist()))

    general = sp.coo_array((np.ones(len(edges)), table.T), shape=(nodes, nodes)).tocsr().tocoo()
    simple = nx.Graph(edges)
    simple.add_nodes_from(range(nodes))
    symmetric = nx.to_scipy_sparse_array(simple, nodelist=range(nodes), format="coo", dtype=float)
    upper = np.triu(symmetric.toarray(), 1)
    skew = sp.coo_array(upper - upper.T)
    written = [(general, field, "general") for field in ("real", "integer", "pattern", "complex")]
    written += [(symmetric, field, "symmetric") for field in ("real", "integer", "pattern")]
    written += [(skew, "real", "skew-symmetric"), (sp.coo_array(skew * 1j), "complex", "hermitian")]
    for matrix, field, symmetry in written:
        scipy.io.mmwrite(path, matrix.astype(int) if field == "integer" else matrix, field=field, symmetry=symmetry, comment="two\nlines")
        check_edges(f"Matrix Market {field} {symmetry}", path, entries(), nodes)
    scipy.io.mmwrite(path, symmetric, field="pattern", symmetry="symmetric")
    want, content = entries(), path.read_text()
    check_edges("Matrix Market symmetric --undirected", path, want, nodes, "--undirected")
    check_edges("Matrix Market, gzip", text("m.mtx.gz", content), want, nodes)
    check_edges("Matrix Market, CRLF", text("crlf.mtx", content.replace("\n", "\r\n")), want, nodes)
    banner = "%%MatrixMarket matrix coordinate pattern"
    check_edges("Matrix Market, an entry twice", text("twice.mtx", f"{banner} general\n%\n\n4 4 4\n1 2\n1 2\n3 3\n4 1\n"),
                Counter({(0, 1): 2, (2, 2): 1, (3, 0): 1}), 4)
    for name, content in [("index 0", f"{banner} general\n3 3 1\n0 1\n"), ("an index too large", f"{banner} general\n3 3 1\n4 1\n"),
                          ("too few entries", f"{banner} general\n3 3 2\n1 1\n"), ("too many entries", f"{banner} general\n3 3 1\n1 1\n1 2\n"),
                          ("dense", "%%MatrixMarket matrix array real general\n2 2\n0\n1\n1\n0\n")]:
        check_refused(f"Matrix Market is refused: {name}", text("bad.mtx", content))


def check_metis() -> None:
    simple = nx.Graph((a, b) for a, b in edges if a != b)
    simple.add_nodes_from(range(nodes))
    near = {node: sorted(simple[node]) for node in range(nodes)}
    want = Counter((a, b) for a in near for b in near[a])

    def graph(code: str = "", line=lambda v: " ".join(str(x + 1) for x in near[v])) -> str:
        return f"% comment\n{nodes} {simple.number_of_edges()} {code}".rstrip() + "\n" + "".join(line(v) + "\n" for v in range(nodes))

    def weighted(*front):
        return lambda v: " ".join([*front, *(f"{x + 1} 7" for x in near[v])])

    def fronted(*front):
        return lambda v: " ".join([*front, *(str(x + 1) for x in near[v])])

    for name, content in [("plain", graph()), ("edge weights", graph("1", weighted())), ("edge weights, 001", graph("001", weighted())),
                          ("vertex weights", graph("10", fronted("4"))), ("both weights, three of a vertex", graph("011 3", weighted("1", "2", "3"))),
                          ("vertex sizes", graph("100", fronted("9"))), ("sizes and weights", graph("111 2", weighted("9", "1", "1"))),
                          ("tabs and trailing blanks", graph(line=lambda v: "\t".join(str(x + 1) for x in near[v]) + "  ")),
                          ("CRLF", graph().replace("\n", "\r\n")), ("a comment inside", graph().replace("\n", "\n% inside\n", 9))]:
        check_edges(f"METIS, {name}", text("g.graph", content), want, nodes)
    check_edges("METIS, gzip", text("g.graph.gz", graph()), want, nodes)
    check_edges("METIS --undirected", text("g.graph", graph()), want, nodes, "--undirected")


def stored() -> dict[str, np.ndarray]:
    """Returns features, labels and split of the last dataset read, by node."""
    folder = oracle.work / "read.dataset"
    manifest = json.loads((folder / "manifest.json").read_text())

    def load(name: str):
        return np.load(folder / f"{name}.npy") if (folder / f"{name}.npy").exists() else None

    rows = load("node_to_row")
    rows = np.arange(manifest["nodes"]) if rows is None else rows
    found = {name: load(name)[rows] for name in ("features", "labels", "split") if load(name) is not None}
    offsets, indices, values = load("features.indptr"), load("features.indices"), load("features.values")
    if offsets is not None:
        values = np.ones(len(indices), np.float32) if values is None else values
        matrix = sp.csr_matrix((values, indices.astype(np.int64), offsets), shape=(manifest["nodes"], manifest["node_data"]["features"]))
        found["features"] = matrix.toarray()[rows]
    return found


def check_node_data(name: str, source: Path, want: dict[str, np.ndarray], *flags, listed: Counter = directed) -> None:
    try:
        found, _ = read(source, *flags)
    except RuntimeError as refused:
        return oracle.check(name, False, str(refused))
    got = stored()
    wrong = [key for key, value in want.items() if key not in got or got[key].shape != value.shape or not np.allclose(got[key], value, atol=1e-6)]
    wrong += [] if pairs(itertools.chain(*found.values())) == listed else ["edges"]
    oracle.check(name, not wrong, f"{', '.join(wrong)} differ" if wrong else "")


def check_features() -> None:
    work = oracle.work
    for key, array in {"e": table, "x": features, "y": labels, "s": split, "x64": features.astype(float), "x16": features.astype(np.float16),
                       "counts": np.arange(nodes * 9).reshape(nodes, 9), "column": labels[:, None]}.items():
        np.save(work / f"{key}.npy", array)
    all_data = {"features": features, "labels": labels, "split": split}
    classified = ["--labels", work / "y.npy", "--split", work / "s.npy"]

    def check_one(name: str, want: dict, *flags) -> None:
        check_node_data(name, work / "e.npy", want, *flags)

    check_one("features f32", all_data, "--features", work / "x.npy", *classified)
    check_one("features f64", all_data, "--features", work / "x64.npy", *classified)
    check_one("features f16", {"features": features.astype(np.float16)}, "--features", work / "x16.npy")
    check_one("features i64", {"features": np.arange(nodes * 9).reshape(nodes, 9)}, "--features", work / "counts.npy")
    check_one("labels [nodes, 1]", {"labels": labels}, "--labels", work / "column.npy")
    missing = np.where(np.isin(np.arange(nodes), (3, 5)), -1, labels)
    np.save(work / "nan.npy", np.where(missing < 0, np.nan, missing).astype(np.float32))
    check_one("labels f32 with NaN", {"labels": missing}, "--labels", work / "nan.npy")

    square = np.where(random.random((nodes, nodes)) < 0.2, random.random((nodes, nodes)), 0).astype(np.float32)
    for matrix, shape in ((features, "wide"), (square, "square")):
        for kind in ("csr", "csc", "coo"):
            for compressed in (True, False):
                sp.save_npz(work / "sparse.npz", sp.coo_matrix(matrix).asformat(kind), compressed=compressed)
                check_one(f"SciPy {kind}, {shape}{', compressed' if compressed else ''}", {"features": matrix}, "--features", work / "sparse.npz")
    for kind in ("bsr", "dia"):  # read correctly or refused
        sp.save_npz(work / "sparse.npz", sp.csr_matrix(square).asformat(kind))
        try:
            read(work / "e.npy", "--features", work / "sparse.npz")
            oracle.check(f"SciPy {kind}", np.array_equal(stored()["features"], square))
        except RuntimeError as refused:
            oracle.check(f"SciPy {kind} is refused by its name", kind in str(refused).lower(), str(refused).split("error: ")[-1])
    shuffled = sp.csr_matrix(features)
    for begin, end in zip(shuffled.indptr, shuffled.indptr[1:]):
        order = begin + random.permutation(end - begin)
        shuffled.indices[begin:end], shuffled.data[begin:end] = shuffled.indices[order], shuffled.data[order]
    shuffled.has_sorted_indices = False
    sp.save_npz(work / "sparse.npz", shuffled)
    check_one("SciPy csr, columns in any order", {"features": features}, "--features", work / "sparse.npz")

    order = random.permutation(nodes)
    text("x.tsv", lines([i, *map(float, features[i])] for i in order))
    text("y.tsv", lines([i, f"class{labels[i]}"] for i in order))
    check_one("features and class names as TSV", {"features": features, "labels": labels}, "--ids", "int", "--features", work / "x.tsv",
              "--labels", work / "y.tsv")
    text("sparse.tsv", lines([i, *(f"{c}:{float(features[i, c])!r}" for c in np.flatnonzero(features[i]))] for i in range(nodes)))
    check_one("sparse features as TSV", {"features": features}, "--ids", "int", "--features", work / "sparse.tsv", "--num-features", 9)


def write_csv(path: Path, values) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(values).to_csv(path, index=False, header=False)


def check_folders() -> None:
    folder = oracle.work / "ogb"
    all_data = {"features": features, "labels": labels, "split": split}

    def write_split(folder: Path) -> None:
        for number, name in enumerate(("train", "valid", "test")):
            write_csv(folder / f"split/time/{name}.csv.gz", np.flatnonzero(split == number))

    for name, values in {"edge": table, "node-feat": features, "node-label": labels, "num-node-list": [nodes], "num-edge-list": [len(edges)]}.items():
        write_csv(folder / f"raw/{name}.csv.gz", values)
    write_split(folder)
    check_node_data("OGB, CSV", folder, all_data)
    check_node_data("OGB, CSV --undirected", folder, all_data, "--undirected", listed=both_ways)
    folder = oracle.work / "ogb-binary"
    write_split(folder)
    (folder / "raw").mkdir()
    np.savez(folder / "raw/data.npz", edge_index=np.ascontiguousarray(table.T), node_feat=features, num_nodes_list=np.array([nodes]),
             num_edges_list=np.array([len(edges)]), node_year=np.zeros((nodes, 1)))
    np.savez(folder / "raw/node-label.npz", node_label=labels[:, None].astype(np.float32))
    check_node_data("OGB, binary", folder, all_data)

    folder = oracle.work / "graphbolt"
    for part in ("edges", "data", "set"):
        (folder / part).mkdir(parents=True)
    write_csv(folder / "edges/edges.csv", table)
    np.save(folder / "edges/edges.npy", np.ascontiguousarray(table.T))
    np.save(folder / "data/features.npy", features)
    sets = ""
    for number, name in enumerate(("train", "validation", "test")):
        np.save(folder / f"set/{name}_seeds.npy", np.flatnonzero(split == number))
        np.save(folder / f"set/{name}_labels.npy", labels[split == number])
        sets += f"    {name}_set:\n      - type: null\n        data:\n"
        for part in ("seeds", "labels"):
            sets += f"          - {{name: {part}, format: numpy, in_memory: true, path: set/{name}_{part}.npy}}\n"
    for kind, file in (("csv", "edges.csv"), ("numpy", "edges.npy")):
        (folder / "metadata.yaml").write_text(
            f"dataset_name: small\ngraph:\n  nodes:\n    - num: {nodes}\n  edges:\n    - {{format: {kind}, path: edges/{file}}}\n"
            "feature_data:\n  - {domain: node, type: null, name: feat, format: numpy, in_memory: true, path: data/features.npy}\n"
            f"tasks:\n  - name: node_classification\n    num_classes: 4\n{sets}")
        check_node_data(f"GraphBolt, {kind}", folder, {"features": features, "labels": np.where(split == 3, -1, labels), "split": split})


def check_split(name: str, source: Path, *flags, by_pair: bool = True, fractions=(0.8, 0.1, 0.1), seed: int = 0) -> None:
    """All copies of an edge, or both directions of a pair, are in one split; the shares are as requested."""
    found, _ = read(source, "--fractions", ",".join(map(str, fractions)), "--seed", seed, *flags)
    key = (lambda edge: frozenset((edge[0], edge[-1]))) if by_pair else (lambda edge: edge)
    parts = [{key(edge) for edge in listed} for listed in found.values()]
    whole = set().union(*parts)
    shared = sum(map(len, parts)) - len(whole)
    z = max(abs(len(part) - len(whole) * f) / np.sqrt(len(whole) * f * (1 - f)) for part, f in zip(parts, fractions))
    oracle.check(f"{name}: no {'pair' if by_pair else 'edge'} in two splits", shared == 0, f"{shared} of {len(whole)}")
    oracle.check(f"{name}: shares", z < 5, f"|z| up to {z:.1f}")


def check_splits() -> None:
    count = 2000
    up, down = ([(0, i) for i in range(1, count)], [(i, 0) for i in range(1, count)])
    facing = [edge for i in range(count) for edge in ((i, i + count), (i + count, i))]
    for names in ([], ["--ids", "int"]):
        kind = "names" if not names else "ids"
        check_split(f"split of a star written 0 i, {kind}", text("up.tsv", lines(up)), "--undirected", *names)
        check_split(f"split of a star written i 0, {kind}", text("down.tsv", lines(down)), "--undirected", *names)
        check_split(f"split of pairs listed both ways, {kind}", text("facing.tsv", lines(facing)), "--undirected", *names)
    metis = f"{2 * count} {count}\n" + lines([i + count] for i in range(1, count + 1)) + lines([i] for i in range(1, count + 1))
    check_split("split of a METIS file", text("pairs.graph", metis))
    check_split("split of a METIS file --undirected", text("pairs.graph", metis), "--undirected")
    stars = [(i + 10 * j, i) for i in range(1, 11) for j in range(1, count // 2)]
    header = f"%%MatrixMarket matrix coordinate pattern symmetric\n{5 * count} {5 * count} {len(stars)}\n"
    check_split("split of a symmetric matrix", text("stars.mtx", header + lines(stars, " ")))
    repeated = random.integers(0, 3000, (60000, 2))
    repeated = np.r_[repeated, repeated[:9000]]
    check_split("split of directed edges with copies", text("copies.tsv", lines(repeated.tolist())), "--ids", "int", by_pair=False,
                fractions=(0.8, 0.15, 0.05))
    oracle.data("generate", "rmat", "--nodes", 5000, "--edges", 60000, "--undirected", "--train-fraction", .8, "--task", "link",
                "--out", "rmat.dataset", "--force", "--quiet")
    oracle.data("export", "rmat.dataset", "--out", "rmat.export", "--force", "--quiet")
    parts = []
    for part in ("train", "valid", "test"):
        listed = (oracle.work / f"rmat.export/{part}.tsv").read_text().splitlines()
        parts.append({frozenset((line.split("\t")[0], line.split("\t")[-1])) for line in listed})
    leaked = len((parts[1] | parts[2]) & parts[0])
    oracle.check("split of a generated undirected graph: no pair in two splits", leaked == 0, f"{leaked} of {len(parts[1] | parts[2])}")


def main() -> None:
    check_text()
    check_arrays()
    check_matrix_market()
    check_metis()
    check_features()
    check_folders()
    check_splits()
