// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <gneiss/core/checksum.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace programs {

/// Returns the XXH3 of a sample: of each array in the order of the members, seeded by that of the arrays before it.
[[nodiscard]] inline std::uint64_t sample_checksum(const gneiss::dense_sample<>& sample) {
    std::uint64_t sum = gneiss::checksum(std::as_bytes(sample.node_id_offsets));
    sum = gneiss::checksum(std::as_bytes(sample.node_ids), sum);
    sum = gneiss::checksum(std::as_bytes(sample.nbr_offsets), sum);
    sum = gneiss::checksum(std::as_bytes(sample.nbrs), sum);
    return gneiss::checksum(std::as_bytes(sample.repr_map), sum);
}
[[nodiscard]] inline std::uint64_t sample_checksum(const gneiss::neighbor_sample<>& sample) {
    std::uint64_t sum = gneiss::checksum(std::as_bytes(sample.nodes));
    sum = gneiss::checksum(std::as_bytes(sample.node_counts), sum);
    sum = gneiss::checksum(std::as_bytes(sample.edge_counts), sum);
    sum = gneiss::checksum(std::as_bytes(sample.offsets), sum);
    return gneiss::checksum(std::as_bytes(sample.neighbors), sum);
}

/// Returns the checksum of samples in order: the XXH3 of theirs.
[[nodiscard]] inline std::uint64_t samples_checksum(std::span<const std::uint64_t> sums) {
    return gneiss::checksum(std::as_bytes(sums));
}

} // namespace programs
