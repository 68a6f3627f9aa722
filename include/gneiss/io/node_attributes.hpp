// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Split of a node in a node task, as stored.
enum class node_split : std::uint8_t { train, valid, test, unused };
/// Names of parts, by value.
inline constexpr std::array<std::string_view, 4> node_split_names{"train", "valid", "test", "unused"};
/// Returns the name of a part.
[[nodiscard]] constexpr std::string_view to_string(node_split part) noexcept {
    return node_split_names[static_cast<std::size_t>(part)];
}

/// Label of an unlabeled node, in files.
inline constexpr std::int32_t no_label = -1;

/// Returns stored labels as classes: the same bytes. O(1). Precondition: none is below `no_label`.
[[nodiscard]] inline std::span<const class_id> classes_of(std::span<const std::int32_t> labels) noexcept {
    static_assert(static_cast<class_id>(no_label) == unlabeled);
    return {
        reinterpret_cast<const class_id*>(labels.data()), labels.size()}; // the unsigned type may alias the signed one
}

/// An array of a dataset with its checksums: to be mapped, read in verified ranges, or read by an engine.
struct checked_array {
    plain_file file;          ///< the open file
    npy_header header;        ///< shape and type
    checksum_table checksums; ///< checksums of its blocks

    /// Reads elements `first`, first + 1, …, verified. Throws errc::corrupt, `io_error`.
    template <class T>
    void read(std::uint64_t first, std::span<T> out) const {
        checksums.read(file, first * sizeof(T), std::as_writable_bytes(out));
    }
};

/// One verified array, mapped. Moves in O(1).
template <class T>
class mapped_array {
public:
    mapped_array() = default;
    /// Maps a verified array.
    explicit mapped_array(mapped_npy array) : array_(std::move(array)), values_(array_.elements<T>()) {}
    /// Returns all values.
    [[nodiscard]] std::span<const T> values() const noexcept { return values_; }

private:
    mapped_npy array_;
    std::span<const T> values_;
};

/// Entry of an unlabeled node's row of several labels, in files.
inline constexpr std::uint8_t no_target = 255;

/// Rows of targets of all nodes, mapped: for several labels per node, u8 that are 0, 1 or `no_target`; for regression,
/// f32 with NaN for none. Thread-safe.
class mapped_targets {
public:
    mapped_targets() = default;
    /// Views a verified array, u8 or f32 [nodes, columns].
    explicit mapped_targets(mapped_npy array)
        : array_(std::move(array)),
          columns_(static_cast<std::size_t>(array_.header().row_size())) {
        if (array_.header().dtype == npy_dtype::u8)
            labels_ = array_.elements<std::uint8_t>();
        else
            numbers_ = array_.elements<float>();
    }
    /// True without targets.
    [[nodiscard]] bool empty() const noexcept { return columns_ == 0; }
    /// Returns the number of rows.
    [[nodiscard]] std::uint64_t rows() const noexcept {
        return columns_ == 0 ? 0 : (labels_.size() + numbers_.size()) / columns_;
    }
    /// Returns the number of columns.
    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
    /// Writes a row [columns]; NaN: there is none. Precondition: row < rows.
    void read(std::uint64_t row, std::span<float> out) const noexcept {
        GNEISS_ASSERT(out.size() == columns_ && row < rows());
        const std::size_t first = static_cast<std::size_t>(row) * columns_;
        for (std::size_t c = 0; c < columns_; ++c)
            out[c] = !numbers_.empty()            ? numbers_[first + c]
                : labels_[first + c] == no_target ? std::numeric_limits<float>::quiet_NaN()
                                                  : static_cast<float>(labels_[first + c]);
    }

private:
    mapped_npy array_;
    std::size_t columns_ = 0;
    std::span<const std::uint8_t> labels_;
    std::span<const float> numbers_;
};

/// Returns the type of elements of an array of features: bf16 is stored as u16, int8 as i8.
[[nodiscard]] constexpr npy_dtype dtype_of(feature_type type) noexcept {
    return type == feature_type::int8 ? npy_dtype::i8
        : type == feature_type::bf16  ? npy_dtype::u16
        : type == feature_type::f16   ? npy_dtype::f16
                                      : npy_dtype::f32;
}
/// Returns the type of features whose array has this type of elements.
[[nodiscard]] constexpr feature_type feature_type_of(npy_dtype dtype) noexcept {
    for (const feature_type type : {feature_type::int8, feature_type::bf16, feature_type::f16})
        if (dtype_of(type) == dtype) return type;
    return feature_type::f32;
}

/// Features of all nodes by row, as stored on disk: a dense matrix, or compressed sparse rows of f32 or f16.
///
///     const node_features features = data.features();
///     if (features.sparse()) use(features.read_sparse(first, count));
///     else features.read_dense(first, out);                     // out [count, columns]
///
/// Every read is verified: it costs the checksum blocks that the range overlaps (blocks end with partitions, so reading
/// a partition reads only its own). Memory: 16 bytes per block. An engine that reads by itself uses `dense()`, or the
/// three arrays of the sparse form. Thread-safe. Errors: errc::corrupt, `io_error`.
class node_features {
public:
    node_features() = default;
    /// Constructs dense features: [nodes, columns] of f32, f16 or u16 (bf16), or i8 [nodes, 4 + columns], see
    /// `feature_type`.
    explicit node_features(checked_array dense) : dense_(std::move(dense)) {
        const npy_header& h = dense_->header;
        const bool scaled = h.dtype == npy_dtype::i8;
        need(h.shape.size() == 2 &&
                (is_real(h.dtype) || h.dtype == npy_dtype::u16 || (scaled && h.shape[1] > feature_scale_bytes)),
            *dense_, "features are f32, f16 or u16 [nodes, columns], or i8 [nodes, 4 + columns]");
        rows_ = h.shape[0];
        columns_ = h.shape[1] - (scaled ? feature_scale_bytes : 0);
    }
    /// Constructs sparse features: i64 [nodes + 1], u32 [entries], and f32 or f16 [entries] unless all values are 1.
    node_features(
        checked_array indptr, checked_array indices, std::optional<checked_array> values, std::uint64_t columns)
        : indptr_(std::move(indptr)),
          indices_(std::move(indices)),
          values_(std::move(values)),
          columns_(columns) {
        const npy_header &p = indptr_->header, &i = indices_->header;
        need(p.dtype == npy_dtype::i64 && p.shape.size() == 1 && p.shape[0] != 0, *indptr_, "must be i64 [nodes + 1]");
        need(i.dtype == npy_dtype::u32 && i.shape.size() == 1, *indices_, "must be u32 [entries]");
        if (values_)
            need(is_real(values_->header.dtype) && values_->header.shape == i.shape, *values_,
                "must be f32 or f16 of the length of the indices");
        rows_ = p.shape[0] - 1;
    }

    /// True without features.
    [[nodiscard]] bool empty() const noexcept { return columns_ == 0; }
    /// True if rows are sparse.
    [[nodiscard]] bool sparse() const noexcept { return indptr_.has_value(); }
    /// Returns the number of rows.
    [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
    /// Returns the number of columns.
    [[nodiscard]] std::uint64_t columns() const noexcept { return columns_; }
    /// Returns the number of stored values: rows · columns, or the entries of the sparse rows.
    [[nodiscard]] std::uint64_t nnz() const noexcept { return sparse() ? indices_->header.size() : rows_ * columns_; }
    /// Type of elements of the array of values; f32 if all values are 1.
    [[nodiscard]] npy_dtype dtype() const noexcept {
        const auto& from = sparse() ? values_ : dense_;
        return from ? from->header.dtype : npy_dtype::f32;
    }
    /// Returns the type of features.
    [[nodiscard]] feature_type type() const noexcept { return feature_type_of(dtype()); }
    /// Returns the bytes of all arrays on disk.
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t total = 0;
        for (const auto* array : {&dense_, &indptr_, &indices_, &values_})
            if (*array) total += (*array)->header.bytes();
        return total;
    }
    /// Returns the files, for a `feature_store`.
    [[nodiscard]] feature_files files() const {
        const auto of = [](const std::optional<checked_array>& array) {
            return array ? feature_files::array{array->file.path(), array->checksums} : feature_files::array{};
        };
        return {rows_, columns_, type(), normalized_, of(sparse() ? values_ : dense_), of(indptr_), of(indices_)};
    }
    /// Makes later reads scale rows by `normalize_row`, here and through `files()`.
    void normalize_rows() noexcept { normalized_ = true; }
    // Arrays for engines that read by themselves. Preconditions: !sparse(), sparse().
    /// Returns the array of dense features.
    [[nodiscard]] const checked_array& dense() const noexcept { return *dense_; }
    /// Returns the offsets of sparse rows.
    [[nodiscard]] const checked_array& indptr() const noexcept { return *indptr_; }
    /// Returns the columns of sparse entries.
    [[nodiscard]] const checked_array& indices() const noexcept { return *indices_; }
    /// Returns the values of sparse entries; none: all 1.
    [[nodiscard]] const std::optional<checked_array>& values() const noexcept { return values_; }

    /// Reads rows first, first + 1, … as floats: out [count, columns]. Precondition: dense, within rows.
    void read_dense(std::uint64_t first, std::span<float> out) const {
        GNEISS_ASSERT(!sparse() && out.size() % columns_ == 0);
        if (type() == feature_type::int8)
            read_scaled(first, out);
        else
            read_floats(*dense_, first * columns_, out);
        for (std::size_t at = 0; normalized_ && at < out.size(); at += static_cast<std::size_t>(columns_))
            normalize_row(out.subspan(at, static_cast<std::size_t>(columns_)));
    }
    /// Reads the bytes of rows as stored: out [count] of `row_bytes`. Precondition: dense, within rows.
    void read_bytes(std::uint64_t first, std::span<std::byte> out) const {
        GNEISS_ASSERT(!sparse());
        dense_->checksums.read(dense_->file, first * row_bytes(type(), columns_), out);
    }
    /// Reads the entries of rows first … first + count − 1. Precondition: sparse, within rows.
    [[nodiscard]] sparse_feature_rows read_sparse(std::uint64_t first, std::uint64_t count) const {
        GNEISS_ASSERT(sparse() && first <= rows_ && count <= rows_ - first);
        sparse_feature_rows some;
        const std::uint64_t begin = read_offsets(first, count, some.offsets);
        some.columns.resize(static_cast<std::size_t>(some.offsets.back()));
        indices_->read(begin, std::span(some.columns));
        for (std::uint64_t row = 0; row < count; ++row)
            for (std::uint64_t at = some.offsets[row]; at < some.offsets[row + 1]; ++at)
                if (some.columns[at] >= columns_ ||
                    (at != some.offsets[row] && some.columns[at] <= some.columns[at - 1]))
                    throw error(errc::corrupt,
                        "columns of row " + std::to_string(first + row) + " are not ascending, or beyond " +
                            std::to_string(columns_),
                        {.path = indices_->file.path()});
        if (values_) {
            some.values.resize(some.columns.size());
            read_floats(*values_, begin, some.values);
        }
        if (!normalized_) return some;
        some.values.resize(some.columns.size(), 1.0F);
        for (std::size_t row = 0; row < count; ++row)
            normalize_row(std::span(some.values)
                    .subspan(static_cast<std::size_t>(some.offsets[row]),
                        static_cast<std::size_t>(some.offsets[row + 1] - some.offsets[row])));
        return some;
    }
    /// Reads the offsets of the entries of rows first … first + count: [count + 1], shifted to begin at 0. Returns the
    /// first offset. Precondition: sparse, within rows.
    std::uint64_t read_offsets(std::uint64_t first, std::uint64_t count, std::vector<std::uint64_t>& out) const {
        out.resize(static_cast<std::size_t>(count) + 1);
        indptr_->read(first, std::span(out)); // i64 that are checked not to be negative are u64
        const std::uint64_t begin = out[0];
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (out[i] > nnz() || out[i] < begin || (i != 0 && out[i] - begin < out[i - 1]) ||
                (first + i == 0 && begin != 0) || (first + i == rows_ && out[i] != nnz()))
                throw error(errc::corrupt, "offset " + std::to_string(first + i) + " is out of order",
                    {.path = indptr_->file.path()});
            out[i] -= begin;
        }
        return begin;
    }

    /// Reads everything and checks that values are finite and columns in order, with about 8 MiB. Throws errc::corrupt.
    void verify() const {
        constexpr std::uint64_t at_once = 1 << 20;
        std::vector<float> some;
        const auto finite = [&](std::uint64_t at, const checked_array& array) {
            const auto bad = std::ranges::find_if_not(some, [](float x) { return std::isfinite(x); });
            if (bad != some.end())
                throw error(errc::corrupt,
                    "element " + std::to_string(at + static_cast<std::uint64_t>(bad - some.begin())) +
                        " is not a finite number",
                    {.path = array.file.path()});
        };
        if (dense_ && type() == feature_type::int8) {
            const std::uint64_t step = std::max<std::uint64_t>(at_once / columns_, 1);
            for (std::uint64_t row = 0; row < rows_; row += step) {
                some.resize(static_cast<std::size_t>(std::min(step, rows_ - row) * columns_));
                read_scaled(row, some);
                finite(row * columns_, *dense_);
            }
            return;
        }
        for (const auto& array : {&dense_, &values_}) {
            if (!*array) continue;
            for (std::uint64_t at = 0; at < (*array)->header.size(); at += some.size()) {
                some.resize(static_cast<std::size_t>(std::min(at_once, (*array)->header.size() - at)));
                read_floats(**array, at, some);
                finite(at, **array);
            }
        }
        if (!sparse()) return;
        std::vector<std::uint64_t> offsets;
        for (std::uint64_t row = 0, step = 0; row < rows_; row += step) {
            step = std::min<std::uint64_t>(1 << 16, rows_ - row);
            (void)read_offsets(row, step, offsets);
            while (step > 1 && offsets[step] > at_once) step /= 2;
            (void)read_sparse(row, step);
        }
    }

private:
    static bool is_real(npy_dtype dtype) noexcept { return dtype == npy_dtype::f32 || dtype == npy_dtype::f16; }
    static void need(bool holds, const checked_array& array, const char* what) {
        if (!holds) throw error(errc::invalid_format, what, {.path = array.file.path(), .field = "shape"});
    }
    static void read_floats(const checked_array& array, std::uint64_t first, std::span<float> out) {
        if (array.header.dtype == npy_dtype::f32) return array.read(first, out);
        // Values of 16 bits are read into the back of `out` and widened from the front: each is read before it is
        // overwritten.
        const auto halves = std::as_writable_bytes(out).subspan(out.size() * sizeof(float16));
        array.checksums.read(array.file, first * sizeof(float16), halves);
        decode_row(feature_type_of(array.header.dtype), halves.data(), out);
    }
    /// Reads dense rows of int8, with up to 1 MiB, or a row.
    void read_scaled(std::uint64_t first, std::span<float> out) const {
        const auto columns = static_cast<std::size_t>(columns_);
        const std::size_t each = row_bytes(feature_type::int8, columns_), rows = out.size() / columns;
        const std::size_t step =
            std::clamp<std::size_t>((std::size_t{1} << 20) / each, 1, std::max<std::size_t>(rows, 1));
        std::vector<std::byte> some(step * each);
        for (std::size_t row = 0; row < rows; row += step) {
            const std::size_t count = std::min(step, rows - row);
            read_bytes(first + row, std::span(some).first(count * each));
            for (std::size_t i = 0; i < count; ++i)
                decode_row(feature_type::int8, some.data() + i * each, out.subspan((row + i) * columns, columns));
        }
    }

    std::optional<checked_array> dense_, indptr_, indices_, values_;
    std::uint64_t rows_ = 0, columns_ = 0;
    bool normalized_ = false;
};

} // namespace gneiss
