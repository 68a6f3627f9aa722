# SPDX-License-Identifier: Apache-2.0
"""Edges and nodes come from tables of Arrow: of pyarrow, DuckDB and Polars, whichever are installed."""
import importlib
import unittest

import numpy as np

import gneiss_graph as gn
from support import Case, edges


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


pa, duckdb, polars = optional("pyarrow"), optional("duckdb"), optional("polars")
needs = {name: unittest.skipUnless(module, f"{name} is not installed")
         for name, module in (("pyarrow", pa), ("duckdb", duckdb), ("polars", polars))}


class Arrow(Case):
    def same(self, name, expected):
        """Checks that two datasets have the same arrays."""
        paths = sorted(path.name for path in (self.at / expected).glob("*.npy"))
        self.assertEqual(sorted(path.name for path in (self.at / name).glob("*.npy")), paths)
        for path in paths:
            self.assertEqual((self.at / name / path).read_bytes(), (self.at / expected / path).read_bytes(), path)

    def nothing_stays(self, name):
        self.assertEqual([path.name for path in self.at.iterdir() if name in path.name or "arrays" in path.name], [])

    def of_files(self, name="of-files", **flags):
        gn.import_edges(self.at / "train.tsv", out=self.at / name, quiet=True, partitions=4, force=True, **flags)

    def imported(self, source, name="of-table", **flags):
        return gn.import_edges(source, out=self.at / name, quiet=True, partitions=4, force=True, **flags)


@needs["pyarrow"]
class Pyarrow(Arrow):
    def columns(self):
        train, _ = edges()
        return {"head": [h for h, _, _ in train], "relation": [r for _, r, _ in train], "tail": [t for _, _, t in train]}

    def test_text_of_every_type_makes_the_dataset_of_the_file(self):
        self.of_files()
        names = self.columns()
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
                     pa.dictionary(pa.uint32(), pa.large_string())):
            with self.subTest(kind=str(kind)):
                table = pa.table({key: pa.array(column, pa.string()).cast(kind) for key, column in names.items()})
                self.imported(table, f"of-{kind}".replace(" ", "").replace("/", ""))
                self.same(f"of-{kind}".replace(" ", "").replace("/", ""), "of-files")

    def test_slices_and_chunks_are_read_row_by_row(self):
        self.of_files()
        table = pa.table(self.columns())
        shifted = pa.concat_tables([table.slice(0, 5), table.slice(5, 40), table.slice(45, 0), table.slice(45)])
        for name, source in (("chunks", shifted), ("reader", shifted.to_reader(max_chunksize=3)),
                             ("batch", table.to_batches()[0])):
            self.imported(source, name)
            self.same(name, "of-files")

    def test_columns_are_chosen_by_name_in_any_order(self):
        self.of_files()
        names = self.columns()
        table = pa.table({"weight": pa.array([0.5] * len(names["head"])), "tail": names["tail"],
                          "head": names["head"], "relation": names["relation"]})
        self.imported(table, columns=["head", "relation", "tail"])
        self.same("of-table", "of-files")
        with self.assertRaisesRegex(gn.Error, "source: has 4 columns: .* name them by columns="):
            self.imported(table, "bad")
        with self.assertRaisesRegex(gn.Error, "has no column 'source', only weight, tail, head, relation"):
            self.imported(table, "bad", columns=["source", "tail"])
        self.nothing_stays("bad")

    def test_validation_edges_are_a_table_too(self):
        train, valid = edges()
        self.of_files(valid=self.at / "valid.tsv")
        table = {name: pa.table(list(map(list, zip(*some))), names=["h", "r", "t"])
                 for name, some in (("train", train), ("valid", valid))}
        self.imported(table["train"], valid=table["valid"])
        self.same("of-table", "of-files")
        with self.assertRaisesRegex(TypeError, "valid is a .*, other edges are tables of Arrow"):
            self.imported(table["train"], "bad", valid=self.at / "valid.tsv")
        with self.assertRaisesRegex(TypeError, "header is for text, and source is a table"):
            self.imported(table["train"], "bad", header=True)

    def test_integers_are_ids_as_in_an_array(self):
        array = np.random.default_rng(1).integers(0, 50, (400, 2))
        gn.import_edges(array, out=self.at / "of-files", quiet=True, partitions=4, force=True)
        for kind in (pa.int8(), pa.uint16(), pa.int32(), pa.uint64()):
            table = pa.table({"a": pa.array(array[:, 0], kind), "b": pa.array(array[:, 1], kind)})
            self.imported(table, f"of-{kind}")
            self.same(f"of-{kind}", "of-files")
        self.assertEqual(self.imported(table, "names", ids="string").core.node_name(0).isdigit(), True)
        with self.assertRaisesRegex(gn.Corrupt, "source: line 2.*-5"):
            self.imported(pa.table({"a": [1, -5], "b": [2, 3]}), "bad")
        self.nothing_stays("bad")

    def test_many_rows_go_beyond_the_sample_of_the_plan(self):
        array = np.random.default_rng(2).integers(0, 30000, (600000, 2))
        np.savetxt(self.at / "many.tsv", array, fmt="node%d", delimiter="\t")
        gn.import_edges(self.at / "many.tsv", out=self.at / "of-files", quiet=True, partitions=4, force=True)
        names = pa.array([f"node{i}" for i in range(30000)])
        table = pa.table({"a": names.take(pa.array(array[:, 0])), "b": names.take(pa.array(array[:, 1]))})
        self.imported(table.to_reader(max_chunksize=70000), memory="64MiB")
        self.same("of-table", "of-files")

    def test_nulls_are_refused_by_row(self):
        for table, row in ((pa.table({"a": ["x"] * 9, "b": ["y"] * 7 + [None, "z"]}), 7),
                           (pa.concat_tables([pa.table({"a": ["x"] * 9, "b": ["y"] * 9}),
                                              pa.table({"a": ["x", None], "b": ["y", "y"]})]), 10),
                           (pa.table({"a": ["x"] * 3, "b": pa.array(["p", "q", None]).dictionary_encode()}), 2)):
            with self.assertRaisesRegex(gn.Corrupt, f"source: column '[ab]': row {row} is null"):
                self.imported(table, "bad")
            self.nothing_stays("bad")

    def test_other_types_are_refused_by_column(self):
        for values, name in (([1.5, 2.5], "float64"), ([b"x", b"y"], "binary"), ([[1], [2]], "list"),
                             (pa.array([1, 2], pa.timestamp("s")), "timestamp"), ([True, False], "bool"),
                             ([{"x": 1}, {"x": 2}], "struct"), (pa.nulls(2), "null")):
            with self.assertRaisesRegex(gn.Error, f"source: column 'b': is {name}: edges are integers or text"):
                self.imported(pa.table({"a": ["x", "y"], "b": values}), "bad")
        with self.assertRaisesRegex(gn.Error, "source: is a column, not a table"):
            self.imported(pa.chunked_array([["a", "b"]]), "bad")
        with self.assertRaisesRegex(gn.Error, "column 'b': row 1 is a name with a tab"):
            self.imported(pa.table({"a": ["x", "y"], "b": ["z", "one\ttwo"]}), "bad")
        self.nothing_stays("bad")

    def test_a_stream_that_fails_halfway_leaves_nothing(self):
        schema = pa.schema([("a", pa.string()), ("b", pa.string())])

        def batches(rows):
            for first in range(0, rows, 1000):
                names = [f"n{i}" for i in range(first, first + 1000)]
                yield pa.record_batch([names, names[::-1]], schema)
            raise OSError("the disk of the producer is gone")

        for rows in (3000, 900000):
            with self.assertRaisesRegex(gn.Error, f"the stream failed after row {rows}: .*the producer is gone"):
                self.imported(pa.RecordBatchReader.from_batches(schema, batches(rows)), "bad")
            self.nothing_stays("bad")

    def test_nodes_are_rows_or_named_by_the_first_column(self):
        random = np.random.default_rng(3)
        array, features = random.integers(0, 40, (300, 2)), random.random((40, 3), dtype=np.float32)
        labels, split = random.integers(0, 3, 40), random.integers(0, 3, 40)
        flags = {"quiet": True, "partitions": 4, "features": features, "labels": labels, "split": split}
        gn.import_nodes(array, out=self.at / "of-files", force=True, **flags)
        tables = {"source": pa.table({"a": array[:, 0], "b": array[:, 1]}),
                  "features": pa.table({f"x{i}": features[:, i] for i in range(3)}),
                  "labels": pa.table({"y": labels}), "split": pa.table({"part": split})}
        gn.import_nodes(out=self.at / "of-tables", quiet=True, partitions=4, **tables)
        self.same("of-tables", "of-files")
        tables["features"] = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), 3)})
        gn.import_nodes(out=self.at / "of-lists", quiet=True, partitions=4, **tables)
        self.same("of-lists", "of-files")

        names = [f"node{i}" for i in range(40)]
        order = random.permutation(40)
        named = gn.import_nodes(
            pa.table({"a": [names[i] for i in array[:, 0]], "b": [names[i] for i in array[:, 1]]}),
            features=pa.table({"node": [names[i] for i in order], "x": pa.FixedSizeListArray.from_arrays(
                pa.array(features[order].ravel()), 3)}),
            labels=pa.table({"node": names, "class": [f"class{i}" for i in labels]}), out=self.at / "named", quiet=True)
        rows = [named.names.index(name) for name in names]
        np.testing.assert_array_equal(named.features[rows], features)
        self.assertEqual([named.class_names[named.labels[row]] for row in rows], [f"class{i}" for i in labels])
        with self.assertRaisesRegex(gn.Corrupt, "features: column 'x': row 1 is null"):
            gn.import_nodes(array, features=pa.table({"x": [1.0, None]}), out=self.at / "bad")
        self.nothing_stays("bad")


@needs["duckdb"]
class DuckDB(Arrow):
    def test_a_relation_makes_the_dataset_of_the_file(self):
        self.of_files()
        path = self.at / "train.tsv"
        self.imported(duckdb.sql(f"SELECT * FROM read_csv('{path}', delim = '\t', header = false)"))
        self.same("of-table", "of-files")

    def test_a_query_that_fails_leaves_nothing(self):
        with self.assertRaisesRegex(gn.Error, "source"):
            self.imported(duckdb.sql("SELECT i AS a, CAST(CASE WHEN i = 300000 THEN 'x' ELSE '1' END AS INT) AS b "
                                     "FROM range(400000) t(i)"), "bad")
        self.nothing_stays("bad")


@needs["polars"]
class Polars(Arrow):
    def test_a_frame_makes_the_dataset_of_the_file(self):
        self.of_files()
        frame = polars.DataFrame(edges()[0], schema=["h", "r", "t"], orient="row")
        for name, source in (("text", frame), ("categories", frame.with_columns(polars.all().cast(polars.Categorical)))):
            self.imported(source, name)
            self.same(name, "of-files")


if __name__ == "__main__":
    unittest.main()
