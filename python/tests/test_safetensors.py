# SPDX-License-Identifier: Apache-2.0
"""The package safetensors reads exports, and initial embeddings that it wrote are read."""
import unittest

import numpy as np

from support import Case, program

try:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError:
    load_file = None

LINKS = ("--epochs", 2, "--dim", 8, "--batch", 16, "--negatives", 5, "--quiet")


@unittest.skipUnless(load_file, "safetensors is not installed")
class Tensors(Case):
    def exported(self, name, run, *flags):
        """Exports a run as arrays and as tensors; returns both."""
        arrays, tensors = self.at / f"{run}-npy", self.at / f"{run}-tensors"
        program(name, "export", self.at / run, "--out", arrays, *flags)
        program(name, "export", self.at / run, "--out", tensors, "--format", "safetensors", *flags)
        return {path.stem: np.load(path) for path in arrays.glob("*.npy")}, load_file(tensors / "model.safetensors")

    def test_embeddings_have_the_bits_of_arrays(self):
        program("marius", "train", self.at / "links", "--out", self.at / "run", *LINKS)
        arrays, tensors = self.exported("marius", "run")
        self.assertEqual(sorted(tensors), ["nodes", "relations"])
        for name, array in arrays.items():
            self.assertEqual(tensors[name].tobytes(), array.tobytes())
        names = [(self.at / f"run-{kind}" / "nodes.tsv").read_text() for kind in ("npy", "tensors")]
        self.assertEqual(names[0], names[1])

    def test_weights_have_their_names_and_shapes(self):
        for name, flags in (("mariusgnn", ()), ("hanoi", ()), ("ginex", ())):
            program(name, "train", self.at / "classes", "--out", self.at / name, "--epochs", 2, "--layers",
                    "sage:8,sage:3", "--fanout", "4,4", "--quiet", *flags)
            more = ("--what", "predictions") if name == "mariusgnn" else ()
            arrays, tensors = self.exported(name, name, *more)
            self.assertEqual(tensors["predictions"].tobytes(), arrays["predictions"].tobytes())
            weights = {key: value for key, value in tensors.items() if key.startswith("weights.")}
            self.assertIn((8, 8), [value.shape for value in weights.values()], sorted(weights))
            self.assertTrue(all(np.isfinite(value).all() and value.any() for value in weights.values()))
        with safe_open(self.at / "ginex-tensors/model.safetensors", "numpy") as file:
            self.assertEqual(file.get_slice("predictions").get_shape(), [300, 3])

    def test_initial_embeddings_are_those_of_the_package(self):
        rows = np.random.default_rng(1).random((60, 8), dtype=np.float32)
        np.save(self.at / "rows.npy", rows)
        save_file({"ids": np.arange(3), "nodes": rows, "half": rows[:1, :3].astype(np.float16)},
                  self.at / "rows.safetensors")
        save_file({"embedding.weight": rows}, self.at / "one.safetensors")
        found = []
        for name in ("rows.npy", "rows.safetensors", "one.safetensors"):
            run = self.at / f"of-{name}"
            program("marius", "train", self.at / "links", "--init", self.at / name, "--staleness", 0, "--out", run, *LINKS)
            program("marius", "export", run, "--out", run / "embeddings")
            found.append((run / "embeddings/nodes.npy").read_bytes())
        self.assertEqual(len(set(found)), 1)
        save_file({"nodes": rows.astype(np.float64)}, self.at / "wide.safetensors")
        program("marius", "train", self.at / "links", "--init", self.at / "wide.safetensors", "--out", self.at / "bad",
                *LINKS, code=1)


if __name__ == "__main__":
    unittest.main()
