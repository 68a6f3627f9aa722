// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/io/import/detail/spill.hpp>
#include <gneiss/io/names.hpp>

// Converts names to ids without a dictionary in memory. Every name is hashed; (hash, name) goes to a heap on disk by
// the top bits of its hash, unless a filter of fixed size remembers it. Then each heap is sorted and deduplicated: this
// gives the list of all names by hash. The rank in it is the internal id, a random permutation that depends only on the
// names and the seed.
namespace gneiss::importing {

/// Hash of a name. Tests replace it to make two names collide.
using name_hasher = std::uint64_t (*)(std::string_view name, std::uint64_t seed);

/// Hash of names, unless a test replaces it.
[[nodiscard]] inline std::uint64_t default_name_hash(std::string_view name, std::uint64_t seed) {
    return name_hash(name, seed);
}

/// Two different names have the same hash: the import restarts with another seed.
class hash_collision : public error {
public:
    /// Error for two names.
    hash_collision(std::string_view a, std::string_view b)
        : error(
              errc::invalid_format, "the names " + std::string(a) + " and " + std::string(b) + " have the same hash") {}
};

/// A name occurs twice where names must be unique.
class repeated_name : public error {
public:
    /// Error for a name.
    explicit repeated_name(std::string_view name)
        : error(errc::invalid_format, "the name '" + std::string(name) + "' is given to two ids") {}
};

/// Remembers recent names, to keep most repetitions off the disk. Fixed memory, lock-free, thread-safe.
///
/// A slot holds two independent hashes of the last name stored in it. Concurrent writers may tear slots; a torn one
/// matches no name, which only costs a repetition on disk.
class seen_filter {
public:
    /// Uses at most `bytes`, at least 16.
    explicit seen_filter(std::size_t bytes) : slots_(std::bit_floor(std::max<std::size_t>(bytes / sizeof(slot), 1))) {}

    /// Returns true if this name is not known to be a repetition, and remembers it.
    [[nodiscard]] bool insert(std::string_view name, std::uint64_t hash) noexcept {
        slot& at = slots_[hash & (slots_.size() - 1)];
        const std::uint64_t check = checksum(name, hash);
        if (at.hash.load(std::memory_order_relaxed) == hash && at.check.load(std::memory_order_relaxed) == check)
            return false;
        at.hash.store(hash, std::memory_order_relaxed);
        at.check.store(check, std::memory_order_relaxed);
        return true;
    }

private:
    struct slot {
        std::atomic<std::uint64_t> hash{0};
        std::atomic<std::uint64_t> check{0};
    };
    std::vector<slot> slots_;
};

/// Returns the heap of a hash among `heaps` (a power of two): by its top bits, so heaps are ranges of hashes.
[[nodiscard]] inline std::size_t heap_of(std::uint64_t hash, std::size_t heaps) noexcept {
    return heaps == 1 ? 0 : static_cast<std::size_t>(hash >> (64 - std::countr_zero(heaps)));
}

/// Most tables of nodes whose names a spill distinguishes.
inline constexpr std::size_t most_name_tables = 3;
/// Bits of a spilled length that hold it; the higher ones number the table of nodes that has the name, from 1; 0: an
/// edge has it.
inline constexpr unsigned name_length_bits = 30;
/// Returns the length in a spilled word.
[[nodiscard]] constexpr std::uint32_t name_length(std::uint32_t word) noexcept {
    return word & ((1U << name_length_bits) - 1);
}

/// Adds a name to a spill: of an edge, or of table number `table`, from 1.
inline void spill_name(partitioned_spill& to, std::string_view name, std::uint64_t hash, std::size_t table = 0) {
    std::byte head[12];
    const auto length = static_cast<std::uint32_t>(name.size() | table << name_length_bits);
    std::memcpy(head, &hash, 8);
    std::memcpy(head + 8, &length, 4);
    to.append(heap_of(hash, to.partitions()), head, std::as_bytes(std::span(name)));
}

/// Nodes that tables and edges have in common.
struct name_overlap {
    std::array<std::uint64_t, most_name_tables> listed{},
        met{};                                         ///< nodes of each table; those of them that an edge has
    std::array<std::string, most_name_tables> unmet{}; ///< a node of each table that no edge has
    std::string of_edge{};                             ///< a node of the edges

    /// Adds a name: bit 0 of `origins` is set if an edge has it, bit t if table t does.
    void add(std::string_view name, unsigned origins) {
        const bool edge = (origins & 1) != 0;
        if (edge && of_edge.empty()) of_edge = name;
        for (std::size_t table = 0; table < most_name_tables; ++table) {
            if ((origins >> (table + 1) & 1) == 0) continue;
            ++listed[table];
            met[table] += edge;
            if (!edge && unmet[table].empty()) unmet[table] = name;
        }
    }
    /// Adds the counts of other names.
    void add(const name_overlap& other) {
        if (of_edge.empty()) of_edge = other.of_edge;
        for (std::size_t table = 0; table < most_name_tables; ++table) {
            listed[table] += other.listed[table];
            met[table] += other.met[table];
            if (unmet[table].empty()) unmet[table] = other.unmet[table];
        }
    }
};

/// Distinct names in ascending order of (hash, name): one heap, or a part of it.
struct sorted_names {
    std::vector<std::uint64_t> hashes;  ///< hashes of the names
    std::vector<std::uint32_t> lengths; ///< lengths of the names [bytes]
    std::vector<char> bytes;            ///< names, concatenated
    name_overlap overlap;               ///< origins of the names
};

namespace detail {

struct name_entry {
    std::uint64_t hash;
    std::uint64_t offset; ///< start of its bytes
    std::uint32_t length;
    std::uint32_t table; ///< 0: of an edge
};

/// Sorts the records of a heap and drops repetitions.
inline sorted_names sort_names(const std::vector<std::byte>& heap, bool unique) {
    std::vector<name_entry> entries;
    for (std::size_t at = 0; at < heap.size();) {
        name_entry entry{};
        if (heap.size() - at < 12)
            throw error(errc::corrupt, "the spilled names are damaged: delete the partial dataset");
        std::memcpy(&entry.hash, heap.data() + at, 8);
        std::memcpy(&entry.length, heap.data() + at + 8, 4);
        entry.table = entry.length >> name_length_bits;
        entry.length = name_length(entry.length);
        entry.offset = at + 12;
        if (entry.length > heap.size() - entry.offset)
            throw error(errc::corrupt, "the spilled names are damaged: delete the partial dataset");
        entries.push_back(entry);
        at = entry.offset + entry.length;
    }
    const auto text = [&](const name_entry& e) {
        return std::string_view(reinterpret_cast<const char*>(heap.data()) + e.offset, e.length);
    };
    std::sort(entries.begin(), entries.end(), [&](const name_entry& a, const name_entry& b) {
        return a.hash != b.hash ? a.hash < b.hash : text(a) < text(b);
    });
    sorted_names sorted;
    unsigned origins = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::string_view name = text(entries[i]);
        origins |= 1U << entries[i].table;
        if (i + 1 == entries.size() || entries[i + 1].hash != entries[i].hash)
            sorted.overlap.add(name, std::exchange(origins, 0U));
        if (i != 0 && entries[i].hash == entries[i - 1].hash) {
            if (name != text(entries[i - 1])) throw hash_collision(text(entries[i - 1]), name);
            if (unique) throw repeated_name(name);
            continue;
        }
        sorted.hashes.push_back(entries[i].hash);
        sorted.lengths.push_back(entries[i].length);
        sorted.bytes.insert(sorted.bytes.end(), name.begin(), name.end());
    }
    return sorted;
}

} // namespace detail

/// Returns the most memory that sorting a heap of `bytes` takes: the heap, its entries, and the result.
[[nodiscard]] constexpr std::uint64_t sort_memory(std::uint64_t bytes) noexcept { return 2 * bytes + bytes / 13 * 64; }

/// Passes all distinct names of a spill to `sink(const sorted_names&)` in ascending order of (hash, name).
///
/// \param memory  for the heaps being sorted [bytes]; a heap that does not fit is split on disk into `scratch`
/// \param unique  a repetition is an error (`repeated_name`)
///
/// Heaps are sorted in parallel on `executor` and passed in order. Throws `hash_collision`.
template <executor E, class Sink>
void for_each_name_block(const partitioned_spill& spill, const E& executor, std::uint64_t memory, bool unique,
    const std::filesystem::path& scratch, Sink&& sink, std::uint64_t shift = 0) {
    const std::size_t wave = std::max<std::size_t>(executor.concurrency(), 1);
    for (std::size_t first = 0; first < spill.partitions();) {
        if (sort_memory(spill.bytes(first)) > memory && shift + 6 < 64 && spill.bytes(first) > 4096) {
            const std::uint64_t used = shift + static_cast<std::uint64_t>(std::countr_zero(spill.partitions()));
            const std::filesystem::path path = scratch.string() + "-" + std::to_string(used);
            partitioned_spill split(
                path, 64, static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 512, 256, 1 << 18)));
            spill.for_each_block(first, [&](std::span<const std::byte> block) {
                for (std::size_t at = 0; at < block.size();) {
                    std::uint64_t hash = 0;
                    std::uint32_t length = 0;
                    std::memcpy(&hash, block.data() + at, 8);
                    std::memcpy(&length, block.data() + at + 8, 4);
                    split.append(heap_of(hash << used, 64), block.subspan(at, 12 + std::size_t{name_length(length)}));
                    at += 12 + std::size_t{name_length(length)};
                }
            });
            split.finish();
            for_each_name_block(split, executor, memory, unique, scratch, sink, used);
            partitioned_spill::remove(path);
            ++first;
            continue;
        }
        std::size_t end = first;
        std::uint64_t together = 0;
        while (end < spill.partitions() && end - first < 4 * wave) {
            const std::uint64_t next = sort_memory(spill.bytes(end));
            if (end != first && together + next > memory) break;
            together += next;
            ++end;
        }
        std::vector<sorted_names> sorted(end - first);
        executor.run(
            end - first, [&](std::size_t i) { sorted[i] = detail::sort_names(spill.read(first + i), unique); });
        for (sorted_names& block : sorted) {
            sink(std::as_const(block));
            block = {};
        }
        first = end;
    }
}

/// Finds the rank of a hash in a slice of the sorted list of all hashes.
///
/// A table over the next bits of the hash leads to a few candidates: one or two cache misses per look-up.
/// Memory: 8 bytes per hash of the slice and about 2 for the table.
class hash_index {
public:
    /// \param hashes  hashes of the slice, ascending
    /// \param prefix  number of leading bits that all of them share
    /// \param first   rank of the first one
    hash_index(std::vector<std::uint64_t> hashes, unsigned prefix, std::uint64_t first)
        : hashes_(std::move(hashes)),
          prefix_(prefix),
          first_(first) {
        const auto wanted = static_cast<unsigned>(std::bit_width(hashes_.size() / 4));
        bits_ = std::min(std::max(wanted, 1U), 63 - prefix_);
        starts_.resize((std::size_t{1} << bits_) + 1);
        std::size_t at = 0;
        for (std::size_t slot = 0; slot + 1 < starts_.size(); ++slot) {
            while (at < hashes_.size() && slot_of(hashes_[at]) < slot) ++at;
            starts_[slot] = static_cast<std::uint32_t>(at);
        }
        starts_.back() = static_cast<std::uint32_t>(hashes_.size());
    }

    /// Returns the bytes of a slice of `hashes`.
    [[nodiscard]] static constexpr std::uint64_t memory(std::uint64_t hashes) noexcept { return hashes * 10 + 64; }

    /// Returns the rank of `hash` among all. Precondition: it is in the slice.
    [[nodiscard]] std::uint64_t rank(std::uint64_t hash) const noexcept {
        std::size_t at = starts_[slot_of(hash)];
        const std::size_t end = hashes_.size();
        while (at < end && hashes_[at] < hash) ++at;
        return first_ + at;
    }
    /// Prefetches the table entry of a hash.
    void prefetch(std::uint64_t hash) const noexcept { __builtin_prefetch(&starts_[slot_of(hash)]); }

private:
    [[nodiscard]] std::size_t slot_of(std::uint64_t hash) const noexcept {
        return static_cast<std::size_t>((hash << prefix_) >> (64 - bits_));
    }

    std::vector<std::uint64_t> hashes_;
    std::vector<std::uint32_t> starts_;
    unsigned prefix_;
    unsigned bits_ = 1;
    std::uint64_t first_;
};

} // namespace gneiss::importing
