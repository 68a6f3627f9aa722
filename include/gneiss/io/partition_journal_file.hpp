// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/storage/io/detail/file_checksum.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// A partitioner's journal as a checked file: after a crash at any time it holds the last state or the previous one,
/// whole.
///
/// File (docs/format.md): eight little-endian words {magic, version, identity, step, bytes, hash of the state, 0, hash
/// of the previous words}, then the state.
/// Cost: `save` writes and syncs a state. Memory: the loaded state, until the first `save`.
/// Errors: io_error; errc::corrupt for a damaged file; errc::config_mismatch for the journal of another run. Not
/// thread-safe.
class partition_journal_file final : public partition_journal {
public:
    /// Reads an existing file at `path`.
    /// \param identity  hash of all inputs of the result: graph, request and options
    /// \param memory    bytes that the state may take; throws over_budget beyond
    partition_journal_file(
        std::filesystem::path path, std::uint64_t identity, std::uint64_t memory = std::uint64_t{64} << 30)
        : path_(std::move(path)),
          identity_(identity) {
        if (std::filesystem::exists(path_)) read(memory);
    }

    void save(std::uint32_t step, std::span<const std::byte> state) override {
        words head{magic, version, identity_, step, state.size(), checksum(state, identity_), 0, 0};
        head.back() = hash_of(head);
        atomic_write_file(path_, [&](sequential_writer& out) {
            out.append(std::as_bytes(std::span(head)));
            out.append(state);
        });
        step_ = step;
        bytes_ = head.size() * sizeof head[0] + state.size();
        if (state.data() != state_.data()) free_memory(state_);
    }
    [[nodiscard]] std::uint32_t step() const override { return step_; }
    [[nodiscard]] std::span<const std::byte> state() const override { return state_; }

    /// Returns the size of the file [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Removes the file: the result is complete.
    void remove() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }

private:
    using words = std::array<std::uint64_t, 8>;
    static constexpr std::uint64_t magic = 0x4c4e524a'5452504eULL; // "NPRTJRNL"
    static constexpr std::uint64_t version = 1;

    [[nodiscard]] static std::uint64_t hash_of(const words& head) noexcept {
        return checksum(std::as_bytes(std::span(head)).first(sizeof head - sizeof head.back()), magic);
    }
    void read(std::uint64_t memory) {
        const plain_file file = plain_file::open(path_);
        words head{};
        const auto wrong = [&](const char* what) {
            return error(errc::corrupt, std::string(what) + ": remove it to start over", {.path = path_});
        };
        const std::uint64_t size = file.size();
        if (size < sizeof head) throw wrong("is not a partitioning journal");
        file.read_at(0, std::as_writable_bytes(std::span(head)));
        if (head[0] != magic || head.back() != hash_of(head) || head[3] == 0 || head[3] >> 32 != 0)
            throw wrong("is not a partitioning journal");
        if (head[1] != version)
            throw error(
                errc::version_mismatch, "version " + std::to_string(head[1]) + " is not known", {.path = path_});
        if (head[2] != identity_)
            throw error(errc::config_mismatch,
                "belongs to a partitioning of another graph or with other flags: remove it to start over",
                {.path = path_});
        if (head[4] != size - sizeof head) throw wrong("was cut");
        if (head[4] > memory) throw over_budget(memory, {{path_.string(), head[4]}});
        if (detail::file_checksum(file, sizeof head, head[4], identity_) != head[5]) throw wrong("checksum mismatch");
        state_.resize(static_cast<std::size_t>(head[4]));
        file.read_at(sizeof head, state_);
        file.drop_cached(0, size);
        step_ = static_cast<std::uint32_t>(head[3]);
        bytes_ = size;
    }

    std::filesystem::path path_;
    std::uint64_t identity_ = 0, bytes_ = 0;
    std::uint32_t step_ = 0;
    std::vector<std::byte> state_;
};

} // namespace gneiss
