// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/row_layout.hpp>

namespace gneiss {

/// A table of rows in memory, such as the relations': values and adjacent optimizer state.
class embedding_table {
public:
    embedding_table() = default;
    /// Constructs a table of zeros.
    embedding_table(std::size_t rows, row_layout layout)
        : data_(aligned_buffer<float>::zeroed(rows * layout.floats())),
          rows_(rows),
          layout_(layout) {}

    /// Returns the number of rows.
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// Returns the layout of a row.
    [[nodiscard]] const row_layout& layout() const noexcept { return layout_; }
    [[nodiscard]] std::size_t size_bytes() const noexcept { return data_.size_bytes(); }

    /// Returns the whole table, row by row: the content of a checkpoint.
    [[nodiscard]] std::span<float> data() noexcept { return data_.span(); }
    /// Returns the whole table, row by row.
    [[nodiscard]] std::span<const float> data() const noexcept { return data_.span(); }
    /// Returns the rows with state: [rows, dim + state].
    [[nodiscard]] matrix_view<float> table() noexcept { return {data_.data(), rows_, layout_.floats()}; }
    /// Returns values and state [rows, floats].
    [[nodiscard]] matrix_view<const float> table() const noexcept { return {data_.data(), rows_, layout_.floats()}; }
    /// Returns the values: [rows, dim]; the stride skips the state.
    [[nodiscard]] matrix_view<float> values() noexcept { return table().middle_columns(0, layout_.dim); }
    /// Returns the values [rows, dim].
    [[nodiscard]] matrix_view<const float> values() const noexcept { return table().middle_columns(0, layout_.dim); }

private:
    aligned_buffer<float> data_;
    std::size_t rows_ = 0;
    row_layout layout_{};
};

/// Memory of a trivial type that only grows, in huge pages if it is large, since rows are read from it at random.
/// Growing discards the contents.
template <class T>
class reusable_buffer {
public:
    /// Returns room for `size` elements, uninitialized.
    [[nodiscard]] T* at_least(std::size_t size) {
        if (buffer_.size() < size) {
            buffer_ = {}; // never both at once
            buffer_ = aligned_buffer<T, 64>(size + size / 8);
            advise_huge_pages(buffer_.data(), size * sizeof(T)); // without the spare part, which may stay unused
        }
        return buffer_.data();
    }
    [[nodiscard]] std::size_t size_bytes() const noexcept { return buffer_.size_bytes(); }

private:
    aligned_buffer<T, 64> buffer_;
};

/// Gradients of some rows of a table: sorted distinct ids and a row for each. Reuses its memory.
class sparse_gradients {
public:
    /// Resizes to `count` ids and rows of `dim` floats, uninitialized.
    void resize(std::size_t count, std::size_t dim) {
        ids_.resize(count);
        rows_ = {memory_.at_least(count * dim), count, dim};
    }
    /// Returns the ids of the rows, ascending.
    [[nodiscard]] std::span<std::uint32_t> ids() noexcept { return ids_; }
    /// Returns the ids of the rows, ascending.
    [[nodiscard]] std::span<const std::uint32_t> ids() const noexcept { return ids_; }
    /// Returns the gradients, row i for id i.
    [[nodiscard]] matrix_view<float> rows() noexcept { return rows_; }
    /// Returns the gradients, row i for id i.
    [[nodiscard]] matrix_view<const float> rows() const noexcept { return rows_; }

private:
    std::vector<std::uint32_t> ids_;
    reusable_buffer<float> memory_;
    matrix_view<float> rows_{};
};

} // namespace gneiss
