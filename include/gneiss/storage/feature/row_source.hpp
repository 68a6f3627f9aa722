// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Destination of gathered rows: the row of ids[i] goes to row `position(i)` of a table in memory.
struct gather_target {
    std::byte* data = nullptr;                  ///< address of row 0
    std::size_t stride = 0;                     ///< bytes from row to row, at least the source's `row_bytes`
    std::span<const std::uint32_t> positions{}; ///< [ids] distinct; empty: the i-th row goes to position i
    std::size_t rows = std::numeric_limits<std::size_t>::max(); ///< rows of the table; of() knows them, else they are
                                                                ///< the caller's word

    /// Returns the row that ids[i] goes to.
    [[nodiscard]] std::size_t position(std::size_t i) const noexcept { return positions.empty() ? i : positions[i]; }
    /// Returns the address that the row of ids[i] goes to.
    [[nodiscard]] std::byte* row(std::size_t i) const noexcept { return data + position(i) * stride; }

    /// Throws errc::invalid_argument unless `ids` rows of `row_bytes` fit. O(1), or O(ids) with positions in a table of
    /// known size: called once per gather. Positions must be distinct, which is not checked.
    void check(std::size_t ids, std::size_t row_bytes) const {
        if (ids == 0) return;
        if (data == nullptr) throw error(errc::invalid_argument, "gathered rows have no memory to go to");
        if (stride < row_bytes)
            throw error(errc::invalid_argument,
                "a target with " + std::to_string(stride) + " bytes from row to row cannot take rows of " +
                    std::to_string(row_bytes) + " bytes");
        if (!positions.empty() && positions.size() != ids)
            throw error(errc::invalid_argument,
                "a target with " + std::to_string(positions.size()) + " positions cannot take " + std::to_string(ids) +
                    " rows");
        if (rows == std::numeric_limits<std::size_t>::max()) return;
        const std::size_t needed = positions.empty() ? ids : std::size_t{std::ranges::max(positions)} + 1;
        if (needed > rows)
            throw error(errc::invalid_argument,
                "a target of " + std::to_string(rows) + " rows cannot take row " + std::to_string(needed - 1));
    }

    /// Returns the rows of a matrix as a target, in order.
    template <class T>
    [[nodiscard]] static gather_target of(matrix_view<T> rows) noexcept {
        return {.data = reinterpret_cast<std::byte*>(rows.data()),
            .stride = rows.stride() * sizeof(T),
            .rows = rows.rows()};
    }
};

/// Requested rows, cache hits, and I/O for the misses. Integers: sums do not depend on the order.
struct gather_stats {
    std::uint64_t rows = 0;         ///< requested, including repeats
    std::uint64_t hits = 0;         ///< copied from the source's own memory
    std::uint64_t bytes_wanted = 0; ///< bytes of the distinct rows read, by this source or those below it
    io_stats io{};                  ///< the requests for them, bytes read, time blocked

    /// Returns the bytes read per byte wanted; 1 if none was.
    [[nodiscard]] double amplification() const noexcept {
        return bytes_wanted == 0 ? 1 : static_cast<double>(io.read_bytes) / static_cast<double>(bytes_wanted);
    }

    gather_stats& operator+=(const gather_stats& other) noexcept {
        rows += other.rows;
        hits += other.hits;
        bytes_wanted += other.bytes_wanted;
        io += other.io;
        return *this;
    }
    [[nodiscard]] friend gather_stats operator+(gather_stats a, const gather_stats& b) noexcept { return a += b; }
    friend bool operator==(const gather_stats&, const gather_stats&) = default;
};

/// Rows of one size, requested by id, in any kind of store.
///
/// Meaning: `gather` writes row ids[i] to to.row(i). Ids come in any order and may repeat. When it returns, all rows
/// are correct; if it throws, the target's contents are unspecified and nothing accesses it any more.
/// Cost: O(ids · row_bytes), and the source's I/O. Errors: `io_error`, errc::corrupt (a file that ends too early),
/// errc::out_of_range for an id beyond the rows, errc::invalid_argument for a target that is too small, before any
/// read.
/// Thread-safety: one thread gathers at a time; `statistics` from any.
///
/// From examples/24_own_row_source.cpp:
/// \snippet 24_own_row_source.cpp cache
template <class S>
concept row_source = requires(S& s, const S& c, std::span<const node_id> ids, const gather_target& to) {
    { c.rows() } -> std::convertible_to<std::uint64_t>;
    { c.row_bytes() } -> std::convertible_to<std::size_t>;
    s.gather(ids, to);
    { c.statistics() } -> std::same_as<gather_stats>;
};

/// A source that reads in the background: `begin` starts a gather, `finish` ends it.
///
/// Meaning: `gather(ids, to)` is `begin(ids, to)` and `finish()`; both throw as it does, and one thread calls both.
/// Only these calls write to the target. The ids may be freed when `begin` returns; the target's memory and positions
/// must stay until `finish` returns. The next `begin` or the destructor drops an unfinished gather.
template <class S>
concept async_row_source = row_source<S> && requires(S& s, std::span<const node_id> ids, const gather_target& to) {
    s.begin(ids, to);
    s.finish();
};

/// Drops the unfinished gather of a source, if any, and waits for its requests, so that another thread may use or
/// destroy the source. Precondition: this thread began it.
template <async_row_source S>
void drop_gather(S& source) noexcept {
    try {
        source.begin({}, {}); // drops it, whether the empty one succeeds or not
        source.finish();
    } catch (...) {
    }
}

/// Owner of a source of any type, chosen at run time; models `async_row_source`. Cost: one indirect call per gather. A
/// source that cannot read ahead gathers in `begin`. Thread-safety: that of the source. Movable.
class any_row_source {
public:
    /// Constructs the source in place: any_row_source(std::in_place_type<disk_rows>, arguments of disk_rows…).
    template <row_source S, class... Arguments>
    explicit any_row_source(std::in_place_type_t<S> /*which*/, Arguments&&... arguments)
        : self_(std::make_unique<model<S>>(std::forward<Arguments>(arguments)...)) {}
    /// Says what is missing: any other type.
    template <class S, class... Arguments>
    explicit any_row_source(std::in_place_type_t<S> /*which*/, Arguments&&... /*arguments*/) {
        static_assert(row_source<S>,
            "any_row_source: the object must be a gneiss::row_source, see gneiss/storage/feature/row_source.hpp");
    }

    [[nodiscard]] std::uint64_t rows() const { return self_->rows(); }
    [[nodiscard]] std::size_t row_bytes() const { return self_->row_bytes(); }
    void gather(std::span<const node_id> ids, const gather_target& to) { self_->gather(ids, to); }
    /// Starts a gather, which `finish` completes.
    void begin(std::span<const node_id> ids, const gather_target& to) { self_->begin(ids, to); }
    /// Completes the gather that `begin` started.
    void finish() { self_->finish(); }
    [[nodiscard]] gather_stats statistics() const { return self_->statistics(); }
    /// Returns the source if it is an `S`, else null.
    template <class S>
    [[nodiscard]] S* target() noexcept {
        auto* const found = dynamic_cast<model<S>*>(self_.get());
        return found == nullptr ? nullptr : &found->source;
    }

private:
    struct interface {
        virtual ~interface() = default;
        virtual std::uint64_t rows() const = 0;
        virtual std::size_t row_bytes() const = 0;
        virtual void gather(std::span<const node_id> ids, const gather_target& to) = 0;
        virtual void begin(std::span<const node_id> ids, const gather_target& to) = 0;
        virtual void finish() = 0;
        virtual gather_stats statistics() const = 0;
    };
    template <class S>
    struct model final : interface {
        template <class... Arguments>
        explicit model(Arguments&&... arguments) : source(std::forward<Arguments>(arguments)...) {}
        std::uint64_t rows() const override { return source.rows(); }
        std::size_t row_bytes() const override { return source.row_bytes(); }
        void gather(std::span<const node_id> ids, const gather_target& to) override { source.gather(ids, to); }
        void begin(std::span<const node_id> ids, const gather_target& to) override {
            if constexpr (async_row_source<S>)
                source.begin(ids, to);
            else
                source.gather(ids, to);
        }
        void finish() override {
            if constexpr (async_row_source<S>) source.finish();
        }
        gather_stats statistics() const override { return source.statistics(); }
        S source;
    };

    std::unique_ptr<interface> self_;
};
static_assert(async_row_source<any_row_source>);

/// Throws errc::out_of_range unless all ids are below `rows`. O(ids).
inline void check_rows(std::span<const node_id> ids, std::uint64_t rows, const std::filesystem::path& path = {}) {
    node_id largest = 0;
    for (const node_id id : ids) largest = id > largest ? id : largest;
    if (!ids.empty() && largest >= rows)
        throw error(errc::out_of_range,
            "row " + std::to_string(largest) + " does not exist: the source has " + std::to_string(rows) + " rows",
            {.path = path});
}

/// Rows of one size, stored consecutively in a file.
struct stored_rows {
    std::filesystem::path path; ///< path of the file
    std::uint64_t offset = 0;   ///< file offset of the first row [bytes]
    std::uint64_t rows = 0;     ///< number of rows
    std::size_t row_bytes = 0;  ///< at least 1

    /// Returns the place of a row in the file.
    [[nodiscard]] std::uint64_t offset_of(std::uint64_t row) const noexcept { return offset + row * row_bytes; }
    /// Returns the bytes of all rows.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return rows * row_bytes; }

    /// Throws errc::corrupt if a file of `file_bytes` does not hold all rows; errc::invalid_argument if rows have no
    /// bytes.
    void check(std::uint64_t file_bytes) const {
        if (row_bytes == 0) throw error(errc::invalid_argument, "a row has no bytes", {.path = path});
        if (offset > file_bytes || rows > (file_bytes - offset) / row_bytes)
            throw error(errc::corrupt,
                "has " + std::to_string(file_bytes) + " bytes, too few for " + std::to_string(rows) + " rows of " +
                    std::to_string(row_bytes) + " bytes",
                {.path = path, .offset = offset});
    }
    /// Throws errc::out_of_range for an id without a row, errc::invalid_argument for a target that does not fit.
    void check(std::span<const node_id> ids, const gather_target& to) const {
        check_rows(ids, rows, path);
        to.check(ids.size(), row_bytes);
    }
};

} // namespace gneiss
