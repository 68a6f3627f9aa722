#pragma once

// A model of macro-batches on a GPU (thesis, chapter 5): large batches that the host samples, and batches that the
// device samples from them. Nothing here was measured.

#include <cuda/model.hpp>

namespace gpu_model {

/// The machines of the thesis (§5.4.1), by data sheets, and the buses of the model.
inline constexpr std::array thesis_devices{device{"RTX 4090", 1008, 82.6, 128, 24}, device{"A10G", 600, 70, 80, 24}};
inline constexpr std::array thesis_buses{bus{"12 GB/s", 12}, bus{"25 GB/s", 25}};

/// A dataset of Table 5.4 with the settings of Tables 5.5 and 5.6.
struct macro_batch_shape {
    node_shape graph;
    double value_bytes;     ///< of a feature
    double macro_batches;   ///< of an epoch by large batches; 1 / this: their share of the training nodes
    double partitions_save; ///< traffic of large batches over that of partitions with histories, as the thesis counts
                            ///< it (§5.4.3); 0: not given
};
inline const std::array thesis_shapes{
    macro_batch_shape{{"products-like", 2'449'029, 50.5, 196'615, 100, 128, 47, {15, 10, 5}}, 4, 8, 0},
    macro_batch_shape{{"papers-like", 111'059'956, 28.8, 1'207'179, 128, 128, 172, {15, 10, 5}}, 4, 12, 2.7},
    macro_batch_shape{{"mag-like", 121'751'666, 21.3, 1'112'392, 768, 1024, 153, {25, 15}}, 2, 24, 2.4}};

/// Tail of the degrees: their density falls by this power. Chosen so that large batches of the papers-like graph save
/// the 2.2 times that the thesis counts (§5.4.3).
inline constexpr double degree_exponent = 2.4;

/// Nodes of one degree.
struct degree_class {
    double nodes, degree;
};
/// Returns classes of degrees with a power law, up to a hundredth of the nodes, and the mean degree of a graph.
[[nodiscard]] inline std::vector<degree_class> degrees_of(const node_shape& of) {
    constexpr std::size_t classes = 400;
    const double most = of.nodes / 100, power = 1 - degree_exponent;
    const auto from = [&](double least) {
        std::vector<degree_class> result;
        const double step = std::pow(most / least, 1.0 / classes);
        const double all = std::pow(least, power) - std::pow(most, power);
        for (std::size_t c = 0; c < classes; ++c) {
            const double low = least * std::pow(step, static_cast<double>(c)), high = low * step;
            result.push_back({of.nodes * (std::pow(low, power) - std::pow(high, power)) / all, std::sqrt(low * high)});
        }
        return result;
    };
    double low = 1e-3, high = of.mean_degree; // of the least degree
    for (int step = 0; step < 100; ++step) {
        const double middle = std::sqrt(low * high);
        double edges = 0;
        for (const degree_class& one : from(middle)) edges += one.nodes * one.degree;
        (edges < of.nodes * of.mean_degree ? low : high) = middle;
    }
    return from(low);
}

/// Returns the expected size of a sample of `seeds` nodes that draws for each node once. A neighbor is any node, by its
/// degree.
[[nodiscard]] inline sample_size sample_by_degrees(
    const node_shape& of, const std::vector<degree_class>& degrees, double seeds) {
    sample_size result{{seeds}, {}};
    std::vector<double> known(degrees.size()), fresh(degrees.size());
    for (std::size_t c = 0; c < degrees.size(); ++c) fresh[c] = known[c] = seeds * degrees[c].nodes / of.nodes;
    for (const double fanout : of.fanout) {
        double edges = 0, all = 0;
        for (std::size_t c = 0; c < degrees.size(); ++c) edges += fresh[c] * std::min(degrees[c].degree, fanout);
        for (std::size_t c = 0; c < degrees.size(); ++c) {
            fresh[c] =
                (degrees[c].nodes - known[c]) * -std::expm1(-edges * degrees[c].degree / (of.nodes * of.mean_degree));
            known[c] += fresh[c];
            all += known[c];
        }
        result.edges.push_back(edges);
        result.nodes.push_back(all);
    }
    return result;
}

/// The first stage of sampling.
enum class first_stage : std::uint8_t { none, large_batches, partitions };

/// Traffic of an epoch, for each of its batches.
struct macro_batch_traffic {
    double edges = 0, rows = 0; ///< sampled and gathered by the host
    double bytes = 0;           ///< over the bus
};
[[nodiscard]] inline macro_batch_traffic traffic_of(
    const macro_batch_shape& of, const std::vector<degree_class>& degrees, first_stage how) {
    const bool staged = how != first_stage::none;
    const double seeds = staged ? of.graph.training_nodes / of.macro_batches : of.graph.batch;
    const sample_size sample = sample_by_degrees(of.graph, degrees, seeds);
    const double batches = seeds / of.graph.batch * (how == first_stage::partitions ? of.partitions_save : 1);
    macro_batch_traffic result;
    result.edges = std::accumulate(sample.edges.begin(), sample.edges.end(), 0.0) / batches;
    result.rows = sample.nodes.back() / batches;
    result.bytes =
        result.rows * (of.value_bytes * of.graph.columns + 8) + 8 * result.edges; // names; lists of neighbors
    return result;
}

/// Returns the stages of a batch. With a first stage, the device samples and gathers from the macro-batch it holds.
[[nodiscard]] inline stages stages_of(const macro_batch_shape& of, const std::vector<degree_class>& degrees,
    const device& on, const bus& over, first_stage how) {
    const macro_batch_traffic traffic = traffic_of(of, degrees, how);
    const sample_size sample = sample_by_degrees(of.graph, degrees, of.graph.batch);
    const double row = of.value_bytes * of.graph.columns;
    network_time network = network_of(of.graph, sample, on, of.value_bytes);
    if (how != first_stage::none) {
        sample_on(on, sample, network);
        network.seconds += device_time{on}.rows(2 * sample.nodes.back() * row, row);
        network.kernels += 1;
    }
    stages result{.batches = std::ceil(of.graph.training_nodes / of.graph.batch)};
    result.sample = traffic.edges * assumed.host_edge_seconds / assumed.host_workers;
    result.gather = traffic.rows * row / (assumed.host_gather_gb_per_s * 1e9);
    result.bus_bytes = traffic.bytes;
    result.over_bus = traffic.bytes / (over.gb_per_s * 1e9);
    result.kernels = network.seconds;
    result.launches = network.kernels * assumed.launch_seconds;
    return result;
}

/// Returns the section of docs/results/cuda-model.md about macro-batches.
[[nodiscard]] inline std::string macro_batch_section() {
    std::string text = R"(
## Macro-batches

`gneiss-joestar` with the graphs and settings of the thesis (Tables 5.4 to 5.6, the last of which has the headings of
its columns exchanged: shares are of LBS, partitions of PBS) on the GPUs of its machines, with buses of 12 and 25 GB/s:
GraphSAGE, batches of 1000 nodes. The degrees follow a power law, whose exponent was chosen so that large batches of the
papers-like graph save the 2.2 times that the thesis counts (§5.4.3), and a neighbor depends on degrees only. Real
graphs have communities, too, and share more neighbors: the thesis counts 3.3 on MAG240M, more than exponents from 2 to
4 give. It measured 7.8 seconds by partitions on MAG240M (A10G), half of the time here, where products count as three of
halves.

- *one stage*: the host samples and gathers each batch
- *large batches*: the host samples and gathers a large batch, and the device samples batches from it
- *partitions*: partitions with histories, sampled ahead; the host's work and the traffic are those of large batches
  over the 2.7 and 2.4 that the thesis counts, and their batches, which end at halos, are taken as large as the others

)";
    const auto line = [&](const char* format, auto... values) {
        char buffer[400];
        std::snprintf(buffer, sizeof buffer, format, values...);
        text += buffer;
    };
    const auto& [faster, slower] = thesis_devices;
    line("The %s has %.0f GB of %.0f GB/s and %.0f · 10¹² operations/s of TF32, the %s %.0f GB of %.0f GB/s and "
         "%.0f.\n\n",
        faster.name, faster.gigabytes, faster.gb_per_s, faster.tf32, slower.name, slower.gigabytes, slower.gb_per_s,
        slower.tf32);
    for (const macro_batch_shape& of : thesis_shapes) {
        const std::vector<degree_class> degrees = degrees_of(of.graph);
        const macro_batch_traffic single = traffic_of(of, degrees, first_stage::none),
                                  staged = traffic_of(of, degrees, first_stage::large_batches);
        const double of_a_macro_batch = of.graph.training_nodes / of.macro_batches / of.graph.batch;
        const double gigabytes = staged.bytes * of_a_macro_batch / 1e9;
        line("**%s**: %.0f features of %.0f bytes; large batches of 1/%.0f of the training nodes have %.1f M "
             "rows,\n%.1f "
             "GB with their lists%s.\nOne stage moves %.0f MB a batch, large batches %.0f MB: %.1f times less.\n\n",
            of.graph.name, of.graph.columns, of.value_bytes, of.macro_batches, staged.rows * of_a_macro_batch / 1e6,
            gigabytes, 2 * gigabytes > faster.gigabytes ? ", of which a device holds only one" : "", single.bytes / 1e6,
            staged.bytes / 1e6, single.bytes / staged.bytes);
        text +=
            "| device | bus | way | sample | gather | bus | kernels | launches | bound by | epoch, s | busy | over one "
            "stage |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
        for (const device& on : thesis_devices)
            for (const bus& over : thesis_buses)
                for (const first_stage how : {first_stage::none, first_stage::large_batches, first_stage::partitions}) {
                    if (how == first_stage::partitions && of.partitions_save == 0) continue;
                    const stages got = stages_of(of, degrees, on, over, how);
                    const char* const name = how == first_stage::none ? "one stage"
                        : how == first_stage::large_batches           ? "large batches"
                                                                      : "partitions";
                    line("| %s | %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %s | %.1f | %.0f %% | %.1f |\n", on.name,
                        over.name, name, 1e3 * got.sample, 1e3 * got.gather, 1e3 * got.over_bus, 1e3 * got.kernels,
                        1e3 * got.launches, got.bound(), got.epoch(), 100 * got.busy(),
                        stages_of(of, degrees, on, over, first_stage::none).epoch() / got.epoch());
                }
        text += "\n";
    }
    text.pop_back();
    return text;
}

/// Returns the page docs/results/cuda-model.md.
[[nodiscard]] inline std::string page() { return epoch_sections() + macro_batch_section(); }

} // namespace gpu_model
