// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/io/mapped_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {
namespace detail {

/// Lists whose neighbors are in the address space: the common part of `mapped_csc` and `memory_csc`.
class addressed_csc {
public:
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 256;

    [[nodiscard]] std::uint64_t nodes() const noexcept { return sides_.any().nodes(); }
    [[nodiscard]] edge_index edges() const noexcept { return sides_.any().edges(); }
    [[nodiscard]] std::uint64_t id_of(node_id v) const noexcept { return v; }

    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        sides_.lists(d).degrees(ids, to);
    }
    void neighbors_at(const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        csc_sides::check(answer);
        const auto lists = sides_.lists(request.direction);
        lists.for_each_place(
            request, [&](const csc_lists& from, std::size_t place, std::size_t) { prefetch(at(from, place)); });
        lists.for_each_place(request, [&](const csc_lists& from, std::size_t place, std::size_t k) {
            answer.neighbors[k] = *at(from, place);
            if (answer.neighbors[k] >= from.nodes()) throw from.no_such_neighbor(place);
        });
    }

protected:
    addressed_csc(const csc_files& files, memory_budget& budget) : sides_(files, budget) {}

    [[nodiscard]] const node_id* at(const csc_lists& lists, std::size_t place) const noexcept {
        return neighbors_[sides_.which(lists)] + place;
    }

    csc_sides sides_;
    const node_id* neighbors_[2] = {nullptr, nullptr};
};

} // namespace detail

/// A graph whose neighbors are mapped from files: the operating system reads pages of 4 KiB on access and decides what
/// to keep. The baseline that Ginex is compared with; a `neighbor_source`.
///
///     const mapped_csc graph({.in = dataset / "csc-in", .out = {}}, budget);
///     neighbor_sampler<> sampler({.fanout = {{.in = 10}}}, seed);
///     const auto sample = sampler.sample(key, graph, seeds, executor, arena);
///
/// Each sampler thread waits for its own page faults: use more threads than cores. Memory: that of `csc_lists`,
/// charged, and page cache. Immutable, thread-safe. Neighbors are checked to be nodes, without verification of
/// checksums; `verify` reads all.
/// Errors: as csc_lists; a file that is truncated while mapped kills the process.
class mapped_csc : public detail::addressed_csc {
public:
    /// Maps the lists. Errors as `csc_lists`.
    mapped_csc(const csc_files& files, memory_budget& budget) : addressed_csc(files, budget) {
        for (std::size_t i = 0; i < 2; ++i) {
            if (sides_.side(i) == nullptr) continue;
            const csc_lists& lists = *sides_.side(i);
            maps_[i] = mapped_file(
                plain_file::open(lists.path()), lists.checksums().data_offset() + lists.checksums().data_bytes());
            maps_[i].expect_random();
            neighbors_[i] = reinterpret_cast<const node_id*>(maps_[i].bytes().data() + lists.checksums().data_offset());
        }
    }

    /// Reads and verifies the files sequentially. Throws errc::corrupt.
    void verify() const {
        for (std::size_t i = 0; i < 2; ++i)
            if (const csc_lists* lists = sides_.side(i))
                lists->checksums().verify_file(plain_file::open(lists->path()));
    }

private:
    mapped_file maps_[2];
};

static_assert(neighbor_source<mapped_csc>);

/// The same files read whole and verified: a graph in memory. A `neighbor_source`.
///
/// Memory: that of `csc_lists` and 4 bytes per edge, charged. Immutable, thread-safe. Errors: as csc_lists.
class memory_csc : public detail::addressed_csc {
public:
    /// Reads and verifies the lists.
    memory_csc(const csc_files& files, memory_budget& budget)
        : addressed_csc(files, budget),
          charge_(budget.charge(need(files))) {
        for (std::size_t i = 0; i < 2; ++i) {
            if (sides_.side(i) == nullptr) continue;
            const csc_lists& lists = *sides_.side(i);
            loaded_[i] = huge_page_vector<node_id>(static_cast<std::size_t>(lists.edges()));
            const plain_file file = plain_file::open(lists.path());
            lists.checksums().read(file, 0, std::as_writable_bytes(std::span(loaded_[i])));
            file.drop_cached(0, lists.checksums().data_offset() + lists.checksums().data_bytes());
            neighbors_[i] = loaded_[i].data();
        }
    }

    /// Returns the memory of the neighbors, in addition to that of `csc_lists`.
    [[nodiscard]] static memory_need need(const csc_files& files) {
        std::uint64_t edges = 0;
        for (const auto& path : {files.in, files.out})
            if (!path.empty()) edges += csc_lists::read_stamp(path).edges;
        return {"neighbors", edges * sizeof(node_id)};
    }

private:
    memory_charge charge_;
    std::vector<node_id> loaded_[2];
};

static_assert(neighbor_source<memory_csc>);

} // namespace gneiss
