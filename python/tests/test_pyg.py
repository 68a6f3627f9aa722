# SPDX-License-Identifier: Apache-2.0
"""PyG's loaders take the stores and the sampler."""
import subprocess
import sys
import unittest

import numpy as np

import gneiss_graph as gn
from support import ROOT, Case

try:
    import torch
    import torch_geometric
    from torch_geometric.loader import LinkLoader, NodeLoader
    from torch_geometric.nn import GraphSAGE
    from torch_geometric.sampler import NegativeSampling
    from torch_geometric.utils import trim_to_layer
except ImportError:
    torch_geometric = None


@unittest.skipIf(torch_geometric is None, "needs PyTorch Geometric")
class Pyg(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(1)
        cls.edges = np.unique(random.integers(0, 120, (900, 2)), axis=0)
        cls.features = random.random((120, 6), dtype=np.float32)
        cls.labels = random.integers(0, 4, 120)
        cls.data = gn.import_nodes(cls.edges, features=cls.features, labels=cls.labels, out=cls.at / "graph", ids="int",
                                   quiet=True)
        cls.row = np.array([cls.data.names.index(str(node)) for node in range(120)])
        cls.known = {(cls.row[a], cls.row[b]) for a, b in cls.edges}

    def check(self, batch, fanout):
        """Edges are of the graph, each node has its neighbors once, up to the fan-out, and hops are told apart."""
        nodes = batch.n_id.numpy()
        np.testing.assert_array_equal(batch.x.numpy(), self.data.features[nodes])
        np.testing.assert_array_equal(batch.y.numpy(), self.data.labels[nodes])
        self.assertEqual(len(set(nodes)), len(nodes))
        source, target = batch.edge_index.numpy()
        drawn = list(zip(nodes[source], nodes[target]))
        self.assertTrue(set(drawn) <= self.known)
        self.assertEqual(len(set(drawn)), len(drawn))
        self.assertEqual(sum(batch.num_sampled_nodes), len(nodes))
        self.assertEqual(sum(batch.num_sampled_edges), len(drawn))
        begin_node = begin_edge = 0
        degree = {node: sum(1 for _, b in self.known if b == node) for node in set(nodes)}
        for hop, count in enumerate(batch.num_sampled_edges):
            end_node = begin_node + batch.num_sampled_nodes[hop]
            edges = slice(begin_edge, begin_edge + count)
            self.assertTrue(((target[edges] >= begin_node) & (target[edges] < end_node)).all())
            self.assertTrue((source[edges] < end_node + batch.num_sampled_nodes[hop + 1]).all())
            for node in range(begin_node, end_node):
                expected = degree[nodes[node]] if fanout[hop] == -1 else min(degree[nodes[node]], fanout[hop])
                self.assertEqual(int((target[edges] == node).sum()), expected)
            begin_node, begin_edge = end_node, begin_edge + count

    def test_a_node_loader_gives_subgraphs_seeds_first(self):
        for fanout in ([4, 3], [-1, -1], [3]):
            loader = NodeLoader(gn.pyg.stores(self.data, memory="4MiB"), gn.pyg.Sampler(self.data, fanout, seed=3),
                                batch_size=20, input_nodes=torch.arange(50))
            batches = list(loader)
            self.assertEqual([batch.batch_size for batch in batches], [20, 20, 10])
            for at, batch in enumerate(batches):
                self.check(batch, fanout)
                seeds = batch.n_id[:batch.batch_size]
                self.assertEqual(seeds.tolist(), list(range(50))[at * 20:at * 20 + 20])
                self.assertTrue(torch.equal(batch.input_id, seeds))

    def test_workers_that_are_spawned_draw_the_same(self):
        def batches(workers):
            context = "spawn" if workers else None
            loader = NodeLoader(gn.pyg.stores(self.data, memory="4MiB"), gn.pyg.Sampler(self.data, [4, 3], seed=3),
                                batch_size=30, input_nodes=torch.arange(90), num_workers=workers,
                                multiprocessing_context=context, filter_per_worker=bool(workers))
            return [(batch.n_id.tolist(), batch.edge_index.tolist(), batch.x.tolist()) for batch in loader]

        self.assertEqual(batches(2), batches(0))

    def test_draws_depend_on_the_epoch_and_the_seed(self):
        def drawn(epoch, seed=3):
            sampler = gn.pyg.Sampler(self.data, [2, 2], seed=seed)
            sampler.set_epoch(epoch)
            loader = NodeLoader(gn.pyg.stores(self.data, memory="4MiB"), sampler, batch_size=60,
                                input_nodes=torch.arange(60))
            return next(iter(loader)).edge_index.tolist()

        self.assertEqual(drawn(0), drawn(0))
        self.assertNotEqual(drawn(0), drawn(1))
        self.assertNotEqual(drawn(0), drawn(0, seed=4))

    def test_layers_may_be_trimmed(self):
        torch.manual_seed(1)
        model = GraphSAGE(6, 8, 2, 4).eval()
        loader = NodeLoader(gn.pyg.stores(self.data, memory="4MiB"), gn.pyg.Sampler(self.data, [-1, -1]), batch_size=30,
                            input_nodes=torch.arange(30))
        batch = next(iter(loader))
        with torch.no_grad():
            edges = torch.tensor(sorted(self.known)).T.contiguous()
            whole = model(torch.from_numpy(np.array(self.data.features)), edges)[:30]
            untrimmed = model(batch.x, batch.edge_index)[:30]
            trimmed = model(batch.x, batch.edge_index, num_sampled_nodes_per_hop=batch.num_sampled_nodes,
                            num_sampled_edges_per_hop=batch.num_sampled_edges)[:30]
        torch.testing.assert_close(untrimmed, whole)
        torch.testing.assert_close(trimmed, whole)
        self.assertIsNotNone(trim_to_layer)

    def test_a_link_loader_draws_binary_and_triplet_negatives(self):
        edges = torch.tensor(sorted(self.known)).T[:, :40]
        for negatives in (None, NegativeSampling("binary", 2), NegativeSampling("triplet", 3)):
            loader = LinkLoader(gn.pyg.stores(self.data, memory="4MiB"), gn.pyg.Sampler(self.data, [3, 2]),
                                edge_label_index=(None, edges), neg_sampling=negatives, batch_size=10)
            for at, batch in enumerate(loader):
                self.check(batch, [3, 2])
                wanted = edges[:, at * 10:at * 10 + 10]
                if negatives is not None and negatives.is_triplet():
                    self.assertTrue(torch.equal(batch.n_id[batch.src_index], wanted[0]))
                    self.assertTrue(torch.equal(batch.n_id[batch.dst_pos_index], wanted[1]))
                    self.assertEqual(batch.dst_neg_index.shape, (10, 3))
                else:
                    count = 10 if negatives is None else 30
                    self.assertEqual(batch.edge_label_index.shape, (2, count))
                    self.assertTrue(torch.equal(batch.n_id[batch.edge_label_index[:, :10]], wanted))

    def test_the_example_learns_planted_classes(self):
        done = subprocess.run([sys.executable, ROOT / "python/examples/pyg_sage.py", self.at / "classes", "15"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(float(done.stdout.split("accuracy ")[1].split()[0]), 0.6, done.stdout) # of three classes

    def test_stores_refuse_changes_and_whole_arrays(self):
        features, graph = gn.pyg.stores(self.data, memory="4MiB")
        with self.assertRaisesRegex(TypeError, "read only"):
            features.put_tensor(torch.ones(2, 2), group_name=None, attr_name="x", index=torch.arange(2))
        with self.assertRaisesRegex(TypeError, "read only"):
            features.remove_tensor(group_name=None, attr_name="x", index=None)
        with self.assertRaisesRegex(TypeError, "read only"):
            graph.put_edge_index(torch.ones(2, 2), gn.pyg.EDGE_TYPE, "coo", size=(2, 2))
        with self.assertRaisesRegex(ValueError, "exceed memory"):
            graph.get_edge_index(gn.pyg.EDGE_TYPE, "csc")
        with self.assertRaisesRegex(ValueError, "exceed memory"):
            features.get_tensor(group_name=None, attr_name="x", index=None)
        with self.assertRaisesRegex(TypeError, "kind is dense"):
            gn.pyg.Sampler(self.data, [2], kind="neighbor")


if __name__ == "__main__":
    unittest.main()
