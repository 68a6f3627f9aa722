// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <utility>

#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>

namespace gneiss {

/// Makes a dataset at `to` that holds only the training edges of `from`, in `partitions`² buckets.
///
/// Rows keep their ids: a partition is a range of rows, so only edges move. The result does not depend on `memory`.
/// Cost: one external sort of the edges. Errors: errc::already_exists; errc::canceled on a stop, which leaves nothing;
/// io_error; those of `bucket_builder`.
template <executor E>
void rebucket(const dataset& from, std::uint32_t partitions, const std::filesystem::path& to, std::uint64_t memory, E executor,
    const std::stop_token& stop = {}) {
    dataset_writer writer(to);
    const bucket_layout layout{{from.manifest().nodes, partitions}, from.manifest().relations};
    bucket_builder<E> builder(layout, memory, writer.partial(), std::move(executor));
    const auto throw_if_stopped = [&] {
        if (stop.stop_requested()) throw error(errc::canceled, "interrupted while sorting edges", {.path = to});
    };
    from.buckets().for_each_edge([&](std::span<const edge> edges) {
        throw_if_stopped();
        builder.push(edges);
    });
    writer.edges(builder, [&](std::uint64_t) { throw_if_stopped(); });
    dataset_manifest manifest = from.manifest();
    manifest.set_rows(layout.rows);
    manifest.valid_edges = manifest.test_edges = 0;
    manifest.ids = dataset_ids::integer;
    manifest.node_attributes = {};
    manifest.arrays.clear();
    writer.commit(std::move(manifest));
}

} // namespace gneiss
