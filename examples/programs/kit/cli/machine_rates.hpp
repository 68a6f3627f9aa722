// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

/// Rates of a machine, and the time that an epoch takes at them.
namespace programs {

/// Rates that `gneiss-data doctor` measured by training small graphs on all CPUs, and those of a disk. 0: unknown.
struct machine_rates {
    std::string directory{};  ///< whose disk was measured
    std::string measured{};   ///< date
    unsigned cpus = 1;        ///< that the rates are of
    double import_edges = 0;  ///< edges that an import takes [1/s]
    double link_flops = 0;    ///< operations of the scores of links and of their gradients [1/s]
    double dense_flops = 0;   ///< operations of layers on dense rows [1/s]
    double sparse_flops = 0;  ///< operations of layers on sparse rows [1/s]
    double row_floats = 0;    ///< outputs of layers, by all that is done to each value [1/s]
    double sampled_edges = 0; ///< neighbors that are drawn and aggregated, as `epoch_work` counts them [1/s]
    double batch_seconds = 0; ///< of a batch of next to nothing
    double read_bytes = 0, reads = 0, write_bytes = 0; ///< of the disk [bytes/s, 1/s, bytes/s]
};

/// Returns the object of a file of rates, without unknown ones.
[[nodiscard]] nlohmann::ordered_json to_json(const machine_rates& rates);
/// Returns the rates of such an object. Throws errc::invalid_format for another one, or a rate that is not above 0.
[[nodiscard]] machine_rates rates_of(const nlohmann::ordered_json& from);

/// Returns the file of rates of this user: gneiss/rates.json in $XDG_CACHE_HOME, or in $HOME/.cache; empty without
/// both.
[[nodiscard]] std::filesystem::path rates_path();
/// Returns the rates in that file; none if it is missing or of another version.
[[nodiscard]] std::optional<machine_rates> known_rates();
/// Returns the rates in a file. Throws gneiss::io_error, errc::invalid_format with the path.
[[nodiscard]] machine_rates read_rates(const std::filesystem::path& file);
/// Writes a file of rates, with the directories that lead to it.
void write_rates(const std::filesystem::path& file, const machine_rates& rates);

/// Work of an epoch of training.
struct epoch_work {
    double batches = 0;
    double link_flops = 0, dense_flops = 0, sparse_flops = 0; ///< operations
    double row_floats = 0;                                    ///< outputs of layers
    double sampled_edges = 0; ///< neighbors, each as many as 1 + w / 64 for aggregated rows of w floats
    double read_bytes = 0, write_bytes = 0, reads = 0; ///< of the disk

    friend bool operator==(const epoch_work&, const epoch_work&) = default;
};

/// Returns the seconds of an epoch on `threads` threads (0: all CPUs): of its compute or of its disk, whichever is
/// longer, since they overlap. None if it needs a rate that is unknown.
[[nodiscard]] std::optional<double> seconds_of(
    const epoch_work& work, const machine_rates& rates, unsigned threads = 0);

/// Sizes of an epoch of link prediction.
struct link_epoch_shape {
    std::uint64_t edges = 0;     ///< that train
    std::uint64_t batch = 0;     ///< edges of a batch
    std::uint64_t negatives = 0; ///< of an edge and side
    std::uint64_t dim = 0;       ///< floats of an embedding
};
/// Returns the work of the decoder: two sides, and for each score a product of `dim` floats, with two more of its
/// gradient. The rows of an edge, read and updated, count as 16 scores.
[[nodiscard]] epoch_work work_of(const link_epoch_shape& of);

/// A layer of a GNN.
struct gnn_layer_shape {
    std::uint64_t width = 0; ///< of an output
    bool own_row = true;     ///< multiplies a node's own row, too (GraphSAGE)
    bool takes_neighbors = true;
};
/// Sizes of an epoch of a GNN.
struct gnn_epoch_shape {
    std::uint64_t nodes = 0;     ///< that a sampler sees
    std::uint64_t neighbors = 0; ///< entries of the lists of these nodes that it follows
    double seeds = 0;            ///< of a batch: nodes, or the ends and negatives of its edges
    double batches = 0;
    std::vector<std::uint64_t> fanout{};   ///< neighbors by hop, from the seeds; 0: all
    std::vector<gnn_layer_shape> layers{}; ///< from the input
    std::uint64_t columns = 0;             ///< of the input
    double entries = 0;                    ///< of a sparse row of the input; 0: rows are dense
    bool trains_rows = false;              ///< the input has gradients
};

/// Expected sizes of a batch: nodes known after each hop, from the seeds on, and neighbors of each hop.
struct gnn_batch_sizes {
    std::vector<double> nodes{}, neighbors{};
};
/// Returns the sizes of a batch whose neighbors are nodes by chance: a hop that draws m neighbors adds
/// (n − known) · (1 − e^(−m / n)) nodes of n.
[[nodiscard]] gnn_batch_sizes sizes_of(const gnn_epoch_shape& of);
/// Returns the work of an epoch's samples and layers: products of inputs and of gradients; of sparse rows, products
/// with their entries.
[[nodiscard]] epoch_work work_of(const gnn_epoch_shape& of);
[[nodiscard]] epoch_work operator+(const epoch_work& a, const epoch_work& b);

} // namespace programs
