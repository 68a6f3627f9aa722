// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/excluded_edge.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/neighbor_pass.hpp>
#include <gneiss/storage/feature/dealing_plan.hpp>
#include <gneiss/storage/feature/gather_cost.hpp>
#include <gneiss/storage/io/calibrate.hpp>
#include <gneiss/superbatch/seed_batches.hpp>

namespace gneiss {

/// Costs of reading the neighbors of a superbatch in both ways, and the way that was taken.
struct neighbor_choice {
    gather_cost random{}; ///< each hop of each batch alone, extrapolated from up to 16 batches of a group
    gather_cost scan{};   ///< each hop of a group in one pass
    double random_seconds = 0, scan_seconds = 0; ///< on the device of the options
    std::uint64_t batches = 0; ///< batches that shared passes: all, or those before passes were given up
    std::uint64_t groups = 0;  ///< groups of them
    bool scanned = false;      ///< false: passes were given up, as they saved too little
};

/// Options of `superbatch_sampler`.
struct superbatch_sampler_options {
    gather_way way = gather_way::automatic;         ///< the way that is taken
    std::uint64_t memory = std::uint64_t{64} << 20; ///< of a group of batches
    std::uint64_t batch_bytes = 0;                  ///< expected memory of a batch; 0: unknown
    /// rates by which `automatic` compares, and the gap that a pass reads rather than split a request
    io_profile device{.bandwidth = 1e9, .iops = 61'000, .coalesce_bytes = std::uint64_t{16} << 10, .spread = 1};
    std::function<void(const neighbor_choice&)> chosen{}; ///< called after each superbatch, by the sampling thread
};

/// Samples the batches of a superbatch from a graph on disk. Groups of batches advance hop by hop together, and one
/// pass over the blocks of the graph reads the neighbors of a hop for the whole group.
///
///     const auto make = [=] { return neighbor_sampler<>(options, seed); };
///     superbatch_sampler ahead(graph, 2, make, {.memory = bytes}, executor, budget);
///     for (std::uint64_t k = 0; k < batches.size(); ++k) {
///         if (!ahead.holds(epoch, k) && !ahead.read(epoch, batches, k, batches.size(), stop)) break; // stopped
///         batches.choose(k, seeds);
///         edges += neighbor_sample<>::of(ahead.sample(k, seeds, arena)).edges();
///     }
///     ahead.finish();
///
/// Meaning: samples are those of the sampler on the graph, bit for bit, in any groups and by either way. A group has as
/// many batches as fit in the memory; a pass reads through gaps that cost less than a request. Where a batch alone
/// exceeds the memory, it reads at random. `automatic` reads the rest of a superbatch at random once a group saved less
/// than a twentieth.
/// Cost: a pass reads a block once for all batches of a group, hence at most the file for each hop and group.
/// Memory: `options.memory`, charged to the budget from `read` to `finish`; if it cannot be charged, batches read at
/// random.
/// Errors: those of the graph; errc::over_budget with `scan`.
/// Thread-safety: one thread at a time; `scanned` from any. Graph and budget must outlive this.
class superbatch_sampler {
public:
    /// \param hops  number of requests to the graph per sample: the hops of the fan-out
    /// \param make  returns the sampler, as for `any_sampler`; it requests the neighbors of a hop in one call
    template <std::copy_constructible Make>
    superbatch_sampler(const disk_csc& graph, std::size_t hops, Make make, superbatch_sampler_options options,
        executor_ref executor, memory_budget& budget)
        : hops_(hops),
          options_(std::move(options)),
          executor_(executor),
          budget_(budget),
          pass_(graph),
          sampler_(pass_, std::move(make)),
          batch_bytes_(options_.batch_bytes) {
        const std::size_t widest =
            std::max(graph.coalescing().request_bytes, graph.most_request_bytes() / requests_in_flight);
        how_ = {options_.device.coalesce_bytes, widest / csc_block_bytes * csc_block_bytes};
    }
    superbatch_sampler(const superbatch_sampler&) = delete;
    superbatch_sampler& operator=(const superbatch_sampler&) = delete;

    /// Returns the memory of the neighbors that a pass reads.
    [[nodiscard]] static memory_need need(const superbatch_sampler_options& options) {
        return {"neighbors of superbatches", options.memory};
    }

    /// True if batch `k` of an epoch can be sampled now.
    [[nodiscard]] bool holds(std::uint64_t epoch, std::uint64_t k) const noexcept {
        return epoch == epoch_ && k >= first_ && k - first_ < count_;
    }
    /// Reads the neighbors of the next batches, from `first` on, all before `end`. Returns false if a stop was
    /// requested. Throws errc::invalid_argument for no batch, or an end beyond the batches.
    [[nodiscard]] bool read(std::uint64_t epoch, const seed_batches& batches, std::uint64_t first, std::uint64_t end,
        const std::stop_token& stop) {
        if (first >= end || end > batches.size())
            throw error(errc::invalid_argument,
                "batches from " + std::to_string(first) + " to " + std::to_string(end) + " of " +
                    std::to_string(batches.size()));
        pass_.end();
        epoch_ = epoch;
        first_ = first;
        count_ = 0;
        if (!scans_ || !reserve()) {
            count_ = end - first;
            return true;
        }
        const std::uint64_t left = end - first;
        const std::uint64_t most =
            batch_bytes_ == 0 ? left : std::max<std::uint64_t>(options_.memory / batch_bytes_, 1);
        std::uint64_t count = ceil_div(left, ceil_div(left, most)); // groups of about one size
        if (!read_group(batches, count, stop)) return false;
        count_ = count;
        return true;
    }
    /// Draws the sample of batch `k` into `arena`, without the excluded edges. Throws errc::invalid_argument for a
    /// batch that the sampler does not hold.
    [[nodiscard]] mini_batch sample(std::uint64_t k, std::span<const node_id> seeds, mini_batch_arena& arena,
        std::span<const excluded_edge<>> excluded = {}) {
        if (!holds(epoch_, k))
            throw error(errc::invalid_argument, "batch " + std::to_string(k) + " is sampled before it is read");
        pass_.replay(static_cast<std::size_t>(k - first_));
        return draw(k, {seeds, excluded}, arena);
    }
    /// Ends a superbatch: frees the memory and reports the choice.
    void finish() {
        count_ = 0;
        pass_.end();
        charge_ = {};
        scans_ = true;
        neighbor_choice choice = std::exchange(choice_, {});
        if (choice.groups != 0 && options_.chosen) options_.chosen(choice);
    }

    /// Returns what passes read so far.
    [[nodiscard]] io_stats scanned() const {
        const std::scoped_lock lock(mutex_);
        return scanned_;
    }

private:
    static constexpr std::size_t requests_in_flight = 32; ///< of a pass, at least
    static constexpr std::uint64_t compared_batches = 16; ///< whose cost alone is counted

    /// Charges the memory. Returns false if there is too little.
    [[nodiscard]] bool reserve() {
        if (charge_) return true;
        try {
            charge_.emplace(budget_.charge(need(options_)));
        } catch (const error& e) {
            if (e.code() != errc::over_budget || options_.way == gather_way::scan) throw;
            scans_ = false;
        }
        return scans_;
    }

    [[nodiscard]] mini_batch draw(std::uint64_t k, const seed_set& seeds, mini_batch_arena& arena) {
        return sampler_.sample({epoch_, {0, 0, k}}, seeds.nodes, executor_, arena, seeds.excluded);
    }

    /// Reads the hops of the first batches of a group; lowers `count` to those that fit in memory, at least 1.
    [[nodiscard]] bool read_group(const seed_batches& batches, std::uint64_t& count, const std::stop_token& stop) {
        pass_.begin(static_cast<std::size_t>(count), hops_, options_.memory);
        neighbor_choice compared;
        std::uint64_t used = 0;
        bool cut = false;
        for (std::size_t hop = 0; hop < hops_; ++hop) {
            if (!collect(batches, count, compared, stop)) return false;
            cut = cut || pass_.full();
            used = std::max(used, pass_.used_bytes());
            if (pass_.waiting() == 0) break;
            const io_stats cost = pass_.cost(how_);
            compared.scan += {cost.reads, cost.read_bytes};
            const auto done = pass_.read(how_, stop);
            if (!done) return false;
            const std::scoped_lock lock(mutex_);
            scanned_ += *done;
        }
        batch_bytes_ = ceil_div(cut ? options_.memory : used + used / 32, count) + 1;
        compared.random_seconds = compared.random.seconds(options_.device);
        compared.scan_seconds = compared.scan.seconds(options_.device);
        scans_ = options_.way == gather_way::scan || compared.scan_seconds < .95 * compared.random_seconds;
        choice_.random += compared.random;
        choice_.scan += compared.scan;
        choice_.random_seconds += compared.random_seconds;
        choice_.scan_seconds += compared.scan_seconds;
        choice_.batches += count;
        ++choice_.groups;
        choice_.scanned = scans_;
        return true;
    }

    /// Collects the next hop of each batch.
    [[nodiscard]] bool collect(
        const seed_batches& batches, std::uint64_t& count, neighbor_choice& compared, const std::stop_token& stop) {
        const std::uint64_t stride = ceil_div(count, compared_batches);
        gather_cost alone;
        std::uint64_t profiled = 0;
        for (std::uint64_t b = 0; b < count; ++b) {
            if (stop.stop_requested()) return false;
            const seed_set seeds = batches.of(first_ + b);
            pass_.collect(static_cast<std::size_t>(b));
            try {
                (void)draw(first_ + b, seeds, arena_);
            } catch (const neighbor_pass::collected&) { // more hops than are read
            }
            if (pass_.full()) {
                count = std::max<std::uint64_t>(b, 1);
                break;
            }
            if (b % stride != 0) continue;
            const io_stats cost = pass_.cost_alone();
            alone += {cost.reads, cost.read_bytes};
            ++profiled;
        }
        if (profiled == 0) return true;
        const double factor = static_cast<double>(count) / static_cast<double>(profiled);
        compared.random += {static_cast<std::uint64_t>(factor * static_cast<double>(alone.requests)),
            static_cast<std::uint64_t>(factor * static_cast<double>(alone.bytes))};
        return true;
    }

    std::size_t hops_;
    superbatch_sampler_options options_;
    executor_ref executor_;
    memory_budget& budget_;
    block_coalescing how_{};
    neighbor_pass pass_;
    any_sampler sampler_; // of pass_
    std::optional<memory_charge> charge_;

    std::uint64_t epoch_ = 0, first_ = 0, count_ = 0; // batches that may be sampled
    bool scans_ = true;                               // false: the rest of the superbatch is read at random
    std::uint64_t batch_bytes_;                       // memory of a batch, as seen last; 0: unknown
    neighbor_choice choice_;                          // of the superbatch
    mini_batch_arena arena_;

    mutable std::mutex mutex_;
    io_stats scanned_;
};

} // namespace gneiss
