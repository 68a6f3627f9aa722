# SPDX-License-Identifier: Apache-2.0
"""The type stubs say what the modules have: the same public names, parameters and defaults; each has a docstring."""
import ast
import importlib
import importlib.util
import inspect
import unittest

from support import ROOT

PACKAGE = ROOT / "python/gneiss_graph"


def declared(body):
    """Definitions of a stub by name, without private and special ones."""
    return {node.name: node for node in body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")}


def parameters(node):
    """Names of a stub's parameters, and the source of their defaults."""
    given = node.args
    plain = given.posonlyargs + given.args
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    pairs = list(zip(plain, defaults)) + list(zip(given.kwonlyargs, given.kw_defaults))
    found = [(one.arg, None if default is None else ast.literal_eval(default), default is not None)
             for one, default in pairs]
    return found + [(one.arg, None, False) for one in (given.kwarg,) if one]


def parameters_of(function):
    return [(one.name, None if one.default is one.empty else one.default, one.default is not one.empty)
            for one in inspect.signature(function).parameters.values() if one.kind != one.VAR_POSITIONAL]


class Stubs(unittest.TestCase):
    def check_module(self, name, public):
        module = importlib.import_module(name)
        stub = PACKAGE / (name.partition(".")[2] or "__init__")
        found = declared(ast.parse(stub.with_suffix(".pyi").read_text()).body)
        self.assertEqual(set(found), set(public))
        for definition, node in found.items():
            with self.subTest(f"{name}.{definition}"):
                self.check(getattr(module, definition), node)

    def check(self, real, node):
        self.assertTrue(real.__doc__)
        if isinstance(node, ast.FunctionDef):
            self.assertEqual(parameters(node), parameters_of(real))
            return
        if issubclass(real, tuple):
            self.assertEqual(tuple(one.target.id for one in node.body), real._fields)
            return
        members = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        public = {one for one in vars(real) if not one.startswith("_") and one not in OF_PYG}
        self.assertEqual({one for one in members if not one.startswith("_")}, public)
        for member, stub in members.items():
            if not isinstance(vars(real).get(member), property) and member in vars(real) and member != "__exit__":
                self.assertEqual(parameters(stub), parameters_of(vars(real)[member]), member)

    def test_package(self):
        self.check_module("gneiss_graph", importlib.import_module("gneiss_graph").__all__)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "needs PyTorch")
    def test_torch(self):
        self.check_module("gneiss_graph.torch", ["Batch", "Loader", "tensor_of"])

    @unittest.skipIf(importlib.util.find_spec("torch_geometric") is None, "needs PyTorch Geometric")
    def test_pyg(self):
        self.check_module("gneiss_graph.pyg", ["FeatureStore", "GraphStore", "Sampler", "stores"])


# Methods that PyG declares and calls.
OF_PYG = {"get_all_tensor_attrs", "get_all_edge_attrs", "sample_from_nodes", "sample_from_edges"}

if __name__ == "__main__":
    unittest.main()
