// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

namespace trainers {

/// Visits rows of all nodes, ascending, in blocks.
using row_stream = std::function<void(const gneiss::embedding_block_visitor&)>;

/// The order in which rows of nodes are exported: that of their ids if these are integers, so that row i is of node i;
/// that of the dataset's rows if nodes have names.
class id_order {
public:
    /// \param data     outlives this
    /// \param scratch  directory for a file, if the rows exceed the memory
    /// \param memory   [bytes]
    id_order(const gneiss::dataset& data, std::filesystem::path scratch, std::uint64_t memory)
        : data_(data),
          scratch_(std::move(scratch)),
          memory_(memory) {}

    /// Calls `visit(position, row)` for the rows of `stream`, which have `columns` floats. Cost: one pass over the
    /// stream; rows that exceed the memory are written to a file and read again. Throws over_budget, io_error, and what
    /// both throw.
    void operator()(const row_stream& stream, std::size_t columns,
        const std::function<void(std::uint64_t position, std::span<const float> row)>& visit) const;
    /// Returns the position of a row.
    [[nodiscard]] std::uint64_t position(std::uint64_t row) const { return by_id() ? data_.node_of(row) : row; }
    /// Returns the name of the node at a position.
    [[nodiscard]] std::string label(std::uint64_t position) const;

private:
    [[nodiscard]] bool by_id() const;

    const gneiss::dataset& data_;
    std::filesystem::path scratch_;
    std::uint64_t memory_;
};

} // namespace trainers
