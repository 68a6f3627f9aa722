# SPDX-License-Identifier: Apache-2.0
"""The notebooks of python/examples run, and print what they show, other numbers aside.

    python test_notebook.py --write [HTML]     runs them and stores what they print; HTML: a copy with the reports
"""
import ast
import contextlib
import io
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def shown(value):
    """Returns what a notebook shows for the value of a cell."""
    data = {"text/plain": repr(value).splitlines(True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(True)
    return data


def run_cell(source, names):
    """Runs the code of a cell, and returns its outputs as a notebook stores them."""
    tree, said, outputs = ast.parse(source), io.StringIO(), []
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(last, "cell", "eval"), names)
    if said.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": said.getvalue().splitlines(True)})
    if value is not None:
        outputs.append({"data": shown(value), "metadata": {}, "output_type": "execute_result"})
    return outputs


def run_notebook(path):
    """Runs the cells of a notebook in a directory of their own, and returns it with their outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names, here, count = {"__name__": "__main__"}, os.getcwd(), 0
    with tempfile.TemporaryDirectory(prefix="gneiss-notebook-") as directory:
        os.chdir(directory)
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    count += 1
                    cell["outputs"] = run_cell("".join(cell["source"]), names)
                    cell["execution_count"] = count
                    for output in cell["outputs"]:
                        if "data" in output:
                            output["execution_count"] = count
        finally:
            os.chdir(here)
    return notebook


def texts_of(notebook):
    """Returns what each cell prints and shows as text, without digits and the directory."""
    said = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = "".join(output.get("text") or output["data"]["text/plain"])
            said.append(re.sub(r"[\d.,\s]+", "#", re.sub(r"/\S*/", "", text)))
    return said


def text_of(notebook, reports):
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data")
            if data is None:
                continue
            data["text/plain"] = [re.sub(r"/\S*/", "", line) for line in data["text/plain"]]
            if not reports:
                data.pop("text/html", None)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


class Notebooks(unittest.TestCase):
    def test_they_run_and_print_what_they_show(self):
        paths = sorted(EXAMPLES.glob("*.ipynb"))
        self.assertTrue(paths)
        for path in paths:
            with self.subTest(path.name):
                stored, ran = json.loads(path.read_text(encoding="utf-8")), run_notebook(path)
                self.assertEqual(texts_of(stored), texts_of(ran))
                html = [output["data"]["text/html"] for cell in ran["cells"] for output in cell.get("outputs", [])
                        if "text/html" in output.get("data", {})]
                self.assertTrue(any("<iframe" in "".join(one) for one in html), "no run shows its report")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        for file in sorted(EXAMPLES.glob("*.ipynb")):
            done = run_notebook(file)
            if sys.argv[2:]:
                pathlib.Path(sys.argv[2]).write_text(text_of(done, True), encoding="utf-8")
            file.write_text(text_of(done, False), encoding="utf-8")
    else:
        unittest.main()
