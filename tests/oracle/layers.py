"""Stacks of layers like gneiss's, built of PyG modules, differentiable in all parameters."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

activations = {"none": lambda x: x, "relu": F.relu, "leaky": F.leaky_relu, "elu": F.elu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


@dataclass
class Hop:
    """Edges from sources to targets; target 0 is source `first`, and so on."""

    edges: torch.Tensor  # [2, edges]: source, target
    sources: int
    targets: int
    first: int = 0
    symmetric: bool = False  # each edge in both directions, none repeated, without self-loops: PyG's own normalization applies


def option(options: list[str], among, default: str) -> str:
    return next((o for o in options if o in among), default)


def convolve(kind: str, text: str, options: list[str], weight: dict, rows: torch.Tensor, hop: Hop) -> torch.Tensor:
    """Computes one layer without activation, norm, dropout and residual."""
    first, targets, columns = hop.first, hop.targets, rows.shape[1]
    source, target = hop.edges
    bias = "no-bias" not in options
    parameters = {"bias": weight["bias"][0]} if bias else {}
    loops = torch.arange(targets)
    source, target = torch.cat([source, loops + first]), torch.cat([target, loops])
    looped = torch.stack([source, target + first])
    if kind == "sage":
        own = weight["own"]
        conv = SAGEConv((columns, columns), own.shape[1], aggr=option(options, ("mean", "sum", "max"), "mean"), bias=bias)
        parameters = {"lin_l." + key: value for key, value in parameters.items()}
        parameters |= {"lin_l.weight": weight.get("neighbors", own).T, "lin_r.weight": own.T}
        return functional_call(conv, parameters, ((rows, rows[first : first + targets]), hop.edges), {"size": (hop.sources, targets)})
    parameters["lin.weight" if kind != "linear" else "weight"] = weight["weight"].T
    if kind == "gcn":
        width = weight["weight"].shape[1]
        if hop.symmetric and "symmetric" in options:
            return functional_call(GCNConv(columns, width, bias=bias), parameters, (rows, hop.edges))
        into = torch.bincount(target, minlength=targets).to(rows.dtype)
        out_of = torch.bincount(source, minlength=hop.sources).to(rows.dtype)
        share = 1 / torch.sqrt(into[target] * out_of[source]) if "symmetric" in options else 1 / into[target]
        conv = GCNConv(columns, width, normalize=False, add_self_loops=False, bias=bias)
        return functional_call(conv, parameters, (rows, looped, share))[first : first + targets]
    heads, width = weight["attention_source"].shape
    slope = float(next((o[6:] for o in options if o.startswith("slope=")), 0.2))
    conv = GATConv(columns, width, heads=heads, concat="mean" not in options, negative_slope=slope, add_self_loops=False, bias=bias)
    parameters |= {"att_src": weight["attention_source"][None], "att_dst": weight["attention_target"][None]}
    return functional_call(conv, parameters, (rows, looped))[first : first + targets]


def forward(layers: str, weights: dict[str, torch.Tensor], rows: torch.Tensor, hops: list[Hop]) -> torch.Tensor:
    """Returns the rows of the last layer. `weights` has layer0.NAME, layer1.NAME, …; one hop per layer with neighbors."""
    hops = list(hops)
    stack = layers.split(",")
    for i, text in enumerate(stack):
        kind, *options = text.split(":")
        weight = {key.split(".")[1]: value for key, value in weights.items() if key.startswith(f"layer{i}.")}
        weight = {key.replace("neighbours", "neighbors"): value for key, value in weight.items()}
        if kind == "linear":
            own, new = rows, rows @ weight["weight"] + weight.get("bias", 0)
        else:
            hop = hops.pop(0)
            own = rows[hop.first : hop.first + hop.targets]
            new = convolve(kind, text, options, weight, rows, hop)
        if "norm" in options:
            new = F.layer_norm(new, new.shape[1:], weight["gain"][0], weight["shift"][0], 1e-5)
        usual = "none" if i == len(stack) - 1 else "elu" if kind == "gat" else "relu"
        new = activations[option(options, activations, usual)](new)
        if "residual" in options:
            new = new + (own @ weight["residual"] if "residual" in weight else own)
        rows = new
    return rows


def whole_graph(graph, layers: str, direction: str | None = None) -> list[Hop]:
    """Returns the same hop over all nodes for each layer."""
    nodes = len(graph.labels)
    hop = Hop(torch.tensor(graph.edge_index(direction)), nodes, nodes, symmetric=graph.undirected)
    return [hop] * sum(not text.startswith("linear") for text in layers.split(","))


def inputs(graph, normalized: bool) -> torch.Tensor:
    """Returns features in double; each row sums to 1 if normalized."""
    rows = torch.tensor(graph.features).double()
    if normalized:
        sums = rows.sum(1, keepdim=True)
        rows = torch.where(sums > 0, rows / torch.where(sums > 0, sums, 1.0), 0.0)
    return rows
