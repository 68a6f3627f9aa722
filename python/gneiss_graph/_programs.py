# SPDX-License-Identifier: Apache-2.0
"""The programs, such as gneiss-data, as commands that the package installs."""
import os
import signal
import sys

from . import _core


def main():
    """Runs the program that the process is named after, and exits with its code."""
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL) # Python's handlers would run after the program only
    sys.exit(_core.run(os.path.basename(sys.argv[0]), sys.argv))
