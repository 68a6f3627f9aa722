// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/row_delivery.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Identifies a frame: the run, and the batch within it.
struct frame_id {
    std::uint64_t run = 0; ///< hash of what decides the batches: dataset, plan and options
    batch_key key{};       ///< of the batch

    friend bool operator==(const frame_id&, const frame_id&) = default;
};

/// Sizes of a frame's contents.
struct frame_shape {
    std::uint64_t sample_bytes = 0;         ///< of the sample's mini-batch
    std::uint64_t labels = 0;               ///< of its seeds
    std::uint64_t targets = 0;              ///< of its seeds, in all columns
    std::uint64_t rows = 0;                 ///< one per input node
    std::uint64_t columns = 0;              ///< values of a dense row; 0: rows are sparse, or absent
    std::uint64_t entries = 0;              ///< of all sparse rows
    std::uint64_t positions = 0;            ///< of its nodes' rows in a frame of rows, in place of rows of its own
    std::uint64_t group = 0;                ///< index of the batch whose key the frame of rows has
    std::uint64_t last = 0;                 ///< of a frame of rows: index of the last batch that shares them
    const row_delivery* delivery = nullptr; ///< of a frame of rows, to a compute worker with a cache
    bool sparse = false;                    ///< rows are sparse
    bool values = false;                    ///< sparse rows have values; else all are 1
};

/// Rows of a frame as compressed sparse rows.
struct frame_sparse_rows {
    std::span<const std::uint64_t> offsets; ///< [rows + 1], from 0, ascending
    std::span<const std::uint32_t> columns; ///< [entries]
    std::span<const float> values;          ///< [entries], or empty: all are 1
};

namespace detail {

struct frame_header {
    static constexpr std::uint64_t magic_number = 0x31656d6172667367ULL; // "gsframe1"
    static constexpr std::uint32_t current_version = 2;

    std::uint64_t magic = 0;
    std::uint32_t version = 0;
    std::uint32_t flags = 0; ///< 1: sparse rows
    std::uint64_t bytes = 0; ///< of the frame
    frame_id id{};
    std::uint64_t rows = 0, columns = 0, group = 0, last = 0, sequence = 0;
    std::uint64_t reserved[3] = {};
    std::uint64_t sum = 0; ///< XXH3 of the bytes after the header, seeded with that of the header before this field

    [[nodiscard]] std::uint64_t sum_of(std::span<const std::byte> body) const noexcept {
        const auto fields = std::as_bytes(std::span(this, 1)).first(offsetof(frame_header, sum));
        return checksum(body, checksum(fields));
    }
};
static_assert(std::is_trivially_copyable_v<frame_header> && sizeof(frame_header) == 128);
static_assert(sizeof(frame_header) % mini_batch::alignment == 0 &&
    std::has_unique_object_representations_v<frame_header>); // no padding, which the checksum would cover

} // namespace detail

/// Writes a frame, a batch as bytes for another process: the sample, labels or targets of its seeds, and the rows of
/// its input nodes, or their positions among the rows of a group of batches. The latter are in a frame of their own,
/// without labels, whose sample has no arrays.
///
/// The spans are filled by the caller, in any order, before `seal`. Memory: `bytes_of(shape)` in the arena. One thread.
class frame_writer {
public:
    /// Returns the bytes of a frame. Throws errc::invalid_argument for more than 2⁴⁸.
    [[nodiscard]] static std::size_t bytes_of(const frame_shape& shape) {
        constexpr std::uint64_t most = std::uint64_t{1} << 48;
        std::uint64_t sum = sizeof(detail::frame_header) + mini_batch::header_bytes();
        const auto add = [&](std::uint64_t count, std::uint64_t bytes) {
            if (count > most / bytes) throw error(errc::invalid_argument, "a frame of more than 2^48 bytes");
            sum += mini_batch::array_bytes(static_cast<std::size_t>(count), static_cast<std::size_t>(bytes));
            if (sum > most) throw error(errc::invalid_argument, "a frame of more than 2^48 bytes");
        };
        add(shape.sample_bytes, 1);
        add(shape.labels, sizeof(class_id));
        add(shape.targets, sizeof(float));
        if (shape.positions != 0) add(shape.positions, sizeof(std::uint32_t));
        if (shape.delivery != nullptr) {
            add(shape.delivery->from.size(), sizeof(cache_slot));
            add(shape.delivery->enter.size(), sizeof(entering_row));
        }
        if (shape.columns > most / sizeof(float))
            throw error(errc::invalid_argument, "a frame of more than 2^48 bytes");
        if (shape.columns != 0) add(shape.rows, shape.columns * sizeof(float));
        if (shape.sparse) {
            add(shape.rows + 1, sizeof(std::uint64_t));
            add(shape.entries, sizeof(std::uint32_t));
            if (shape.values) add(shape.entries, sizeof(float));
        }
        return static_cast<std::size_t>(sum);
    }

    /// Starts a frame in `arena`, whose memory it uses until the arena is used again. Throws `mini_batch_arena::full`,
    /// and errc::invalid_argument for rows that are both dense and sparse, or neither.
    frame_writer(mini_batch_arena& arena, const frame_id& id, const frame_shape& shape)
        : bytes_(arena.reserve(bytes_of(shape)).first(bytes_of(shape))) {
        if (shape.sparse ? shape.columns != 0 : shape.columns == 0 && shape.rows != 0)
            throw error(errc::invalid_argument, "the rows of a frame are either dense or sparse");
        if (shape.positions != 0 && (shape.sparse || shape.rows != 0))
            throw error(errc::invalid_argument, "a frame has rows, or their positions");
        head_ = {.magic = detail::frame_header::magic_number,
            .version = detail::frame_header::current_version,
            .flags = shape.sparse ? 1U : 0U,
            .bytes = bytes_.size(),
            .id = id,
            .rows = shape.rows,
            .columns = shape.columns,
            .group = shape.group,
            .last = shape.last,
            .sequence = shape.delivery == nullptr ? 0 : shape.delivery->sequence};
        arrays_ = mini_batch::format(bytes_.subspan(sizeof head_), id.key);
        sample_ = add<std::byte>("sample", shape.sample_bytes);
        labels_ = add<class_id>("labels", shape.labels);
        targets_ = add<float>("targets", shape.targets);
        if (shape.positions != 0) positions_ = add<std::uint32_t>("positions", shape.positions);
        if (shape.delivery != nullptr) {
            std::ranges::copy(shape.delivery->from, add<cache_slot>("from", shape.delivery->from.size()).begin());
            std::ranges::copy(shape.delivery->enter, add<entering_row>("enter", shape.delivery->enter.size()).begin());
        }
        if (shape.columns != 0) {
            const std::span<float> all = add<float>("rows", shape.rows * shape.columns);
            rows_ = {all.data(), static_cast<std::size_t>(shape.rows), static_cast<std::size_t>(shape.columns)};
        }
        if (!shape.sparse) return;
        offsets_ = add<std::uint64_t>("row_offsets", shape.rows + 1);
        columns_ = add<std::uint32_t>("row_columns", shape.entries);
        if (shape.values) values_ = add<float>("row_values", shape.entries);
    }

    [[nodiscard]] std::span<std::byte> sample() const noexcept { return sample_; }           ///< [sample_bytes]
    [[nodiscard]] std::span<class_id> labels() const noexcept { return labels_; }            ///< [labels]
    [[nodiscard]] std::span<float> targets() const noexcept { return targets_; }             ///< [targets]
    [[nodiscard]] matrix_view<float> rows() const noexcept { return rows_; }                 ///< [rows, columns]
    [[nodiscard]] std::span<std::uint32_t> positions() const noexcept { return positions_; } ///< [positions]
    [[nodiscard]] std::span<std::uint64_t> offsets() const noexcept { return offsets_; }     ///< [rows + 1]
    [[nodiscard]] std::span<std::uint32_t> columns() const noexcept { return columns_; }     ///< [entries]
    [[nodiscard]] std::span<float> values() const noexcept { return values_; }               ///< [entries], or empty

    /// Writes header and checksum, and returns the frame. O(bytes).
    [[nodiscard]] std::span<const std::byte> seal() {
        head_.sum = head_.sum_of(bytes_.subspan(sizeof head_));
        std::memcpy(bytes_.data(), &head_, sizeof head_);
        return bytes_;
    }

private:
    template <class T>
    [[nodiscard]] std::span<T> add(std::string_view name, std::uint64_t count) {
        const std::span<T> result = arrays_.add<T>(name, static_cast<std::size_t>(count));
        const std::size_t used = result.size_bytes(), padded = round_up(used, mini_batch::alignment);
        std::memset(reinterpret_cast<std::byte*>(result.data()) + used, 0, padded - used);
        return result;
    }

    std::span<std::byte> bytes_;
    detail::frame_header head_{};
    mini_batch arrays_;
    std::span<std::byte> sample_;
    std::span<class_id> labels_;
    std::span<float> targets_;
    std::span<std::uint32_t> positions_;
    matrix_view<float> rows_;
    std::span<std::uint64_t> offsets_;
    std::span<std::uint32_t> columns_;
    std::span<float> values_;
};

/// A frame in memory that others may read, too: a view, which writes nothing. Valid while the bytes are.
///
/// `attach` checks everything that a reader relies on: nothing of the bytes is believed. A sample's lists are checked
/// by `layer_stack::assign`.
class frame {
public:
    /// Expectations of a frame.
    struct expectation {
        std::uint64_t run = 0;          ///< of `frame_id`
        std::optional<batch_key> key{}; ///< none: that of any batch
        std::uint64_t most_bytes = 0;   ///< 0: no bound
    };

    /// Attaches to the frame in `bytes`. O(bytes), one pass for the checksum. Throws
    /// - errc::invalid_argument for memory that is not aligned to `mini_batch::alignment`;
    /// - errc::invalid_format for other bytes, a truncated frame, or one followed by others;
    /// - errc::version_mismatch for a frame of another version;
    /// - errc::over_budget for one above `most_bytes`;
    /// - errc::config_mismatch for one of another run or batch, a foreign one;
    /// - errc::corrupt for bytes that do not match the checksum, and arrays that contradict each other.
    [[nodiscard]] static frame attach(std::span<const std::byte> bytes, const expectation& expected) {
        detail::frame_header head;
        if (reinterpret_cast<std::uintptr_t>(bytes.data()) % mini_batch::alignment != 0)
            throw error(errc::invalid_argument, "a frame needs aligned memory");
        if (bytes.size() < sizeof head) throw error(errc::invalid_format, "these bytes are not a frame");
        std::memcpy(&head, bytes.data(), sizeof head);
        if (head.magic != detail::frame_header::magic_number)
            throw error(errc::invalid_format, "these bytes are not a frame");
        if (head.version != detail::frame_header::current_version)
            throw error(errc::version_mismatch,
                "a frame of version " + std::to_string(head.version) + ", this is version " +
                    std::to_string(detail::frame_header::current_version));
        if (expected.most_bytes != 0 && head.bytes > expected.most_bytes)
            throw error(errc::over_budget,
                "a frame of " + std::to_string(head.bytes) + " bytes, at most " + std::to_string(expected.most_bytes) +
                    " are expected");
        if (head.bytes != bytes.size())
            throw error(errc::invalid_format,
                "a frame of " + std::to_string(head.bytes) + " bytes came as " + std::to_string(bytes.size()));
        if (head.sum != head.sum_of(bytes.subspan(sizeof head)))
            throw error(errc::corrupt, "the frame of " + to_string(head.id.key) + " does not match its checksum");
        if (head.id.run != expected.run)
            throw error(errc::config_mismatch,
                "the frame of " + to_string(head.id.key) +
                    " belongs to another run: its dataset, plan or options "
                    "differ");
        if (expected.key && head.id.key != *expected.key)
            throw error(errc::config_mismatch,
                "a frame of " + to_string(head.id.key) + " came in the place of " + to_string(*expected.key));
        return frame(head, bytes.subspan(sizeof head));
    }

    [[nodiscard]] const frame_id& id() const noexcept { return id_; }
    /// Returns the sample's mini-batch, only to be read.
    [[nodiscard]] const mini_batch& sample() const noexcept { return sample_; }
    [[nodiscard]] std::span<const class_id> labels() const noexcept { return labels_; } ///< by seed
    [[nodiscard]] std::span<const float> targets() const noexcept { return targets_; }  ///< by seed, row by row
    /// Returns the number of input nodes that have rows.
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// Returns the dense rows [rows, columns], without columns if they are sparse or absent.
    [[nodiscard]] matrix_view<const float> dense() const noexcept { return dense_; }
    /// Returns the sparse rows; none if they are dense or absent.
    [[nodiscard]] const std::optional<frame_sparse_rows>& sparse() const noexcept { return sparse_; }
    /// Returns the positions of the input nodes' rows in a frame of rows; none if the rows are in this one.
    [[nodiscard]] std::span<const std::uint32_t> positions() const noexcept { return positions_; }
    /// Returns the index of the batch whose key the frame of rows has. Undefined without positions.
    [[nodiscard]] std::uint64_t group() const noexcept { return group_; }
    /// Returns the index of the last batch that shares the rows of this frame of rows.
    [[nodiscard]] std::uint64_t last() const noexcept { return last_; }
    /// Returns the slots of the distinct rows in a compute worker's cache, or `no_slot`; none without a cache.
    [[nodiscard]] std::span<const cache_slot> from() const noexcept { return from_; }
    /// Returns the rows that enter the cache.
    [[nodiscard]] std::span<const entering_row> enter() const noexcept { return enter_; }
    /// Returns `row_delivery::sequence`.
    [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
    /// Returns the number of distinct rows of this frame of rows, in it or in the cache.
    [[nodiscard]] std::size_t distinct() const noexcept { return from_.empty() ? rows_ : from_.size(); }
    /// Returns the bytes of the frame.
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    /// Throws errc::corrupt unless `rows` is the frame of rows to which the positions refer. O(positions).
    void check_rows(const frame& rows) const {
        batch_key of = id_.key;
        of.number.index = group_;
        if (rows.id() != frame_id{id_.run, of} ||
            std::ranges::any_of(positions_, [&](std::uint32_t at) { return at >= rows.distinct(); }))
            throw error(errc::corrupt, "the frame of " + to_string(id_.key) + " came with the rows of other batches");
    }

private:
    frame(const detail::frame_header& head, std::span<const std::byte> body)
        : id_(head.id),
          group_(head.group),
          last_(head.last),
          sequence_(head.sequence),
          bytes_(static_cast<std::size_t>(head.bytes)) {
        const auto need = [&](bool holds, const char* what) {
            if (!holds) throw error(errc::corrupt, "the frame of " + to_string(id_.key) + ": " + what);
        };
        try {
            const mini_batch arrays = mini_batch::attach(body);
            need(arrays.key() == id_.key, "its arrays are of another batch");
            sample_ = mini_batch::attach(std::span<const std::byte>(arrays.get<const std::byte>("sample")));
            need(sample_.key() == id_.key, "its sample is of another batch");
            labels_ = arrays.get<const class_id>("labels");
            targets_ = arrays.get<const float>("targets");
            if (has(arrays, "positions")) {
                positions_ = arrays.get<const std::uint32_t>("positions");
                need(head.rows == 0 && head.flags == 0, "rows, and positions of others");
            }
            if (has(arrays, "from")) {
                from_ = arrays.get<const cache_slot>("from");
                enter_ = arrays.get<const entering_row>("enter");
                need(head.rows == static_cast<std::uint64_t>(std::ranges::count(from_, no_slot)) && head.flags == 0,
                    "rows of another number than a cache lacks");
            }
            constexpr std::uint64_t most = std::uint64_t{1} << 48;
            need(head.rows <= most && head.columns <= most && (head.flags & ~1U) == 0, "impossible sizes");
            rows_ = static_cast<std::size_t>(head.rows);
            if ((head.flags & 1U) != 0) {
                need(head.columns == 0, "rows are both dense and sparse");
                read_sparse(arrays, need);
            } else if (head.columns != 0) {
                const auto all = arrays.get<const float>("rows");
                need(head.rows == 0 ? all.empty() : all.size() / head.rows == head.columns, "rows of another size");
                need(all.size() == rows_ * static_cast<std::size_t>(head.columns), "rows of another size");
                dense_ = {all.data(), rows_, static_cast<std::size_t>(head.columns)};
            } else {
                need(head.rows == 0, "rows without columns");
            }
        } catch (const error& e) {
            if (e.code() == errc::corrupt) throw;
            need(false, e.what());
        }
    }

    [[nodiscard]] static bool has(const mini_batch& arrays, std::string_view wanted) {
        bool found = false;
        arrays.for_each_array([&](std::string_view name, std::size_t /*bytes*/, std::span<const std::byte> /*of*/) {
            found = found || name == wanted;
        });
        return found;
    }

    template <class Need>
    void read_sparse(const mini_batch& arrays, const Need& need) {
        frame_sparse_rows all{
            arrays.get<const std::uint64_t>("row_offsets"), arrays.get<const std::uint32_t>("row_columns"), {}};
        const bool values = has(arrays, "row_values");
        if (values) all.values = arrays.get<const float>("row_values");
        need(all.offsets.size() == rows_ + 1 && all.offsets.front() == 0 && all.offsets.back() == all.columns.size() &&
                std::ranges::is_sorted(all.offsets),
            "offsets of sparse rows do not match them");
        need(!values || all.values.size() == all.columns.size(), "values of sparse rows do not match them");
        sparse_ = all;
    }

    frame_id id_;
    mini_batch sample_;
    std::span<const class_id> labels_;
    std::span<const float> targets_;
    std::span<const std::uint32_t> positions_;
    std::span<const cache_slot> from_;
    std::span<const entering_row> enter_;
    std::uint64_t group_ = 0, last_ = 0, sequence_ = 0;
    std::size_t bytes_ = 0, rows_ = 0;
    matrix_view<const float> dense_;
    std::optional<frame_sparse_rows> sparse_;
};

} // namespace gneiss
