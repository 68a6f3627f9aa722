// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/node_options.hpp>
#include <gneiss/io/import/row_windows.hpp>
#include <gneiss/io/names.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss::importing {

/// Shared by the writers of node attributes: inputs and outputs, and names for errors.
struct node_job {
    const import_node_attributes* data = nullptr; ///< inputs
    std::filesystem::path partial{};              ///< the unfinished dataset
    row_partitioning rows{};                      ///< partitions of the rows
    node_keys keys{};                             ///< keys of nodes in text files
    std::uint64_t memory = 0, seed = 0;           ///< memory in bytes, and seed
    bad_lines* bad = nullptr;                     ///< collects wrong lines of text
    scan_poll poll{};                             ///< for each block of lines or rows of the inputs
    /// Called with the progress of a phase.
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress{};

    /// Returns the path of an output array.
    [[nodiscard]] std::filesystem::path array(const std::string& name) const { return partial / (name + ".npy"); }
    /// Returns a quarter of the memory: one is for a window of rows, another for records in transit.
    [[nodiscard]] std::uint64_t quarter() const noexcept { return memory / 4; }
    /// Opens a text file of nodes.
    [[nodiscard]] node_text text(const std::filesystem::path& path) const {
        return {path, keys, memory / 8, data->names_columns(path), data->id_column, bad, poll};
    }

    /// Returns the position of a column of labels or splits. Throws errc::invalid_argument for that of the node.
    [[nodiscard]] std::size_t column(const node_text& from, const table_column& asked) const {
        const std::size_t at = from.find_value(asked);
        if (at == from.id_column())
            throw error(errc::invalid_argument,
                "column " + std::to_string(at) +
                    " is that of the node: say which has the labels or splits (label and split column)",
                {.path = from.path()});
        return at;
    }

    /// Returns the source's name of a row.
    [[nodiscard]] std::string name_of(std::uint64_t row) const {
        if (std::filesystem::exists(array("names.offsets"))) {
            const name_table names(mapped_npy(array("names.offsets")), mapped_npy(array("names.bytes")));
            return "'" + std::string(names[row]) + "'";
        }
        const mapped_npy nodes(array("row_to_node"));
        return std::to_string(nodes.elements<std::uint32_t>()[static_cast<std::size_t>(row)]);
    }
    /// Returns the handler for `arrange_rows` that rejects a node listed twice, or the second line.
    [[nodiscard]] auto repeated(const std::filesystem::path& path) const {
        return [this, path](std::uint64_t row, std::uint64_t at) {
            const error twice(errc::invalid_format, "node " + name_of(row) + " is listed twice", node_place(path, at));
            if (bad == nullptr || !bad_lines::of_line(twice)) throw twice;
            bad->add(twice);
            if (bad->full()) bad->check();
        };
    }
};

} // namespace gneiss::importing
