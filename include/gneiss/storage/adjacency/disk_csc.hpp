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
    std::uint64_t coalesce_bytes = 8 << 10;          ///< unneeded bytes that are read rather than split a request
    std::size_t request_bytes = 64 << 10; ///< longest request; a multiple of csc_block_bytes
    std::size_t requests = 128;           ///< maximum in flight, per call
    std::size_t wave =
        std::size_t{1} << 20; ///< maximum places sorted at once: a larger call makes several waves
    std::size_t engines = 1;  ///< calls that read at once; others wait for them
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

/// A graph whose neighbors stay on disk: offsets in memory, lists of chosen nodes in a cache, and for the rest reads of the
/// 4 KiB blocks that hold drawn positions. A `neighbor_source`; samples equal those of the same graph in memory.
///
///     disk_csc graph({"data/csc-in", "data/csc-out"}, engines, budget);
///     graph.set_cache(&cache);   // optional: a neighbor_cache
///     auto batch = sampler.sample(key, graph, seeds, executor, arena);
///
/// A call is one wave: blocks are sorted, nearby ones read together, requests kept in flight, and answers written as blocks
/// arrive, in any order. Every block is verified before use. Degrees need no read.
/// Memory, charged: that of `csc_lists`, and `engine_bytes` per engine. Thread-safe, except `set_cache`.
/// Errors: those of csc_lists; io_error; errc::corrupt with path and offset. The graph remains usable after an error.
/// Source: Ginex, section 3.2 (choice of cached lists); coalescing as measured in docs/architecture.md.
class disk_csc {
public:
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = std::size_t{1} << 31; ///< all requests of a hop

    /// Opens the lists. Throws errc::invalid_argument for options out of range; errors as `csc_lists`.
    disk_csc(const csc_files& files, engine_factory engines, memory_budget& budget, const disk_csc_options& options = {})
        : sides_(files, budget),
          engines_(std::move(engines)),
          options_(options),
          charge_(budget.charge("reading neighbors", engine_bytes(options) * options.engines)) {
        if (options.request_bytes == 0 || options.request_bytes % csc_block_bytes != 0 || options.requests == 0 ||
            options.engines == 0 || options.wave == 0 || options.wave >> 31 != 0)
            throw error(
                errc::invalid_argument, "requests are multiples of 4 KiB; there is at least one, and one engine");
        idle_.reserve(options.engines);
    }

    /// Returns the memory of an engine: staging and sort buffers [bytes].
    [[nodiscard]] static std::uint64_t engine_bytes(const disk_csc_options& options) noexcept {
        return options.requests * options.request_bytes + options.wave * (sizeof(wanted) + sizeof(std::uint64_t));
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return sides_.any().nodes(); }
    [[nodiscard]] edge_index edges() const noexcept { return sides_.any().edges(); }
    [[nodiscard]] std::uint64_t id_of(node_id v) const noexcept { return v; }
    /// Returns the fingerprint of the lists of a direction; of the outgoing ones for both. A neighbor cache is tied to it.
    [[nodiscard]] std::uint64_t fingerprint(neighbor_direction d) const {
        return sides_.lists(d).first->stamp().fingerprint;
    }

    /// Serves lists of the cache's direction from it from now on; null: no cache. The cache may be loaded and released while no
    /// sampling runs, and must outlive this or be reset. Throws `invalid_argument` for a cache of another graph.
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
        const auto lists = sides_.lists(request.direction);
        const neighbor_cache* cache = caches_[static_cast<std::size_t>(request.direction)];
        std::unique_ptr<lane> executor = lease();
        try {
            if (!executor) executor = std::make_unique<lane>(engines_(), sides_, options_);
            const disk_csc_stats asked =
                look_up(*executor, lists, cache != nullptr && cache->loaded() ? cache : nullptr, request, answer);
            give_back(std::move(executor), asked);
        } catch (...) {
            executor.reset();
            give_back(nullptr, {});
            throw;
        }
    }

    /// Returns requests and hits so far.
    [[nodiscard]] disk_csc_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    /// Requested neighbors of one list in one block: answers [first, first + count), each at base + its position.
    struct wanted {
        std::uint64_t base; // start of the list among all neighbors of its file; modulo 2⁶⁴ for the second list of two
        std::uint32_t first, count;
    };
    /// Blocks that one request reads.
    struct request_run {
        std::size_t first = 0, last = 0; // places in the order of blocks
        std::uint64_t block = 0;
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

    static constexpr std::size_t block_entries = csc_block_bytes / sizeof(node_id);

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
    void give_back(std::unique_ptr<lane> executor, const disk_csc_stats& asked) const noexcept {
        {
            const std::scoped_lock lock(mutex_);
            statistics_ += asked;
            if (executor)
                idle_.push_back(std::move(executor)); // reserved
            else
                --lanes_;
        }
        returned_.notify_one();
    }

    disk_csc_stats look_up(lane& executor, const detail::list_pair<csc_lists>& lists, const neighbor_cache* cache,
        const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        constexpr std::size_t group = 256;
        std::array<const node_id*, group> cached{};
        disk_csc_stats asked;
        io_queue queue(executor.engine); // its destructor waits for requests left in flight by an error
        executor.pieces.clear();
        executor.keys.clear();
        const auto ids = request.ids;
        for (std::size_t first = 0; first < ids.size(); first += group) {
            const std::size_t count = std::min(group, ids.size() - first);
            if (cache != nullptr) cache->find(ids.subspan(first, count), std::span(cached).first(count));
            for (std::size_t i = 0; i < count; ++i)
                if (cached[i] == nullptr) lists.prefetch_offsets(ids[first + i]);
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t k = request.offsets[first + i] - request.offsets[0],
                                  end = request.offsets[first + i + 1] - request.offsets[0];
                if (k == end) continue;
                asked.neighbors += end - k;
                ++asked.lists;
                if (cached[i] != nullptr) {
                    asked.cached_neighbors += end - k;
                    ++asked.cached_lists;
                    for (std::size_t at = k; at < end; ++at) answer.neighbors[at] = cached[i][request.positions[at]];
                } else {
                    want(executor, queue, lists, ids[first + i], k, end, request, answer);
                }
            }
        }
        read_wave(executor, queue, request, answer);
        asked.io = queue.stats();
        return asked;
    }

    /// Adds the positions [k, end) of a node's list to the wave; positions in the same block become one piece.
    void want(lane& executor, io_queue& queue, const detail::list_pair<csc_lists>& lists, node_id v, std::size_t k,
        std::size_t end, const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        const std::uint32_t outgoing = lists.second == nullptr ? ~std::uint32_t{0} : lists.first->degree(v);
        const std::uint64_t base = lists.first->begin(v),
                            other = lists.second == nullptr ? 0 : lists.second->begin(v) - outgoing;
        std::uint64_t last = ~std::uint64_t{0};
        for (; k < end; ++k) {
            const std::uint32_t position = request.positions[k];
            const bool second = position >= outgoing;
            const std::uint64_t from = second ? other : base;
            const std::uint64_t side = sides_.which(second ? *lists.second : *lists.first);
            const std::uint64_t block = (side << 32) | ((from + position) / block_entries);
            if (block == last) {
                ++executor.pieces.back().count;
                continue;
            }
            if (executor.pieces.size() == options_.wave) read_wave(executor, queue, request, answer);
            executor.keys.push_back((block << 31) | executor.pieces.size());
            executor.pieces.push_back({from, static_cast<std::uint32_t>(k), 1});
            last = block;
        }
    }

    /// Reads the wave and writes the answers.
    void read_wave(
        lane& executor, io_queue& queue, const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        std::ranges::sort(executor.keys);
        std::size_t next = 0;
        const auto begin = [&](std::size_t slot) {
            if (next == executor.keys.size()) return;
            request_run& run = executor.runs[slot];
            run.first = next;
            run.block = executor.keys[next] >> 31;
            std::uint64_t last = run.block;
            for (; next < executor.keys.size(); ++next) {
                const std::uint64_t block = executor.keys[next] >> 31;
                if (block > last && ((block - last - 1) * csc_block_bytes > options_.coalesce_bytes ||
                                        (block + 1 - run.block) * csc_block_bytes > options_.request_bytes))
                    break;
                last = block;
            }
            run.last = next;
            const std::size_t side = run.block >> 32;
            const std::uint64_t offset = (run.block & 0xffffffff) * csc_block_bytes;
            const auto length = static_cast<std::size_t>((last + 1 - run.block) * csc_block_bytes);
            const checksum_table& sums = sides_.side(side)->checksums();
            queue.read(*executor.files[side], sums.data_offset() + offset, part(executor, slot).first(length), slot,
                static_cast<std::size_t>(std::min<std::uint64_t>(length, sums.data_bytes() - offset)));
        };
        for (std::size_t slot = 0; slot < options_.requests; ++slot) begin(slot);
        while (const auto slot = queue.next_done()) {
            write_answers(executor, static_cast<std::size_t>(*slot), request, answer);
            begin(static_cast<std::size_t>(*slot));
        }
        executor.pieces.clear();
        executor.keys.clear();
    }

    void write_answers(
        lane& executor, std::size_t slot, const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        const request_run& run = executor.runs[slot];
        const csc_lists& lists = *sides_.side(static_cast<std::size_t>(run.block >> 32));
        const std::span<const std::byte> bytes = part(executor, slot);
        std::uint64_t verified = ~std::uint64_t{0};
        std::span<const std::byte> block;
        for (std::size_t at = run.first; at < run.last; ++at) {
            const std::uint64_t number = executor.keys[at] >> 31;
            const std::uint64_t first = (number & 0xffffffff) * block_entries;
            if (number != verified) {
                const std::uint64_t offset = first * sizeof(node_id);
                block = bytes.subspan(static_cast<std::size_t>((number - run.block) * csc_block_bytes),
                    static_cast<std::size_t>(
                        std::min<std::uint64_t>(csc_block_bytes, lists.checksums().data_bytes() - offset)));
                lists.checksums().verify(lists.path(), offset, block);
                verified = number;
            }
            const wanted& piece = executor.pieces[static_cast<std::size_t>(executor.keys[at] & 0x7fffffff)];
            const auto* const entries = reinterpret_cast<const node_id*>(block.data());
            for (std::size_t k = piece.first; k < std::size_t{piece.first} + piece.count; ++k) {
                const node_id neighbor = entries[piece.base + request.positions[k] - first];
                if (neighbor >= lists.nodes()) throw lists.no_such_neighbor(piece.base + request.positions[k]);
                answer.neighbors[k] = neighbor;
            }
        }
    }

    [[nodiscard]] std::span<std::byte> part(lane& executor, std::size_t slot) const noexcept {
        return executor.staging.span().subspan(slot * options_.request_bytes, options_.request_bytes);
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
