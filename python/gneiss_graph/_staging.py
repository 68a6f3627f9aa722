# SPDX-License-Identifier: Apache-2.0
"""Datasets that are copied from elsewhere before use."""
import fcntl
import hashlib
import os
import shutil
import tempfile

from ._data import Dataset
from ._errors import Error, NotFound


def stage(url, *, to=None):
    """Copies a dataset to this machine, checks every byte of it by its checksums, and opens it.

    url: directory of the dataset, at any place that fsspec opens: "s3://bucket/graph", "gs://…", "https://…", or a
        path.
    to: directory of the copy; None: one for the URL in ~/.cache/gneiss, or below XDG_CACHE_HOME. A copy that is there
        is opened, if the manifest at the URL is still the same; otherwise it is replaced.

    Processes that stage into the same directory at once make one copy. `gneiss_graph.train(copy, program="armada",
    address=…)` has the workers of other machines stage the same URL into the same path, where they find no dataset.
    Raises NotFound for a URL without a dataset, Corrupt for a copy that does not match its checksums, Error.
    """
    try:
        import fsspec # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Error(f"staging {url} needs fsspec: pip install gneiss-graph[armada]") from None
    to = os.path.abspath(_default(url) if to is None else os.fspath(to))
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with open(to + ".source", "a+", encoding="utf-8") as source:
        fcntl.flock(source, fcntl.LOCK_EX) # released with the file, at the latest when the process ends
        try:
            files, root = fsspec.core.url_to_fs(os.fspath(url))
            manifest = files.cat_file(f"{root.rstrip('/')}/manifest.json")
        except FileNotFoundError:
            raise NotFound(f"{url}: there is no dataset: it has no manifest.json", path=os.fspath(url)) from None
        except (ImportError, OSError, ValueError) as error:
            raise Error(f"{url}: {error}", path=os.fspath(url)) from None
        if _manifest(to) != manifest:
            if os.path.exists(to) and _manifest(to) is None:
                raise Error(f"{to}: exists and is not a dataset: give another directory", path=to)
            _copy(files, root, url, to)
            source.truncate(0)
            source.write(os.fspath(url))
    return Dataset(to)


def source_of(path):
    """Returns the URL of a staged copy; None for another directory."""
    try:
        with open(path + ".source", encoding="utf-8") as file:
            return file.read() or None
    except FileNotFoundError:
        return None


def _copy(files, root, url, to):
    """Copies and checks beside `to`, then renames: a copy is whole, or not there."""
    with tempfile.TemporaryDirectory(prefix=os.path.basename(to) + ".", dir=os.path.dirname(to)) as scratch:
        copy = os.path.join(scratch, "copy")
        try:
            files.get(root, copy, recursive=True)
        except OSError as error:
            raise Error(f"{url}: cannot be copied to {to}: {error}", path=to) from None
        with Dataset(copy) as made:
            made.core.check()
        if os.path.exists(to):
            shutil.move(to, os.path.join(scratch, "before"))
        os.rename(copy, to)


def _manifest(path):
    try:
        with open(os.path.join(path, "manifest.json"), "rb") as file:
            return file.read()
    except OSError:
        return None


def _default(url):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    name = os.fspath(url).rstrip("/").rsplit("/", 1)[-1]
    return os.path.join(cache, "gneiss", f"{name}-{hashlib.sha256(os.fspath(url).encode()).hexdigest()[:12]}")
