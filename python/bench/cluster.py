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

import machines
from quotas import Quotas

GRAPHS = ("debian-packages", "coauthor-cs")
LAYERS = {"SAGE": "sage:64,sage", "GCN": "gcn:64,gcn", "GAT": "gat:64,gat"}
MODELS = {**{model: (layers, ()) for model, layers in LAYERS.items()},
          "SAGE, learned rows": (LAYERS["SAGE"], ("--inputs", "both", "--dim", 32)),
          "SAGE, learned rows alone": (LAYERS["SAGE"], ("--inputs", "rows", "--dim", 32)),
          "SAGE, remote construction": (LAYERS["SAGE"], ("--construct", "remote"))}
PLACES = "all", "1x1", "4x2", "0x2" # one process; batch and compute workers; compute workers that make their batches
# A training with a fault before a step: of a worker, (role, number of the worker, signal, step); of a machine,
# ("machine", number, what happens to it, step), by whoever waits for the file; or null.
FAULTY = """
import json, os, pathlib, re, signal, sys, threading, time
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

def step(self, number, batches, coming):
    seen.setdefault("begin", time.monotonic())
    seen["steps"] += 1
    if fault and number == fault[3] and fault[0] == "machine":
        pathlib.Path(sys.argv[3]).touch()
    elif fault and number == fault[3]:
        process = processes[f"{fault[0]}-{fault[1]}"]
        os.kill(process, signal.Signals[fault[2]])
        if fault[2] == "SIGSTOP":
            later = threading.Timer(30, resume, [process])
            later.daemon = True
            later.start()
    result = make_step(self, number, batches, coming)
    seen["end"] = time.monotonic()
    return result

run.message_printer = lambda quiet: keep
armada.Cluster.step = step
if __name__ == "__main__":
    done = gn.train(program="armada", **flags)
    print(json.dumps({"sha256": done.record["weights_sha256"], "seconds": seen["end"] - seen["begin"],
                      "steps": seen["steps"], "warnings": done.warnings}))
"""
TCP_TO = """
import socket, time
with socket.create_server(("10.77.0.1", 5000)) as server:
    print("ready", flush=True)
    peer, _ = server.accept()
    count, size, room, begin = 0, 0, memoryview(bytearray(1 << 20)), time.monotonic()
    while size := peer.recv_into(room):
        count += size
    print(count / (time.monotonic() - begin))
"""
TCP_FROM = """
import socket
with socket.create_connection(("10.77.0.1", 5000)) as peer:
    piece = bytes(1 << 20)
    for _ in range(512):
        peer.sendall(piece)
"""
# Frames of an actor on machine 2, three of which are asked for at once.
FRAMES = """
import sys, time
import numpy as np
import ray
size, count = int(sys.argv[1]), int(sys.argv[2])
ray.init(address="10.77.0.1:6379", log_to_driver=False, logging_level="CRITICAL")
class Source:
    def make(self):
        return np.ones(size, np.uint8)
source = ray.remote(Source).options(resources={"machine2": 1}, num_cpus=1).remote()
asked, begin = [source.make.remote() for _ in range(3)], None
for i in range(count + 1):
    ray.get(asked.pop(0))
    begin = begin or time.monotonic()
    if i + len(asked) < count:
        asked.append(source.make.remote())
print(count * size / (time.monotonic() - begin))
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


def trained(graph, model, where, out):
    """Trains three epochs by 4 batch workers and 2 replicas, and returns what has to be equal, and seconds."""
    layers, more = MODELS[model]
    place = ("--role", "all") if where == "all" else ("--local", where)
    start = time.monotonic()
    record = json.loads(run(sys.executable, "-c", COMMAND, "train", graph, *place, "--layers", layers, "--fanout",
                            "10,10", "--batch", 500, "--epochs", 3, "--early-stop", 0, "--batch-workers", 4,
                            "--replicas", 2, "--seed", 1, *more, "--memory", "3GiB", "--no-eval", "--no-report",
                            "--out", out / "run", "--force", "--quiet", "--json"))
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


def flags_of_faults(graph, out, **more):
    return {"dataset": str(graph), "local": "2x2", "batch_workers": 4, "replicas": 2, "layers": "sage:64,sage",
            "fanout": "10,10", "batch": 100, "epochs": 24, "early_stop": 0, "seed": 1, "memory": "1GiB", "threads": 1,
            "no_eval": True, "no_report": True, "out": str(out / "run"), "force": True, "quiet": True, **more}


def graph_of_faults(out, programs):
    graph = out / "planted"
    if not graph.exists():
        run(programs / "gneiss-data", "generate", "planted", "--nodes", 60000, "--edges", 600000, "--classes", 8,
            "--communities", 64, "--mixing", ".2", "--undirected", "--seed", 5, "--task", "node", "--num-features", 32,
            "--train-fraction", ".3", "--partitions", 16, "--out", graph)
    return graph


def faulty(graph, fault, out, **more):
    """Trains with a fault, and returns hash, seconds from the first to the last step, and warnings."""
    with own_folder() as folder:
        text = run(sys.executable, "-W", "ignore", "-c", FAULTY, json.dumps(fault),
                   json.dumps(flags_of_faults(graph, out, **more)), TMPDIR=str(folder))
    return {**json.loads(text), "fault": fault}


def on_machines(graph, fault, out):
    """Trains on machines 2 and 3 with a fault of one of them, and returns what `faulty` does."""
    with machines.cluster(3) as switch:
        begun = machines.FOLDER / "begun"
        flags = flags_of_faults(graph, out, address=f"10.77.0.1:{machines.PORT}")
        driver = switch[1].start(sys.executable, "-W", "ignore", "-c", FAULTY, json.dumps(fault), json.dumps(flags),
                                 begun)
        while fault and not begun.exists() and driver.poll() is None:
            time.sleep(0.01)
        if fault and fault[2] == "killed":
            switch[fault[1]].kill()
        elif fault:
            switch[fault[1]].cut()
            time.sleep(10)
            switch[fault[1]].mend()
        text, errors = driver.communicate()
    if driver.returncode != 0:
        sys.exit(f"error: {fault}: {errors}")
    return {**json.loads(text.splitlines()[-1]), "fault": fault}


def without_head(graph, out):
    """Kills the head of a cluster while a run trains. Returns the seconds until its error, the error, and the hash of
    the run that continues it."""
    with machines.cluster(3) as switch:
        begun = machines.FOLDER / "begun"
        flags = flags_of_faults(graph, out, address=f"10.77.0.1:{machines.PORT}")
        driver = switch[1].start(sys.executable, "-W", "ignore", "-c", FAULTY,
                                 json.dumps(["machine", 1, "head", 1000]), json.dumps(flags), begun)
        while not begun.exists() and driver.poll() is None:
            time.sleep(0.01)
        killed = time.monotonic()
        switch[1].kill(but=[driver.pid])
        errors = driver.communicate()[1]
        seconds = time.monotonic() - killed
    with own_folder() as folder:
        text = run(sys.executable, "-W", "ignore", "-c", FAULTY, "null",
                   json.dumps(flags_of_faults(graph, out, resume=True, force=None)), TMPDIR=str(folder))
    return {"seconds": seconds, "error": (errors.splitlines() or [""])[-1], "code": driver.returncode,
            "sha256": json.loads(text)["sha256"]}


def faults(_data, out, programs):
    """Ten trainings with a fault of a worker, and four with one of a machine, next to three without each: all with one
    hash. One whose head is killed. Two with learned rows, of which an owner is killed."""
    log, graph = Log(out / "faults.jsonl"), graph_of_faults(out, programs)
    clean = [log.measure(f"clean {i}", functools.partial(faulty, graph, None, out)) for i in range(3)]
    whole = [log.measure(f"machines {i}", functools.partial(on_machines, graph, None, out)) for i in range(3)]
    steps, sha256 = clean[0]["steps"], clean[0]["sha256"]
    equal = len({of["sha256"] for of in clean + whole}) == 1
    usual = {}
    for where, of in (("one machine", clean), ("machines", whole)):
        seconds = [one["seconds"] for one in of]
        usual[where] = statistics.median(seconds)
        print(f"{steps} steps, {where}: {usual[where]:.1f} s from the first to the last without a fault "
              f"({min(seconds):.1f} to {max(seconds):.1f})")
    print("\n| fault | of | before step | seconds added | same SHA-256 |\n|---|---|---|---|---|", flush=True)
    kinds = [("batch", "SIGKILL"), ("compute", "SIGKILL"), ("batch", "SIGSTOP"), ("compute", "SIGSTOP")]
    kinds = [kinds[i % len(kinds)] for i in range(10)] + [("machine", "killed"), ("machine", "cut for 10 s")] * 2
    draw, added = random.Random(7), {}
    for i, (role, name) in enumerate(kinds):
        first = 2 if role == "machine" else 0
        fault = role, first + draw.randrange(2), name, draw.randrange(steps // 10, steps * 9 // 10)
        done = log.measure(f"fault {i}",
                           functools.partial(on_machines if role == "machine" else faulty, graph, fault, out))
        same = done["sha256"] == sha256
        equal = equal and same and bool(done["warnings"])
        more = done["seconds"] - usual["machines" if role == "machine" else "one machine"]
        added.setdefault(f"{name}, a {role if role == 'machine' else role + ' worker'}", []).append(more)
        print(f"| {name} | {role}-{fault[1]} | {fault[3]} | {more:.1f} |", "yes" if same else "**no**", "|", flush=True)
    print()
    for kind, of in added.items():
        print(f"- {kind}: {min(of):.1f} to {max(of):.1f} s")
    head = log.measure("head", functools.partial(without_head, graph, out))
    print(f"- the head is killed: {head['seconds']:.1f} s until the error ({head['error']}), and the continued run has",
          "the same SHA-256" if head["sha256"] == sha256 else "**another SHA-256**")
    return owners_killed(log, graph, out) and equal and head["sha256"] == sha256


def owners_killed(log, graph, out):
    """Trains learned rows alone, and kills one of two owners before a step. Returns whether hashes are equal."""
    rows = {"inputs": "rows", "dim": 32, "epochs": 6}
    clean = log.measure("rows", functools.partial(faulty, graph, None, out, **rows))
    draw, equal = random.Random(8), True
    for i in range(2):
        fault = "owner", i, "SIGKILL", draw.randrange(clean["steps"] // 10, clean["steps"] * 9 // 10)
        done = log.measure(f"rows, fault {i}", functools.partial(faulty, graph, fault, out, **rows))
        same = done["sha256"] == clean["sha256"] and bool(done["warnings"])
        equal = equal and same
        print(f"- learned rows, SIGKILL of owner-{i} before step {fault[3]} of {clean['steps']}: "
              f"{done['seconds'] - clean['seconds']:.1f} s added,",
              "the same SHA-256" if same else "**another SHA-256**")
    return equal


def link(_data, out, _programs):
    """Bytes that frames of Ray move over a link of 1 Gbit/s, next to one stream of TCP."""
    log = Log(out / "link.jsonl")

    def tcp(switch):
        to = switch[1].start(sys.executable, "-c", TCP_TO)
        to.stdout.readline()
        switch[2].start(sys.executable, "-c", TCP_FROM).wait()
        return float(to.communicate()[0])

    def once():
        with machines.cluster(2, store=800 << 20) as switch:
            result = {"tcp": [tcp(switch)]}
            for size in (16, 128):
                text, errors = switch[1].start(sys.executable, "-c", FRAMES, size << 20, 1024 // size).communicate()
                if not text:
                    sys.exit(f"error: frames of {size} MiB: {errors}")
                result[str(size)] = float(text)
            result["tcp"].append(tcp(switch))
        return result
    runs = [log.measure(str(i), once) for i in range(3)]
    print("| | Gbit/s | of TCP |\n|---|---|---|")
    stream = statistics.median(speed for of in runs for speed in of["tcp"])
    print(f"| one TCP stream | {stream * 8e-9:.3f} | |")
    shares = {}
    for size in ("16", "128"):
        speeds = [of[size] for of in runs]
        shares[size] = statistics.median(of[size] / statistics.mean(of["tcp"]) for of in runs)
        print(f"| frames of {size} MiB | {statistics.median(speeds) * 8e-9:.3f} | {shares[size]:.3f} |")
    return shares["16"] >= 0.80 and shares["128"] >= 0.90


def frames(_data, out, _programs):
    """Milliseconds of a frame from one worker to the next on one machine, by Ray and by threads of one process."""
    log = Log(out / "frames.jsonl")

    def once(way, size):
        count = 2048 // size
        with own_folder() as folder:
            wall, cpu = map(float, run(sys.executable, "-W", "ignore", HANDED, way, size << 20, count,
                                       TMPDIR=str(folder)).split())
        return {"wall": 1000 * wall / count, "cpu": 1000 * cpu / count}
    print("| MiB | by | ms | CPU ms |\n|---|---|---|---|")
    for size in (1, 16):
        for way in ("threads", "ray"):
            runs = [log.measure(f"{way} {size} {i}", functools.partial(once, way, size)) for i in range(3)]
            wall, cpu = (statistics.median(of[key] for of in runs) for key in ("wall", "cpu"))
            print(f"| {size} | {way} | {wall:.2f} | {cpu:.2f} |", flush=True)
    return True


def hashes(data, out, programs):
    """One SHA-256 of weights, and one list of losses, for one process, 1x1, 4x2 and 0x2."""
    log, equal = Log(out / "hashes.jsonl"), True
    print("| graph | layers | SHA-256 of the weights | loss of the last epoch | one process | 1x1 | 4x2 | 0x2 | equal "
          "|\n|---|---|---|---|---|---|---|---|---|")
    for name in GRAPHS:
        graph = parted(name, data, out, programs)
        for model in MODELS:
            results = [log.measure(f"{name} {model} {where}", functools.partial(trained, graph, model, where, out))
                       for where in PLACES if "remote" not in model or where != "0x2"] # it needs batch workers
            first = results[0]
            same = all((of["sha256"], of["losses"]) == (first["sha256"], first["losses"]) for of in results)
            equal = equal and same
            seconds = " | ".join([f"{of['wall']:.0f} s" for of in results] + [""] * (len(PLACES) - len(results)))
            print(f"| {name} | {model} | `{first['sha256'][:16]}…` | {first['losses'][-1]:.6f} |",
                  seconds, "|", "yes" if same else "**no**", "|", flush=True)
    return equal


SAMPLING = ("--fanout", "10,10", "--batch", 100, "--direction", "in", "--seed", 1)
SUPERBATCH = ("--superbatch", 41) # the batches of an epoch: superbatches end with a round
LONGER = ("--superbatch", 106)    # of another graph
GROUPED = ("--fanout", "30,20,10", "--batch", 1000, "--direction", "both", "--seed", 1)
CACHES = {"lru": "lru", "static": "static-degree", "belady": "belady"} # and their names in gneiss-study


def sent(graph, flags, programs, out, sampling=SAMPLING):
    """Trains two epochs in one process, and returns sums over them and the hash."""
    layers = ",".join(["sage:16"] * sampling[1].count(",") + ["sage"])
    record = json.loads(run(programs / "gneiss-armada", "train", graph, "--layers", layers, *sampling,
                            "--epochs", 2, "--early-stop", 0, "--sampler", "neighbor", "--replicas", 8, *flags,
                            "--memory", "12GiB" if sampling is GROUPED else "3GiB", "--no-eval", "--no-report",
                            "--out", out / "run", "--force", "--quiet", "--json"))
    model = json.loads(run(programs / "gneiss-armada", "model", "--from", out / "run", "--workers", "1x1", "--json"))
    return {**{key: sum(epoch.get(key, 0) for epoch in record["epochs"])
               for key in ("frames", "frame_bytes", "frame_rows", "cache_fills", "id_bytes")},
            "modeled_bytes": round(2 * model["clusters"][0]["frame_bytes"]),
            "sha256": record["weights_sha256"], "losses": [epoch["loss"] for epoch in record["epochs"]]}


def misses(graph, batches, programs, superbatch=SUPERBATCH):
    """Returns the misses of each cache of a tenth of the rows, as gneiss-study simulates it on the same batches."""
    found = json.loads(run(programs / "gneiss-study", "caches", graph, *SAMPLING, *superbatch, "--batches", batches,
                           "--sizes", "10%", "--at", "10%", "--json"))
    return {name: next(one["misses"] for one in found["sizes"] if one["policy"] == policy)
            for name, policy in CACHES.items()}


def fewer_bytes(_data, out, programs):
    """Rows and bytes of a step by groups of batches and caches of rows: all with one hash."""
    log, graph, features, replicas = Log(out / "bytes.jsonl"), out / "planted", 64, 8
    if not graph.exists():
        run(programs / "gneiss-data", "generate", "planted", "--nodes", 40000, "--edges", 400000, "--classes", 8,
            "--communities", 256, "--mixing", ".2", "--undirected", "--seed", 5, "--task", "node", "--num-features",
            features, "--train-fraction", ".1", "--partitions", 4, "--out", graph, "--quiet")
    groups = {f"groups of {size}": ("--group-batches", size) for size in (2, 4, 8)}
    caches = {name: ("--feature-cache", name, "--cache", "10%", *SUPERBATCH) for name in CACHES}
    both = {f"{name}, groups of 8": (*flags, *groups["groups of 8"]) for name, flags in caches.items()}
    results = {name: log.measure(name, functools.partial(sent, graph, flags, programs, out))
               for name, flags in {"none": (), **groups, **caches, **both}.items()}
    first = results["none"]
    simulated = log.measure("study", functools.partial(misses, graph, first["frames"], programs))
    steps, row, equal = first["frames"] / replicas, 4 * features, True
    print(f"{first['frames']} batches\n\n| sent | rows a step | of none | MB a step | of none | of it without rows | "
          "MB of ids a step | misses, as simulated | same SHA-256 |\n|---|---|---|---|---|---|---|---|---|")
    for name, found in results.items():
        same = all(found[key] == first[key] for key in ("sha256", "losses", "frames"))
        missed, expected = found["frame_rows"] - found["cache_fills"], simulated.get(name)
        equal = equal and same and (expected is None or missed == expected) and \
            found["modeled_bytes"] == found["frame_bytes"]
        rest = found["frame_bytes"] - row * found["frame_rows"]
        print(f"| {name} | {found['frame_rows'] / steps:,.0f} | {found['frame_rows'] / first['frame_rows']:.2f} | "
              f"{found['frame_bytes'] / steps / 1e6:.2f} | {found['frame_bytes'] / first['frame_bytes']:.2f} | "
              f"{rest / steps / 1e6:.2f} | {found['id_bytes'] / steps / 1e6:.2f} |",
              "" if expected is None else f"{missed:,}, " + ("yes" if missed == expected else f"**{expected:,}**"),
              "|", "yes" if same else "**no**", "|")
    longer, shared = longer_windows(out, programs), grouped(out, programs)
    return equal and longer and shared


def longer_windows(out, programs):
    """Misses of each cache of a tenth of the rows over superbatches of more than a hundred groups."""
    log, graph = Log(out / "windows.jsonl"), out / "windows"
    if not graph.exists():
        run(programs / "gneiss-data", "generate", "planted", "--nodes", 40000, "--edges", 400000, "--classes", 8,
            "--communities", 256, "--mixing", ".2", "--undirected", "--seed", 5, "--task", "node", "--num-features",
            64, "--train-fraction", ".26", "--partitions", 4, "--out", graph, "--quiet")
    results = {name: log.measure(name, functools.partial(sent, graph, flags, programs, out)) for name, flags in
               {"none": (), **{name: ("--feature-cache", name, "--cache", "10%", *LONGER) for name in CACHES}}.items()}
    first, equal = results["none"], True
    simulated = log.measure("study", functools.partial(misses, graph, first["frames"], programs, LONGER))
    print(f"\n{first['frames']} batches, superbatches of {LONGER[1]}\n\n"
          "| cache | misses, as simulated | of LRU | bytes of none | same SHA-256 |\n|---|---|---|---|---|")
    missed = {name: of["frame_rows"] - of["cache_fills"] for name, of in results.items() if name in CACHES}
    for name, count in missed.items():
        same = results[name]["sha256"] == first["sha256"]
        equal = equal and same and count == simulated[name]
        print(f"| {name} | {count:,}, " + ("yes" if count == simulated[name] else f"**{simulated[name]:,}**"),
              f"| {count / missed['lru']:.3f} | {results[name]['frame_bytes'] / first['frame_bytes']:.2f} |",
              "yes |" if same else "**no** |")
    return equal


def grouped(out, programs):
    """Rows and bytes of groups of batches with three hops of the paper's fan-outs, on a larger graph."""
    log, graph, first, equal = Log(out / "grouped.jsonl"), out / "larger", None, True
    if not graph.exists():
        run(programs / "gneiss-data", "generate", "planted", "--nodes", 5000000, "--edges", 25000000, "--classes", 8,
            "--communities", 4096, "--mixing", ".2", "--undirected", "--seed", 5, "--task", "node", "--num-features", 8,
            "--train-fraction", ".0016", "--partitions", 4, "--out", graph, "--quiet")
    print("\n| groups of | rows of a batch | of none | MB of a batch | of none | same SHA-256 |\n"
          "|---|---|---|---|---|---|")
    for size in (1, 2, 4, 8):
        of = log.measure(str(size), functools.partial(sent, graph, ("--group-batches", size), programs, out, GROUPED))
        first = first or of
        same = of["sha256"] == first["sha256"]
        equal = equal and same
        print(f"| {size} | {of['frame_rows'] / of['frames']:,.0f} | {of['frame_rows'] / first['frame_rows']:.3f} |",
              f"{of['frame_bytes'] / of['frames'] / 1e6:.1f} | {of['frame_bytes'] / first['frame_bytes']:.3f} |",
              "yes |" if same else "**no** |", flush=True)
    return equal


WORKERS = (2, 4, 8)
LINK = 1e9 / 8 # bytes a second of a batch worker, each way
GREM = "grem", "--chunk", ".01"
PARTITIONERS = {"GREM": GREM, "streaming greedy": (*GREM, "--older", 1), "random": ("random",),
                "GREM, hubs of 1 %": GREM, "GREM, hubs of 5 %": GREM}
ON_RAY = "GREM", 4 # partitioner and workers


def asked(graph, name, workers, programs, out, on_ray=False):
    """Trains an epoch by workers of one partition each, and hubs if the name has a share of them, and returns what they
    sent to each other."""
    tool, parts, assignment = programs / "gneiss-data", out / f"parted-{workers}", out / "parts.npy"
    hubs, replicated = (), ()
    if "hubs" in name:
        run(tool, "hubs", graph, "--hubs", "".join(name.split()[-2:]), "--out", out / "hubs.npy", "--force", "--quiet")
        hubs, replicated = ("--hubs", out / "hubs.npy"), ("--replicate", "hubs")
    cut = json.loads(run(tool, "partition", graph, "--partitioner", *PARTITIONERS[name], "--partitions", workers, *hubs,
                         "--seed", 1, "--out", assignment, "--force", "--json"))["cut"]
    run(tool, "reorder", graph, "--by", assignment, *hubs, "--out", parts, "--force", "--quiet")
    command = (sys.executable, "-c", COMMAND) if on_ray else (programs / "gneiss-armada",)
    record = json.loads(run(*command, "train", parts, *(("--local", f"{workers}x1") if on_ray else ()), "--construct",
                            "remote", "--batch-workers", workers, "--buffer", 1, *replicated, "--layers",
                            "sage:32,sage", "--fanout", "10,10", "--batch", 1000, "--epochs", 1, "--seed", 1,
                            "--memory", "4GiB", "--no-eval", "--no-report", "--out", out / "run", "--force", "--quiet",
                            "--json"))
    shutil.rmtree(parts)
    epoch = record["epochs"][0]
    return {"cut": cut, **{key: epoch[key] for key in ("frames", "construct_messages", "construct_bytes",
                                                       "remote_nodes", "remote_rows", "sampled_edges")}}


def construct(_data, out, programs):
    """Messages and bytes of remote construction by number of workers and partitioner, in one process; one of them on
    Ray, which has to have the same."""
    log, graph = Log(out / "construct.jsonl"), out / "planted"
    if not graph.exists():
        run(programs / "gneiss-data", "generate", "planted", "--nodes", 100000, "--edges", 1000000, "--classes", 8,
            "--communities", 64, "--mixing", ".2", "--undirected", "--seed", 5, "--task", "node", "--num-features", 64,
            "--train-fraction", ".2", "--out", graph, "--quiet")
    print("| workers | partitioner | cut | messages of a batch | MB | draws of others | rows of others | seconds at "
          "1 Gbit/s, model | of GREM's |\n|---|---|---|---|---|---|---|---|---|")
    for workers in WORKERS:
        first = None
        for name in PARTITIONERS:
            of = log.measure(f"{name} {workers}", functools.partial(asked, graph, name, workers, programs, out))
            seconds = of["construct_bytes"] / workers / LINK
            first = first or seconds
            print(f"| {workers} | {name} | {of['cut']:.3f} | {of['construct_messages'] / of['frames']:.1f} |",
                  f"{of['construct_bytes'] / 1e6:,.1f} | {of['remote_nodes']:,} | {of['remote_rows']:,} |",
                  f"{seconds:.2f} | {seconds / first:.2f} |", flush=True)
    there = log.measure("on Ray", functools.partial(asked, graph, *ON_RAY, programs, out, True))
    same = there == log.results[f"{ON_RAY[0]} {ON_RAY[1]}"]
    print(f"\n{ON_RAY[0]}, {ON_RAY[1]} workers on Ray: {there['construct_messages']:,} messages, "
          f"{there['construct_bytes']:,} bytes:", "the same" if same else "**others**")
    return same


EMULATED = pathlib.Path(__file__).with_name("emulated.py")
HANDED = pathlib.Path(__file__).with_name("handed.py")
# Seconds of a batch at the paper's rates (docs/results/armada.md): to make it by a batch worker, and by the CPUs of a
# machine with GPUs; to compute it. Here they are CPU seconds of a worker that has a share of a core.
MAKE, OWN_MAKE, COMPUTE = .0243, .0454, {"Small": .0227, "Large": .0817}
SHARE = .07
SHARES = {"batch": SHARE, "compute": SHARE}
EPOCH = 1208 # batches
TABLE_1 = {1: 0, 2: 1, 4: 2, 8: 4} # batch workers by compute workers
SECONDS_OF_PAPER = {"Small": (54.9, 33.3, 14.2, 7.35), "Large": (98.7, 50.2, 26.1, 12.0)}


def planted(graph, programs, nodes, edges, communities, train):
    """Returns a folder with a planted graph of undirected edges in 12 partitions, made there if it does not exist."""
    if not graph.exists():
        run(programs / "gneiss-data", "generate", "planted", "--nodes", nodes, "--edges", edges, "--classes", 8,
            "--communities", communities, "--mixing", ".2", "--undirected", "--seed", 5, "--task", "node",
            "--num-features", 64, "--train-fraction", train, "--partitions", 12, "--out", graph, "--quiet")
    return graph


def graph_of_scale(out, programs):
    return planted(out / "planted", programs, 40000, 400000, 64, ".8")


def flags_of_scale(graph, out, **more):
    return {"dataset": str(graph), "layers": "sage:32,sage", "fanout": "10,10", "early_stop": 0, "seed": 1,
            "memory": "2GiB", "threads": 1, "no_eval": True, "no_report": True, "out": str(out / "run"), "force": True,
            "quiet": True, **more}


def batches_a_second(steps, begin=None, end=None):
    """Returns the rate of (time, batches, epoch) from the first step of a time on to the last one."""
    of = [(at, count) for at, count, _ in steps if (begin is None or at >= begin) and (end is None or at <= end)]
    return sum(count for _, count in of[1:]) / (of[-1][0] - of[0][0]) if len(of) > 2 else 0.0


def scaled(graph, size, batch, compute, out):
    """Trains by workers with set CPU times; without batch workers, by one in the place of the compute machine's own
    CPUs. Returns batches a second, the steps that they are a mean of, and bytes."""
    warm = -(-2 * (batch + 2 * compute) // compute) # frames may be made ahead meanwhile
    flags = {"make": MAKE if batch else OWN_MAKE, "compute": COMPUTE[size], "share": SHARES, "warm": warm,
             "steps": 8, "seconds": 20,
             "train": flags_of_scale(graph, out, local=f"{batch or 1}x{compute}", batch_workers=batch or 1,
                                     replicas=compute, batch=100, epochs=100)}
    with own_folder() as folder:
        seen = json.loads(run(sys.executable, "-W", "ignore", EMULATED, json.dumps(flags), TMPDIR=str(folder)))
    steps = seen["steps"][warm:]
    busy = [share for name, share in seen["end"]["busy"].items() if name.startswith("compute")]
    return {"rate": batches_a_second(steps), "steps": len(steps) - 1, "seconds": steps[-1][0] - steps[0][0],
            "busy": statistics.mean(busy), "all_busy": seen["end"]["busy"],
            "frame": seen["end"]["frame_bytes"] / seen["end"]["frames"],
            "gradients": seen["end"]["gradient_bytes"], "live": seen["end"]["live"]}


def scale(_data, out, programs):
    """Batch and compute workers with set CPU times: the counts of the paper's Table 1, the same without batch workers,
    and eight compute workers with up to six batch workers. Emulated."""
    log, graph = Log(out / "scale.jsonl"), graph_of_scale(out, programs)

    def measured(size, batch, compute):
        of = log.measure(f"{size} {batch}x{compute}", functools.partial(scaled, graph, size, batch, compute, out))
        return SHARE * EPOCH / of["rate"], of["busy"], of
    fast = True
    print("| model | compute workers | batch workers | emulated seconds of an epoch | speed-up | busy | paper | without "
          "batch workers | speed-up | busy |\n|---|---|---|---|---|---|---|---|---|---|")
    for size, seconds_of_paper in SECONDS_OF_PAPER.items():
        first = None
        for (compute, batch), paper in zip(TABLE_1.items(), seconds_of_paper):
            seconds, busy, _ = measured(size, batch, compute)
            own, own_busy, of = measured(size, 0, compute)
            first = first or seconds
            print(f"| {size} | {compute} | {batch} | {seconds:.1f} | {first / seconds:.2f} | {busy:.1%} | {paper} |",
                  f"{own:.1f} | {first / own:.2f} | {own_busy:.1%} |", flush=True)
        fast = fast and first / seconds >= 7
    print("\n| batch workers | emulated seconds of an epoch | compute workers busy |\n|---|---|---|")
    curve = []
    for batch in range(7):
        seconds, busy, of = measured("Large", batch, 8)
        curve.append((seconds, busy))
        print(f"| {batch} | {seconds:.1f} | {busy:.1%} |", flush=True)
    print(f"\nframes of {of['frame'] / 1e6:.2f} MB, gradients of {of['gradients'] / 1e3:.0f} kB; the last live line: "
          f"{of['live']}")
    seconds = [of for of, _ in curve]
    flat = max(seconds[4:]) < 1.05 * min(seconds[4:]) and all(busy >= .95 for _, busy in curve[4:])
    return fast and flat and seconds[0] > seconds[1] > seconds[2] > min(seconds[4:])


QUARTER = {"batch": .25, "compute": 1} # cores


def graph_of_work(out, programs):
    return planted(out / "large", programs, 1000000, 20000000, 256, ".1")


def worked(graph, count, out):
    """Trains by batch workers of a quarter of a core, and one compute worker of a core, which it shares with the
    driver. Returns batches a second."""
    core = max(os.sched_getaffinity(0))
    flags = {"make": 0, "compute": 0, "share": QUARTER, "core": core, "warm": 60, "steps": 40, "seconds": 20,
             "train": flags_of_scale(graph, out, local=f"{count}x1", batch_workers=4, replicas=1, batch=1000,
                                     layers="gcn:2:dropout=0,gcn:dropout=0", fanout="25,10", epochs=100, memory="6GiB")}
    with own_folder() as folder:
        seen = json.loads(run(sys.executable, "-W", "ignore", EMULATED, json.dumps(flags), TMPDIR=str(folder)))
    steps = seen["steps"][flags["warm"]:]
    return {"rate": batches_a_second(steps), "busy": seen["end"]["busy"], "frames": seen["end"]["frames"],
            "frame_bytes": seen["end"]["frame_bytes"]}


def work(_data, out, programs):
    """Batch workers of a quarter of a core each, with real work alone: four against one."""
    log, graph, first = Log(out / "work.jsonl"), graph_of_work(out, programs), None
    print("| batch workers | batches/s | speed-up | batch workers busy | compute worker busy | CPU ms of a batch, made | "
          "computed |\n|---|---|---|---|---|---|---|")
    for count in (1, 2, 4):
        of = log.measure(str(count), functools.partial(worked, graph, count, out))
        first = first or of["rate"]
        busy = statistics.mean(share for name, share in of["busy"].items() if name.startswith("batch"))
        print(f"| {count} | {of['rate']:.2f} | {of['rate'] / first:.2f} | {busy:.1%} |",
              f"{of['busy']['compute-0']:.1%} | {1000 * busy * QUARTER['batch'] * count / of['rate']:.1f} |",
              f"{1000 * of['busy']['compute-0'] / of['rate']:.1f} |", flush=True)
    return of["rate"] / first >= 3.4


JOIN, LEAVE = 2, 4 # epochs
WINDOW = 10        # seconds that a rate is a mean of
SETTLED = .9       # of the later rate


def changing(graph, out, flags, leave):
    """Trains on a machine with two batch and two compute workers; another one with two batch workers joins, and leaves
    by a method of it. Returns what emulated.py does, and the times of both."""
    quotas = Quotas() # of the machines' processes of Ray
    with machines.cluster(3, later=1) as switch:
        files = [machines.FOLDER / name for name in ("join", "leave")]
        given = {"make": 2 * MAKE, "compute": COMPUTE["Small"], "share": SHARES, "warm": 0, "steps": 0, "seconds": 0,
                 "events": [[JOIN - 1, 40, str(files[0])], [LEAVE - 1, 40, str(files[1])]],
                 "train": {**flags, "address": f"10.77.0.1:{machines.PORT}", "local": "4x2"}}
        driver = switch[1].start(sys.executable, "-W", "ignore", EMULATED, json.dumps(given))
        times = []
        join = functools.partial(switch[3].start_ray, 2, 200 << 20)
        for file, change in zip(files, (join, getattr(switch[3], leave))):
            while not file.exists() and driver.poll() is None:
                time.sleep(0.01)
            times.append(time.monotonic())
            change()
        text, errors = driver.communicate()
    quotas.close()
    if driver.returncode != 0:
        sys.exit(f"error: {errors}")
    return {**json.loads(text.splitlines()[-1]), "join": times[0], "leave": times[1]}


def settled(steps, begin, end):
    """Returns the rate of the second half from `begin` to `end`, and the seconds from `begin` until a window has it."""
    rate = batches_a_second(steps, (begin + end) / 2, end)
    for tenth in range(int((end - begin - WINDOW) * 10)):
        since = begin + tenth / 10
        if sum(count for at, count, _ in steps if since < at <= since + WINDOW) >= SETTLED * rate * WINDOW:
            return rate, tenth / 10
    return rate, float("inf")


def longest_pause(steps, begin, seconds=30):
    """Returns the longest time without a step in the seconds from `begin` on."""
    times = [begin] + [at for at, _, _ in steps if begin < at < begin + seconds]
    return max(later - earlier for earlier, later in zip(times, times[1:]))


def members(_data, out, programs):
    """Two batch workers that join in epoch 2 and leave in epoch 4: the hash, and the throughput. Emulated."""
    log, graph = Log(out / "members.jsonl"), graph_of_scale(out, programs)
    flags = flags_of_scale(graph, out, batch_workers=4, replicas=2, batch=200, epochs=5)
    words = [part for name, value in flags.items() if name != "dataset"
             for part in ([f"--{name.replace('_', '-')}"] + ([] if value is True else [value]))]

    def alone():
        return {"sha256": json.loads(run(programs / "gneiss-armada", "train", graph, *words, "--json"))
                ["weights_sha256"]}
    expected = log.measure("one process", alone)
    good = True
    print("| | batches/s | settled after | longest time without a step |\n|---|---|---|---|")
    for how, text, aim in (("leave", "without their machine, which left", 10),
                           ("kill", "without it; it was killed", 12)):
        of = log.measure(how, functools.partial(changing, graph, out, flags, how))
        steps, join, leave = of["steps"], of["join"], of["leave"]
        up = max(at for name, at in of["up"] if name.startswith("batch") and join < at < leave)
        more, slow = settled(steps, up, leave)
        fewer, again = settled(steps, leave, steps[-1][0])
        print(f"| two batch workers | {batches_a_second(steps, steps[0][0] + WINDOW, join):.2f} | | |\n"
              f"| two more, up {up - join:.1f} s after the start of their machine | {more:.2f} | {slow:.1f} s | |\n"
              f"| {text} | {fewer:.2f} | {again:.1f} s | {longest_pause(steps, leave):.1f} s |", flush=True)
        print("".join(f"- {text}\n" for text in of["warnings"]), file=sys.stderr)
        good = good and of["sha256"] == expected["sha256"] and slow <= 10 and again <= aim
    print(f"\nthe SHA-256 of one process, and times <= 10 s, 12 s if killed: {'yes' if good else '**no**'}")
    return good


MEASUREMENTS = {"hashes": hashes, "faults": faults, "members": members, "scale": scale, "work": work,
                "link": link, "frames": frames, "bytes": fewer_bytes, "construct": construct}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=list(MEASUREMENTS))
    parser.add_argument("--data", type=pathlib.Path, default="data", help="directory with the graphs of the guides")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    if flags.name in ("faults", "members", "scale", "work", "link"):
        machines.enter()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(0 if MEASUREMENTS[flags.name](flags.data, flags.out, flags.programs) else 1)
    except KeyboardInterrupt:
        sys.exit("error: interrupted; the same command goes on")


if __name__ == "__main__":
    main()
