// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/integer_file.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// File format of an assignment of nodes to parts. Entries are in the order of the nodes' numbers in the source; if
/// nodes have names, in row order, which is the order of `gneiss-data export --format npy`.
enum class assignment_format : std::uint8_t {
    npy,     ///< u32 [nodes]: the input of `reorder_options::by`
    metis,   ///< one number per line, as gpmetis writes GRAPH.part.K
    distdgl, ///< a directory for DGL's dispatch_data.py --partitions-dir: _N.txt, one number per line;
             ///< partition_meta.json
};

namespace detail {

/// Calls `visit(first node, rows)` for the nodes of a dataset in file order, with the row of each; a span is valid
/// during the call. Verified. Memory: 256 KiB. Errors: errc::corrupt, io_error.
template <class Visit>
void for_each_row_by_node(const dataset& data, Visit&& visit) {
    const std::uint64_t nodes = data.manifest().nodes;
    const std::string_view forward = data.row_arrays().first;
    const bool mapped = data.manifest().ids == dataset_ids::integer && data.has(forward);
    std::vector<node_id> rows(std::size_t{1} << 16);
    const plain_file file = mapped ? plain_file::open(data.path(forward)) : plain_file();
    const checksum_table sums = mapped ? data.checksums(forward) : checksum_table();
    for (std::uint64_t first = 0; first < nodes; first += rows.size()) {
        const auto some =
            std::span(rows).first(static_cast<std::size_t>(std::min<std::uint64_t>(rows.size(), nodes - first)));
        if (mapped) {
            sums.read(file, first * sizeof(node_id), std::as_writable_bytes(some));
            file.drop_cached(sums.data_offset() + first * sizeof(node_id), some.size_bytes());
        } else {
            for (std::size_t i = 0; i < some.size(); ++i) some[i] = static_cast<node_id>(first + i);
        }
        if (std::ranges::any_of(some, [&](node_id row) { return row >= nodes; }))
            throw error(errc::corrupt, "holds a row out of range", {.path = file.path()});
        visit(first, std::span<const node_id>(some));
    }
}

/// Writes the part of every node, one number per line.
inline void write_part_lines(const dataset& data, std::span<const partition_id16> parts, sequential_writer& out) {
    std::string text;
    for_each_row_by_node(data, [&](std::uint64_t, std::span<const node_id> rows) {
        text.clear();
        for (const node_id row : rows) {
            char digits[8];
            text.append(digits, std::to_chars(digits, digits + sizeof digits, parts[row]).ptr);
            text += '\n';
        }
        out.append(std::as_bytes(std::span(text)));
    });
}

} // namespace detail

/// Writes the part of each row of a dataset, atomically replacing what is at `to`.
///
/// \param parts   [nodes] by row
/// \param method  name of the partitioner, for formats that record it; no quotes
///
/// distdgl writes the directory and each of its two files this way; the file with the number of parts is last, so if it
/// exists the rest is whole. Memory: 1 MiB. Errors: io_error, errc::corrupt; errc::invalid_argument if `parts` does not
/// match the nodes.
inline void write_assignment(const dataset& data, std::span<const partition_id16> parts, std::uint32_t count,
    std::string_view method, const std::filesystem::path& to, assignment_format format = assignment_format::npy) {
    check_assignment(parts, count, data.manifest().nodes);
    const auto lines = [&](sequential_writer& out) { detail::write_part_lines(data, parts, out); };
    switch (format) {
    case assignment_format::npy:
        return atomic_write_file(to, [&](sequential_writer& out) {
            out.append(format_npy_header(npy_dtype::u32, std::vector<std::uint64_t>{parts.size()}));
            std::vector<std::uint32_t> words;
            detail::for_each_row_by_node(data, [&](std::uint64_t, std::span<const node_id> rows) {
                words.clear();
                for (const node_id row : rows) words.push_back(parts[row]);
                out.append(std::as_bytes(std::span(words)));
            });
        });
    case assignment_format::metis: return atomic_write_file(to, lines);
    case assignment_format::distdgl: break;
    }
    make_directories(to);
    atomic_write_file(to / "_N.txt", lines);
    const std::string meta = "{\"version\": \"1.0.0\", \"num_parts\": " + std::to_string(count) +
        ", \"algo_name\": \"" + std::string(method) + "\"}\n";
    atomic_write_file(to / "partition_meta.json", std::as_bytes(std::span(meta)));
}

/// Writes nodes, given by row, as u32 [nodes], .npy: their numbers in the source, or rows if nodes have names. Atomic,
/// as above.
inline void write_nodes(const dataset& data, std::span<const node_id> rows, const std::filesystem::path& to) {
    std::vector<std::uint32_t> numbers(rows.begin(), rows.end());
    const std::string_view back = data.row_arrays().second;
    if (data.manifest().ids == dataset_ids::integer && data.has(back)) {
        const plain_file file = plain_file::open(data.path(back));
        data.checksums(back).verify_file(file);
        const mapped_npy nodes = data.map(back);
        for (std::uint32_t& number : numbers) number = nodes.elements<std::uint32_t>()[number];
    }
    atomic_write_file(to, [&](sequential_writer& out) {
        out.append(format_npy_header(npy_dtype::u32, std::vector<std::uint64_t>{numbers.size()}));
        out.append(std::as_bytes(std::span(numbers)));
    });
}

/// Throws errc::invalid_format for a directory without _N.txt, and for an .npy file of other numbers than integers.
inline void check_assignment_file(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path)) {
        if (!std::filesystem::exists(path / "_N.txt"))
            throw error(errc::invalid_format,
                "is a directory without _N.txt, not a file of parts: .npy, or a text of one number per line",
                {.path = path});
        return;
    }
    const plain_file file = plain_file::open(path);
    std::string head(6, '\0');
    if (file.size() < head.size()) return;
    file.read_at(0, std::as_writable_bytes(std::span(head)));
    if (head != "\x93NUMPY") return;
    const npy_dtype dtype = npy_reader(path).header().dtype;
    if (dtype == npy_dtype::f16 || dtype == npy_dtype::f32 || dtype == npy_dtype::f64)
        throw error(errc::invalid_format, "is " + std::string(to_string(dtype)) + ", parts are integers, such as u32",
            {.path = path, .field = "npy dtype"});
}

/// Reads an assignment for this dataset, in any of the formats: integers of any type, .npy, or one number per line, as
/// METIS and KaHIP write them. Returns the part of each row.
///
/// Memory: 2 bytes per node. Errors: errc::invalid_format with the sizes for another number of entries, and as
/// `check_assignment_file`; errc::out_of_range for an invalid part; those of `integer_file`.
[[nodiscard]] inline std::vector<partition_id16> read_assignment(
    const dataset& data, const std::filesystem::path& from) {
    const std::uint64_t nodes = data.manifest().nodes;
    check_assignment_file(from);
    integer_file in(from);
    need_entries(in, nodes, "an assignment has one");
    std::vector<partition_id16> parts(static_cast<std::size_t>(nodes));
    std::vector<std::uint32_t> words;
    detail::for_each_row_by_node(data, [&](std::uint64_t first, std::span<const node_id> rows) {
        words.resize(rows.size());
        (void)in.read(words);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (words[i] >= max_partition_count)
                throw error(errc::out_of_range,
                    "entry " + std::to_string(first + i) + " is " + std::to_string(words[i]) + ", parts are below " +
                        std::to_string(max_partition_count),
                    {.path = from});
            parts[rows[i]] = static_cast<partition_id16>(words[i]);
        }
    });
    return parts;
}

} // namespace gneiss
