// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/node_options.hpp>
#include <gneiss/io/npy.hpp>

// The split of nodes: its words and numbers, and masks.
namespace gneiss::importing {

/// Returns the part that a number stands for: 0 train, 1 valid, 2 test; unused for 3, negative numbers and NaN. Empty
/// for any other.
[[nodiscard]] inline std::optional<node_split> part_of(double value) noexcept {
    if (value == 0) return node_split::train;
    if (value == 1) return node_split::valid;
    if (value == 2) return node_split::test;
    if (value == 3 || value < 0 || std::isnan(value)) return node_split::unused;
    return std::nullopt;
}
/// Returns the part that a text stands for: a number, or a word in any case; missing: unused. Empty for any other.
[[nodiscard]] inline std::optional<node_split> part_of(std::string_view field) {
    if (is_missing(field)) return node_split::unused;
    if (const auto value = number_of(field)) return part_of(*value);
    static constexpr std::array<std::pair<std::string_view, node_split>, 9> words{
        {{"train", node_split::train}, {"training", node_split::train}, {"valid", node_split::valid},
            {"validation", node_split::valid}, {"val", node_split::valid}, {"dev", node_split::valid},
            {"test", node_split::test}, {"testing", node_split::test}, {"unused", node_split::unused}}};
    const std::string word = detail::lowered(trimmed(field));
    for (const auto& [name, part] : words)
        if (name == word) return part;
    return std::nullopt;
}

/// Entries of a split that stand for no part, with their numbers. Memory: 20 of them.
class unknown_parts {
public:
    /// Adds an entry, at a row or line.
    void add(std::string_view entry, std::uint64_t at) {
        ++count_;
        const auto found = words_.find(entry);
        if (found != words_.end())
            ++found->second.first;
        else if (words_.size() < 20)
            words_.emplace(entry, std::pair(std::uint64_t{1}, at));
    }
    /// Returns the sentence about them for the user; empty if there are none.
    [[nodiscard]] std::string warning(const std::filesystem::path& path) const {
        if (count_ == 0) return {};
        std::string all;
        for (const auto& [word, seen] : words_)
            all += (all.empty() ? "" : ", ") + excerpt(word) + " (" + std::to_string(seen.first) + ", first in " +
                (is_text_table(path) ? "line " : "row ") + std::to_string(seen.second) + ")";
        return path.string() + ": " + std::to_string(count_) + (count_ == 1 ? " entry stands" : " entries stand") +
            " for no part of the split, so the nodes are unused: " + all +
            "; parts are 0 or train, 1 or valid (validation, val, dev), 2 or test, 3 or unused";
    }

private:
    std::uint64_t count_ = 0;
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>, std::less<>> words_;
};

/// Throws for a mask in place of a split.
[[noreturn]] inline void refuse_mask(const char* what, error_place place) {
    throw error(errc::invalid_format,
        std::string(what) +
            ": a split has a number for each node (0 train, 1 valid, 2 test, 3 unused); give masks as three arrays, "
            "--split "
            "TRAIN.npy,VALID.npy,TEST.npy",
        std::move(place));
}

/// Throws errc::invalid_format for a split that is a mask: an array of Booleans, or of bytes that are 0 and 1. One pass
/// over bytes.
inline void check_split_array(const std::filesystem::path& path) {
    npy_reader in(path);
    if (in.header().dtype == npy_dtype::boolean) refuse_mask("is a mask (Booleans)", {.path = path});
    if (size_of(in.header().dtype) != 1) return;
    std::array<bool, 3> seen{};
    std::vector<std::int16_t> some(65536);
    while (const std::size_t got = in.read_as(std::span(some))) {
        for (const std::int16_t value : std::span<const std::int16_t>(some).first(got))
            seen[value == 0 ? 0 : value == 1 ? 1 : 2] = true;
        if (seen[2]) return;
    }
    if (seen[0] && seen[1])
        refuse_mask("has bytes that are 0 and 1, as a mask has, where 0 would mean train and 1 valid (if they do, save "
                    "a wider type)",
            {.path = path});
}

/// Reads the masks of train, valid and test, row by row. `visit` gets the part of each node.
///
/// Errors: errc::invalid_format for another shape than [nodes] and for a node in two masks; errc::out_of_range for
/// entries other than true, false, 1 and 0; those of npy_reader.
inline void scan_masks(
    const std::array<std::filesystem::path, 3>& masks, const visit_number& visit, const scan_poll& poll = {}) {
    std::array<std::optional<npy_reader>, 3> in;
    std::uint64_t rows = 0;
    for (std::size_t part = 0; part < 3; ++part) {
        if (masks[part].empty()) continue;
        const npy_header& header = in[part].emplace(masks[part]).header();
        if (header.shape.empty() || header.row_size() != 1)
            throw error(errc::invalid_format,
                "must have one entry for each node, not " + shape_text(header.shape) +
                    ": of several splits save one, as mask[:, 0]",
                {.path = masks[part]});
        rows = header.rows();
    }
    std::array<std::vector<float>, 3> some;
    for (std::uint64_t first = 0; first < rows;) {
        if (poll) poll();
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(8192, rows - first));
        for (std::size_t part = 0; part < 3; ++part) {
            some[part].assign(count, 0);
            if (in[part]) (void)in[part]->read_as(std::span(some[part]));
        }
        for (std::size_t i = 0; i < count; ++i, ++first) {
            auto found = static_cast<std::size_t>(node_split::unused);
            for (std::size_t part = 0; part < 3; ++part) {
                const float value = some[part][i];
                if (value == 0) continue;
                if (value != 1)
                    throw error(errc::out_of_range,
                        "is " + std::to_string(value) + ": a mask holds true or false, or 1 and 0",
                        node_place(masks[part], first));
                if (found < 3)
                    throw error(errc::invalid_format,
                        "node " + std::to_string(first) + " is in this mask and in " + masks[found].string() +
                            ": a node is in one part of the split",
                        node_place(masks[part], first));
                found = part;
            }
            visit(first, first, static_cast<double>(found));
        }
    }
}

/// Sets the split by arrays with the names of PyG, DGL and OGB: train_mask, val_mask (or valid_mask) and test_mask, or
/// lists of nodes, train_idx, val_idx (or valid_idx) and test_idx. `find(name)` returns the path of an array, empty if
/// there is none.
/// Returns false without any of them for train.
template <class Find>
bool find_split(import_node_attributes& data, Find&& find) {
    const auto first_of = [&](std::initializer_list<const char*> names) -> std::filesystem::path {
        for (const char* name : names)
            if (std::filesystem::path found = find(name); !found.empty()) return found;
        return {};
    };
    const std::filesystem::path mask = first_of({"train_mask"}),
                                list = first_of({"train_idx", "train_index", "idx_train"});
    if (!mask.empty())
        data.masks = {
            mask, first_of({"val_mask", "valid_mask", "validation_mask", "dev_mask"}), first_of({"test_mask"})};
    else if (!list.empty()) {
        data.lists = {{.part = node_split::train, .nodes = list}};
        if (auto nodes = first_of({"val_idx", "valid_idx", "val_index", "valid_index", "idx_val"}); !nodes.empty())
            data.lists.push_back({.part = node_split::valid, .nodes = std::move(nodes)});
        if (auto nodes = first_of({"test_idx", "test_index", "idx_test"}); !nodes.empty())
            data.lists.push_back({.part = node_split::test, .nodes = std::move(nodes)});
    }
    return !mask.empty() || !list.empty();
}

} // namespace gneiss::importing
