# SPDX-License-Identifier: Apache-2.0
"""Trains on the packages of this Debian machine: links between them by marius, their sections by hanoi.

    python python/examples/packages.py [DIRECTORY]
"""
import pathlib
import sys

import gneiss_graph as gn


def dataset(path, task):
    """Opens the package graph, which the first call makes from the lists of apt."""
    return gn.Dataset(path) if path.exists() else gn.get("debian", task=task, out=path, memory="2GiB")


def main():
    to = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "packages")
    links = dataset(to / "links", "link")
    print(links)
    run = gn.train(links, program="marius", out=to / "marius", memory="2GiB", epochs=5, force=True,
                   on_epoch=lambda epoch: print(f"epoch {epoch['epoch']}: loss {epoch['loss']:.4f}"))
    print(run.metrics["test"])
    answers = run.predict(head=links.names[0], relation=links.relation_names[0], k=3)
    for tail, score in zip(answers["tail"], answers["score"]):
        print(f"{links.names[0]}  {links.relation_names[0]}  {tail}  {score:.3f}")

    nodes = dataset(to / "nodes", "node")
    print(nodes)
    run = gn.train(nodes, program="hanoi", out=to / "hanoi", memory="2GiB", epochs=3, force=True)
    print(run.metrics["test"])


if __name__ == "__main__":
    main()
