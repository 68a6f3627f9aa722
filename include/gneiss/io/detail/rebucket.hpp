// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <utility>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/io/rebucket.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>

namespace gneiss {

GNEISS_INLINE void rebucket(const dataset& from, std::uint32_t partitions, const std::filesystem::path& to,
    std::uint64_t memory, executor_ref executor, const std::stop_token& stop) {
    dataset_writer writer(to);
    const bucket_layout layout{{from.manifest().nodes, partitions}, from.manifest().relations};
    bucket_builder<executor_ref> builder(layout, memory, writer.partial(), executor);
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
