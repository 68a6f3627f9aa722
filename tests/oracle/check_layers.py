"""Compares layers, their gradients and inference over whole graphs with PyG."""

import numpy as np
import torch

import oracle
from layers import Hop, forward, inputs, whole_graph


def layers_and_gradients() -> None:
    worst = oracle.Worst(1e-5)
    for case, load in oracle.cases("layers"):
        stored = {name[7:]: torch.tensor(load(name)).double().requires_grad_() for name in case["arrays"] if name.startswith("weight.")}
        rows = torch.tensor(load("input")).double().requires_grad_()
        hops = []
        for i in range(case["hops"]):
            sources, targets, first = map(int, load(f"hop{i}.sizes"))
            counts = torch.tensor(np.diff(load(f"hop{i}.offsets").astype(int)))
            neighbors = torch.tensor(load(f"hop{i}.neighbors").astype(int))
            hops.append(Hop(torch.stack([neighbors, torch.repeat_interleave(torch.arange(targets), counts)]), sources, targets, first))
        out = forward(case["layers"], stored, rows, hops)
        (out * torch.tensor(load("output_gradient"))).sum().backward()
        kind = ", ".join(text.split(":")[0] for text in case["layers"].split(","))
        name = f"{case['layers']}, {case['shape']}"
        worst.note(f"layers {kind}: output", oracle.relative(load("output"), out.detach()), name)
        worst.note(f"layers {kind}: gradient of the input", oracle.relative(load("input_gradient"), rows.grad), name)
        for key, value in stored.items():
            worst.note(f"layers {kind}: gradients of weights", oracle.relative(load("gradient." + key), value.grad), f"{name}, {key}")
    worst.close()


def inference() -> None:
    """Compares probabilities computed from a run's weights, in double, with the trainer's export."""
    directed = oracle.Labeled("directed", 400, 2500, 3, 5, undirected=False)
    symmetric = oracle.Labeled("symmetric", 600, 2400, 5, 40)
    sparse = oracle.Labeled("sparse", 600, 2400, 5, 200, sparse=True)
    on_disk = ["--store", "disk", "--partitions", "8", "--buffer", "3"]
    stacks = ["gcn:6:symmetric,gcn:symmetric", "gat:4x3,gat:mean", "sage:6:max,sage:sum", "sage:6:norm:elu,sage:6:residual,gcn"]
    runs = [(directed, program, stack, direction, []) for program in ("gneiss-mariusgnn", "gneiss-ginex", "gneiss-hanoi")
            for direction in ("in", "out", "both") for stack in stacks]
    runs += [(directed, "gneiss-mariusgnn", stack, "in", on_disk) for stack in stacks]
    runs += [(graph, "gneiss-mariusgnn", stack, None, []) for graph in (symmetric, sparse)
             for stack in [*stacks, "linear:8:tanh,sage:8:residual:norm,linear"] if not (graph.sparse and ":max" in stack)]
    worst = oracle.Worst(5e-6)
    for graph, program, stack, direction, flags in runs:
        hops = stack.count(",") + 1 - stack.count("linear")
        chosen = ["--direction", direction] if direction else []
        folder = oracle.train(program, graph.dataset, "inference", "--layers", stack, "--fanout", ",".join(["5"] * hops), "--epochs", 6,
                              *chosen, *flags)
        what = ["--what", "predictions"] if program == "gneiss-mariusgnn" else []
        got = oracle.by_node(oracle.export(program, folder, *what), "predictions")
        columns = graph.features.shape[1]
        layers = oracle.with_width(stack, graph.classes)
        stored = {key.removesuffix(".decays"): torch.tensor(value).double()
                  for key, value in oracle.weights(folder, layers, columns, graph.sparse).items()}
        want = forward(layers, stored, inputs(graph, graph.sparse), whole_graph(graph, layers, direction)).softmax(1)
        kind = f"{'sparse' if graph.sparse else 'undirected' if graph.undirected else 'directed'}{', on disk' if flags else ''}"
        worst.note(f"inference {program}, {kind}", float(np.abs(got - want.numpy()).max()), f"{stack}, direction {direction}")
    worst.close()


def main() -> None:
    layers_and_gradients()
    inference()
