// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/adjacency/neighbor_cache.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Options of a `disk_csc`.
struct disk_csc_options {
    std::uint64_t coalesce_bytes = 8 << 10;  ///< unneeded bytes that are read rather than split a request
    std::size_t request_bytes = 64 << 10;    ///< longest request; a multiple of csc_block_bytes
    std::size_t requests = 128;              ///< maximum in flight, per call
    std::size_t wave = std::size_t{1} << 20; ///< maximum places sorted at once: a larger call makes several waves
    std::size_t engines = 1;                 ///< calls that read at once; others wait for them
};

/// Rule by which blocks of neighbors share a request.
struct block_coalescing {
    std::uint64_t gap_bytes = 0;   ///< unneeded bytes that are read rather than split a request
    std::size_t request_bytes = 0; ///< longest request
};

/// A block of neighbors in memory, verified.
struct csc_block {
    const csc_lists* lists = nullptr; ///< lists that it is of
    const node_id* entries = nullptr; ///< neighbors in the block
    edge_index first = 0;             ///< place of the first of them among all neighbors of the lists

    /// Returns a neighbor. Throws errc::corrupt for one beyond the nodes.
    [[nodiscard]] node_id at(std::uint32_t entry) const {
        const node_id neighbor = entries[entry];
        if (neighbor >= lists->nodes()) throw lists->no_such_neighbor(first + entry);
        return neighbor;
    }
};

/// Requests of a `disk_csc` and their cost.
struct disk_csc_stats {
    io_stats io;                        ///< reads and waiting time
    std::uint64_t neighbors = 0;        ///< requested; 4 bytes each
    std::uint64_t lists = 0;            ///< with at least one neighbor requested
    std::uint64_t cached_neighbors = 0; ///< cache hits among `neighbors`
    std::uint64_t cached_lists = 0;     ///< cache hits among `lists`

    disk_csc_stats& operator+=(const disk_csc_stats& other) noexcept {
        io += other.io;
        neighbors += other.neighbors;
        lists += other.lists;
        cached_neighbors += other.cached_neighbors;
        cached_lists += other.cached_lists;
        return *this;
    }
};

/// A graph whose neighbors stay on disk: offsets in memory, lists of chosen nodes in a cache, and for the rest reads of
/// the 4 KiB blocks that hold drawn positions. A `neighbor_source`; samples equal those of the same graph in memory.
///
///     disk_csc graph({"data/csc-in", "data/csc-out"}, engines, budget);
///     graph.set_cache(&cache);   // optional: a neighbor_cache
///     auto batch = sampler.sample(key, graph, seeds, executor, arena);
///
/// A call is one wave: blocks are sorted, nearby ones read together, requests kept in flight, and answers written as
/// blocks arrive, in any order. Every block is verified before use. Degrees need no read. `locate` and `read_blocks`
/// are the two halves of a call, for those who read the blocks of many calls together.
/// Memory, charged: that of `csc_lists`, and `need`. Thread-safe, except `set_cache`.
/// Errors: those of csc_lists; io_error; errc::corrupt with path and offset. The graph remains usable after an error.
/// Source: Ginex, section 3.2 (choice of cached lists); coalescing as measured in docs/architecture/conventions.md.
class disk_csc {
public:
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = std::size_t{1} << 31; ///< all requests of a hop

    /// Opens the lists. Throws errc::invalid_argument for options out of range; errors as `csc_lists`.
    disk_csc(
        const csc_files& files, engine_factory engines, memory_budget& budget, const disk_csc_options& options = {})
        : sides_(files, budget),
          engines_(std::move(engines)),
          options_(options),
          charge_(budget.charge(need(options))) {
        if (options.request_bytes == 0 || options.request_bytes % csc_block_bytes != 0 || options.requests == 0 ||
            options.engines == 0 || options.wave == 0 || options.wave >> 31 != 0)
            throw error(
                errc::invalid_argument, "requests are multiples of 4 KiB; there is at least one, and one engine");
        idle_.reserve(options.engines);
    }

    /// Returns the memory of the engines, staging and sort buffers, in addition to that of `csc_lists`.
    [[nodiscard]] static memory_need need(const disk_csc_options& options) {
        return {"reading neighbors",
            options.engines *
                (options.requests * options.request_bytes + options.wave * (sizeof(wanted) + sizeof(std::uint64_t)))};
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return sides_.any().nodes(); }
    [[nodiscard]] edge_index edges() const noexcept { return sides_.any().edges(); }
    [[nodiscard]] std::uint64_t id_of(node_id v) const noexcept { return v; }
    /// Returns the fingerprint of the lists of a direction; of the outgoing ones for both, changed where self loops
    /// count once. A neighbor cache is tied to it.
    [[nodiscard]] std::uint64_t fingerprint(neighbor_direction d) const {
        const auto lists = sides_.lists(d);
        return lists.first->stamp().fingerprint + (lists.second != nullptr && lists.second->has_self_loops() ? 1 : 0);
    }

    /// Serves lists of the cache's direction from it from now on; null: no cache. The cache may be loaded and released
    /// while no sampling runs, and must outlive this or be reset. Throws `invalid_argument` for a cache of another
    /// graph.
    void set_cache(const neighbor_cache* cache) {
        if (cache != nullptr && cache->nodes() != nodes())
            throw error(errc::invalid_argument, "a neighbor cache of another graph");
        if (cache == nullptr)
            caches_.fill(nullptr);
        else
            caches_[static_cast<std::size_t>(cache->direction())] = cache;
    }

    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        sides_.lists(d).degrees(ids, to);
    }

    void neighbors_at(const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        detail::csc_sides::check(answer);
        (void)sides_.lists(request.direction); // throws if absent
        with_lane([&](lane& mine) { return look_up(mine, request, answer); });
    }

    /// Neighbors in a block.
    static constexpr std::size_t block_entries = csc_block_bytes / sizeof(node_id);
    /// Exclusive upper bound on the numbers in keys of `read_blocks`.
    static constexpr std::uint64_t number_end = std::uint64_t{1} << 31;

    /// Finds the neighbors of a request without reading: calls cached(k, neighbor) for each position k of a list in the
    /// cache, stored(k, block, entry) for the others. Blocks are numbered in the order of the files. Returns the
    /// counts.
    template <class Cached, class Stored>
    disk_csc_stats locate(const neighbor_request<>& request, Cached&& cached_at, Stored&& stored_at) const {
        constexpr std::size_t group = 256;
        const detail::list_pair<csc_lists> lists = sides_.lists(request.direction);
        const neighbor_cache* cache = caches_[static_cast<std::size_t>(request.direction)];
        std::array<const node_id*, group> cached{};
        disk_csc_stats asked;
        const auto ids = request.ids;
        for (std::size_t first = 0; first < ids.size(); first += group) {
            const std::size_t count = std::min(group, ids.size() - first);
            if (cache != nullptr) cache->find(ids.subspan(first, count), std::span(cached).first(count));
            for (std::size_t i = 0; i < count; ++i)
                if (cached[i] == nullptr) lists.prefetch_offsets(ids[first + i]);
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t begin = request.offsets[first + i] - request.offsets[0],
                                  end = request.offsets[first + i + 1] - request.offsets[0];
                if (begin == end) continue;
                asked.neighbors += end - begin;
                ++asked.lists;
                if (cached[i] != nullptr) {
                    asked.cached_neighbors += end - begin;
                    ++asked.cached_lists;
                    for (std::size_t k = begin; k < end; ++k) cached_at(k, cached[i][request.positions[k]]);
                } else {
                    locate_list(lists, ids[first + i], request.positions, begin, end, stored_at);
                }
            }
        }
        return asked;
    }

    /// Reads blocks in ascending order and calls visit(number, block) for each key, as blocks arrive. A key is block ·
    /// 2³¹ + number. Returns the I/O; nothing if a stop was requested before all keys were visited. Errors as
    /// `neighbors_at`.
    /// \param keys   ascending, of blocks that `locate` named: that is not checked, and others are read out of bounds
    /// \param how    request_bytes: a multiple of csc_block_bytes, at most `most_request_bytes()`; else
    /// errc::invalid_argument
    /// \param asked  counts of the keys, added to the statistics
    template <class Visit>
    [[nodiscard]] std::optional<io_stats> read_blocks(std::span<const std::uint64_t> keys, const block_coalescing& how,
        const disk_csc_stats& asked, const std::stop_token& stop, Visit&& visit) const {
        if (how.request_bytes == 0 || how.request_bytes % csc_block_bytes != 0 ||
            how.request_bytes > most_request_bytes())
            throw error(errc::invalid_argument,
                "requests of " + std::to_string(how.request_bytes) + " bytes are not multiples of 4 KiB of at most " +
                    std::to_string(most_request_bytes()));
        bool whole = true;
        disk_csc_stats done = asked;
        with_lane([&](lane& mine) {
            io_queue queue(mine.engine);
            whole = read_sorted(mine, queue, keys, how, stop, visit);
            done.io = queue.stats();
            return done;
        });
        return whole ? std::optional(done.io) : std::nullopt;
    }
    /// Returns the requests and bytes by which blocks are read, as `reads` and `read_bytes`.
    /// \param keys  as for `read_blocks`
    [[nodiscard]] io_stats cost_of(std::span<const std::uint64_t> keys, const block_coalescing& how) const {
        io_stats cost;
        for (std::size_t next = 0; next < keys.size();) {
            const request_run run = next_run(keys, next, how);
            ++cost.reads;
            cost.read_bytes += run.bytes;
        }
        return cost;
    }
    /// Returns how a call reads blocks.
    [[nodiscard]] block_coalescing coalescing() const noexcept {
        return {options_.coalesce_bytes, options_.request_bytes};
    }
    /// Returns the longest request that the memory of an engine allows [bytes].
    [[nodiscard]] std::size_t most_request_bytes() const noexcept { return options_.requests * options_.request_bytes; }

    /// Returns requests and hits so far.
    [[nodiscard]] disk_csc_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    /// Requested neighbors in one block: answers [first, first + count). Until the block arrives they hold places in
    /// it.
    struct wanted {
        std::uint32_t first, count;
    };
    /// Blocks that one request reads.
    struct request_run {
        std::size_t first = 0, last = 0; // places in the order of blocks
        std::uint64_t block = 0;
        std::size_t bytes = 0;
    };
    /// An engine with the buffers of a wave. Sort keys: file, block, number of the wanted piece.
    struct lane {
        lane(any_engine result, const detail::csc_sides& sides, const disk_csc_options& options)
            : engine(std::move(result)),
              staging(options.requests * options.request_bytes),
              runs(options.requests) {
            for (std::size_t i = 0; i < 2; ++i)
                if (sides.side(i) != nullptr)
                    files[i].emplace(engine, sides.side(i)->path(), open_options{.direct = true});
            pieces.reserve(options.wave);
            keys.reserve(options.wave);
        }
        any_engine engine;
        std::optional<file> files[2];
        aligned_buffer<std::byte> staging;
        std::vector<request_run> runs; // per part of the staging memory
        std::vector<wanted> pieces;
        std::vector<std::uint64_t> keys;
    };

    /// Calls work(lane), which returns what it requested.
    template <class Work>
    void with_lane(Work&& work) const {
        std::unique_ptr<lane> mine = lease();
        try {
            if (!mine) mine = std::make_unique<lane>(make_engine(engines_), sides_, options_);
            const disk_csc_stats asked = work(*mine);
            give_back(std::move(mine), asked);
        } catch (...) {
            mine.reset();
            give_back(nullptr, {});
            throw;
        }
    }

    /// Returns an idle lane; null: the caller may make one.
    [[nodiscard]] std::unique_ptr<lane> lease() const {
        std::unique_lock lock(mutex_);
        returned_.wait(lock, [&] { return !idle_.empty() || lanes_ < options_.engines; });
        if (idle_.empty()) {
            ++lanes_;
            return nullptr;
        }
        std::unique_ptr<lane> found = std::move(idle_.back());
        idle_.pop_back();
        return found;
    }
    /// Returns a lane after use; null: it is gone.
    void give_back(std::unique_ptr<lane> mine, const disk_csc_stats& asked) const noexcept {
        {
            const std::scoped_lock lock(mutex_);
            statistics_ += asked;
            if (mine)
                idle_.push_back(std::move(mine)); // reserved
            else
                --lanes_;
        }
        returned_.notify_one();
    }

    disk_csc_stats look_up(lane& mine, const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        io_queue queue(mine.engine); // its destructor waits for requests left in flight by an error
        mine.pieces.clear();
        mine.keys.clear();
        std::uint64_t last_block = ~std::uint64_t{0};
        std::size_t last = 0;
        disk_csc_stats asked = locate(
            request, [&](std::size_t k, node_id neighbor) { answer.neighbors[k] = neighbor; },
            [&](std::size_t k, std::uint64_t block, std::uint32_t entry) {
                answer.neighbors[k] = entry;
                if (block == last_block && last + 1 == k && !mine.pieces.empty()) {
                    ++mine.pieces.back().count;
                } else {
                    if (mine.pieces.size() == options_.wave) read_wave(mine, queue, answer);
                    mine.keys.push_back((block << 31) | mine.pieces.size());
                    mine.pieces.push_back({static_cast<std::uint32_t>(k), 1});
                    last_block = block;
                }
                last = k;
            });
        read_wave(mine, queue, answer);
        asked.io = queue.stats();
        return asked;
    }

    /// Calls stored_at(k, block, entry) for the positions [k, end) of a node's list.
    template <class Stored>
    void locate_list(const detail::list_pair<csc_lists>& lists, node_id v, std::span<const std::uint32_t> positions,
        std::size_t k, std::size_t end, Stored&& stored_at) const {
        const std::uint32_t outgoing = lists.second == nullptr ? ~std::uint32_t{0} : lists.first->degree(v);
        const std::uint64_t base = lists.first->begin(v),
                            other = lists.second == nullptr ? 0 : lists.second->begin(v) - outgoing; // modulo 2⁶⁴
        const detail::self_loop_run loops =
            lists.second == nullptr ? detail::self_loop_run{} : lists.second->self_loops(v);
        for (; k < end; ++k) {
            const bool second = positions[k] >= outgoing;
            const std::uint64_t place =
                (second ? other + (positions[k] - outgoing < loops.first ? 0 : loops.count) : base) + positions[k];
            const std::uint64_t side = sides_.which(second ? *lists.second : *lists.first);
            stored_at(k, (side << 32) | (place / block_entries), static_cast<std::uint32_t>(place % block_entries));
        }
    }

    /// Reads the wave and writes the answers.
    void read_wave(lane& mine, io_queue& queue, const neighbor_answer<>& answer) const {
        std::ranges::sort(mine.keys);
        const auto write = [&](std::uint32_t number, const csc_block& block) {
            const wanted piece = mine.pieces[number];
            for (node_id& at : answer.neighbors.subspan(piece.first, piece.count)) at = block.at(at);
        };
        (void)read_sorted(mine, queue, mine.keys, coalescing(), {}, write);
        mine.pieces.clear();
        mine.keys.clear();
    }

    /// Returns the next request for sorted keys, and moves `next` behind its keys.
    [[nodiscard]] request_run next_run(
        std::span<const std::uint64_t> keys, std::size_t& next, const block_coalescing& how) const noexcept {
        request_run run{.first = next, .last = next, .block = keys[next] >> 31, .bytes = 0};
        std::uint64_t last = run.block;
        for (; next < keys.size(); ++next) {
            const std::uint64_t block = keys[next] >> 31;
            if (block > last &&
                ((block - last - 1) * csc_block_bytes > how.gap_bytes ||
                    (block + 1 - run.block) * csc_block_bytes > how.request_bytes))
                break;
            last = block;
        }
        run.last = next;
        const csc_lists& lists = *sides_.side(static_cast<std::size_t>(run.block >> 32));
        const std::uint64_t left = lists.checksums().data_bytes() - (run.block & 0xffffffff) * csc_block_bytes;
        run.bytes = static_cast<std::size_t>(std::min((last + 1 - run.block) * csc_block_bytes, left));
        return run;
    }

    /// Reads the blocks of sorted keys, and calls visit(number, block) for each.
    template <class Visit>
    bool read_sorted(lane& mine, io_queue& queue, std::span<const std::uint64_t> keys, const block_coalescing& how,
        const std::stop_token& stop, Visit&& visit) const {
        const std::size_t parts = std::min(mine.runs.size(), mine.staging.size() / how.request_bytes);
        const auto part = [&](std::size_t slot) {
            return mine.staging.span().subspan(slot * how.request_bytes, how.request_bytes);
        };
        std::size_t next = 0;
        const auto begin = [&](std::size_t slot) {
            if (next == keys.size() || stop.stop_requested()) return;
            const request_run& run = mine.runs[slot] = next_run(keys, next, how);
            const auto side = static_cast<std::size_t>(run.block >> 32);
            const std::uint64_t offset = (run.block & 0xffffffff) * csc_block_bytes;
            queue.read(*mine.files[side], sides_.side(side)->checksums().data_offset() + offset,
                part(slot).first(round_up(run.bytes, csc_block_bytes)), slot, run.bytes);
        };
        for (std::size_t slot = 0; slot < parts; ++slot) begin(slot);
        while (const auto done = queue.next_done()) {
            const auto slot = static_cast<std::size_t>(*done);
            visit_run(mine.runs[slot], part(slot), keys, visit);
            begin(slot);
        }
        return next == keys.size();
    }

    /// Verifies the blocks of a request that has arrived, and visits its keys.
    template <class Visit>
    void visit_run(const request_run& run, std::span<const std::byte> bytes, std::span<const std::uint64_t> keys,
        Visit&& visit) const {
        const csc_lists& lists = *sides_.side(static_cast<std::size_t>(run.block >> 32));
        const std::uint64_t end = lists.checksums().data_bytes();
        std::uint64_t verified = ~std::uint64_t{0};
        csc_block block{.lists = &lists, .entries = nullptr, .first = 0};
        for (std::size_t at = run.first; at < run.last; ++at) {
            const std::uint64_t number = keys[at] >> 31;
            if (number != verified) {
                const std::uint64_t offset = (number & 0xffffffff) * csc_block_bytes;
                const auto data = bytes.subspan(static_cast<std::size_t>((number - run.block) * csc_block_bytes),
                    static_cast<std::size_t>(std::min<std::uint64_t>(csc_block_bytes, end - offset)));
                lists.checksums().verify(lists.path(), offset, data);
                block.entries = reinterpret_cast<const node_id*>(data.data());
                block.first = offset / sizeof(node_id);
                verified = number;
            }
            visit(static_cast<std::uint32_t>(keys[at] & (number_end - 1)), block);
        }
    }

    detail::csc_sides sides_;
    engine_factory engines_;
    disk_csc_options options_;
    memory_charge charge_;
    std::array<const neighbor_cache*, 3> caches_{}; // by direction
    mutable std::mutex mutex_;
    mutable std::condition_variable returned_;
    mutable std::vector<std::unique_ptr<lane>> idle_;
    mutable std::size_t lanes_ = 0; // idle or in use
    mutable disk_csc_stats statistics_;
};

static_assert(neighbor_source<disk_csc>);

} // namespace gneiss
