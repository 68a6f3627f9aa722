# SPDX-License-Identifier: Apache-2.0
"""Measurements of gneiss-armada on Ray, for scripts/cluster: each is a function of its name. They resume."""
import argparse
import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

GRAPHS = ("debian-packages", "coauthor-cs")
LAYERS = {"SAGE": "sage:64,sage", "GCN": "gcn:64,gcn", "GAT": "gat:64,gat"}
# A training with a fault of a worker before a step: (role, number of the worker, signal, step), or null.
FAULTY = """
import json, os, re, signal, sys, threading, time
import gneiss_graph as gn
import gneiss_graph._run as run
import gneiss_graph.armada as armada

fault, flags = json.loads(sys.argv[1]), json.loads(sys.argv[2])
processes, seen, make_step = {}, {"steps": 0}, armada.Cluster.step

def keep(text):
    found = re.match(r"(\\S+) is process (\\d+) on ", text)
    if found:
        processes[found[1]] = int(found[2])

def resume(process):
    try:
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError: # replaced
        pass

def step(self, number, batches):
    seen.setdefault("begin", time.monotonic())
    seen["steps"] += 1
    if fault and number == fault[3]:
        process = processes[f"{fault[0]}-{fault[1]}"]
        os.kill(process, signal.Signals[fault[2]])
        if fault[2] == "SIGSTOP":
            later = threading.Timer(30, resume, [process])
            later.daemon = True
            later.start()
    result = make_step(self, number, batches)
    seen["end"] = time.monotonic()
    return result

run.message_printer = lambda quiet: keep
armada.Cluster.step = step
if __name__ == "__main__":
    done = gn.train(program="armada", **flags)
    print(json.dumps({"sha256": done.record["weights_sha256"], "seconds": seen["end"] - seen["begin"],
                      "steps": seen["steps"], "warnings": done.warnings}))
"""
COMMAND = "import sys\nfrom gneiss_graph._programs import main\nsys.argv[0] = 'gneiss-armada'\nmain()\n"


class Log:
    """Results by key, a line each: those that are there are not measured again."""

    def __init__(self, path):
        self.path, self.results = path, {}
        if path.exists():
            for line in path.read_text().splitlines():
                one = json.loads(line)
                self.results[one.pop("key")] = one

    def measure(self, key, measure):
        if key not in self.results:
            self.results[key] = measure()
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, **self.results[key]}) + "\n")
        return self.results[key]


def parted(name, data, out, programs):
    """Returns the graph in the order of 16 partitions by GREM."""
    to = out / f"{name}-parted"
    if not to.exists():
        tool, of = programs / "gneiss-data", out / f"{name}.npy"
        run(tool, "partition", data / name, "--partitioner", "grem", "--partitions", 16, "--seed", 1, "--out", of,
            "--force")
        run(tool, "reorder", data / name, "--by", of, "--out", to)
    return to


def run(*words, **environment):
    """Returns what a program prints. Ctrl-C ends it as one that it got itself, with its processes."""
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **environment}, start_new_session=True) as process:
        try:
            out, errors = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=60)
            process.kill()
            raise
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, words))}: {errors}")
    return out


def trained(graph, layers, where, out):
    """Trains three epochs by 4 batch workers and 2 replicas, and returns what has to be equal, and seconds."""
    place = ("--role", "all") if where == "all" else ("--local", where)
    start = time.monotonic()
    record = json.loads(run(sys.executable, "-c", COMMAND, "train", graph, *place, "--layers", layers, "--fanout",
                            "10,10", "--batch", 500, "--epochs", 3, "--early-stop", 0, "--batch-workers", 4,
                            "--replicas", 2, "--seed", 1, "--memory", "3GiB", "--no-eval", "--no-report", "--out",
                            out / "run", "--force", "--quiet", "--json"))
    return {"sha256": record["weights_sha256"], "losses": [epoch["loss"] for epoch in record["epochs"]],
            "seconds": record["seconds"], "wall": time.monotonic() - start, "frames": record.get("frames")}


@contextlib.contextmanager
def own_folder():
    """A folder for Ray's files. It has to be empty at the end, and no process may name it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gnf", dir="/tmp")) # sockets need a short name
    try:
        yield folder
    finally:
        left = [name for name in os.listdir("/proc") if name.isdigit() and names(name, folder)]
        files = [path.name for path in folder.iterdir()]
        shutil.rmtree(folder)
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
    if left or files:
        sys.exit(f"error: a run left processes {left} and files {files}")


def names(process, folder):
    with contextlib.suppress(OSError):
        return str(folder).encode() in pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def faulty(graph, fault, out):
    """Trains with a fault, and returns hash, seconds from the first to the last step, and warnings."""
    flags = {"dataset": str(graph), "local": "2x2", "batch_workers": 4, "replicas": 2, "layers": "sage:64,sage",
             "fanout": "10,10", "batch": 100, "epochs": 24, "early_stop": 0, "seed": 1, "memory": "1GiB", "threads": 1,
             "no_eval": True, "no_report": True, "out": str(out / "run"), "force": True, "quiet": True}
    with own_folder() as folder:
        text = run(sys.executable, "-W", "ignore", "-c", FAULTY, json.dumps(fault), json.dumps(flags),
                   TMPDIR=str(folder))
    return {**json.loads(text), "fault": fault}


def faults(_data, out, programs):
    """Ten trainings with one fault each, next to three without: all with one hash."""
    log, graph = Log(out / "faults.jsonl"), out / "planted"
    if not graph.exists():
        run(programs / "gneiss-data", "generate", "planted", "--nodes", 60000, "--edges", 600000, "--classes", 8,
            "--communities", 64, "--mixing", ".2", "--undirected", "--seed", 5, "--task", "node", "--num-features", 32,
            "--train-fraction", ".3", "--partitions", 16, "--out", graph)
    clean = [log.measure(f"clean {i}", functools.partial(faulty, graph, None, out)) for i in range(3)]
    seconds, steps = statistics.median(of["seconds"] for of in clean), clean[0]["steps"]
    equal = len({of["sha256"] for of in clean}) == 1
    print(f"{steps} steps, {seconds:.1f} s from the first to the last without a fault "
          f"({min(of['seconds'] for of in clean):.1f} to {max(of['seconds'] for of in clean):.1f})\n\n"
          "| fault | worker | before step | seconds added | same SHA-256 |\n|---|---|---|---|---|", flush=True)
    kinds = [("batch", "SIGKILL"), ("compute", "SIGKILL"), ("batch", "SIGSTOP"), ("compute", "SIGSTOP")]
    draw, added = random.Random(7), {}
    for i in range(10):
        role, name = kinds[i % len(kinds)]
        fault = role, draw.randrange(2), name, draw.randrange(steps // 10, steps * 9 // 10)
        done = log.measure(f"fault {i}", functools.partial(faulty, graph, fault, out))
        same = done["sha256"] == clean[0]["sha256"]
        equal = equal and same and bool(done["warnings"])
        added.setdefault(f"{name} of a {role} worker", []).append(done["seconds"] - seconds)
        print(f"| {name} | {role}-{fault[1]} | {fault[3]} | {done['seconds'] - seconds:.1f} |",
              "yes" if same else "**no**", "|", flush=True)
    print()
    for kind, of in added.items():
        print(f"- {kind}: {min(of):.1f} to {max(of):.1f} s")
    return equal


def hashes(data, out, programs):
    """One SHA-256 of weights, and one list of losses, for one process, 1x1 and 4x2."""
    log, equal = Log(out / "hashes.jsonl"), True
    print("| graph | layers | SHA-256 of the weights | loss of the last epoch | one process | 1x1 | 4x2 | equal |\n"
          "|---|---|---|---|---|---|---|---|")
    for name in GRAPHS:
        graph = parted(name, data, out, programs)
        for model, layers in LAYERS.items():
            results = [log.measure(f"{name} {model} {where}", functools.partial(trained, graph, layers, where, out))
                       for where in ("all", "1x1", "4x2")]
            first = results[0]
            same = all((of["sha256"], of["losses"]) == (first["sha256"], first["losses"]) for of in results)
            equal = equal and same
            seconds = " | ".join(f"{of['wall']:.0f} s" for of in results)
            print(f"| {name} | {model} | `{first['sha256'][:16]}…` | {first['losses'][-1]:.6f} |",
                  seconds, "|", "yes" if same else "**no**", "|", flush=True)
    return equal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["hashes", "faults"])
    parser.add_argument("--data", type=pathlib.Path, default="data", help="directory with the graphs of the guides")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(0 if globals()[flags.name](flags.data, flags.out, flags.programs) else 1)
    except KeyboardInterrupt:
        sys.exit("error: interrupted; the same command goes on")


if __name__ == "__main__":
    main()
