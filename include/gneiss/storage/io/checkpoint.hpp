// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/io/detail/file_checksum.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// All data of one generation of a run, except the rows, which are in the slots that this names.
struct checkpoint {
    std::uint64_t generation = 0;         ///< number of the generation
    std::uint64_t configuration_hash = 0; ///< a resume with another configuration is refused
    std::uint64_t dataset_hash = 0;       ///< a resume with another dataset is refused
    row_layout layout{};                  ///< layout of the rows
    row_partitioning
        partitioning{};           ///< nodes and partitions: sizes that differ come from the dataset and are not stored
    std::uint32_t disk_slots = 0; ///< number of disk slots
    std::vector<disk_slot> slots; ///< by partition
    std::vector<std::uint64_t> row_checksums; ///< checksums of each partition's blocks, partition by partition
    resume_position position{}; ///< where training resumes; its `steps` are not stored: programs add a section
    std::map<std::string, std::vector<std::byte>> sections; ///< added by programs: relations, progress

    /// Stores a text as a section.
    void put_text(const std::string& section, std::string_view text) {
        const auto bytes = std::as_bytes(std::span(text));
        sections[section].assign(bytes.begin(), bytes.end());
    }
    /// Returns a section as text, valid while the section exists; empty if there is none.
    [[nodiscard]] std::optional<std::string_view> text(const std::string& section) const {
        const auto found = sections.find(section);
        if (found == sections.end()) return std::nullopt;
        return std::string_view(reinterpret_cast<const char*>(found->second.data()), found->second.size());
    }

    friend bool operator==(const checkpoint&, const checkpoint&) = default;
};

namespace detail {

/// Appends fixed-width little-endian values.
class byte_writer {
public:
    template <std::integral T>
    void put(T value) {
        static_assert(std::endian::native == std::endian::little, "the format is little-endian");
        const auto* raw = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), raw, raw + sizeof value);
    }
    void put_bytes(std::span<const std::byte> raw) {
        put(std::uint64_t{raw.size()});
        bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    }
    [[nodiscard]] std::vector<std::byte>& bytes() noexcept { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

/// Reads the output of byte_writer; a count larger than the remaining bytes is an error before anything is sized by it.
class byte_reader {
public:
    byte_reader(std::span<const std::byte> bytes, const std::filesystem::path& path) : bytes_(bytes), path_(path) {}

    template <std::integral T>
    [[nodiscard]] T get(const char* field) {
        need(sizeof(T), field);
        T value;
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }
    /// Reads the count of elements of `unit` bytes each that follow.
    [[nodiscard]] std::size_t count(std::size_t unit, const char* field) {
        const auto n = get<std::uint64_t>(field);
        if (n > (bytes_.size() - at_) / unit) fail(field, "is larger than the file");
        return static_cast<std::size_t>(n);
    }
    [[nodiscard]] std::span<const std::byte> get_bytes(const char* field) {
        const std::size_t n = count(1, field);
        const auto found = bytes_.subspan(at_, n);
        at_ += n;
        return found;
    }
    void finish() const {
        if (at_ != bytes_.size()) fail("end", "bytes are left over");
    }
    [[noreturn]] void fail(const char* field, const std::string& what) const {
        throw error(errc::corrupt, what, {.path = path_, .offset = at_, .field = field});
    }

private:
    void need(std::size_t n, const char* field) const {
        if (bytes_.size() - at_ < n) fail(field, "the file ends too early");
    }

    std::span<const std::byte> bytes_;
    const std::filesystem::path& path_;
    std::size_t at_ = 0;
};

inline constexpr std::uint64_t checkpoint_magic = 0x504b435353494e47ULL; // "GNISSCKP"
inline constexpr std::uint32_t checkpoint_version = 1;
inline constexpr std::uint32_t checkpoint_endianness = 0x01020304;
inline constexpr std::size_t most_checkpoint_sections = std::size_t{1} << 16;

/// Reads magic, version and byte order, and refuses others.
inline void check_checkpoint_head(byte_reader& in, const std::filesystem::path& path) {
    if (in.get<std::uint64_t>("magic") != checkpoint_magic) in.fail("magic", "this is not a checkpoint");
    if (const auto version = in.get<std::uint32_t>("version"); version != checkpoint_version)
        throw error(errc::version_mismatch,
            "is a checkpoint of version " + std::to_string(version) + ", and this program reads version " +
                std::to_string(checkpoint_version) + " only: use the program that wrote it, or train again",
            {.path = path});
    if (in.get<std::uint32_t>("endianness") != checkpoint_endianness)
        in.fail("endianness", "was written on a machine of another byte order");
}

} // namespace detail

/// Makes `c` the checkpoint at `path`: durable on return; a crash before leaves the old one whole.
///
/// Precondition: the rows it names are durable (`partition_buffer::flush`). Throws io_error; errc::invalid_argument for
/// more than 65536 sections. Cost: one small file and its directory, written and synced. Format: docs/format.md.
inline void save_checkpoint(const std::filesystem::path& path, const checkpoint& c) {
    if (c.sections.size() > detail::most_checkpoint_sections)
        throw error(errc::invalid_argument, "a checkpoint has at most 65536 sections", {.path = path});
    detail::byte_writer out;
    out.put(detail::checkpoint_magic);
    out.put(detail::checkpoint_version);
    out.put(detail::checkpoint_endianness);
    out.put(c.generation);
    out.put(c.configuration_hash);
    out.put(c.dataset_hash);
    out.put(c.layout.dim);
    out.put(c.layout.state);
    out.put(c.partitioning.nodes);
    out.put(c.partitioning.partitions);
    out.put(c.disk_slots);
    out.put(std::uint64_t{c.slots.size()});
    for (const disk_slot slot : c.slots) out.put(slot.value());
    out.put(std::uint64_t{c.row_checksums.size()});
    for (const std::uint64_t sum : c.row_checksums) out.put(sum);
    out.put(c.position.epoch);
    out.put(c.position.next.state);
    out.put(c.position.next.pass);
    out.put(c.position.next.index);
    out.put(std::uint64_t{0}); // applied batches beyond `next`
    out.put(std::uint64_t{c.sections.size()});
    for (const auto& [name, bytes] : c.sections) {
        out.put_bytes(std::as_bytes(std::span(name)));
        out.put_bytes(bytes);
    }
    out.put(checksum(out.bytes(), detail::checkpoint_magic));
    atomic_write_file(path, out.bytes());
}

/// Reads and checks a checkpoint. Throws io_error, or error with errc::corrupt or errc::version_mismatch that names the
/// file and the field; over_budget for a file of more than `memory` bytes.
///
/// Memory: the size of the file twice, the header and the checksum of which are right. Any other file takes 1 MiB.
[[nodiscard]] inline checkpoint load_checkpoint(
    const std::filesystem::path& path, std::uint64_t memory = std::uint64_t{64} << 30) {
    const plain_file file = plain_file::open(path);
    const std::uint64_t size = file.size();
    std::array<std::byte, 2 * sizeof(std::uint64_t)> head{};
    if (size < head.size() + sizeof(std::uint64_t))
        throw error(errc::corrupt, "the file is too short for a checkpoint", {.path = path});
    file.read_at(0, head);
    detail::byte_reader begin(head, path);
    detail::check_checkpoint_head(begin, path);
    if (size > memory) throw over_budget(memory, {{path.string(), size}});
    std::uint64_t stored = 0;
    const std::uint64_t length = size - sizeof stored;
    file.read_at(length, std::as_writable_bytes(std::span(&stored, 1)));
    if (stored != detail::file_checksum(file, 0, length, detail::checkpoint_magic))
        begin.fail("checksum", "does not match: the file is damaged");

    std::vector<std::byte> body(static_cast<std::size_t>(length));
    file.read_at(0, body);
    detail::byte_reader in(body, path);
    detail::check_checkpoint_head(in, path);
    checkpoint c;
    c.generation = in.get<std::uint64_t>("generation");
    c.configuration_hash = in.get<std::uint64_t>("configuration hash");
    c.dataset_hash = in.get<std::uint64_t>("dataset hash");
    c.layout.dim = in.get<std::uint32_t>("dim");
    c.layout.state = in.get<std::uint32_t>("state");
    c.partitioning.nodes = in.get<std::uint64_t>("nodes");
    c.partitioning.partitions = in.get<std::uint32_t>("partitions");
    c.disk_slots = in.get<std::uint32_t>("disk slots");
    for (std::size_t n = in.count(sizeof(std::uint32_t), "slots"); n > 0; --n)
        c.slots.push_back(disk_slot{in.get<std::uint32_t>("slots")});
    for (std::size_t n = in.count(sizeof(std::uint64_t), "row checksums"); n > 0; --n)
        c.row_checksums.push_back(in.get<std::uint64_t>("row checksums"));
    c.position.epoch = in.get<std::uint64_t>("position");
    c.position.next.state = in.get<std::uint32_t>("position");
    c.position.next.pass = in.get<std::uint32_t>("position");
    c.position.next.index = in.get<std::uint64_t>("position");
    if (in.get<std::uint64_t>("position") != 0) in.fail("position", "names batches beyond it, which no trainer writes");
    const std::size_t sections = in.count(16, "sections");
    if (sections > detail::most_checkpoint_sections) in.fail("sections", "are more than 65536");
    for (std::size_t n = sections; n > 0; --n) {
        const auto raw = in.get_bytes("section name");
        const auto bytes = in.get_bytes("section");
        std::string name(reinterpret_cast<const char*>(raw.data()), raw.size());
        if (!c.sections.empty() && c.sections.rbegin()->first >= name) in.fail("section name", "out of order");
        c.sections.emplace_hint(c.sections.end(), std::move(name), std::vector(bytes.begin(), bytes.end()));
    }
    in.finish();
    if (c.partitioning.partitions != c.slots.size()) in.fail("slots", "does not match the number of partitions");
    std::vector<disk_slot> used = c.slots;
    std::sort(used.begin(), used.end());
    if (std::adjacent_find(used.begin(), used.end()) != used.end()) in.fail("slots", "one is named twice");
    if (!used.empty() && used.back().value() >= c.disk_slots) in.fail("slots", "one is not there");
    return c;
}

} // namespace gneiss
