# SPDX-License-Identifier: Apache-2.0
"""Samples are the program's, pure, and views without copies."""
import json
import pickle
import threading
import unittest

import numpy as np

import gneiss_graph as gn
from support import Case, program, script


class Samples(Case):
    def seeds(self, data, batches=6, width=20):
        """Seeds by node id, and as rows."""
        random = np.random.default_rng(7)
        nodes = np.stack([random.permutation(data.nodes)[:width] for _ in range(batches)]).astype(np.int64)
        return nodes, np.vectorize(lambda node: data.names.index(str(node)))(nodes).astype(np.uint32)

    def test_checksums_are_those_of_the_program(self):
        data = gn.Dataset(self.at / "classes")
        nodes, rows = self.seeds(data)
        np.save(self.at / "seeds.npy", nodes)
        for kind in ("dense", "neighbor"):
            for direction in ("in", "both"):
                flags = ("--sampler", kind, "--fanout", "4,3", "--direction", direction, "--seed", 9)
                said = json.loads(program("data", "sample", self.at / "classes", *flags, "--seeds",
                                          self.at / "seeds.npy", "--json"))
                sampler = gn.Sampler(data, [4, 3], kind=kind, direction=direction, seed=9)
                drawn = [sampler(rows[b], 0, b) for b in range(len(rows))]
                self.assertEqual(gn.samples_xxh3(drawn[3:]), said["samples_xxh3"]) # the first three are not counted
                self.assertNotEqual(gn.samples_xxh3(drawn[3:]), gn.samples_xxh3(drawn[2:-1]))

    def test_layers_have_the_edges_of_the_graph(self):
        data = gn.import_edges(np.array([[0, 1], [2, 1], [3, 0], [1, 4]]), out=self.at / "small", quiet=True)
        row = {node: data.names.index(str(node)) for node in range(5)}
        for kind in ("dense", "neighbor"):
            drawn = gn.Sampler(data, ["all", "all"], kind=kind)([row[1]])
            names = [int(data.names[node]) for node in drawn.nodes]
            self.assertEqual(sorted(names), [0, 1, 2, 3])
            first, last = drawn.layers
            self.assertEqual((last.targets, first.targets, last.sources), (1, 3, 3))
            self.assertEqual(first.sources, 4)
            got = {(names[first.neighbors[e]], names[first.first_target + t]) for t in range(first.targets)
                   for e in range(first.offsets[t], first.offsets[t + 1])}
            self.assertEqual(got, {(0, 1), (2, 1), (3, 0)})

    def test_a_sample_depends_on_its_key_alone(self):
        data = gn.Dataset(self.at / "classes")
        _, rows = self.seeds(data, batches=8)
        for kind in ("dense", "neighbor"):
            one = gn.Sampler(data, [4, 3], kind=kind, seed=2, threads=1)
            expected = [one(rows[b], 5, b).xxh3 for b in range(8)]
            many = pickle.loads(pickle.dumps(gn.Sampler(data, [4, 3], kind=kind, seed=2)))
            got = [None] * 8

            def work(b):
                got[b] = many(rows[b], 5, b).xxh3

            threads = [threading.Thread(target=work, args=(b,)) for b in reversed(range(8))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(got, expected)
            self.assertEqual(len(set(expected)), 8)
            self.assertNotEqual(one(rows[0], 6, 0).xxh3, expected[0])
            self.assertNotEqual(gn.Sampler(data, [4, 3], kind=kind, seed=3)(rows[0], 5, 0).xxh3, expected[0])

    def test_arrays_are_views_of_one_block_that_outlives_the_sample(self):
        drawn = gn.Sampler(self.at / "classes", [4, 3])(np.arange(10))
        stored = drawn.arrays
        self.assertEqual(stored["node_ids"].ctypes.data, drawn.nodes.ctypes.data)
        self.assertEqual(stored["nbr_offsets"].ctypes.data, drawn.layers[0].offsets.ctypes.data)
        self.assertEqual(np.from_dlpack(drawn.nodes).ctypes.data, drawn.nodes.ctypes.data)
        addresses = [array.ctypes.data for array in stored.values()]
        self.assertLess(max(addresses) - min(addresses), 1 << 16)
        nodes = drawn.nodes
        kept = nodes.copy()
        del drawn, stored
        for _ in range(20):
            gn.Sampler(self.at / "classes", [4, 3])(np.arange(20))
        np.testing.assert_array_equal(nodes, kept)

    def test_wrong_seeds_and_arguments_are_refused(self):
        data = gn.Dataset(self.at / "classes")
        sampler = gn.Sampler(data, [4, 3])
        with self.assertRaisesRegex(ValueError, r"seeds\[1\] is 300: the rows of nodes are 0 to 299"):
            sampler([0, 300])
        with self.assertRaisesRegex(ValueError, r"seeds\[0\] is -1"):
            sampler([-1])
        with self.assertRaisesRegex(ValueError, "300"):
            sampler(np.array([300], dtype=np.uint32))
        with self.assertRaisesRegex(ValueError, "7"):
            sampler([7, 3, 7])
        with self.assertRaisesRegex(TypeError, "integers"):
            sampler([0.5])
        with self.assertRaisesRegex(TypeError, "integers"):
            sampler([[0, 1]])
        with self.assertRaisesRegex(ValueError, "kind is 'dens'"):
            gn.Sampler(data, [4], kind="dens")
        with self.assertRaises(ValueError):
            gn.Sampler(data, "")
        with self.assertRaises(gn.OverBudget) as met:
            gn.Sampler(data, [4], memory=1000)
        self.assertIn("graph", met.exception.parts)
        with data:
            pass
        with self.assertRaisesRegex(ValueError, "is closed"):
            sampler([0])
        with self.assertRaisesRegex(ValueError, "is closed"):
            gn.Sampler(data, [4])

    def test_spawned_processes_draw_the_same(self):
        sampler = gn.Sampler(self.at / "classes", [4, 3], seed=4)
        expected = [sampler(np.arange(b, b + 5), 1, b).xxh3 for b in range(4)]
        said = script(self.at / "spawning.py", f"""
import multiprocessing
import numpy as np
import gneiss_graph as gn

def draw(sampler, b):
    return sampler(np.arange(b, b + 5), 1, b).xxh3

if __name__ == "__main__":
    sampler = gn.Sampler({str(self.at / "classes")!r}, [4, 3], seed=4)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.starmap(draw, [(sampler, b) for b in range(4)]))
""")
        self.assertEqual(json.loads(said), expected)


if __name__ == "__main__":
    unittest.main()
