"""Compares losses, link models, optimizers, schedules and whole runs with one batch per epoch with torch."""

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.adam import adam

import oracle
from layers import forward, inputs, whole_graph

adam_family = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def loss_of(name: str, positive: torch.Tensor, negatives: torch.Tensor, margin: float) -> torch.Tensor:
    """Returns the loss of one query without its masked negatives."""
    if name == "softmax":
        return F.cross_entropy(torch.cat([positive[None], negatives])[None], torch.tensor([0]))
    if len(negatives) == 0:
        return F.softplus(-positive) if name == "logistic" else 0 * positive
    if name == "marius":
        return torch.logsumexp(negatives, 0) - positive
    if name == "logistic":
        return (F.binary_cross_entropy_with_logits(positive, torch.ones_like(positive))
                + F.binary_cross_entropy_with_logits(negatives, torch.zeros_like(negatives)))
    return F.margin_ranking_loss(positive.expand(len(negatives)), negatives, torch.ones_like(negatives), margin=margin)


def halves(rows: torch.Tensor) -> torch.Tensor:
    """Returns complex numbers whose real parts are the first half of the columns."""
    return torch.complex(*rows.chunk(2, dim=-1))


def score(decoder: str, head, relation, tail) -> torch.Tensor:
    if decoder == "dot":
        return (head * tail).sum(-1)
    if decoder == "distmult":
        return (head * relation * tail).sum(-1)
    if decoder == "complex":
        return (halves(head) * halves(relation) * halves(tail).conj()).sum(-1).real
    return -torch.linalg.vector_norm(head + relation - tail, dim=-1)


def penalty_of(kind: str, decoder: str, rows: torch.Tensor) -> torch.Tensor:
    if kind == "l2":
        return (rows**2).sum()
    return ((halves(rows) if decoder == "complex" else rows).abs() ** 3).sum()


def check_loss(worst: oracle.Worst, case: dict, load) -> None:
    scores, name = load("scores").astype(float), f"{case}"
    there = np.isfinite(scores)
    positive = torch.tensor(case["positive"], dtype=torch.double, requires_grad=True)
    negatives = torch.tensor(scores[there], requires_grad=True)
    value = loss_of(case["loss"], positive, negatives, 2.5)
    (value + 0 * positive + 0 * negatives.sum()).backward()
    gradient = np.zeros(len(scores))
    gradient[there] = negatives.grad
    size = max(1.0, abs(value.item()))
    worst.note(f"loss {case['loss']}: value", abs(case["value"] - value.item()) / size, name)
    worst.note(f"loss {case['loss']}: gradient of the positive", abs(case["positive_gradient"] - positive.grad.item()), name)
    worst.note(f"loss {case['loss']}: gradient of negatives", oracle.relative(load("gradient"), gradient, 1e-6), name)


def check_link(worst: oracle.Worst, case: dict, load) -> None:
    decoder, reciprocal, name = case["decoder"], case["reciprocal"], f"{case}"
    nodes = torch.tensor(load("embeddings")).double().requires_grad_()
    relations = torch.tensor(load("relation_embeddings")).double().requires_grad_()
    positives, negatives, chunks = load("positives").astype(int), load("negatives").astype(int), load("chunks")
    tail_missing, known = load("tail_missing"), set(map(tuple, load("known").tolist()))
    relation_of = (lambda r: relations[r]) if decoder != "dot" else (lambda r: None)
    chunk_of = np.searchsorted(chunks, np.arange(len(positives)), side="right") - 1
    total, masked = torch.zeros((), dtype=torch.double), 0
    for side, tail in enumerate(tail_missing):
        for (h, r, t), chunk in zip(positives, chunk_of):
            candidates = negatives[chunk, side]
            if case["filtered"]:
                answer = t if tail else h
                true = [c == answer or ((h, r, c) if tail else (c, r, t)) in known for c in candidates.tolist()]
                masked += sum(true)
                candidates = candidates[~np.array(true)]
            others = nodes[torch.tensor(candidates)]
            if tail:
                positive, scores = score(decoder, nodes[h], relation_of(r), nodes[t]), score(decoder, nodes[h], relation_of(r), others)
            elif reciprocal:
                back = relation_of(r + 5)
                positive, scores = score(decoder, nodes[t], back, nodes[h]), score(decoder, nodes[t], back, others)
            else:
                positive, scores = score(decoder, nodes[h], relation_of(r), nodes[t]), score(decoder, others, relation_of(r), nodes[t])
            if case["corrected"]:  # the edge's partitions are always resident, others in `share` of the epochs
                own = {h // case["partition_size"], t // case["partition_size"]}
                if case["resident"] > len(own):
                    share = (case["resident"] - len(own)) / (case["partitions"] - len(own))
                    in_own = np.isin(candidates // case["partition_size"], list(own))
                    scores = scores + torch.tensor(np.where(in_own, np.log(share), 0.0))
                    positive = positive + np.log(share / (case["resident"] / case["partitions"]))
            total = total + loss_of(case["loss"], positive, scores, 1.5)
    penalty = torch.zeros((), dtype=torch.double)
    if case["penalty"] != "none":
        for h, r, t in positives:
            rows = [nodes[h], nodes[t]]
            if decoder != "dot":
                rows += [relations[r]] if 1 in tail_missing or not reciprocal else []
                rows += [relations[r + 5]] if 0 in tail_missing and reciprocal else []
            penalty = penalty + case["penalty_weight"] * sum(penalty_of(case["penalty"], decoder, row) for row in rows)
    penalty = penalty / len(positives) if case["mean"] else penalty
    reduced = total / (len(positives) * len(tail_missing)) if case["mean"] else total  # only gradients are reduced
    (reduced + penalty + 0 * relations.sum()).backward()

    def differ(got: float, want: torch.Tensor) -> float:
        return abs(got - want.item()) / max(1.0, abs(want.item()))

    worst.note(f"link {decoder}: loss", differ(case["loss_value"], total), name)
    worst.note(f"link {decoder}: penalty", differ(case["penalty_value"], penalty), name)
    if case["filtered"]:
        worst.note("link: masked negatives", float(case["masked"] != masked), name)
    gradient = np.zeros(nodes.shape)
    gradient[load("nodes")] = load("gradients")
    worst.note(f"link {decoder}: gradients of nodes", oracle.relative(gradient, nodes.grad), name)
    if decoder != "dot":
        gradient = np.zeros(relations.shape)
        gradient[load("relations")] = load("relation_gradients")
        worst.note(f"link {decoder}: gradients of relations", oracle.relative(gradient, relations.grad), name)


def check_row_optimizer(worst: oracle.Worst, case: dict, load) -> None:
    """Uses torch's optimizers; Adam with selected rows steps only those, with the global step number."""
    rows = torch.tensor(load("first"), requires_grad=True)
    sparse_adam = case["optimizer"] == "adam" and case["sparse"]
    optimizer = adam_family[case["optimizer"]]([rows], lr=case["rate"])
    moments = [torch.zeros_like(rows) for _ in range(2)]
    for step in range(1, case["steps"] + 1):
        ids, gradients = torch.tensor(load(f"ids{step}").astype(int)), torch.tensor(load(f"gradients{step}"))
        if sparse_adam:  # torch.optim.SparseAdam adds epsilon at another point
            with torch.no_grad():
                parts = [table[ids] for table in (rows, *moments)]
                adam([parts[0]], [gradients], [parts[1]], [parts[2]], [], [torch.tensor(step - 1.0)], amsgrad=False, beta1=0.9, beta2=0.999,
                     lr=case["rate"], weight_decay=0, eps=1e-8, maximize=False)
                for table, part in zip((rows, *moments), parts):
                    table[ids] = part
            continue
        if case["sparse"]:
            rows.grad = torch.sparse_coo_tensor(ids[None], gradients, rows.shape).coalesce()
        else:
            rows.grad = torch.zeros_like(rows).index_add(0, ids, gradients)
        optimizer.step()
    name = f"optimizer of embeddings {case['optimizer']}, {'a third' if case['sparse'] else 'all'} of them a step"
    worst.note(name, np.abs(load("last") - rows.detach().numpy()).max())


def factor(schedule: str, step: int, steps: int) -> float:
    """Uses torch's schedules where one matches."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    made = {"constant": lambda: torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0),
            "linear": lambda: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps),
            "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps),
            "step": lambda: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.1 ** (3 * t // steps))}[schedule]()
    for _ in range(step):
        optimizer.step()
        made.step()
    return optimizer.param_groups[0]["lr"]


def step_dense(optimizer, decaying: list, weights: list, clip: float, decay: float, decoupled: bool) -> None:
    """Takes one step: clips the norm, then decays weights."""
    if clip:
        torch.nn.utils.clip_grad_norm_(weights, clip)
    with torch.no_grad():
        for weight in decaying if decay else []:
            if decoupled:
                weight *= 1 - optimizer.param_groups[0]["lr"] * decay
            else:
                weight.grad += decay * weight
    optimizer.step()


def check_dense_optimizer(worst: oracle.Worst, case: dict, load) -> None:
    weights = {key: torch.tensor(load("first." + key), requires_grad=True) for key in "abc"}
    decoupled = case["optimizer"] == "adamw"
    groups = [{"params": [weights["a"], weights["c"]], "weight_decay": case["decay"]}, {"params": [weights["b"]], "weight_decay": 0.0}]
    optimizer = adam_family[case["optimizer"]](groups, lr=case["rate"])
    factors = load("factors")
    for step in range(case["steps"]):
        want = factor(case["schedule"], step, case["steps"])
        worst.note(f"schedule {case['schedule']}", abs(factors[step] - want))
        for group in optimizer.param_groups:
            group["lr"] = case["rate"] * want
        for key, weight in weights.items():
            weight.grad = torch.tensor(load(f"gradient{step}.{key}"))
        step_dense(optimizer, [], list(weights.values()), case["clip"], 0, decoupled)  # decay is torch's
    name = f"optimizer of weights {case['optimizer']}{', decay' if case['decay'] else ''}{', clip' if case['clip'] else ''}"
    for key, weight in weights.items():
        worst.note(name, np.abs(load("last." + key) - weight.detach().numpy()).max(), f"{case['schedule']}, {key}")


def check_cross_entropy(worst: oracle.Worst, case: dict, load) -> None:
    scores = torch.tensor(load("scores")).double().requires_grad_()
    labels = load("labels").astype(np.int64)
    labels[labels == 2**32 - 1] = -100  # torch's unlabeled
    value = F.cross_entropy(scores, torch.tensor(labels))
    value.backward()
    labeled = labels >= 0
    worst.note("cross-entropy: value", abs(case["loss"] / case["labeled"] - value.item()) / max(1.0, value.item()))
    worst.note("cross-entropy: gradients", oracle.relative(load("gradients"), scores.grad, 1e-6))
    correct = (scores.detach().numpy()[labeled].argmax(1) == labels[labeled]).sum()
    worst.note("cross-entropy: correct nodes", abs(case["correct"] - correct) + abs(case["labeled"] - labeled.sum()))


def library_calls() -> None:
    worst = oracle.Worst(1e-5)
    checks = {"loss": check_loss, "link": check_link, "row optimizer": check_row_optimizer, "dense optimizer": check_dense_optimizer,
              "cross-entropy": check_cross_entropy}
    for case, load in oracle.cases("training"):
        checks[case["kind"]](worst, case, load)
    worst.close()


def train_links(triples: oracle.Triples, decoder: str, reciprocal: bool, loss: str, penalty: str, optimizer: str, rate: float,
                schedule: str, filtered: bool, reduction: str, *flags: str) -> None:
    """Compares embeddings after five full batches with all nodes as negatives."""
    epochs, weight = 5, 0.05
    flags = ["--decoder", decoder, "--reciprocal", str(reciprocal).lower(), "--loss", loss, "--regularizer", penalty, "--optimizer", optimizer,
             "--reduction", reduction, "--lr-schedule", schedule, "--epochs", epochs, "--relation-init", "uniform:-.5,.5",
             "--node-init", "normal:0,.3", "--dim", 16, "--batch", 10000, "--chunks", 1, "--negatives", "all", "--no-eval", "--staleness", 0,
             *(["--filter-negatives"] if filtered else []), *(["--regularizer-weight", weight] if penalty != "none" else []), *flags]
    first = oracle.export("gneiss-marius", oracle.train("gneiss-marius", triples.dataset, "first", *flags, "--lr", 1e-30))
    folder = oracle.train("gneiss-marius", triples.dataset, "last", *flags, "--lr", rate)
    last = oracle.export("gneiss-marius", folder)
    node, relation = oracle.names(last / "nodes.tsv"), oracle.names(last / "relations.tsv")
    edges = torch.tensor([(node[h], relation[r], node[t]) for h, r, t in triples.split["train"]])
    heads, types, tails = edges.T
    nodes, relations = (torch.tensor(np.load(first / f"{table}.npy")).double().requires_grad_() for table in ("nodes", "relations"))
    reverse = types + len(relations) // 2
    torch_optimizer = adam_family[optimizer]([nodes, relations], lr=rate)

    same_tails = {key: [t for h, r, t in edges.tolist() if (h, r) == key] for key in {(h, r) for h, r, _ in edges.tolist()}}
    same_heads = {key: [h for h, r, t in edges.tolist() if (r, t) == key] for key in {(r, t) for _, r, t in edges.tolist()}}
    tail_mask, head_mask = torch.zeros(2, len(edges), len(nodes), dtype=torch.bool)
    for i, (h, r, t) in enumerate(edges.tolist()):
        tail_mask[i, same_tails[h, r]] = True
        head_mask[i, same_heads[r, t]] = True

    def query(rows: torch.Tensor, by: torch.Tensor, backwards: bool) -> torch.Tensor:
        if decoder == "complex":
            made = halves(rows) * (halves(by).conj() if backwards else halves(by))
            return torch.cat([made.real, made.imag], -1)
        return rows * by if decoder == "distmult" else rows - by if backwards else rows + by

    wanted_losses = []
    for epoch in range(epochs):
        torch_optimizer.param_groups[0]["lr"] = rate * factor(schedule, epoch, epochs)
        torch_optimizer.zero_grad()
        back = query(nodes[tails], relations[reverse], False) if reciprocal else query(nodes[tails], relations[types], True)
        total = torch.zeros((), dtype=torch.double)
        for queries, answers, mask in ((query(nodes[heads], relations[types], False), tails, tail_mask), (back, heads, head_mask)):
            scores = -torch.cdist(queries, nodes, compute_mode="donot_use_mm_for_euclid_dist") if decoder == "transe" else queries @ nodes.T
            positive = scores.gather(1, answers[:, None])
            negative = scores.masked_fill(mask, -torch.inf) if filtered else scores
            count = torch.isfinite(negative).sum(1)
            value = {"softmax": lambda: torch.logsumexp(torch.cat([positive, negative], 1), 1) - positive[:, 0],
                     "marius": lambda: torch.logsumexp(negative, 1) - positive[:, 0],
                     "logistic": lambda: F.softplus(-positive[:, 0]) + F.softplus(negative).sum(1) / count,
                     "margin": lambda: torch.relu(1 - positive + negative).sum(1) / count}[loss]()
            total = total + value.sum()
        wanted_losses.append(total.item() / len(edges))
        rows = [nodes[heads], nodes[tails], relations[types], *([relations[reverse]] if reciprocal else [])]
        penalties = sum(penalty_of(penalty, decoder, part) for part in rows) * weight if penalty != "none" else 0
        (total + penalties if reduction == "sum" else total / (2 * len(edges)) + penalties / len(edges)).backward()
        torch_optimizer.step()
    name = f"training {decoder}{', reciprocal' if reciprocal else ''}, {loss}, {penalty}, {optimizer}, {schedule}, {reduction}"
    if "--store" in flags:
        name += ", on disk"
    oracle.close(f"{name}: nodes", np.load(last / "nodes.npy"), nodes.detach(), 1e-4)
    oracle.close(f"{name}: relations", np.load(last / "relations.npy"), relations.detach(), 1e-4)
    oracle.close(f"{name}: loss per edge", np.array(oracle.losses(folder)) / wanted_losses, np.ones(epochs), 1e-5)


def train_nodes(graph: oracle.Labeled, layers: str, optimizer: str, rate: float, decay: float, clip: float, schedule: str, normalized: bool,
                *flags: str) -> None:
    """Compares weights after six full batches with all neighbors."""
    epochs, columns = 6, graph.features.shape[1]
    flags = ["--layers", layers, "--optimizer", optimizer, "--weight-decay", decay, "--clip", clip, "--lr-schedule", schedule,
             "--dropout", 0, "--normalize-features", str(normalized).lower(), "--fanout", ",".join(["all"] * (layers.count(",") + 1)),
             "--batch", 100000, "--epochs", epochs, "--early-stop", 0, "--no-eval", *flags]

    def weights_at(rate: float, out: str):
        folder = oracle.train("gneiss-mariusgnn", graph.dataset, out, *flags, "--lr", rate)
        return oracle.weights(folder, oracle.with_width(layers, graph.classes), columns, graph.sparse, best=False), folder

    first, _ = weights_at(1e-30, "first")
    last, folder = weights_at(rate, "last")
    weights = {key: torch.tensor(value).double().requires_grad_() for key, value in first.items()}
    decaying = [value for key, value in weights.items() if key.endswith(".decays")]
    torch_optimizer = adam_family[optimizer](weights.values(), lr=rate, weight_decay=0.0)
    rows, hops = inputs(graph, normalized), whole_graph(graph, layers)
    trains = torch.tensor(np.flatnonzero(graph.split == 0))
    labels = torch.tensor(graph.labels)[trains]
    wanted_losses = []
    for epoch in range(epochs):
        torch_optimizer.param_groups[0]["lr"] = rate * factor(schedule, epoch, epochs)
        torch_optimizer.zero_grad()
        named = {key.removesuffix(".decays"): value for key, value in weights.items()}
        value = F.cross_entropy(forward(oracle.with_width(layers, graph.classes), named, rows, hops)[trains], labels)
        value.backward()
        wanted_losses.append(value.item())
        step_dense(torch_optimizer, decaying, list(weights.values()), clip, decay, optimizer == "adamw")
    name = f"training {layers}, {optimizer}, decay {decay}, clip {clip}, {schedule}{', on disk' if '--store' in flags else ''}"
    error = max(np.abs(last[key] - value.detach().numpy()).max() for key, value in weights.items())
    oracle.close(f"{name}: weights", error, 0, 1e-4)
    oracle.close(f"{name}: loss", oracle.losses(folder), wanted_losses, 1e-5)


def main() -> None:
    library_calls()
    triples = oracle.Triples()
    on_disk = ["--store", "disk", "--partitions", "8", "--buffer", "8"]
    train_links(triples, "complex", True, "softmax", "n3", "adagrad", 0.1, "linear", True, "sum")
    train_links(triples, "complex", False, "softmax", "n3", "adagrad", 0.1, "linear", False, "sum")
    train_links(triples, "distmult", False, "logistic", "l2", "adam", 0.01, "cosine", True, "mean")
    train_links(triples, "transe", False, "margin", "none", "sgd", 0.05, "step", True, "mean")
    train_links(triples, "distmult", True, "marius", "n3", "adagrad", 0.05, "constant", True, "sum")
    train_links(triples, "complex", True, "softmax", "n3", "adagrad", 0.1, "linear", True, "sum", *on_disk)
    train_links(triples, "transe", True, "softmax", "n3", "adam", 0.02, "linear", True, "mean", "--step-at", "compute")
    dense = oracle.Labeled("dense", 600, 2400, 5, 40)
    sparse = oracle.Labeled("sparse", 600, 2400, 5, 200, sparse=True)
    on_disk = ["--store", "disk", "--partitions", "4", "--buffer", "4"]
    train_nodes(sparse, "sage:16:elu,sage", "adam", 0.01, 1e-3, 0, "constant", True)
    train_nodes(sparse, "gcn:8,gcn", "sgd", 0.5, 0, 0.01, "cosine", True)
    train_nodes(dense, "sage:16:norm:residual,gat:4x3:residual,gcn", "adamw", 0.02, 0.05, 0, "linear", False)
    train_nodes(sparse, "gat:4x4,gat:5x2:mean", "adagrad", 0.05, 1e-2, 1, "step", True)
    train_nodes(dense, "sage:8:max,sage:8:sum:norm,sage", "adam", 0.01, 1e-3, 0, "constant", False, *on_disk)
    train_nodes(sparse, "gat:8x2,sage", "adam", 0.01, 0, 0, "constant", True, "--sampler", "neighbor")
