// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/model/kernels.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/storage/io/run_file.hpp>

namespace gneiss::detail {

/// Lists of neighbors, collected for some targets.
struct collected_lists {
    std::vector<std::uint32_t> targets, starts{0}, neighbors;

    void add(std::uint32_t target, std::span<const std::uint32_t> list) {
        targets.push_back(target);
        neighbors.insert(neighbors.end(), list.begin(), list.end());
        starts.push_back(static_cast<std::uint32_t>(neighbors.size()));
    }
    void clear() {
        targets.clear();
        starts.resize(1);
        neighbors.clear();
    }
    [[nodiscard]] edge_part part() const { return {{starts, neighbors}, targets}; }
};

/// Records of one kind in a file of a scratch directory: written first, then read, in any order; each is verified.
class scratch_records {
public:
    explicit scratch_records(std::filesystem::path path) : path_(std::move(path)), writer_(std::in_place, path_) {}
    scratch_records(const scratch_records&) = delete;
    scratch_records& operator=(const scratch_records&) = delete;
    ~scratch_records() {
        writer_.reset();
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }

    /// Appends a record and returns its number.
    std::size_t append(std::span<const std::byte> bytes) {
        writer_->append(bytes);
        io_.written_bytes += bytes.size();
        ++io_.writes;
        return writer_->records() - 1;
    }
    void finish() {
        writer_->finish();
        writer_.reset();
        reader_.emplace(path_);
    }
    [[nodiscard]] std::size_t size(std::size_t record) const { return reader_->size(record); }
    void read(std::size_t record, std::span<std::byte> to) {
        io_.read_bytes += reader_->read(record, to).size();
        ++io_.reads;
    }
    [[nodiscard]] const io_stats& statistics() const noexcept { return io_; }

private:
    std::filesystem::path path_;
    std::optional<run_file_writer> writer_;
    std::optional<run_file_reader> reader_;
    io_stats io_;
};

} // namespace gneiss::detail
