# SPDX-License-Identifier: Apache-2.0
"""Hands frames from one worker to the next, which reads them, for python/bench/cluster.py: by Ray, by actors of one
machine, or by threads of one process.

    handed.py ray|threads BYTES COUNT

Three frames wait at a time. Prints the seconds and the CPU seconds of all processes, those of Ray included.
"""
import os
import queue
import shutil
import sys
import threading
import time

import numpy as np

from emulated import cpu_seconds
from machines import parents


def all_cpu_seconds():
    """Returns the CPU time of this process and its children, theirs included."""
    of = parents()

    def ours(process):
        return process == os.getpid() or process in of and ours(of[process])
    used = 0.0
    for process in filter(ours, of):
        try:
            used += cpu_seconds(process)
        except OSError: # it has ended
            pass
    return used


class Source:
    """Makes frames."""

    def __init__(self, size):
        self._size = size

    def make(self):
        """Returns a frame."""
        return np.ones(self._size, np.uint8)


class Sink:
    """Reads frames."""

    def take(self, frame):
        """Returns the sum of its words."""
        return int(frame.view(np.uint64).sum())


def by_ray(size):
    """Returns a function that hands a number of frames, and one that ends Ray."""
    import ray # pylint: disable=import-outside-toplevel
    folder = os.path.join(os.environ["TMPDIR"], "ray")
    ray.init(address="local", num_cpus=2, object_store_memory=400 << 20, include_dashboard=False, log_to_driver=False,
             logging_level="CRITICAL", _temp_dir=folder)
    source, sink = ray.remote(Source).remote(size), ray.remote(Sink).remote()

    def hand(frames):
        taken = []
        for _ in range(frames):
            taken.append(sink.take.remote(source.make.remote()))
            if len(taken) == 3:
                ray.get(taken.pop(0))
        ray.get(taken)

    def end():
        ray.shutdown()
        shutil.rmtree(folder)
    return hand, end


def by_threads(size):
    """Returns a function that hands a number of frames, and one that does nothing."""
    source, sink = Source(size), Sink()

    def hand(frames):
        waiting = queue.Queue(3)
        maker = threading.Thread(target=lambda: [waiting.put(source.make()) for _ in range(frames)])
        maker.start()
        for _ in range(frames):
            sink.take(waiting.get())
        maker.join()
    return hand, lambda: None


def main():
    """Measures after eight frames."""
    way, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    hand, end = {"ray": by_ray, "threads": by_threads}[way](size)
    hand(8)
    begin, before = time.monotonic(), all_cpu_seconds()
    hand(count)
    print(time.monotonic() - begin, all_cpu_seconds() - before)
    end()


if __name__ == "__main__":
    main()
