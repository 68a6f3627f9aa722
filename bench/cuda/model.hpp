#pragma once

// A model of what kernels and trainers should reach on a GPU: limits of devices, shares of them that kernels are
// expected to reach, and the stages of an epoch. Nothing here was measured; benchmarks print the expected share beside
// the measured one, so that the first run on a GPU shows which assumption is wrong.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace gpu_model {

/// Limits of a device, from its data sheet.
struct device {
    const char* name;
    double gb_per_s; ///< of its memory
    double tf32;     ///< dense products by tensor cores [10¹² operations/s]
    double multiprocessors;
    double gigabytes;
};
inline constexpr std::array devices{
    device{"A100", 2039, 156, 108, 80}, device{"H100", 3350, 494, 132, 80}, device{"H200", 4800, 494, 132, 141}};

/// A bus, at the rate that large copies from pinned memory reach.
struct bus {
    const char* name;
    double gb_per_s;
};
inline constexpr std::array buses{bus{"PCIe 4", 25}, bus{"PCIe 5", 50}};

/// Assumptions about the host and about kernels.
struct assumptions {
    double copy = 0.9;                ///< share of the memory's rate that a copy within the device reaches
    double row_overhead = 128;        ///< bytes whose time a random row costs beyond its own
    double attention = 0.6;           ///< of sums of the same rows: more registers, two passes
    double streams = 0.8;             ///< share of copy bandwidth of kernels that read and write rows in order
    double products = 0.3;            ///< share of the tensor cores' rate: scalar epilogues
    double tf32_products = 3;         ///< products of halves for one of floats
    double link_tiles = 0.25;         ///< share of their rate if there is a block for each multiprocessor
    double launch_seconds = 3e-6;     ///< of the host, for a kernel
    double sampled_edge_bytes = 130;  ///< random reads of 32 bytes, and lists, of an edge drawn on the device
    double sampling_share = 0.3;      ///< of the copy bandwidth
    double host_edge_seconds = 75e-9; ///< of a worker, for a drawn edge
    double host_workers = 4;          ///< that sample
    double host_gather_gb_per_s = 40; ///< of random rows, by all cores
};
inline constexpr assumptions assumed{};

/// Returns the share of copy bandwidth that random rows of that many bytes should reach.
[[nodiscard]] constexpr double share_of_rows(double row_bytes) {
    return row_bytes / (row_bytes + assumed.row_overhead);
}

/// Returns the device of a driver's name, such as "NVIDIA H200"; null: unknown.
[[nodiscard]] inline const device* find_device(std::string_view name) {
    const auto found =
        std::ranges::find_if(devices, [&](const device& one) { return name.find(one.name) != name.npos; });
    return found == devices.end() ? nullptr : &*found;
}

/// A case of the benchmarks: what it must move and compute, and what its time depends on.
struct kernel_case {
    std::string_view name;  ///< as in its record
    double bytes = 0;       ///< least bytes
    double operations = 0;  ///< least operations
    double row_bytes = 512; ///< of a row
    double queries = 0;     ///< of a list of link prediction
    bool halves = false;    ///< operands are bfloat16
};

/// Seconds of a case at the limit, and the share of the limit that is expected.
struct expectation {
    double limit_seconds;
    double share;
};
/// Returns what is expected of a case. `copy_gb_per_s` is the measured rate of copies within the device; without a
/// known device, operations take no time. A share of 0: no expectation.
[[nodiscard]] inline expectation expect(const kernel_case& of, double copy_gb_per_s, const device* on) {
    const double by_bytes = copy_gb_per_s > 0 ? of.bytes / copy_gb_per_s / 1e9 : 0;
    const double by_operations =
        on == nullptr ? 0 : of.operations * (of.halves ? 0.5 : assumed.tf32_products) / (on->tf32 * 1e12);
    const auto mixed = [&](double product_share) { // the larger of both times at its own share
        const double limit = std::max(by_bytes, by_operations);
        const double seconds = std::max(by_bytes / assumed.streams, by_operations / product_share);
        return expectation{limit, seconds > 0 ? limit / seconds : 0};
    };
    if (of.name == "aggregate" || of.name == "gather") return {by_bytes, share_of_rows(of.row_bytes)};
    if (of.name == "attention") return {by_bytes, assumed.attention * share_of_rows(of.row_bytes)};
    if (of.name == "linear") return mixed(assumed.products);
    if (of.name == "link") {
        const double blocks = std::ceil(of.queries / 64), all = on == nullptr ? blocks : on->multiprocessors;
        return mixed(assumed.link_tiles * std::min(1.0, blocks / all));
    }
    if (of.name == "cross-entropy" || of.name == "step of rows") return {by_bytes, assumed.streams};
    return {by_bytes, 0};
}

/// A graph whose nodes are classified by a GNN over sampled neighbors.
struct node_shape {
    const char* name;
    double nodes, mean_degree; ///< of both directions
    double training_nodes;
    double columns, hidden, classes; ///< floats of a row, of a layer between, of the output
    std::vector<double> fanout;      ///< from the seeds on
    double batch = 1000;
};
/// A graph whose nodes' embeddings are trained by shared negatives, with Adagrad.
struct link_shape {
    const char* name;
    double edges, columns;
    double batch, negatives, chunks; ///< edges of a batch; negatives of a chunk and side
};
inline const std::array node_shapes{node_shape{"papers100M", 111'059'956, 29.1, 1'207'179, 128, 256, 172, {15, 10, 5}},
    node_shape{"MAG240M", 121'751'666, 21.3, 1'112'392, 768, 256, 153, {15, 10, 5}}};
inline constexpr link_shape freebase{"Freebase86M", 338'586'276, 100, 50'000, 1000, 10};

/// A sample: nodes known before each hop, seeds first, and edges of each.
struct sample_size {
    std::vector<double> nodes, edges;
};
/// Returns the expected size of a sample by DENSE, which draws for each node once: geometric degrees, neighbors
/// anywhere.
[[nodiscard]] inline sample_size sample_of(const node_shape& of) {
    const double q = of.mean_degree / (1 + of.mean_degree);
    sample_size result{{of.batch}, {}};
    double fresh = of.batch;
    for (const double fanout : of.fanout) {
        result.edges.push_back(fresh * of.mean_degree * (1 - std::pow(q, fanout)));
        const double missing = of.nodes - result.nodes.back();
        fresh = missing * -std::expm1(-result.edges.back() / of.nodes);
        result.nodes.push_back(result.nodes.back() + fresh);
    }
    return result;
}

/// Seconds of the stages of a batch, and what an epoch becomes of them: stages overlap, so the slowest sets the pace.
struct stages {
    double sample = 0, gather = 0, over_bus = 0, kernels = 0, launches = 0; ///< launches: host, one by one
    double batches = 0;
    double bus_bytes = 0; ///< of a batch

    [[nodiscard]] double device() const { return std::max(kernels, launches); }
    [[nodiscard]] double step() const { return std::max({sample, gather, over_bus, device()}); }
    [[nodiscard]] double epoch() const { return batches * step(); }
    [[nodiscard]] double busy() const { return kernels / step(); }
    [[nodiscard]] const char* bound() const {
        if (step() == sample) return "sample";
        if (step() == gather) return "gather";
        if (step() == over_bus) return "bus";
        return step() == launches ? "launches" : "kernels";
    }
};

/// The way of batches to the device.
enum class way : std::uint8_t { host, sampled_on_device, features_on_device };

/// Seconds of bytes in rows of `row_bytes`, and of a product on a device.
struct device_time {
    const device& on;
    [[nodiscard]] double rows(double bytes, double row_bytes) const {
        return bytes / (on.gb_per_s * 1e9 * assumed.copy * share_of_rows(row_bytes));
    }
    [[nodiscard]] double in_order(double bytes) const {
        return bytes / (on.gb_per_s * 1e9 * assumed.copy * assumed.streams);
    }
    [[nodiscard]] double product(double rows, double k, double n) const {
        return std::max(in_order(4 * rows * (k + n)),
            2 * rows * k * n * assumed.tf32_products / (on.tf32 * 1e12 * assumed.products));
    }
};

/// Kernels of a batch of GraphSAGE (mean, own row and sum joined).
struct network_time {
    double seconds = 0, kernels = 12; ///< kernels: of the loss and the update to begin with
    double listed = 0;                ///< edges in the lists of all layers
};
/// Returns the time of a network over a sample. Input rows have values of `value_bytes`.
[[nodiscard]] inline network_time network_of(
    const node_shape& of, const sample_size& sample, const device& on, double value_bytes = 4) {
    const device_time take{on};
    const std::size_t layers = of.fanout.size();
    network_time result;
    for (std::size_t layer = 0; layer < layers; ++layer) { // the first reads all hops
        const std::size_t hops = layers - layer;
        const double targets = sample.nodes[hops - 1], in = layer == 0 ? of.columns : of.hidden,
                     out = layer + 1 == layers ? of.classes : of.hidden, row = (layer == 0 ? value_bytes : 4) * in;
        double edges = 0;
        for (std::size_t h = 0; h < hops; ++h) edges += sample.edges[h];
        result.listed += edges;
        result.seconds += take.rows(edges * (row + 4) + targets * row, row) + 2 * take.product(targets, 2 * in, out);
        if (layer != 0)
            result.seconds += take.rows(edges * (4 * in + 8) + sample.nodes[hops] * 4 * in, 4 * in) +
                take.product(targets, out, 2 * in);
        result.kernels += layer == 0 ? 8 : 12;
    }
    return result;
}
/// Adds the sampling of a batch on the device to the time of its network.
inline void sample_on(const device& on, const sample_size& sample, network_time& to) {
    const double edges = std::accumulate(sample.edges.begin(), sample.edges.end(), 0.0);
    to.seconds += edges * assumed.sampled_edge_bytes / (on.gb_per_s * 1e9 * assumed.copy * assumed.sampling_share);
    const double layers = static_cast<double>(sample.edges.size());
    to.kernels += 10 + 9 * layers + 6 * (layers - 1);
}

/// Returns the stages of a batch of node classification by GraphSAGE.
[[nodiscard]] inline stages stages_of(const node_shape& of, const device& on, const bus& over, way how) {
    const sample_size sample = sample_of(of);
    const double inputs = sample.nodes.back(), row = 4 * of.columns;
    network_time network = network_of(of, sample, on);
    stages result{.batches = std::ceil(of.training_nodes / of.batch)};
    if (how == way::host) {
        result.sample = std::accumulate(sample.edges.begin(), sample.edges.end(), 0.0) * assumed.host_edge_seconds /
            assumed.host_workers;
        result.bus_bytes = 4 * (2 * network.listed + 2 * inputs); // offsets, neighbors, lists by source of half, ids
    } else {
        sample_on(on, sample, network);
        result.bus_bytes = 4 * inputs; // ids come back
    }
    if (how == way::features_on_device) {
        result.bus_bytes = 4 * of.batch;
    } else {
        result.gather = inputs * row / (assumed.host_gather_gb_per_s * 1e9);
        result.bus_bytes += inputs * row;
    }
    result.over_bus = result.bus_bytes / (over.gb_per_s * 1e9);
    result.kernels = network.seconds;
    result.launches = network.kernels * assumed.launch_seconds;
    return result;
}

/// Returns the stages of a batch of link prediction: rows come from the host, and their gradients go back.
[[nodiscard]] inline stages stages_of(const link_shape& of, const device& on, const bus& over) {
    const device_time take{on};
    const double rows = 2 * of.batch + 2 * of.chunks * of.negatives, row = 4 * of.columns;
    const double blocks = std::ceil(of.batch / of.chunks / 64) * of.chunks;
    stages result{.batches = std::ceil(of.edges / of.batch)};
    result.sample = rows * 30e-9 / assumed.host_workers; // negatives, and distinct nodes by sorting
    result.gather = rows * row / (assumed.host_gather_gb_per_s * 1e9);
    result.bus_bytes = rows * row; // each way; the ways overlap
    result.over_bus = result.bus_bytes / (over.gb_per_s * 1e9);
    const double share = assumed.link_tiles * std::min(1.0, blocks / on.multiprocessors);
    result.kernels = 2 * 8 * of.batch * of.negatives * of.columns * assumed.tf32_products / (on.tf32 * 1e12 * share) +
        take.rows(6 * rows * row, row);
    result.launches = 30 * assumed.launch_seconds;
    return result;
}

/// Returns docs/results/cuda-model.md up to its section about macro-batches.
[[nodiscard]] inline std::string epoch_sections() {
    std::string text = R"(# CUDA: a model of an epoch

**This page is a model: nothing on it was measured.** `gneiss-gpu-model` prints it (`bench/cuda/model.hpp`). It states
what the kernels and trainers should reach on GPUs, by data sheets and assumptions, so that the first run on hardware
shows which assumption is wrong: `gneiss-gpu-bench` prints the expected share of the limit beside each measured one.

## Assumptions

| what | value |
|---|---|
)";
    const auto line = [&](const char* format, auto... values) {
        char buffer[256];
        std::snprintf(buffer, sizeof buffer, format, values...);
        text += buffer;
    };
    for (const device& one : devices)
        line("| %s: memory; dense TF32; multiprocessors | %.0f GB of %.0f GB/s; %.0f · 10¹² operations/s; %.0f |\n",
            one.name, one.gigabytes, one.gb_per_s, one.tf32, one.multiprocessors);
    for (const bus& one : buses) line("| %s, copies from pinned memory | %.0f GB/s |\n", one.name, one.gb_per_s);
    line("| a copy within the device | %.0f %% of the memory's rate |\n", 100 * assumed.copy);
    line("| sums and gathers of random rows | R / (R + %.0f) of a copy's rate for rows of R bytes |\n",
        assumed.row_overhead);
    line("| attention; rows in order | %.0f %% of the sums; %.0f %% of a copy's rate |\n", 100 * assumed.attention,
        100 * assumed.streams);
    line("| products, as three of halves; scores in tiles | %.0f %%; %.0f %% of the tensor cores' rate |\n",
        100 * assumed.products, 100 * assumed.link_tiles);
    line("| a launch, one by one | %.0f µs |\n", 1e6 * assumed.launch_seconds);
    line("| an edge drawn on the device | %.0f bytes, at %.0f %% of a copy's rate |\n", assumed.sampled_edge_bytes,
        100 * assumed.sampling_share);
    line("| an edge drawn on the host; its gather | %.0f ns of one of %.0f workers; %.0f GB/s |\n",
        1e9 * assumed.host_edge_seconds, assumed.host_workers, assumed.host_gather_gb_per_s);
    text += R"(
## Node classification

GraphSAGE with 3 layers, DENSE 15-10-5, 256 columns between layers, batches of 1000 nodes, rows of floats. Degrees are
geometric and neighbors uniform, so real samples, which meet hubs more often, have fewer nodes. Stages of a batch in
milliseconds; they overlap, so that the slowest sets the pace.

- *host*: the host samples and gathers, rows cross the bus (`--device cuda`)
- *sampled*: the device samples (`--sample-on gpu`); rows as before
- *features*: features are on the device, too, if its memory holds them (`--feature-place device`)

)";
    for (const node_shape& of : node_shapes) {
        const sample_size sample = sample_of(of);
        const double gigabytes = of.nodes * of.columns * 4 / 1e9;
        double edges = 0;
        for (const double of_hop : sample.edges) edges += of_hop;
        line("**%s**: rows of %.0f floats, %.0f GB of features; a batch has %.0f k edges and %.0f k input rows.\n\n",
            of.name, of.columns, gigabytes, edges / 1e3, sample.nodes.back() / 1e3);
        text += "| device | bus | way | sample | gather | bus | kernels | launches | bound by | epoch, s | busy |\n"
                "|---|---|---|---|---|---|---|---|---|---|---|\n";
        for (const device& on : devices)
            for (const bus& over : buses)
                for (const way how : {way::host, way::sampled_on_device, way::features_on_device}) {
                    if (how == way::features_on_device && gigabytes > on.gigabytes) continue;
                    const stages got = stages_of(of, on, over, how);
                    const char* const name = how == way::host ? "host"
                        : how == way::sampled_on_device       ? "sampled"
                                                              : "features";
                    line("| %s | %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %s | %.1f | %.0f %% |\n", on.name,
                        over.name, name, 1e3 * got.sample, 1e3 * got.gather, 1e3 * got.over_bus, 1e3 * got.kernels,
                        1e3 * got.launches, got.bound(), got.epoch(), 100 * got.busy());
                }
        text += "\n";
    }
    text += "## Link prediction\n\n";
    line("**%s**: %.0f floats a node, ComplEx, batches of %.0f edges, %.0f chunks of %.0f negatives for each side; "
         "rows\n"
         "come from the host and their gradients go back.\n\n",
        freebase.name, freebase.columns, freebase.batch, freebase.chunks, freebase.negatives);
    text += "| device | bus | sample | gather | bus | kernels | launches | bound by | epoch, s | busy |\n"
            "|---|---|---|---|---|---|---|---|---|---|\n";
    for (const device& on : devices)
        for (const bus& over : buses) {
            const stages got = stages_of(freebase, on, over);
            line("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %s | %.0f | %.0f %% |\n", on.name, over.name,
                1e3 * got.sample, 1e3 * got.gather, 1e3 * got.over_bus, 1e3 * got.kernels, 1e3 * got.launches,
                got.bound(), got.epoch(), 100 * got.busy());
        }
    return text;
}

} // namespace gpu_model
