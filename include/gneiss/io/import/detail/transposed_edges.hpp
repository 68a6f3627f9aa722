// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/npy_header.hpp>
#include <gneiss/io/npy_integers.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// Edges of an integer array [2, m], all sources and then all destinations, as in Python libraries; or [m, 2] or [m, 3]
/// (with relations between the ends). Row-major or column-major. Thread-safe. Errors: errc::invalid_format for other
/// arrays, errc::out_of_range for ids, naming the edge.
class transposed_edges {
public:
    /// \param transposed  [2, m], not [m, 2] or [m, 3]
    /// \param limit       upper bound of ids, exclusive
    transposed_edges(const std::filesystem::path& path, bool transposed, std::uint64_t limit)
        : file_(std::make_shared<const plain_file>(plain_file::open(path))),
          header_(read_any_npy_header(*file_, 0, file_->size())),
          limit_(limit) {
        const bool integers = header_.dtype == npy_dtype::i32 || header_.dtype == npy_dtype::i64 ||
            header_.dtype == npy_dtype::u32 || header_.dtype == npy_dtype::u64;
        const bool flat = header_.shape.size() == 2;
        fields_ = flat ? header_.shape[transposed ? 0 : 1] : 0;
        edges_ = flat ? header_.shape[transposed ? 1 : 0] : 0;
        fields_first_ = transposed != header_.column_major;
        if (!integers || (fields_ != 2 && (transposed || fields_ != 3)))
            throw error(errc::invalid_format,
                std::string("edges are integers ") + (transposed ? "(2, m)" : "(m, 2) or (m, 3)") + ", not " +
                    std::string(to_string(header_.dtype)) + " " + shape_text(header_.shape) +
                    (integers ? "" : integer_remedy),
                {.path = path});
    }

    [[nodiscard]] std::uint64_t edges() const noexcept { return edges_; }
    /// Returns true if edges have relations.
    [[nodiscard]] bool has_relations() const noexcept { return fields_ == 3; }

    /// Reads edges first, first + 1, … Precondition: within `edges()`.
    void operator()(std::uint64_t first, std::span<edge> out) const {
        const std::size_t width = size_of(header_.dtype);
        std::vector<std::byte> bytes(out.size() * width * (fields_first_ ? 1 : fields_));
        if (!fields_first_) file_->read_at(header_.data_offset + first * fields_ * width, bytes);
        for (std::uint64_t field = 0; field < fields_; ++field) {
            if (fields_first_) file_->read_at(header_.data_offset + (field * edges_ + first) * width, bytes);
            for (std::size_t i = 0; i < out.size(); ++i) {
                const std::uint64_t id = value(bytes.data() + (fields_first_ ? i : i * fields_ + field) * width);
                if (id >= limit_)
                    throw error(errc::out_of_range,
                        "the id " + std::to_string(static_cast<std::int64_t>(id)) + " is not between 0 and " +
                            std::to_string(limit_ - 1),
                        {.path = file_->path(), .field = "edge " + std::to_string(first + i)});
                edge& e = out[i];
                if (field == 0)
                    e = {static_cast<node_id>(id), 0, 0};
                else if (field + 1 == fields_)
                    e.destination = static_cast<node_id>(id);
                else
                    e.relation = static_cast<relation_id>(id);
            }
        }
    }

private:
    /// Returns an integer; one below 0 is far too large.
    [[nodiscard]] std::uint64_t value(const std::byte* at) const noexcept {
        std::uint64_t wide = 0;
        if (size_of(header_.dtype) == 8) {
            std::memcpy(&wide, at, 8);
            return wide;
        }
        std::uint32_t narrow = 0;
        std::memcpy(&narrow, at, 4);
        return header_.dtype == npy_dtype::i32 ? static_cast<std::uint64_t>(static_cast<std::int32_t>(narrow)) : narrow;
    }

    std::shared_ptr<const plain_file> file_;
    npy_header header_;
    std::uint64_t limit_, fields_ = 0, edges_ = 0;
    bool fields_first_ = true; ///< in the file: all sources come first
};

} // namespace gneiss::importing
