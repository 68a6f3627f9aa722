// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/detail/spill.hpp>
#include <gneiss/io/row_matches.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

namespace detail {

/// Reads the rows of a partition one after another, with buffers of a few blocks instead of the partition.
class row_cursor {
public:
    static constexpr std::size_t blocks = 2; ///< blocks that are read at once

    explicit row_cursor(embedding_file& rows)
        : rows_(rows),
          chunk_(aligned_buffer<std::byte>(bytes_of(rows))),
          row_(rows.layout().bytes()) {}

    /// Returns the memory of a cursor [bytes].
    [[nodiscard]] static std::uint64_t bytes_of(const embedding_file& rows) {
        return std::min<std::uint64_t>(rows.slot_bytes(), std::uint64_t{blocks} * checksum_block_bytes);
    }
    /// Begins at the first row of a partition.
    void begin(partition_id p) {
        partition_ = p;
        at_ = held_ = 0;
        block_ = 0;
    }
    /// Returns the next row, value and state, valid until the next call. Precondition: the partition has one.
    [[nodiscard]] std::span<const std::byte> next() {
        for (std::size_t filled = 0; filled < row_.size();) {
            if (at_ == held_) fetch();
            const std::size_t some = std::min(row_.size() - filled, held_ - at_);
            std::memcpy(row_.data() + filled, chunk_.data() + at_, some);
            filled += some;
            at_ += some;
        }
        return row_;
    }

private:
    void fetch() {
        const std::uint64_t left = rows_.bytes_of(partition_) - block_ * checksum_block_bytes;
        held_ = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_.size(), left));
        rows_.read_blocks(partition_, block_, chunk_.span().first(held_));
        block_ += blocks;
        at_ = 0;
    }

    embedding_file& rows_;
    aligned_buffer<std::byte> chunk_;
    std::vector<std::byte> row_;
    partition_id partition_ = 0;
    std::size_t block_ = 0, at_ = 0, held_ = 0; // next block; position and size of the chunk
};

} // namespace detail

/// Rows that others begin with.
struct carried_rows {
    embedding_file& values;          ///< values and, if the layouts are equal, optimizer state
    embedding_file* state = nullptr; ///< optimizer state of the same rows, if `values` has none
    std::filesystem::path matches;   ///< row in the new file of each row, as `match_rows` writes it
};

/// Returns the least memory of `carry_rows` into such a file [bytes]: a partition, a few blocks of each file, and a
/// block of rows for one partition.
[[nodiscard]] inline std::uint64_t carry_rows_memory(const carried_rows& from, const embedding_file& to) {
    return to.slot_bytes() + detail::row_cursor::bytes_of(from.values) +
        (from.state == nullptr ? 0 : detail::row_cursor::bytes_of(*from.state)) + 2 * (4096 + to.layout().bytes());
}

/// Fills an embedding file: a row with a match takes the value of that row, and its optimizer state if both layouts
/// have the same; all others are as `initial(first_row, rows [n, dim + state])` fills them. The files may have other
/// partitions.
///
/// \param memory   at least `carry_rows_memory`; more saves passes over `from`
/// \param scratch  a file of at most the size of the rows, created and removed
///
/// Cost: `from` is read once, unless memory lacks a block of 2 KiB or a row for each partition of `to`; rows are
/// written once, and once more in `scratch` if `to` has several partitions.
/// Errors: over_budget; errc::invalid_argument for values of another width; errc::canceled on a stop; errc::no_space;
/// errc::corrupt; io_error.
template <class Initial>
void carry_rows(const carried_rows& from, embedding_file& to, const std::filesystem::path& scratch,
    std::uint64_t memory, Initial&& initial, const std::stop_token& stop = {}) {
    const row_layout old = from.values.layout(), now = to.layout();
    const std::uint64_t least = carry_rows_memory(from, to);
    if (memory < least) throw over_budget(memory, {{"partitions and blocks of carried rows", least}});
    if (old.dim != now.dim)
        throw error(errc::invalid_argument, "carried rows have another width", {.path = from.values.path()});
    const bool own_state = old == now, other_state = !own_state && from.state != nullptr && from.state->layout() == now;
    const std::size_t carried = own_state || other_state ? now.bytes() : now.dim * sizeof(float);
    const row_partitioning &stored = from.values.partitioning(), &cut = to.partitioning();
    detail::row_cursor values(from.values);
    std::optional<detail::row_cursor> states;
    if (other_state) states.emplace(*from.state);
    auto slot = aligned_buffer<float>::zeroed(static_cast<std::size_t>(to.slot_bytes() / sizeof(float)));

    /// Calls `take(new row, value and state)` for the matches with new rows in [low, high).
    const auto for_each_match = [&](std::uint64_t low, std::uint64_t high, auto&& take) {
        const plain_file file = plain_file::open(from.matches);
        std::vector<node_id> words(std::min<std::size_t>(1024, static_cast<std::size_t>(stored.nodes)));
        std::vector<std::byte> row(carried);
        for (partition_id p = 0; p < stored.partitions; ++p) {
            if (stop.stop_requested())
                throw error(errc::canceled, "interrupted while rows were carried over", {.path = to.path()});
            values.begin(p);
            if (states) states->begin(p);
            for (std::uint64_t r = stored.begin(p); r < stored.begin(p + 1); ++r) {
                const auto i = static_cast<std::size_t>(r % words.size());
                if (i == 0 || r == stored.begin(p)) {
                    const std::uint64_t first = r - i;
                    file.read_at(first * 4,
                        std::as_writable_bytes(std::span(words).first(
                            static_cast<std::size_t>(std::min<std::uint64_t>(words.size(), stored.nodes - first)))));
                }
                const std::span<const std::byte> value = values.next();
                const std::span<const std::byte> state = states ? states->next() : value;
                if (words[i] < low || words[i] >= high) continue;
                std::memcpy(row.data(), state.data(), row.size());
                std::memcpy(row.data(), value.data(), now.dim * sizeof(float));
                take(words[i], std::span<const std::byte>(row));
            }
        }
    };
    const auto place = [&](partition_id p, std::uint64_t row, std::span<const std::byte> record) {
        std::memcpy(slot.bytes().data() + (row - cut.begin(p)) * now.bytes(), record.data(), record.size());
    };
    /// Writes a partition: initial values, then those that `overlay(partition)` places.
    const auto write = [&](partition_id p, auto&& overlay) {
        initial(cut.begin(p), matrix_view<float>(slot.data(), static_cast<std::size_t>(cut.size(p)), now.floats()));
        overlay(p);
        const auto free = to.begin_write(p, 0);
        if (!free) throw error(errc::no_space, "no spare slot is left; commit first", {.path = to.path()});
        to.write(p, *free, slot.bytes());
    };
    const std::uint64_t room = std::max<std::uint64_t>(2048, carried + 4);
    const std::uint64_t left = memory - least + 2 * (4096 + now.bytes()); // for blocks of rows
    const auto at_once = static_cast<std::uint32_t>(std::min<std::uint64_t>(left / room - 1, cut.partitions));
    for (partition_id begin = 0; begin < cut.partitions; begin += at_once) {
        const partition_id end = std::min(begin + at_once, cut.partitions);
        if (end - begin == 1) {
            write(begin, [&](partition_id p) {
                for_each_match(cut.begin(p), cut.begin(p + 1),
                    [&](std::uint64_t row, std::span<const std::byte> record) { place(p, row, record); });
            });
            continue;
        }
        const auto block =
            static_cast<std::size_t>(std::min<std::uint64_t>(left / (end - begin + 1), std::uint64_t{256} << 10));
        {
            const importing::partitioned_spill::remover files{scratch};
            importing::partitioned_spill spill(scratch, end - begin, block);
            for_each_match(cut.begin(begin), cut.begin(end), [&](node_id row, std::span<const std::byte> record) {
                spill.append(cut.of(row) - begin, importing::bytes_of(row), record);
            });
            spill.finish();
            for (partition_id p = begin; p < end; ++p)
                write(p, [&](partition_id) {
                    spill.for_each_block(p - begin, [&](std::span<const std::byte> bytes) {
                        for (std::size_t at = 0; at < bytes.size(); at += 4 + carried) {
                            node_id row = 0;
                            std::memcpy(&row, bytes.data() + at, 4);
                            place(p, row, bytes.subspan(at + 4, carried));
                        }
                    });
                });
        }
    }
}

} // namespace gneiss
