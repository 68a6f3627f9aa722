# SPDX-License-Identifier: Apache-2.0
"""Runs answer as the programs do."""
import json
import pickle
import unittest

import numpy as np

import gneiss_graph as gn
from support import Case, program


class Runs(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        flags = {"epochs": 2, "memory": "1GiB", "quiet": True}
        cls.links = gn.train(cls.at / "links", program="marius", out=cls.at / "run-links", dim=8, **flags)
        cls.nodes = gn.train(gn.Dataset(cls.at / "classes"), program="hanoi", out=cls.at / "run-nodes", layers="sage",
                             **flags)

    def test_embeddings_are_those_of_the_export_as_a_memory_map(self):
        program("marius", "export", self.links.path, "--out", self.at / "exported")
        got = self.links.embeddings()
        self.assertIsInstance(got, np.memmap)
        np.testing.assert_array_equal(got, np.load(self.at / "exported/nodes.npy"))
        np.testing.assert_array_equal(self.links.relations(), np.load(self.at / "exported/relations.npy"))
        names = [line.split("\t")[1] for line in (self.at / "exported/nodes.tsv").read_text().splitlines()]
        self.assertEqual(self.links.names(), names)
        outputs = self.nodes.embeddings() # of a run that classifies nodes: the outputs of its last layer
        self.assertEqual(len(outputs), 300)
        self.assertIsNone(self.nodes.relations())
        edge = self.links.predict(head="node1", relation="ring0", tail="node2")
        self.assertEqual((list(edge), edge["tail"]), (["head", "relation", "tail", "rank", "score"], ["node2"]))

    def test_an_export_with_flags_is_another_one(self):
        run = gn.train(self.at / "classes", program="hanoi", out=self.at / "deep", layers="sage:6,sage", epochs=1,
                       memory="1GiB", quiet=True)
        outputs = run.embeddings().copy()
        hidden = run.embeddings(what="hidden", layer=1)
        self.assertEqual(hidden.shape, (300, 6))
        np.testing.assert_array_equal(run.embeddings(), outputs)
        self.assertEqual(run.names(what="hidden", layer=1), run.names())

    def test_embeddings_follow_a_run_that_is_trained_again(self):
        out = self.at / "again"
        flags = {"program": "marius", "out": out, "dim": 8, "quiet": True, "memory": "1GiB"}
        run = gn.train(self.at / "links", epochs=1, **flags)
        first = run.embeddings()
        kept = first.copy()
        run = gn.train(self.at / "links", epochs=3, force=True, **flags)
        self.assertFalse(np.array_equal(run.embeddings(), kept))
        np.testing.assert_array_equal(first, kept) # a map of the old file

    def test_predictions_are_those_of_the_program_in_columns(self):
        got = self.links.predict(head="node1", relation="ring0", k=3)
        query = ("--head", "node1", "--relation", "ring0", "--k", 3)
        said = json.loads(program("marius", "predict", self.links.path, *query, "--json"))["predictions"][0]["answers"]
        self.assertEqual(list(got), ["head", "relation", "tail", "rank", "score"])
        self.assertEqual(got["tail"], [answer["node"] for answer in said])
        self.assertEqual(got["score"], [answer["score"] for answer in said])
        self.assertEqual((got["head"], got["rank"]), (["node1"] * 3, [1, 2, 3]))
        heads = self.links.predict(tail="node1", relation="ring0", k=2)
        self.assertEqual((list(heads), len(heads["head"])), (["head", "relation", "tail", "rank", "score"], 2))
        near = self.links.predict(similar=["node1", "node2"], k=2)
        self.assertEqual(list(near), ["node", "similar", "rank", "score"])
        self.assertEqual(near["node"], ["node1"] * 2 + ["node2"] * 2)
        classes = self.nodes.predict(node=["3", "4"])
        self.assertEqual((list(classes), classes["node"]), (["node", "class", "probability"], ["3", "4"]))
        self.assertEqual(len(self.nodes.predict()["class"]), 300)

    def test_metrics_are_those_of_the_evaluation(self):
        self.assertEqual(self.links.evaluate("valid")["mrr"], self.links.metrics["valid"]["mrr"])

    def test_wrong_questions_are_refused(self):
        with self.assertRaisesRegex(gn.NotFound, "nobody"):
            self.links.predict(head="nobody", relation="ring0")
        with self.assertRaisesRegex(ValueError, "give head or tail, or both"):
            self.links.predict()
        with self.assertRaisesRegex(TypeError, "predict.. has no keyword 'heads'; did you mean 'head'"):
            self.links.predict(heads="node1")
        with self.assertRaisesRegex(TypeError, "evaluate.. has no keyword"):
            self.links.evaluate(spilt="valid")

    def test_a_notebook_shows_the_report(self):
        page = self.links._repr_html_()
        self.assertTrue(page.startswith("<iframe srcdoc="))
        self.assertIn("gneiss-marius", page)
        self.assertIn("done", repr(self.links))

    def test_a_run_pickles_as_its_path(self):
        self.assertEqual(pickle.loads(pickle.dumps(self.links)).metrics, self.links.metrics)


if __name__ == "__main__":
    unittest.main()
