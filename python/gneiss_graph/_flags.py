# SPDX-License-Identifier: Apache-2.0
"""Keywords of Python as flags of the programs."""
import os
import sys
import warnings

from . import _core

# Flags of the command line alone: what they do has another way in Python.
COMMAND_LINE_ONLY = {"dry-run", "json", "quiet"}


def word(name, value):
    """Returns a value as a word of the command line."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item() # a scalar of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{name} is a {type(value).__name__}: give a number, a text, a path, True or False, or a list")


def flags_of(function, program, command, keywords, names=()):
    """Returns keywords as flags of a command. Raises TypeError for one that it lacks, with the nearest name.

    names: further keywords of the function, for that text.
    """
    known = {name.replace("-", "_"): name for name in _core.flags_of(program, command) if name not in COMMAND_LINE_ONLY}
    flags = {}
    for key, value in keywords.items():
        if key not in known:
            nearest = _core.nearest(key, sorted({*known, *names}))
            meant = f"; did you mean {nearest!r}?" if nearest else f": it takes the flags of {program} {command}"
            raise TypeError(f"{function}() has no keyword {key!r}{meant}")
        if value is None:
            continue
        many = isinstance(value, (list, tuple))
        flags[known[key]] = [word(key, one) for one in value] if many else word(key, value)
    return flags


def message_printer(quiet):
    """Returns a function that prints lines about progress, as the programs do; None if quiet."""
    return None if quiet else lambda text: print(text, file=sys.stderr, flush=True)


def warning_observer(level):
    """Returns a function that issues a warning in the name of the caller `level` functions up."""
    return lambda text: warnings.warn(text, stacklevel=level + 2)
