// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Non-owning view of a row-major matrix: `rows` × `columns`, consecutive rows `stride` elements apart.
///
/// Three integers and a pointer; copies are shallow. A view of T converts to a view of const T. All calls are O(1) and
/// do not throw. Preconditions, checked in builds with assertions: indices in range, stride ≥ columns. As thread-safe
/// as the memory viewed.
template <class T>
class matrix_view {
public:
    constexpr matrix_view() = default;
    /// View of contiguous rows: stride = columns.
    constexpr matrix_view(T* data, std::size_t rows, std::size_t columns) noexcept
        : matrix_view(data, rows, columns, columns) {}
    /// View of rows that are `stride` elements apart, at least `columns`.
    constexpr matrix_view(T* data, std::size_t rows, std::size_t columns, std::size_t stride) noexcept
        : data_(data),
          rows_(rows),
          columns_(columns),
          stride_(stride) {
        GNEISS_ASSERT(stride >= columns);
    }
    /// Converts a view of T to one of const T.
    template <class U>
        requires(std::is_const_v<T> && std::is_same_v<const U, T>)
    constexpr matrix_view(matrix_view<U> other) noexcept // NOLINT(google-explicit-constructor): as span does
        : matrix_view(other.data(), other.rows(), other.columns(), other.stride()) {}

    [[nodiscard]] GNEISS_HD constexpr T* data() const noexcept { return data_; }
    /// Returns the number of rows.
    [[nodiscard]] GNEISS_HD constexpr std::size_t rows() const noexcept { return rows_; }
    /// Returns the number of columns.
    [[nodiscard]] GNEISS_HD constexpr std::size_t columns() const noexcept { return columns_; }
    /// Returns the distance of consecutive rows [elements].
    [[nodiscard]] GNEISS_HD constexpr std::size_t stride() const noexcept { return stride_; }
    [[nodiscard]] GNEISS_HD constexpr bool empty() const noexcept { return rows_ == 0 || columns_ == 0; }

    /// Returns a row.
    [[nodiscard]] constexpr std::span<T> operator[](std::size_t row) const noexcept {
        GNEISS_ASSERT(row < rows_);
        return {data_ + row * stride_, columns_};
    }
    /// Returns an element.
    [[nodiscard]] GNEISS_HD constexpr T& operator()(std::size_t row, std::size_t column) const noexcept {
        GNEISS_ASSERT(row < rows_ && column < columns_);
        return data_[row * stride_ + column];
    }

    /// Rows [first, first + count).
    [[nodiscard]] constexpr matrix_view middle_rows(std::size_t first, std::size_t count) const noexcept {
        GNEISS_ASSERT(first + count <= rows_);
        return {data_ + first * stride_, count, columns_, stride_};
    }
    /// Columns [first, first + count) of all rows.
    [[nodiscard]] constexpr matrix_view middle_columns(std::size_t first, std::size_t count) const noexcept {
        GNEISS_ASSERT(first + count <= columns_);
        return {data_ + first, rows_, count, stride_};
    }

private:
    T* data_ = nullptr;
    std::size_t rows_ = 0;
    std::size_t columns_ = 0;
    std::size_t stride_ = 0;
};

} // namespace gneiss
