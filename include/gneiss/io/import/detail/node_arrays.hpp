// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/detail/id_maps.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/permutation.hpp>
#include <gneiss/io/npy.hpp>

// Writers of the arrays that map nodes to rows.
namespace gneiss::importing {

/// Most nodes that 32-bit ids can name; the last value means "none".
inline constexpr std::uint64_t most_nodes = 0xffffffffU - 1;

/// Called with the work done and the total, in units of the phase.
using step_progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Writes names.{hashes,offsets,bytes}.npy from the spilled names and returns their number.
///
/// \param memory  for sorting, parts of the spill at a time [bytes]
/// \param unique  a name that occurs twice is an error, repeated_name; else it is one node
/// \param overlap  receives the origins of the names
/// Errors: io_error, hash_collision, errc::out_of_range for more than `most_nodes`.
template <executor E>
std::uint64_t write_names(const partitioned_spill& spill, const std::filesystem::path& directory, const E& executor,
    std::uint64_t memory, bool unique, const std::filesystem::path& scratch, const step_progress& progress,
    name_overlap& overlap) {
    npy_writer hashes(directory / "names.hashes.npy", npy_dtype::u64);
    npy_writer offsets(directory / "names.offsets.npy", npy_dtype::i64);
    npy_writer bytes(directory / "names.bytes.npy", npy_dtype::u8);
    std::uint64_t count = 0;
    std::int64_t end = 0;
    offsets.append(end);
    std::vector<std::int64_t> ends;
    for_each_name_block(spill, executor, memory, unique, scratch, [&](const sorted_names& block) {
        ends.clear();
        for (const std::uint32_t length : block.lengths) ends.push_back(end += length);
        hashes.append(std::span<const std::uint64_t>(block.hashes));
        offsets.append(std::span<const std::int64_t>(ends));
        bytes.append_bytes(std::as_bytes(std::span(block.bytes)));
        count += block.hashes.size();
        overlap.add(block.overlap);
        progress(count, 0);
    });
    if (count > most_nodes)
        throw error(errc::out_of_range, std::to_string(count) + " nodes are more than 32-bit ids can name");
    hashes.close();
    offsets.close();
    bytes.close();
    return count;
}

/// Writes `count` words `make(i)` as the array `path`, computed in parallel, with `memory` bytes (at least 4 KiB) at a
/// time. Several threads call `make`. Reports to `progress`, which may throw. O(count). Errors: io_error.
template <executor E, class Make>
void write_words(const std::filesystem::path& path, std::uint64_t count, std::uint64_t memory, const E& executor,
    Make&& make, const step_progress& progress) {
    npy_writer out(path, npy_dtype::u32);
    std::vector<node_id> words(static_cast<std::size_t>(std::clamp<std::uint64_t>(
        memory / 4, 1024, std::max<std::uint64_t>(1024, std::min<std::uint64_t>(count, 1 << 22)))));
    for (std::uint64_t first = 0; first < count; first += words.size()) {
        const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(words.size(), count - first));
        parallel_for(executor, some, 1 << 14, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) words[i] = static_cast<node_id>(make(first + i));
        });
        out.append(std::span<const node_id>(words.data(), some));
        progress(first + some, count);
    }
    out.close();
}

/// Writes, for integer ids, node_to_row.npy and row_to_node.npy of a keyed permutation. A node is the source's id, a
/// row the internal id. Reports to `progress`, which may throw. O(nodes). Errors: io_error. Precondition: nodes ≤
/// most_nodes.
template <executor E>
void write_permutation(const std::filesystem::path& directory, std::uint64_t nodes, std::uint64_t seed,
    std::uint64_t memory, const E& executor, const step_progress& progress) {
    const keyed_permutation permutation(nodes, random_key(seed, random_domain::node_permutation));
    write_words(
        directory / "node_to_row.npy", nodes, memory, executor, [&](std::uint64_t node) { return permutation(node); },
        [&](std::uint64_t finished, std::uint64_t total) { progress(finished, 2 * total); });
    write_words(
        directory / "row_to_node.npy", nodes, memory, executor,
        [&](std::uint64_t row) { return permutation.inverse(row); },
        [&](std::uint64_t finished, std::uint64_t total) { progress(total + finished, 2 * total); });
}

/// Writes, for integer ids with a table of names, the same two arrays, from the hash of every node's name.
///
/// \param node_hashes  file of 64-bit hashes by node
/// Cost: one pass over the nodes for every slice of the hash map, and one for every part of the inverse that fits.
/// Errors: io_error.
template <executor E>
void write_named_rows(const std::filesystem::path& directory, const std::filesystem::path& node_hashes, hash_map& map,
    std::uint64_t nodes, std::uint64_t memory, const E& executor) {
    const std::filesystem::path ids_path = node_hashes.string() + "-ids";
    plain_file hashes = plain_file::open(node_hashes), ids = plain_file::create(ids_path);
    ids.truncate(nodes * 4);
    const auto block = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 32, 256, 1 << 20));
    std::vector<std::uint64_t> some_hashes(block);
    std::vector<node_id> some_ids(block);
    const auto for_each_part = [&](auto&& visit) {
        for (std::uint64_t first = 0; first < nodes; first += block)
            visit(first, static_cast<std::size_t>(std::min<std::uint64_t>(block, nodes - first)));
    };
    for (std::size_t slice = 0; slice < map.slices(); ++slice) {
        map.load(slice);
        for_each_part([&](std::uint64_t first, std::size_t count) {
            hashes.read_at(first * 8, std::as_writable_bytes(std::span(some_hashes).first(count)));
            ids.read_at(first * 4, std::as_writable_bytes(std::span(some_ids).first(count)));
            parallel_for(executor, count, 1 << 14, [&](std::size_t begin, std::size_t end) {
                for (std::size_t i = begin; i < end; ++i)
                    if (map.slice_of(some_hashes[i]) == slice) some_ids[i] = map(some_hashes[i]);
            });
            ids.write_at(first * 4, std::as_bytes(std::span(some_ids).first(count)));
        });
    }
    {
        npy_writer out(directory / "node_to_row.npy", npy_dtype::u32);
        for_each_part([&](std::uint64_t first, std::size_t count) {
            ids.read_at(first * 4, std::as_writable_bytes(std::span(some_ids).first(count)));
            out.append(std::span<const node_id>(some_ids.data(), count));
        });
        out.close();
    }
    npy_writer inverse(directory / "row_to_node.npy", npy_dtype::u32);
    invert_words({ids_path, 0, nodes}, ids_path, memory, [&](std::span<const node_id> rows) { inverse.append(rows); });
    inverse.close();
    std::filesystem::remove(ids_path);
}

} // namespace gneiss::importing
