# SPDX-License-Identifier: Apache-2.0
"""Trains with batch and compute workers whose stages take a set CPU time, for python/bench/cluster.py.

Frames, gradients and messages are real. A worker computes in vain after its work until the process has used the set CPU
time for the batch, if it took less, and each worker has a CPU quota of its own: so many of them share a few cores
fairly, and time passes more slowly by the quota. Needs root.
"""
import json
import os
import pathlib
import re
import sys
import time

import gneiss_graph as gn
import gneiss_graph._run as run
import gneiss_graph.armada as armada
from quotas import Quotas


def cpu_seconds(process):
    """Returns the CPU time of a process, of all its threads."""
    text = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return sum(map(int, text.rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def pin(process, core):
    """Has all threads of a process run on a core."""
    for thread in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(thread), {core})


def spin(until):
    """Computes until the process has used so much CPU time."""
    while time.process_time() < until:
        pass


class BatchWorker(armada.BatchWorker):
    """Takes a set CPU time to make a batch."""

    seconds = 0.0

    def make(self, group, delivery, connected=0):
        """Returns what the worker makes, in the set time."""
        begin, since = time.monotonic(), time.process_time()
        (read, _, *sizes), *frames = super().make(group, delivery, connected)
        spin(since + self.seconds * group[5])
        return (read, time.monotonic() - begin, *sizes), *frames


class ComputeWorker(armada.ComputeWorker):
    """Takes a set CPU time for a batch and the step by it."""

    seconds = 0.0
    _step = 0.0 # seconds of the last one

    def differentiate(self, generation, step, number, frame, rows):
        """Returns the gradients in the set time, less that of the last step."""
        since = time.process_time()
        result = super().differentiate(generation, step, number, frame, rows)
        spin(since + self.seconds - self._step)
        return result

    def step(self, generation, step, last, *gradients):
        """Makes a step."""
        since = time.process_time()
        super().step(generation, step, last, *gradients)
        self._step = time.process_time() - since


def main():
    """Trains by the flags of argv[1]: "train", those of gneiss-armada; "make", "compute", seconds of CPU time of a
    batch; "share", the quota of a worker by role [cores]; "core", the core of the batch workers, apart from all other
    processes, which have another one; "warm", steps before the first that counts; "steps", "seconds", the least that
    count, after which the run ends; 0: it trains to its end. "events": (epoch, index, file): a file that is touched at
    a batch. Prints the times of steps and of workers, and the share of the quotas that was used."""
    flags = json.loads(sys.argv[1])
    if "core" in flags:
        others = os.sched_getaffinity(0) - {flags["core"]}
        if not others:
            raise SystemExit("error: a core apart for batch workers needs two cores")
        pin(os.getpid(), min(others)) # Ray's processes inherit it
    quotas, seen, processes, used = Quotas(), {"steps": [], "up": []}, {}, {}
    BatchWorker.seconds, ComputeWorker.seconds = flags["make"], flags["compute"]
    armada.BatchWorker, armada.ComputeWorker = BatchWorker, ComputeWorker
    make_step, events = armada.Cluster.step, list(flags.get("events", ()))

    def share(name):
        return flags["share"][name.split("-")[0]]

    def keep(text):
        found = re.match(r"(\S+) is process (\d+) on ", text)
        if found:
            processes[found[1]] = int(found[2])
            quotas.limit(found[1], processes[found[1]], share(found[1]))
            if "core" in flags and found[1].startswith("batch"):
                pin(processes[found[1]], flags["core"])
            seen["up"].append([found[1], time.monotonic()])

    def step(self, number, batches, coming):
        result = make_step(self, number, batches, coming)
        _, epoch, _, _, index = batches[0][0]
        seen["steps"].append([time.monotonic(), len(batches), epoch])
        if events and [epoch, index] >= events[0][:2]:
            pathlib.Path(events.pop(0)[2]).touch()
        counted = seen["steps"][flags["warm"]:]
        if len(counted) == 1:
            used.update((name, cpu_seconds(process)) for name, process in processes.items())
        if flags["steps"] and len(counted) > flags["steps"] and counted[-1][0] - counted[0][0] >= flags["seconds"]:
            seconds = counted[-1][0] - counted[0][0]
            busy = {name: (cpu_seconds(processes[name]) - before) / (share(name) * seconds)
                    for name, before in used.items()}
            seen["end"] = {"busy": busy, "live": self.live_fields(), "frames": sum(self.frames.values()),
                           "frame_bytes": self.frame_bytes, "gradient_bytes": self._gradient_bytes}
            raise RuntimeError("measured")
        return result

    run.message_printer = lambda quiet: keep
    armada.Cluster.step = step
    try:
        done = gn.train(program="armada", **flags["train"])
        seen.update(sha256=done.record["weights_sha256"], warnings=done.warnings)
    except gn.Error:
        if "end" not in seen:
            raise
    finally:
        quotas.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
