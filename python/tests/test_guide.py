# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/guide/python.md run, one after the other."""
import contextlib
import importlib.util
import io
import os
import re
import tempfile
import unittest

from support import ROOT, Case, edges, write_tsv


class Guide(Case):
    @unittest.skipIf(importlib.util.find_spec("torch_geometric") is None, "needs PyTorch Geometric")
    def test_its_examples_run(self):
        page = ROOT / "docs/guide/python.md"
        text = page.read_text()
        blocks = [(match[1], text.count("\n", 0, match.start()))
                  for match in re.finditer(r"(?<!-->\n\n)```python\n(.*?)```", text, re.S)] # <!-- test: skip … -->
        self.assertGreater(len(blocks), 7)
        names, said, here = {}, io.StringIO(), os.getcwd()
        train, valid = edges()
        likes = [(head.replace("node0", "ann"), relation.replace("ring0", "likes"), tail.replace("node0", "ann"))
                 for head, relation, tail in train + valid]
        with tempfile.TemporaryDirectory(dir=self.at) as directory, contextlib.redirect_stdout(said):
            os.chdir(directory)
            try:
                write_tsv(self.at / directory / "likes.tsv", likes)
                for code, line in blocks:
                    exec(compile("\n" * (line + 1) + code, page, "exec"), names)
            finally:
                os.chdir(here)
        self.assertIn("its state is in", said.getvalue())
        self.assertIn("did you mean 'epochs'?", said.getvalue())


if __name__ == "__main__":
    unittest.main()
