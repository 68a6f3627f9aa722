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
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// Edges of an integer array [2, m], all sources and then all destinations, as in Python libraries.
/// Thread-safe. Errors: errc::invalid_format for other arrays, errc::out_of_range for ids, naming the edge.
class transposed_edges {
public:
    /// \param limit  upper bound of ids, exclusive
    transposed_edges(const std::filesystem::path& path, std::uint64_t limit)
        : file_(std::make_shared<const plain_file>(plain_file::open(path))),
          header_(read_npy_header(*file_)),
          limit_(limit) {
        const bool integers = header_.dtype == npy_dtype::i32 || header_.dtype == npy_dtype::i64 ||
                              header_.dtype == npy_dtype::u32 || header_.dtype == npy_dtype::u64;
        if (header_.shape.size() != 2 || header_.shape[0] != 2 || !integers)
            throw error(errc::invalid_format,
                "edges are integers (2, m), not " + std::string(to_string(header_.dtype)) + " " +
                    shape_text(header_.shape),
                {.path = path});
    }

    [[nodiscard]] std::uint64_t edges() const noexcept { return header_.shape[1]; }

    /// Reads edges first, first + 1, … Precondition: within `edges()`.
    void operator()(std::uint64_t first, std::span<edge> out) const {
        const std::size_t width = size_of(header_.dtype);
        std::vector<std::byte> bytes(out.size() * width);
        for (const std::uint64_t side : {0U, 1U}) {
            file_->read_at(header_.data_offset + (side * edges() + first) * width, bytes);
            for (std::size_t i = 0; i < out.size(); ++i) {
                std::uint64_t id = 0;
                if (width == 8) {
                    std::memcpy(&id, bytes.data() + i * width, 8); // below 0 is far too large
                } else {
                    std::uint32_t narrow = 0;
                    std::memcpy(&narrow, bytes.data() + i * width, 4);
                    id = header_.dtype == npy_dtype::i32 ? static_cast<std::uint64_t>(static_cast<std::int32_t>(narrow)) : narrow;
                }
                if (id >= limit_)
                    throw error(errc::out_of_range,
                        "the id " + std::to_string(static_cast<std::int64_t>(id)) + " is not between 0 and " +
                            std::to_string(limit_ - 1),
                        {.path = file_->path(), .field = "edge " + std::to_string(first + i)});
                (side == 0 ? out[i].source : out[i].destination) = static_cast<node_id>(id);
                out[i].relation = 0;
            }
        }
    }

private:
    std::shared_ptr<const plain_file> file_;
    npy_header header_;
    std::uint64_t limit_;
};

} // namespace gneiss::importing
