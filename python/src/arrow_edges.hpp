// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gneiss/io/import/options.hpp>

#include "arrow_stream.hpp"

namespace gneiss_python {

/// Edges of an Arrow stream, which an import reads as text between tabs, without a file.
///
/// An import plans by the first lines, then reads all: those are kept and given again. Memory: at most 4 MiB, a piece
/// of text and the producer's chunk.
class arrow_edges {
public:
    /// \param columns  names of head and tail, or of head, relation and tail; empty: all columns, two or three
    /// Throws errc::invalid_format that names a column which is neither integers nor text.
    arrow_edges(const nanobind::object& source, const std::vector<std::string>& columns, const std::string& label);

    /// Returns whether heads and tails are integers.
    [[nodiscard]] bool integers() const noexcept { return integers_; }
    /// Returns the fields of an edge: 3 with relations, else 2.
    [[nodiscard]] std::size_t width() const noexcept { return columns_.size(); }
    /// Returns a source of an import: it can be read once. The object outlives it.
    [[nodiscard]] gneiss::import_source source(gneiss::edge_split split);

private:
    class reader;

    /// Appends a piece of text; nothing at the end.
    void make(std::string& text);

    arrow_stream stream_;
    std::vector<std::size_t> columns_; ///< as they are in a line
    bool integers_ = false;
    std::int64_t row_ = 0, rows_ = 0; ///< next of the chunk, and its number
    bool ended_ = false;
    std::string head_;   ///< first text
    bool taken_ = false; ///< a reader is beyond it
};

} // namespace gneiss_python
