# SPDX-License-Identifier: Apache-2.0
"""Batches of the loader are those of sampler and features, and a resumed loader yields exactly the rest."""
import pickle
import threading
import unittest

import numpy as np

import gneiss_graph as gn
from support import Case, python

try:
    import torch
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "needs PyTorch")
class Loading(Case):
    def open(self, batch_size=16, **options):
        return gn.torch.Loader(self.at / "classes", [4, 3], batch_size,
                               **{"seed": 5, "memory": "8MiB", "superbatch": 2, **options})

    def same(self, one, other):
        self.assertEqual((one.epoch, one.number), (other.epoch, other.number))
        for name in ("nodes", "seeds", "features", "labels"):
            self.assertTrue(torch.equal(getattr(one, name), getattr(other, name)), name)
        for a, b in zip(one.layers, other.layers, strict=True):
            self.assertEqual(a[:3], b[:3])
            self.assertTrue(torch.equal(a.offsets, b.offsets) and torch.equal(a.neighbors, b.neighbors))

    def test_batches_are_those_of_sampler_and_features(self):
        data = gn.Dataset(self.at / "classes")
        for cache in ("belady", "lru", "none"):
            loader = self.open(cache=cache)
            batches = list(loader)
            self.assertEqual(len(batches), len(loader))
            sampler = gn.Sampler(data, [4, 3], seed=5)
            for number, batch in enumerate(batches):
                seeds = batch.seeds.numpy()
                sample = sampler(seeds, 0, number)
                np.testing.assert_array_equal(batch.nodes.numpy(), sample.nodes)
                np.testing.assert_array_equal(batch.features.numpy(), data.features[sample.nodes])
                np.testing.assert_array_equal(batch.labels.numpy(), data.labels[seeds])
                for layer, expected in zip(batch.layers, sample.layers, strict=True):
                    np.testing.assert_array_equal(layer.offsets.numpy(), expected.offsets)
                    np.testing.assert_array_equal(layer.neighbors.numpy(), expected.neighbors)
                last = batch.layers[-1]
                self.assertEqual(last.targets, len(seeds))
            seen = torch.cat([batch.seeds for batch in batches]).numpy()
            np.testing.assert_array_equal(np.sort(seen), np.flatnonzero(data.split == 0))

    def test_features_beyond_the_memory_are_read_from_disk(self):
        random = np.random.default_rng(1)
        features = random.random((20_000, 64), dtype=np.float32)
        data = gn.import_nodes(random.integers(0, 20_000, (60_000, 2)), features=features, fractions=[0.9, 0.05, 0.05],
                               labels=random.integers(0, 3, 20_000), out=self.at / "large", quiet=True)
        loader = gn.torch.Loader(data, [4, 3], 300, seed=5, memory="4MiB", superbatch=32)
        self.assertLess(loader.features.capacity, data.nodes)
        for batch in loader:
            np.testing.assert_array_equal(batch.features.numpy(), data.features[batch.nodes.numpy()])
        rows, hits, _ = loader.features.statistics
        self.assertTrue(0 < hits < rows)

    def test_epochs_differ_and_are_repeated_by_another_loader(self):
        loader = self.open()
        first, second = list(loader), list(loader)
        self.assertEqual([batch.epoch for batch in second], [1] * len(loader))
        self.assertFalse(torch.equal(first[0].seeds, second[0].seeds))
        other = self.open(threads=1, superbatch=5, ahead=4, cache="lru")
        for one, two in zip(first + second, [*other, *other], strict=True):
            self.same(one, two)
        plain = self.open(shuffle=False, seeds=[5, 3, 9, 1], batch_size=3)
        self.assertEqual([batch.seeds.tolist() for batch in plain], [[5, 3, 9], [1]])

    def test_a_resumed_loader_yields_exactly_the_rest(self):
        whole = [*self.open(), *(loader := self.open())]
        for stop in (1, 2, 3, len(loader)):
            first = self.open()
            taken = iter(first)
            for _ in range(stop):
                next(taken)
            state = pickle.loads(pickle.dumps(first.state_dict()))
            taken.close()
            second = self.open()
            second.load_state_dict(state)
            rest = list(second)
            third = list(pickle.loads(pickle.dumps(first)))
            if stop == len(loader):
                self.assertEqual([batch.epoch for batch in rest], [1] * len(loader))
                continue
            for one, two, three in zip(whole[stop:len(loader)], rest, third, strict=True):
                self.same(one, two)
                self.same(one, three)
        with self.assertRaisesRegex(ValueError, "batch 99 is not one of"):
            self.open().load_state_dict({"epoch": 0, "batch": 99})

    def test_an_iteration_that_is_left_ends_its_threads(self):
        before = threading.active_count()
        loader = self.open(batch_size=2, superbatch=3, ahead=1)
        for batch in loader:
            break
        self.assertEqual(threading.active_count(), before)
        self.assertEqual([batch.epoch for batch in loader], [1] * len(loader))

    def test_the_loader_of_pytorch_takes_it(self):
        loader = torch.utils.data.DataLoader(self.open(), batch_size=None, num_workers=0)
        for one, two in zip(loader, self.open(), strict=True):
            self.same(one, two)

    def test_tensors_share_the_memory_of_samples_and_features(self):
        sample = gn.Sampler(self.at / "classes", [4, 3])(np.arange(10))
        layer = sample.layers[0]
        self.assertEqual(gn.torch.tensor_of(layer.neighbors).data_ptr(), layer.neighbors.ctypes.data)
        self.assertEqual(torch.from_dlpack(sample.nodes.view(np.int32)).data_ptr(), sample.nodes.ctypes.data)
        features = gn.Features(self.at / "classes", memory="4MiB")
        out = torch.empty(10, 8)
        self.assertIs(features.gather(np.arange(10), out=out), out)
        np.testing.assert_array_equal(out.numpy(), gn.Dataset(self.at / "classes").features[:10])
        with self.assertRaises(TypeError):
            features.gather(np.arange(10), out=torch.empty(10, 8, dtype=torch.float64))
        with self.assertRaises((TypeError, ValueError)):
            features.gather(np.arange(10), out=torch.empty(10, 8, device="meta"))

    def test_memory_of_features_is_used_again_once_its_batch_is_dropped(self):
        loader = self.open(batch_size=2, superbatch=3, ahead=1)
        where, held = set(), []
        for batch in loader:
            where.add(batch.features.data_ptr())
            held.append((batch.nodes, batch.features[1:], batch.features.numpy()[:1]))
            if len(held) > 4:
                held.pop(0)
            del batch
            for nodes, rest, first in held: # views hold the memory
                np.testing.assert_array_equal(rest.numpy(), loader.dataset.features[nodes[1:].numpy()])
                np.testing.assert_array_equal(first, loader.dataset.features[nodes[:1].numpy()])
        self.assertGreater(len(loader), 20)
        self.assertLess(len(where), len(loader) // 2)

    @unittest.skipUnless(torch is not None and torch.cuda.is_available(), "needs a GPU")
    def test_features_are_gathered_into_pinned_memory(self):
        out = torch.empty(10, 8, pin_memory=True)
        pointer = out.data_ptr()
        gn.Features(self.at / "classes", memory="4MiB").gather(np.arange(10), out=out)
        self.assertEqual((out.data_ptr(), out.is_pinned()), (pointer, True))
        for one, two in zip(self.open(device="cuda"), self.open(), strict=True):
            self.assertEqual(one.features.device.type, "cuda")
            self.assertTrue(torch.equal(one.features.cpu(), two.features))

    def test_wrong_arguments_and_errors_of_threads_are_raised(self):
        for options, text in (({"split": "all"}, "split is 'all'"), ({"batch_size": 0}, "at least 1"),
                              ({"seeds": [300]}, r"seeds\[0\] is 300"), ({"kind": "wide"}, "kind is 'wide'")):
            with self.subTest(options=options), self.assertRaisesRegex(ValueError, text):
                self.open(**options)
        with self.assertRaisesRegex(ValueError, "7"):
            list(self.open(seeds=[7, 8, 7]))
        loader = self.open()
        loader.dataset.close()
        with self.assertRaisesRegex(ValueError, "is closed"):
            list(loader)
        with self.assertRaisesRegex(gn.NotFound, "no split"):
            gn.torch.Loader(self.at / "links", [4], 2)

    def test_the_package_imports_neither_torch_nor_pyarrow(self):
        said = python("assert not {'torch', 'pyarrow'} & set(sys.modules), sys.modules")
        self.assertEqual(said, ("", ""))
        for first, second in (("torch", "gneiss_graph"), ("gneiss_graph", "torch")):
            python(f"import {first}, {second}\nassert gn.torch.Loader and torch.ones(2).sum() == 2")


if __name__ == "__main__":
    unittest.main()
