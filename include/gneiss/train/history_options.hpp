// SPDX-License-Identifier: Apache-2.0
// Options and counts of histories.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/train/staleness.hpp>

namespace gneiss {

/// Input of a layer above the first that reads neighbors.
struct hidden_rows {
    std::size_t layer = 0;   ///< number of the layer in its encoder
    std::size_t columns = 0; ///< of its input rows

    friend bool operator==(const hidden_rows&, const hidden_rows&) = default;
};

/// Returns the layers of an encoder that read neighbors, but the first of them.
template <class Encoder>
[[nodiscard]] std::vector<hidden_rows> hidden_rows_of(const Encoder& encode) {
    std::vector<hidden_rows> result;
    bool above = false;
    for (std::size_t i = 0; i < encode.layers(); ++i) {
        if (!encode.factories()[i].takes_hop()) continue;
        if (above) result.push_back({i, encode.factories()[i - 1].outputs()});
        above = true;
    }
    return result;
}

/// Options of histories.
struct history_options {
    /// oldest row that is read, in macro-batches since it was pushed: 1 is the one before; 0: none is read, and nothing
    /// is kept
    std::uint64_t most_age = std::numeric_limits<std::uint64_t>::max();
    feature_type type = feature_type::f32; ///< encoding of the rows: f32 or f16
    bool halo_features = false;            ///< the first layer reads the features of the halo
};

/// True if rows are kept: there are layers that read them, of some age.
[[nodiscard]] inline bool keeps_histories(
    std::span<const hidden_rows> layers, const history_options& options) noexcept {
    return options.most_age != 0 && !layers.empty();
}
/// Returns the bytes of a node's record: `lead`, then for each layer the macro-batch of the last push, from 1, or 0, in
/// 4 bytes, and the row.
[[nodiscard]] inline std::size_t history_record_bytes(
    std::span<const hidden_rows> layers, feature_type type, std::size_t lead = 0) {
    for (const hidden_rows& of : layers)
        lead += sizeof(std::uint32_t) + static_cast<std::size_t>(row_bytes(type, of.columns));
    return lead;
}
/// Returns the shape of the records of nodes, which begins their `history_snapshot`.
[[nodiscard]] inline std::vector<std::uint64_t> history_shape(
    std::span<const hidden_rows> layers, std::uint64_t nodes, const history_options& options) {
    const std::size_t record = keeps_histories(layers, options) ? history_record_bytes(layers, options.type) : 0;
    std::vector<std::uint64_t> result{nodes, static_cast<std::uint64_t>(options.type), nodes * record};
    for (const hidden_rows& of : layers) result.push_back(of.columns);
    return result;
}

/// File of histories that exceed memory, with the records of the partitions of macro-batches.
struct history_store {
    std::filesystem::path path{};           ///< of the file
    std::span<const std::uint16_t> parts{}; ///< [nodes] partition of each; outlives the histories
    std::uint32_t partitions = 0;           ///< their number
    std::uint64_t most_inside = 0;          ///< most nodes of a macro-batch's partitions
    std::uint64_t most_halo = 0;            ///< most nodes of its halo
    std::optional<std::string> versions{};  ///< as `histories::flush` returned; none: a new file
};

/// Counts of rows that batches read, left out and wrote. Merges by addition.
struct history_counts {
    std::uint64_t pulled = 0; ///< rows read by batches, a node and layer each
    std::uint64_t absent = 0; ///< rows that batches left out: never pushed, or too old
    std::uint64_t pushed = 0; ///< rows written
    /// rows that edges of a macro-batch's batches read, each once: what a device gets for it [bytes]
    std::uint64_t read_bytes = 0;
    std::uint64_t push_bytes = 0; ///< rows that they write, each once: what it gives back [bytes]
    staleness_histogram ages;     ///< of the rows read [macro-batches]

    history_counts& operator+=(const history_counts& other) noexcept {
        pulled += other.pulled;
        absent += other.absent;
        pushed += other.pushed;
        read_bytes += other.read_bytes;
        push_bytes += other.push_bytes;
        ages += other.ages;
        return *this;
    }
};

} // namespace gneiss
