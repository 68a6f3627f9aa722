// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/detail/named_edge.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/spill.hpp>

// Second pass: keys of edges become internal ids. A map that does not fit in memory is used slice by slice, with the
// edges first distributed to the slices on disk; the resulting edges are the same, in another order.
namespace gneiss::importing {

/// Hash of a name → rank in the sorted list of all hashes, a file of 64-bit words from `data_offset` on.
class hash_map {
public:
    /// Map over `count` hashes in slices of at most `memory` bytes.
    hash_map(const std::filesystem::path& hashes, std::uint64_t data_offset, std::uint64_t count, std::uint64_t memory)
        : file_(plain_file::open(hashes)),
          offset_(data_offset),
          count_(count) {
        while (slices_ < 1024 && hash_index::memory(count_ / slices_ + count_ / slices_ / 8) > memory) slices_ *= 2;
    }

    /// Returns the number of slices.
    [[nodiscard]] std::size_t slices() const noexcept { return slices_; }
    /// Returns the slice of a hash.
    [[nodiscard]] std::size_t slice_of(std::uint64_t hash) const noexcept { return heap_of(hash, slices_); }
    /// Returns the approximate memory of a loaded slice [bytes].
    [[nodiscard]] std::uint64_t memory() const noexcept {
        return hash_index::memory(count_ / slices_ + count_ / slices_ / 8);
    }
    /// Loads a slice in place of the current one.
    void load(std::size_t slice) {
        if (loaded_ == slice) return;
        index_.reset();
        const std::uint64_t begin = first_at_least(slice),
                            end = slice + 1 == slices_ ? count_ : first_at_least(slice + 1);
        std::vector<std::uint64_t> hashes(static_cast<std::size_t>(end - begin));
        file_.read_at(offset_ + begin * 8, std::as_writable_bytes(std::span(hashes)));
        index_.emplace(std::move(hashes), static_cast<unsigned>(std::countr_zero(slices_)), begin);
        loaded_ = slice;
    }
    /// Returns the rank of a hash in the loaded slice.
    [[nodiscard]] node_id operator()(std::uint64_t hash) const noexcept {
        return static_cast<node_id>(index_->rank(hash));
    }

private:
    /// Returns the position of the first hash of a slice. O(log n) reads.
    [[nodiscard]] std::uint64_t first_at_least(std::size_t slice) const {
        if (slice == 0) return 0;
        const std::uint64_t wanted = std::uint64_t{slice} << (64 - std::countr_zero(slices_));
        std::uint64_t low = 0, high = count_;
        while (low < high) {
            const std::uint64_t middle = low + (high - low) / 2;
            std::uint64_t hash = 0;
            file_.read_at(offset_ + middle * 8, std::as_writable_bytes(std::span(&hash, 1)));
            if (hash < wanted)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    plain_file file_;
    std::uint64_t offset_, count_;
    std::size_t slices_ = 1;
    std::optional<std::size_t> loaded_;
    std::optional<hash_index> index_;
};

/// Number of a node in the source → internal id, from an array of 32-bit words on disk.
class array_map {
public:
    /// Map over `count` ids in slices of at most `memory` bytes.
    array_map(const std::filesystem::path& ids, std::uint64_t data_offset, std::uint64_t count, std::uint64_t memory)
        : file_(plain_file::open(ids)),
          offset_(data_offset),
          count_(count),
          per_slice_(std::max<std::uint64_t>(
              std::min(count, std::max<std::uint64_t>(memory / 4, ceil_div(count, std::uint64_t{1024}))), 1)) {}

    /// Returns the number of slices.
    [[nodiscard]] std::size_t slices() const noexcept {
        return static_cast<std::size_t>(std::max<std::uint64_t>(ceil_div(count_, per_slice_), 1));
    }
    /// Returns the slice of a node.
    [[nodiscard]] std::size_t slice_of(std::uint64_t node) const noexcept {
        return static_cast<std::size_t>(node / per_slice_);
    }
    /// Returns the memory of a slice [bytes].
    [[nodiscard]] std::uint64_t memory() const noexcept { return 4 * per_slice_; }
    /// Loads a slice.
    void load(std::size_t slice) {
        if (loaded_ == slice) return;
        first_ = slice * per_slice_;
        ids_.resize(static_cast<std::size_t>(std::min(per_slice_, count_ - first_)));
        file_.read_at(offset_ + first_ * 4, std::as_writable_bytes(std::span(ids_)));
        loaded_ = slice;
    }
    /// Returns the id of a node in the loaded slice.
    [[nodiscard]] node_id operator()(std::uint64_t node) const noexcept {
        return ids_[static_cast<std::size_t>(node - first_)];
    }

private:
    plain_file file_;
    std::uint64_t offset_, count_, per_slice_, first_ = 0;
    std::optional<std::size_t> loaded_;
    std::vector<node_id> ids_;
};

/// Number of a node in the source → internal id, computed: for arrays of integer ids that do not fit.
struct permutation_map {
    keyed_permutation permutation; ///< from number to id

    /// Returns 1.
    [[nodiscard]] static std::size_t slices() noexcept { return 1; }
    /// Returns 0.
    [[nodiscard]] static std::size_t slice_of(std::uint64_t) noexcept { return 0; }
    /// Returns 0.
    [[nodiscard]] static std::uint64_t memory() noexcept { return 0; }
    /// Does nothing.
    static void load(std::size_t) noexcept {}
    /// Returns the id of a node.
    [[nodiscard]] node_id operator()(std::uint64_t node) const noexcept {
        return static_cast<node_id>(permutation(node));
    }
};

/// An edge between the two steps of a sliced translation.
struct half_edge {
    std::uint64_t destination = 0; ///< destination key
    node_id source = 0;            ///< source id
    relation_id relation = 0;      ///< relation of the edge
};

/// Reads the records of a file in waves of blocks; `convert(record) → Out` runs in parallel, `sink(span)` in order.
template <class Record, class Out, executor E, class Convert, class Sink>
void convert_records(const plain_file& file, std::uint64_t records, std::uint64_t memory, const E& executor,
    Convert&& convert, Sink&& sink) {
    const std::size_t wave = 2 * std::max<std::size_t>(executor.concurrency(), 1);
    const std::size_t block = static_cast<std::size_t>(
        std::clamp<std::uint64_t>(memory / wave / (sizeof(Record) + sizeof(Out)), 64, 1 << 16));
    std::vector<std::vector<Record>> in(wave);
    std::vector<std::vector<Out>> out(wave);
    for (std::uint64_t first = 0; first < records; first += wave * block) {
        const auto blocks =
            static_cast<std::size_t>(std::min<std::uint64_t>(wave, ceil_div(records - first, std::uint64_t{block})));
        executor.run(blocks, [&](std::size_t i) {
            const std::uint64_t begin = first + i * block;
            const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(block, records - begin));
            in[i].resize(count);
            out[i].resize(count);
            file.read_at(begin * sizeof(Record), std::as_writable_bytes(std::span(in[i])));
            for (std::size_t j = 0; j < count; ++j) out[i][j] = convert(in[i][j]);
        });
        for (std::size_t i = 0; i < blocks; ++i) sink(std::span<const Out>(out[i]));
    }
}

/// Calls `visit(span of Record)` for the blocks of a heap. Blocks hold whole records.
template <class Record, class Visit>
void for_each_record_block(const partitioned_spill& spill, std::size_t heap, Visit&& visit) {
    std::vector<Record> records;
    spill.for_each_block(heap, [&](std::span<const std::byte> bytes) {
        records.resize(bytes.size() / sizeof(Record));
        std::memcpy(static_cast<void*>(records.data()), bytes.data(), bytes.size());
        visit(std::span<const Record>(records));
    });
}

/// Passes every record of `raw` as an edge with internal ids to `sink(span<const edge>)`, in unspecified order.
///
/// \param relations  relation id of every provisional one; empty: unchanged
/// \param memory     for buffers, besides the map [bytes]
/// \param poll       called for each block of records that is read but not passed to `sink`; may throw to end the work
///
/// Cost: one pass if the map has one slice; else every edge is written to `scratch` twice.
template <class Record, class Map, executor E, class Poll, class Sink>
void translate_edges(const std::filesystem::path& raw, Map& map, std::span<const relation_id> relations,
    const std::filesystem::path& scratch, std::uint64_t memory, const E& executor, Poll&& poll, Sink&& sink) {
    const plain_file file = plain_file::open(raw);
    const std::uint64_t records = file.size() / sizeof(Record);
    const auto relation = [&](relation_id id) { return relations.empty() ? id : relations[id]; };
    if (map.slices() == 1) {
        map.load(0);
        convert_records<Record, edge>(
            file, records, memory, executor,
            [&](const Record& r) {
                return edge{map(source_key(r)), relation(relation_of(r)), map(destination_key(r))};
            },
            sink);
        return;
    }
    const std::size_t slices = map.slices();
    const auto block = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 4 / slices, 512, 1 << 18));
    const std::filesystem::path by_source = scratch.string() + "-source",
                                by_destination = scratch.string() + "-destination";
    {
        partitioned_spill sources(by_source, slices, block / sizeof(Record) * sizeof(Record));
        convert_records<Record, Record>(
            file, records, memory / 2, executor, [](const Record& r) { return r; },
            [&](std::span<const Record> some) {
                poll();
                for (const Record& r : some) sources.append(map.slice_of(source_key(r)), bytes_of(r));
            });
        sources.finish();
        partitioned_spill halves(by_destination, slices, block / sizeof(half_edge) * sizeof(half_edge));
        for (std::size_t slice = 0; slice < slices; ++slice) {
            map.load(slice);
            for_each_record_block<Record>(sources, slice, [&](std::span<const Record> some) {
                poll();
                for (const Record& r : some)
                    halves.append(map.slice_of(destination_key(r)),
                        bytes_of(half_edge{destination_key(r), map(source_key(r)), relation(relation_of(r))}));
            });
        }
        halves.finish();
    }
    partitioned_spill::remove(by_source);
    {
        const partitioned_spill halves = partitioned_spill::open(by_destination);
        std::vector<edge> edges;
        for (std::size_t slice = 0; slice < slices; ++slice) {
            map.load(slice);
            for_each_record_block<half_edge>(halves, slice, [&](std::span<const half_edge> some) {
                edges.clear();
                for (const half_edge& e : some) edges.push_back({e.source, e.relation, map(e.destination)});
                sink(std::span<const edge>(edges));
            });
        }
    }
    partitioned_spill::remove(by_destination);
}

} // namespace gneiss::importing
