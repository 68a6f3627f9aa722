// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/csc_builder.hpp>
#include <gneiss/io/detail/csc_builder.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

namespace gneiss {

GNEISS_INLINE bool build_csc(const bucket_store& edges, neighbor_direction d, const std::filesystem::path& directory,
    const csc_build_options& options, executor_ref executor) {
    const csc_stamp stamp = csc_stamp::of(edges, d);
    if (std::filesystem::exists(directory)) {
        if (csc_lists::read_stamp(directory) != stamp)
            throw error(errc::config_mismatch, "holds the neighbors of other edges: remove it", {.path = directory});
        if (d == neighbor_direction::out || std::filesystem::exists(directory / csc_loops_name)) return false;
        remove_tree(directory); // of an earlier version, without self loops
    }
    std::filesystem::path partial = directory;
    partial += ".partial";
    unfinished_directory unfinished(partial);
    require_disk_space(partial, 8 * (stamp.nodes + 1) + 4 * stamp.edges + stamp.edges / 64 + (std::uint64_t{1} << 16));
    detail::csc_builder builder(
        edges, d == neighbor_direction::in ? edge_direction::in : edge_direction::out, options, executor);
    {
        npy_writer indptr(partial / "indptr.npy", npy_dtype::u64);
        npy_writer neighbors(partial / "neighbours.npy", npy_dtype::u32, {}, csc_block_bytes);
        std::optional<npy_writer> loops;
        if (d == neighbor_direction::in)
            loops.emplace(partial / csc_loops_name, npy_dtype::u32, std::vector<std::uint64_t>{3});
        indptr.append(std::uint64_t{0});
        builder.write(indptr, neighbors, loops ? &*loops : nullptr);
        indptr.close();
        neighbors.close();
        if (loops) loops->close();
        npy_writer stamped(partial / "stamp.npy", npy_dtype::u64);
        const std::array words{stamp.incoming, stamp.nodes, stamp.edges, stamp.fingerprint};
        stamped.append(std::span<const std::uint64_t>(words));
        stamped.close();
    }
    sync_directory(partial);
    unfinished.rename_to(directory);
    sync_directory(directory.parent_path());
    return true;
}

} // namespace gneiss
