# SPDX-License-Identifier: Apache-2.0
"""Rows of features are those of the dataset, whatever the cache, in the caller's memory."""
import pickle
import unittest

import numpy as np

import gneiss_graph as gn
from support import Case, program


class Gather(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(3)
        cls.batches = [random.permutation(300)[:40].astype(np.uint32) for _ in range(30)]

    def open(self, cache, **options):
        """Features with a cache of some 100 of 300 rows, of 32 bytes."""
        return gn.Features(self.at / "classes", cache=cache, **{"memory": (1 << 20) + 80000, **options})

    def test_rows_are_those_of_the_memory_map_by_every_cache(self):
        expected = gn.Dataset(self.at / "classes").features
        hits = {}
        for cache in ("none", "lru", "static", "belady"):
            features = self.open(cache)
            self.assertEqual((features.columns, features.dtype), (8, np.float32))
            if cache == "belady":
                features.plan(self.batches)
            for ids in self.batches:
                np.testing.assert_array_equal(features.gather(ids), expected[ids])
            hits[cache] = features.statistics.hits
            self.assertEqual(features.statistics.rows, 30 * 40)
        self.assertEqual(hits["none"], 0)
        self.assertGreater(hits["lru"], 0)
        self.assertGreater(hits["belady"], hits["lru"])

    def test_a_rank_chooses_the_rows_of_a_static_cache(self):
        rank = np.zeros(300, np.int64)
        rank[50:60] = range(1, 11)
        features = self.open("static", rank=rank)
        self.assertGreaterEqual(features.capacity, 10)
        features.gather(np.arange(50, 60))
        self.assertEqual(features.statistics.hits, 10)
        with self.assertRaisesRegex(ValueError, "rank is of shape"):
            self.open("static", rank=[1, 2])
        with self.assertRaisesRegex(ValueError, r"rank\[3\] is -1"):
            self.open("static", rank=np.where(np.arange(300) == 3, -1, rank))
        with self.assertRaisesRegex(TypeError, "rank: ranks are integers"):
            self.open("static", rank=np.ones(300))

    def test_rows_are_written_into_the_callers_memory(self):
        features = self.open("lru")
        out = np.full((40, 8), np.nan, np.float32)
        self.assertIs(features.gather(self.batches[0], out=out), out)
        np.testing.assert_array_equal(out, features.gather(self.batches[0]))
        half = out.astype(np.float16)
        for wrong in (half, out[:, :4].copy(), out[:39].copy(), out.reshape(-1)):
            with self.assertRaises((TypeError, ValueError)):
                features.gather(self.batches[0], out=wrong)
        with self.assertRaises(TypeError):
            features.gather(self.batches[0], out=np.empty((40, 16), np.float32)[:, ::2])

    def test_half_floats_stay_half(self):
        array = np.arange(12, dtype=np.float16).reshape(4, 3)
        data = gn.import_nodes(np.array([[0, 1], [1, 2], [3, 0]]), features=array, labels=np.array([0, 1, 0, 1]),
                               out=self.at / "half", quiet=True)
        features = gn.Features(data, cache="none", memory="4MiB")
        rows = [data.names.index(str(node)) for node in range(4)]
        np.testing.assert_array_equal(features.gather(rows), array)
        self.assertEqual(features.dtype, np.float16)

    def test_wrong_ids_are_refused_and_the_next_gather_is_right(self):
        expected = gn.Dataset(self.at / "classes").features
        for cache in ("none", "lru"):
            features = self.open(cache)
            with self.assertRaisesRegex(ValueError, "ids name row 7 twice"):
                features.gather([7, 8, 7])
            with self.assertRaisesRegex(ValueError, r"ids\[1\] is 300"):
                features.gather([0, 300])
            with self.assertRaises(ValueError):
                features.gather(np.array([300], np.uint32))
            with self.assertRaisesRegex(TypeError, "integers"):
                features.gather([0.5])
            np.testing.assert_array_equal(features.gather([7, 8]), expected[[7, 8]])

    def test_a_plan_is_kept(self):
        features = self.open("belady")
        with self.assertRaisesRegex(ValueError, "knows no batch to come"):
            features.gather([1])
        features.plan(self.batches[:2])
        features.gather(self.batches[0])
        with self.assertRaisesRegex(ValueError, "is not that of the trace"):
            features.gather(self.batches[2])
        features.plan(self.batches[2:4])
        for ids in self.batches[2:4]:
            features.gather(ids)
        with self.assertRaisesRegex(ValueError, "knows no batch to come"):
            features.gather(self.batches[4])
        with self.assertRaisesRegex(ValueError, "plan.. is for"):
            self.open("lru").plan(self.batches)

    def test_a_plan_keeps_the_rows_of_the_one_before(self):
        expected = gn.Dataset(self.at / "classes").features
        features, small = self.open("belady", memory="2MiB"), self.open("belady")
        self.assertEqual(features.capacity, 300)
        reads = []
        for part in (self.batches, self.batches[20:], self.batches[:7]):
            for one in (features, small):
                one.plan(part)
                for ids in part:
                    np.testing.assert_array_equal(one.gather(ids), expected[ids])
            reads.append(features.statistics.read_bytes)
        self.assertGreater(reads[0], 0)
        self.assertEqual(reads[1:], reads[:1] * 2)
        small.plan(self.batches[:9]) # left before its end
        for ids in self.batches[:4]:
            small.gather(ids)
        small.plan(self.batches[5:9])
        for ids in self.batches[5:9]:
            np.testing.assert_array_equal(small.gather(ids), expected[ids])

    def test_datasets_without_rows_to_gather_are_refused(self):
        with self.assertRaisesRegex(gn.NotFound, "has no features"):
            gn.Features(self.at / "links")
        with self.assertRaisesRegex(ValueError, "cache is 'fifo'"):
            self.open("fifo")
        with self.assertRaises(gn.OverBudget) as met:
            self.open("lru", memory=1000)
        self.assertIn("row gather", met.exception.parts)
        data = gn.Dataset(self.at / "classes")
        features = gn.Features(data, memory="4MiB")
        data.close()
        with self.assertRaisesRegex(ValueError, "is closed"):
            features.gather([1])

    def test_a_file_that_shrinks_is_reported(self):
        program("data", "generate", "planted", "--nodes", 5000, "--edges", 10000, "--classes", 2, "--task", "node",
                "--num-features", 32, "--out", self.at / "shrinking", "--quiet")
        features = gn.Features(self.at / "shrinking", cache="none", memory="4MiB")
        path = self.at / "shrinking/features.npy"
        with open(path, "r+b") as file:
            file.truncate(path.stat().st_size // 2)
        with self.assertRaises(gn.Error) as met:
            features.gather(np.arange(4900, 5000))
        self.assertEqual(met.exception.path, str(path))

    def test_features_pickle_as_their_arguments(self):
        features = pickle.loads(pickle.dumps(self.open("lru")))
        np.testing.assert_array_equal(features.gather([3]), gn.Dataset(self.at / "classes").features[[3]])
        self.assertEqual(features.capacity, self.open("lru").capacity)


if __name__ == "__main__":
    unittest.main()
