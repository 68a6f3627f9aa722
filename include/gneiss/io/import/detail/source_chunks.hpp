// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/io/import/detail/source_plan.hpp>

namespace gneiss::importing {

/// Cuts the sources, in order, into chunks of whole lines, rows or computed edges. One thread at a time.
///
/// Errors: io_error, and those of line_cutter for a line longer than `line` bytes.
class source_chunks {
public:
    /// Keeps a reference to `sources`.
    source_chunks(const std::vector<planned_source>& sources, std::size_t chunk, std::size_t line)
        : sources_(&sources),
          chunk_bytes_(chunk),
          line_bytes_(line) {
        for (const planned_source& each : sources) {
            std::error_code unknown;
            const auto size =
                each.source.open || each.source.compute ? 0 : std::filesystem::file_size(each.source.path, unknown);
            starts_.push_back(total_);
            if (!unknown) total_ += size;
        }
    }

    /// Returns the bytes of all files on disk.
    [[nodiscard]] std::uint64_t total() const noexcept { return total_; }

    /// Reads the next chunk; returns false after the last.
    bool next(text_chunk& chunk) {
        for (; current_ < sources_->size(); ++current_, bytes_.reset(), cutter_.reset()) {
            const planned_source& from = (*sources_)[current_];
            chunk.source = current_;
            if (from.source.compute) {
                chunk.first_row =
                    std::exchange(computed_, std::min(computed_ + computed_block, from.source.computed_edges));
                chunk.offset = chunk.first_row;
                chunk.size = static_cast<std::size_t>(computed_ - chunk.first_row);
                if (chunk.size != 0) return true;
                computed_ = 0;
                continue;
            }
            if (from.array) {
                if (next_rows(from, chunk)) return true;
                continue;
            }
            if (!bytes_) {
                bytes_ = from.open();
                cutter_ = std::make_unique<line_cutter>(*bytes_, from.source.path, chunk_bytes_, line_bytes_,
                    from.format == edge_format::metis ? from.text.comment : '\0');
                cutter_->skip_lines(from.text.skip_lines);
            }
            if (cutter_->next(chunk)) {
                chunk.consumed = starts_[current_] + bytes_->consumed();
                return true;
            }
        }
        return false;
    }

private:
    static constexpr std::uint64_t computed_block = 1 << 16; ///< edges that a worker computes at once

    /// Reads rows of an array, in chunks like text, converted to 64-bit integers; `first_row` counts them.
    bool next_rows(const planned_source& from, text_chunk& chunk) {
        if (!array_) array_ = std::make_unique<npy_reader>(from.source.path);
        const auto columns = static_cast<std::size_t>(from.array->shape[1]);
        const std::size_t rows = std::max<std::size_t>(chunk_bytes_ / (columns * 8), 1);
        std::vector<std::int64_t> values(rows * columns);
        chunk.first_row = (array_->header().size() - array_->remaining()) / columns;
        chunk.offset = chunk.first_row * columns * 8;
        chunk.size = array_->read_as(std::span(values)) * 8;
        chunk.bytes.resize(std::max(chunk.bytes.size(), chunk.size));
        if (chunk.size != 0) std::memcpy(chunk.bytes.data(), values.data(), chunk.size);
        const std::uint64_t left = array_->remaining() * size_of(from.array->dtype);
        chunk.consumed = starts_[current_] + from.array->data_offset + from.array->bytes() - left;
        if (chunk.size == 0) array_.reset();
        return chunk.size != 0;
    }

    const std::vector<planned_source>* sources_;
    std::size_t chunk_bytes_, line_bytes_;
    std::size_t current_ = 0;
    std::unique_ptr<byte_source> bytes_;
    std::unique_ptr<line_cutter> cutter_;
    std::unique_ptr<npy_reader> array_;
    std::uint64_t computed_ = 0;        ///< edges returned of a computed source
    std::vector<std::uint64_t> starts_; ///< bytes of the sources before each
    std::uint64_t total_ = 0;
};

} // namespace gneiss::importing
