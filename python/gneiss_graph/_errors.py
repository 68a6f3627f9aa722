# SPDX-License-Identifier: Apache-2.0
"""Errors that are neither a wrong flag (TypeError) nor a wrong value (ValueError)."""


class Error(Exception):
    """An error of gneiss. Its text names what is wrong, where, and what to do.

    path: file or directory, or None.
    field: field of a file or header, or None.
    offset: bytes from the start of the file, or None.
    line: line of a text file, from 1, or None.
    """

    def __init__(self, text, *, path=None, field=None, offset=None, line=None):
        super().__init__(text)
        self.path, self.field, self.offset, self.line = path, field, offset, line


class NotFound(Error):
    """A file, dataset, run, node or relation that does not exist."""


class Corrupt(Error):
    """A file whose bytes are not what its format, checksum or manifest says."""


class NotFinite(Error):
    """A number that is NaN or infinite: a loss or a score of training that diverged, or a value of the input."""


class OverBudget(Error):
    """A request that `memory=` cannot hold.

    parts: dict of what needs memory, by name [bytes]; empty if the text alone has them.
    budget: limit [bytes], or None.
    """

    def __init__(self, text, *, parts=None, budget=None, **place):
        super().__init__(text, **place)
        self.parts, self.budget = parts or {}, budget

    @property
    def needed(self):
        """Sum of all parts [bytes]."""
        return sum(self.parts.values())
