# SPDX-License-Identifier: Apache-2.0
"""Measurements of gneiss-armada on Ray, for scripts/cluster: each is a function of its name. They resume."""
import argparse
import functools
import json
import pathlib
import subprocess
import sys
import time

GRAPHS = ("debian-packages", "coauthor-cs")
LAYERS = {"SAGE": "sage:64,sage", "GCN": "gcn:64,gcn", "GAT": "gat:64,gat"}
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


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def trained(graph, layers, where, out):
    """Trains three epochs by 4 batch workers and 2 replicas, and returns what has to be equal, and seconds."""
    place = ("--role", "all") if where == "all" else ("--local", where)
    start = time.monotonic()
    record = json.loads(run(sys.executable, "-c", COMMAND, "train", graph, *place, "--layers", layers, "--fanout",
                            "10,10", "--batch", 500, "--epochs", 3, "--early-stop", 0, "--batch-workers", 4, "--replicas", 2,
                            "--seed", 1, "--memory", "3GiB", "--no-eval", "--no-report", "--out", out / "run",
                            "--force", "--quiet", "--json"))
    return {"sha256": record["weights_sha256"], "losses": [epoch["loss"] for epoch in record["epochs"]],
            "seconds": record["seconds"], "wall": time.monotonic() - start, "frames": record.get("frames")}


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
    parser.add_argument("name", choices=["hashes"])
    parser.add_argument("--data", type=pathlib.Path, default="data", help="directory with the graphs of the guides")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if globals()[flags.name](flags.data, flags.out, flags.programs) else 1)


if __name__ == "__main__":
    main()
