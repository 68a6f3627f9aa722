# SPDX-License-Identifier: Apache-2.0
"""Datasets are imported and opened."""
import pickle
import unittest

import numpy as np

import gneiss_graph as gn
from support import Case, edges, program, python, write_tsv


class Import(Case):
    def test_files_make_the_dataset_that_the_program_makes(self):
        data = gn.import_edges(self.at / "train.tsv", valid=self.at / "valid.tsv", out=self.at / "same", partitions=4,
                               quiet=True)
        self.assertEqual((data.nodes, data.edges, data.relations, data.partitions), (60, 180, 3, 4))
        for path in (self.at / "links").glob("*.npy"):
            self.assertEqual((self.at / "same" / path.name).read_bytes(), path.read_bytes(), path.name)

    def test_an_array_makes_the_dataset_of_its_file(self):
        array = np.array([[0, 1], [1, 2], [4, 0]], dtype=np.int64)
        np.save(self.at / "edges.npy", array)
        for name, source in (("of-file", self.at / "edges.npy"), ("of-array", array)):
            gn.import_edges(source, out=self.at / name, quiet=True)
        for path in (self.at / "of-file").glob("*.npy"):
            self.assertEqual((self.at / "of-array" / path.name).read_bytes(), path.read_bytes(), path.name)
        self.assertEqual(gn.Dataset(self.at / "of-array").nodes, 5)
        self.assertEqual(list(self.at.glob(".gneiss-arrays-*")), [])

    def test_arrays_of_nodes_are_found_by_name(self):
        random = np.random.default_rng(1)
        features, labels = random.random((6, 3), dtype=np.float32), np.array([0, 1, 2, 1, -1, 0])
        split = np.array([0, 0, 0, 1, 3, 2], dtype=np.uint8)
        data = gn.import_nodes(np.array([[0, 1], [1, 2], [5, 4], [3, 0]]), features=features, labels=labels,
                               split=split, out=self.at / "nodes", quiet=True)
        self.assertEqual((data.task, data.nodes, data.num_features, data.classes), ("node", 6, 3, 3))
        rows = [data.names.index(str(node)) for node in range(6)]
        np.testing.assert_array_equal(data.features[rows], features)
        np.testing.assert_array_equal(data.labels[rows], labels)
        np.testing.assert_array_equal(data.split[rows], split)
        for array in (data.features, data.labels, data.split):
            self.assertIsInstance(array, np.memmap)
            self.assertFalse(array.flags.writeable)

    def test_wrong_input_is_refused_and_leaves_nothing(self):
        write_tsv(self.at / "wrong.tsv", [("a", "b"), ("a", "b", "c", "d")])
        with self.assertRaises(gn.Corrupt) as met:
            gn.import_edges(self.at / "wrong.tsv", out=self.at / "wrong", quiet=True)
        self.assertEqual((met.exception.path, met.exception.line), (str(self.at / "wrong.tsv"), 2))
        with self.assertRaises(gn.NotFound):
            gn.import_edges(self.at / "missing.tsv", out=self.at / "wrong", quiet=True)
        with self.assertRaisesRegex(ValueError, r"array \[2, 2\] of float64"):
            gn.import_edges(np.zeros((2, 2)), out=self.at / "wrong", quiet=True)
        with self.assertRaisesRegex(TypeError, "did you mean 'fractions'"):
            gn.import_edges(self.at / "train.tsv", out=self.at / "wrong", fraction=[1, 0, 0])
        with self.assertRaisesRegex(ValueError, "exists already"):
            gn.import_edges(self.at / "train.tsv", out=self.at / "links", quiet=True)
        with self.assertRaises(gn.OverBudget) as over:
            gn.import_edges(self.at / "train.tsv", out=self.at / "wrong", memory="1MiB", quiet=True)
        self.assertIn("program", over.exception.parts)
        self.assertFalse((self.at / "wrong").exists())

    def test_programs_that_get_starts_print_nothing(self):
        apt = self.at / "bin/apt-get"
        apt.parent.mkdir()
        apt.write_text("#!/bin/sh\necho a line\necho a warning >&2\nexit 9\n")
        apt.chmod(0o755)
        said, errors = python("""
os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
try:
    gn.get("debian", out=sys.argv[2], quiet=True)
except gn.Error as error:
    print(error)
""", apt.parent, self.at / "debian")
        self.assertIn("failed with exit code 9", said)
        self.assertEqual(errors, "")

    def test_a_warning_of_an_import_is_one_of_python(self):
        write_tsv(self.at / "headed.tsv", [("head", "tail"), ("a", "b"), ("b", "c")])
        with self.assertWarnsRegex(UserWarning, "looks like a header") as met:
            gn.import_edges(self.at / "headed.tsv", out=self.at / "headed", quiet=True)
        self.assertTrue(met.filename.endswith("test_data.py"))


class Open(Case):
    def test_names_find_rows_and_rows_have_names(self):
        data = gn.Dataset(self.at / "links")
        self.assertEqual(len(data.names), 60)
        self.assertEqual(sorted(data.names), sorted({end for edge in edges()[0] for end in (edge[0], edge[2])}))
        for row in (0, 17, 59):
            self.assertEqual(data.names.index(data.names[row]), row)
        self.assertEqual(data.names[-1], data.names[59])
        self.assertIn("node5", data.names)
        self.assertNotIn("node60", data.names)
        self.assertEqual(sorted(data.relation_names), ["ring0", "ring1", "ring2"])
        with self.assertRaises(IndexError):
            data.names[60]
        with self.assertRaises(ValueError):
            data.names.index("nobody")

    def test_edges_of_a_split_are_those_of_its_file(self):
        data = gn.Dataset(self.at / "links")
        got = {(data.names[h], data.relation_names[r], data.names[t]) for h, r, t in data.edges_of("valid")}
        self.assertEqual(got, set(edges()[1]))
        self.assertEqual(data.edges_of("test").shape, (0, 3))

    def test_a_dataset_pickles_as_its_path(self):
        data = pickle.loads(pickle.dumps(gn.Dataset(self.at / "classes")))
        self.assertEqual((data.nodes, data.classes), (300, 3))
        self.assertEqual(len(pickle.dumps(data)), len(pickle.dumps(gn.Dataset(self.at / "classes"))))

    def test_damage_is_found_with_its_place(self):
        program("data", "generate", "planted", "--nodes", 50, "--edges", 200, "--classes", 2, "--task", "node",
                "--num-features", 4, "--out", self.at / "damaged", "--quiet")
        path = self.at / "damaged/features.npy"
        raw = bytearray(path.read_bytes())
        raw[-1] ^= 1
        path.write_bytes(raw)
        data = gn.Dataset(self.at / "damaged")
        with self.assertRaises(gn.Corrupt) as met:
            data.verify()
        self.assertEqual(met.exception.path, str(path))
        self.assertIsNotNone(met.exception.offset)
        path.write_bytes(raw[:100])
        with self.assertRaises(gn.Error) as met:
            gn.Dataset(self.at / "damaged")
        self.assertEqual(met.exception.path, str(path))


if __name__ == "__main__":
    unittest.main()
