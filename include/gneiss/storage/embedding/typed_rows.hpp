// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>

namespace gneiss {

/// Layout of rows that are records of a trivially copyable type: `sizeof(T)` bytes, rounded up to whole floats.
///
///     embedding_file::create(engine, path, partitioning, record_layout<visits>, 2);
template <class T>
inline constexpr row_layout record_layout = [] {
    static_assert(std::is_trivially_copyable_v<T>,
        "record_layout: a record must be trivially copyable, since files hold its bytes");
    static_assert(alignof(T) <= page_alignment, "record_layout: a record cannot be aligned to more than a page");
    return row_layout{static_cast<std::uint32_t>(ceil_div(sizeof(T), sizeof(float))), 0};
}();

/// Returns the record in a row of a file or buffer with `record_layout<T>`. Throws errc::invalid_argument for a row of
/// another length. Bytes are never converted: those of a float come back with the same bits.
///
///     file.fill([](std::uint64_t first, matrix_view<float> rows) {
///         for (std::size_t i = 0; i < rows.rows(); ++i) record_in<visits>(rows[i]) = {.id = first + i};
///     });
template <class T>
[[nodiscard]] T& record_in(std::span<float> row) {
    if (row.size() != record_layout<T>.floats())
        throw error(errc::invalid_argument,
            "a row of " + std::to_string(row.size_bytes()) + " bytes holds no record of " + std::to_string(sizeof(T)));
    return *reinterpret_cast<T*>(row.data());
}
/// Returns the record in a row that cannot be written.
template <class T>
[[nodiscard]] const T& record_in(std::span<const float> row) {
    return record_in<T>(std::span(const_cast<float*>(row.data()), row.size()));
}

/// The resident rows of a state as records of any trivially copyable type, by node: what `partition_buffer` and
/// `embedding_file` keep, load and commit need not be numbers.
///
///     auto lease = buffer.acquire(state);
///     const typed_rows<visits> rows(**lease);
///     rows[node].count += 1;
///
/// `typed_rows<const T>` reads a lease of `acquire_read`. A view: valid while the lease is held. Threads may use
/// different records at once.
///
/// From examples/34_records.cpp:
/// \snippet 34_records.cpp epoch
template <class T>
class typed_rows {
    using rows_type = std::conditional_t<std::is_const_v<T>, const resident_embeddings, resident_embeddings>;
    using record = std::remove_const_t<T>;

public:
    /// Views the rows. Throws errc::invalid_argument for rows of another layout.
    explicit typed_rows(rows_type& rows) : rows_(&rows) {
        if (rows.layout() != record_layout<record>)
            throw error(errc::invalid_argument,
                "rows of " + std::to_string(rows.layout().bytes()) + " bytes hold no records of " +
                    std::to_string(sizeof(T)));
    }

    /// Returns a node's record. Throws errc::out_of_range unless the node exists and is resident.
    [[nodiscard]] T& operator[](node_id node) const { return *reinterpret_cast<T*>((*rows_)[node].data()); }

private:
    rows_type* rows_;
};

} // namespace gneiss
