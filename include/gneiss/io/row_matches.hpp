// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/detail/permutation.hpp>
#include <gneiss/storage/io/external_sort.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Nodes that two datasets share.
struct row_matches {
    std::uint64_t from = 0, into = 0; ///< nodes of each dataset
    std::uint64_t matched = 0;        ///< nodes of both

    friend bool operator==(const row_matches&, const row_matches&) = default;
};

/// The word of a row without a match in the other dataset.
inline constexpr node_id unmatched_row = ~node_id{0};

/// Least memory of `match_rows` [bytes].
inline constexpr std::uint64_t match_rows_memory = std::uint64_t{1} << 20;

namespace detail {

/// Visits row and name of every node, in the order of ids or of ranks of names: `visit(row, name)`. An integer id is
/// its digits. Memory: `memory` bytes of buffers, and the longest name. One sequential pass over names and rows.
template <class Visit>
void for_each_node_name(const dataset& data, std::uint64_t memory, Visit&& visit) {
    const std::uint64_t nodes = data.manifest().nodes;
    const auto piece = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 64, 256, 1 << 16)); // nodes
    const auto to_row = data.row_arrays().first;
    std::optional<plain_file> rows, offsets, pool;
    if (data.has(to_row)) rows = plain_file::open(data.path(to_row));
    if (data.manifest().ids == dataset_ids::string) {
        offsets = plain_file::open(data.path("names.offsets"));
        pool = plain_file::open(data.path("names.bytes"));
    }
    const std::uint64_t names_end = pool ? data.find("names.bytes")->shape.front() : 0;
    std::vector<node_id> row_of(piece);
    std::vector<std::int64_t> begins(piece + 1);
    std::vector<char> text(static_cast<std::size_t>(memory / 4));
    std::string name;
    for (std::uint64_t first = 0; first < nodes; first += piece) {
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece, nodes - first));
        if (rows) rows->read_at(page_alignment + first * 4, std::as_writable_bytes(std::span(row_of).first(count)));
        if (offsets)
            offsets->read_at(page_alignment + first * 8, std::as_writable_bytes(std::span(begins).first(count + 1)));
        std::uint64_t from = 0, held = 0; // bytes of the pool in `text`
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t row = rows ? row_of[i] : first + i;
            if (row >= nodes) throw error(errc::corrupt, "holds a row out of range", {.path = data.path(to_row)});
            if (!offsets) {
                name = std::to_string(first + i);
                visit(row, std::string_view(name));
                continue;
            }
            const auto begin = static_cast<std::uint64_t>(begins[i]), end = static_cast<std::uint64_t>(begins[i + 1]);
            if (end < begin || end > names_end)
                throw error(errc::corrupt, "offsets are out of order", {.path = data.path("names.offsets")});
            if (begin < from || end > from + held) {
                if (end - begin > text.size()) text.resize(static_cast<std::size_t>(end - begin));
                from = begin;
                held = std::min<std::uint64_t>(text.size(), names_end - from);
                pool->read_at(page_alignment + from,
                    std::as_writable_bytes(std::span(text).first(static_cast<std::size_t>(held))));
            }
            visit(row, std::string_view(text.data() + (begin - from), static_cast<std::size_t>(end - begin)));
        }
    }
}

/// A node in either dataset, in the order of its name.
struct named_row {
    std::uint64_t hash = 0, check = 0; ///< two hashes of the name
    std::uint32_t dataset = 0;         ///< 0 or 1
    node_id row = 0;

    friend auto operator<=>(const named_row&, const named_row&) = default;
    friend bool operator==(const named_row&, const named_row&) = default;
};

} // namespace detail

/// Finds the row of each node of `from` in `into`, and writes it to `to`: one 32-bit word per row of `from`,
/// `unmatched_row` without one. Nodes are the same if their names are, or their ids if both datasets have integer ids;
/// an integer id has its digits as name against a dataset of names.
///
/// \param memory  for buffers and sorts, at least `match_rows_memory`; names need not fit: they are sorted on disk
///
/// Cost: one pass over names and rows of both; sorts 24 bytes for each node of both by two 64-bit hashes of its name (a
/// false match has a probability of pairs of nodes / 2¹²⁸), and 8 bytes for each match; without names only the latter.
/// Scratch files are next to `to` and unnamed.
/// Errors: over_budget; errc::canceled on a stop; errc::corrupt; io_error.
inline row_matches match_rows(const dataset& from, const dataset& into, const std::filesystem::path& to,
    std::uint64_t memory, const std::stop_token& stop = {}) {
    if (memory < match_rows_memory) throw over_budget(memory, {{"sorts of node names", match_rows_memory}});
    const auto go_on = [&] {
        if (stop.stop_requested()) throw error(errc::canceled, "interrupted while nodes were matched", {.path = to});
    };
    from.verify_labels();
    into.verify_labels();
    const std::filesystem::path scratch = to.has_parent_path() ? to.parent_path() : ".";
    row_matches result{.from = from.manifest().nodes, .into = into.manifest().nodes};
    external_sorter<std::uint64_t, by_key<std::identity>> pairs(scratch, memory / 4); // row of `from`, row of `into`
    const auto match = [&](node_id a, node_id b) {
        pairs.push(std::uint64_t{a} << 32 | b);
        ++result.matched;
    };
    if (from.manifest().ids == dataset_ids::integer && into.manifest().ids == dataset_ids::integer) {
        const std::uint64_t both = std::min(result.from, result.into);
        const auto rows_of = [&](const dataset& data, std::uint64_t first, std::span<node_id> rows) {
            const auto array = data.row_arrays().first;
            for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<node_id>(first + i);
            if (data.has(array))
                plain_file::open(data.path(array)).read_at(page_alignment + first * 4, std::as_writable_bytes(rows));
        };
        std::vector<node_id> a(static_cast<std::size_t>(std::min<std::uint64_t>(memory / 32, 1 << 20))), b(a.size());
        for (std::uint64_t first = 0; first < both; first += a.size()) {
            go_on();
            const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(a.size(), both - first));
            rows_of(from, first, std::span(a).first(count));
            rows_of(into, first, std::span(b).first(count));
            for (std::size_t i = 0; i < count; ++i) match(a[i], b[i]);
        }
    } else {
        external_sorter<detail::named_row> names(scratch, memory / 2);
        for (const std::uint32_t number : {0U, 1U})
            detail::for_each_node_name(
                number == 0 ? from : into, memory / 8, [&](std::uint64_t row, std::string_view name) {
                    if (row % 65536 == 0) go_on();
                    names.push(
                        {checksum(name, 0), checksum(name, ~std::uint64_t{0}), number, static_cast<node_id>(row)});
                });
        detail::named_row before{.dataset = 1};
        names.for_each_block([&](std::span<const detail::named_row> some) {
            go_on();
            for (const detail::named_row& now : some) {
                if (before.dataset == 0 && now.dataset == 1 && before.hash == now.hash && before.check == now.check)
                    match(before.row, now.row);
                before = now;
            }
        });
    }
    plain_file file = plain_file::create(to);
    sequential_writer out(file);
    std::vector<node_id> words;
    std::uint64_t next = 0; // row of `from`
    const auto put = [&](node_id word) {
        words.push_back(word);
        ++next;
        if (words.size() < 1 << 14) return;
        out.append(std::as_bytes(std::span(words)));
        words.clear();
    };
    const auto skip_to = [&](std::uint64_t row) {
        while (next < row) put(unmatched_row);
    };
    pairs.for_each_block([&](std::span<const std::uint64_t> some) {
        go_on();
        for (const std::uint64_t pair : some) {
            if ((pair >> 32) < next)
                throw error(errc::corrupt, "two nodes have the same name or row", {.path = from.directory()});
            skip_to(pair >> 32);
            put(static_cast<node_id>(pair));
        }
    });
    skip_to(result.from);
    out.append(std::as_bytes(std::span(words)));
    file.close();
    return result;
}

} // namespace gneiss
