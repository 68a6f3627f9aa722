// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include <gneiss/cache/any_policy.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/neighbor_cache.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/superbatch/seed_batches.hpp>
#include <gneiss/superbatch/superbatch_sampler.hpp>
#include <gneiss/train/tasks.hpp>
#include <gneiss/train/trainers/ginex.hpp>

#include "kit/gnn/neighbor_store.hpp"
#include "options.hpp"

namespace ginex {

using programs::make_lists;
using programs::occurrences;

/// A sampler that counts the reads of each node's list that its draws are worth: see `visit_counter`.
struct counting_sampler {
    std::shared_ptr<const void> counter;   ///< owner of the other members' data
    std::span<const std::uint32_t> visits; ///< [nodes], so far
    std::optional<gneiss::any_sampler> sampler;
};

/// Returns how neighbors are read from disk.
[[nodiscard]] inline gneiss::disk_csc_options reading_of(const options& settings) {
    return trainers::neighbor_store::reading_of(*settings.batch, settings.neighbor_options().fanout);
}

/// The graph as samplers see it, by `--topology`.
class topology : public trainers::neighbor_store {
public:
    topology(const options& settings, const gneiss::csc_files& files, const gneiss::engine_factory& engines,
        gneiss::memory_budget& budget);

    [[nodiscard]] gneiss::any_sampler sampler() const;
    [[nodiscard]] counting_sampler counting() const;
    /// Returns a sampler of superbatches that reads neighbors in passes. Precondition: the graph is on disk.
    [[nodiscard]] std::unique_ptr<gneiss::superbatch_sampler> ahead(const gneiss::superbatch_sampler_options& how,
        gneiss::executor_ref executor, gneiss::memory_budget& budget) const;
    /// Returns the length of each node's list.
    [[nodiscard]] std::vector<std::uint32_t> lengths() const;
    /// Returns the counts of `counting` samplers over `count` batches.
    [[nodiscard]] std::vector<std::uint32_t> visits(const gneiss::seed_batches& batches, std::uint64_t count,
        const gneiss::tbb_executor& executor, const std::stop_token& stop) const;

private:
    const options& options_;
};

/// The training edges, all in memory, and their batches.
class training_edges {
public:
    /// Charges the budget. `negatives`: null: the library's.
    training_edges(const options& settings, const gneiss::bucket_store& buckets,
        const std::optional<gneiss::any_negatives>& negatives, const gneiss::engine_factory& engines,
        gneiss::memory_budget& budget);

    [[nodiscard]] gneiss::edge_buffer& buffer() noexcept { return edges_; }
    /// Returns the batches of an epoch, as training cuts them. No epoch of the buffer may be running.
    [[nodiscard]] gneiss::seed_batches batches(std::uint64_t epoch);
    /// Returns the number of batches of an epoch.
    [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
    [[nodiscard]] gneiss::io_stats io() const { return reader_.statistics(); }

private:
    gneiss::memory_charge blocks_;
    gneiss::bucket_reader reader_;
    gneiss::edge_buffer edges_;
    gneiss::link_task<gneiss::any_negatives> task_;
    std::uint64_t count_;
};

/// The features as training sees them, by `--feature-cache`, with the cache and its policy.
class features {
public:
    struct settings {
        std::size_t staging_bytes = 0; ///< memory that requests read into
        std::size_t slots = 0;         ///< rows of the cache, in memory or on the device
        gneiss::slot_table_kind table = gneiss::slot_table_kind::hashed;
        std::size_t coalesce_bytes = std::size_t{16} << 10;
        std::span<const std::uint32_t> rank;          ///< [nodes] ranking for `static`
        std::optional<gneiss::extent_options> deal{}; ///< empty: rows are read at random
    };
    features(const options& how, const gneiss::node_features& from, const settings& with,
        const gneiss::engine_factory& engines, gneiss::executor_ref executor, gneiss::memory_budget& budget);

    [[nodiscard]] gneiss::feature_input input();
    /// Returns the row cache, else null.
    [[nodiscard]] gneiss::cached_rows<gneiss::any_row_source>* cache() const noexcept { return cache_.get(); }
    /// Returns passes that dealt rows out, and their bytes.
    [[nodiscard]] gneiss::extent_statistics dealt() const {
        return extents_ != nullptr ? extents_->dealt() : gneiss::extent_statistics{};
    }
    /// Returns requested rows, cache hits, and I/O for the misses.
    [[nodiscard]] gneiss::gather_stats statistics() const;

private:
    gneiss::feature_type type_ = gneiss::feature_type::f32, placed_type_ = gneiss::feature_type::f32;
    bool normalized_ = false;
    std::size_t columns_ = 0, slots_there_ = 0; ///< of a cache on the device
    gneiss::slot_table_kind table_ = gneiss::slot_table_kind::hashed;
    std::optional<gneiss::tbb_executor> waiting_; ///< threads that wait for pages
    std::optional<gneiss::any_row_source> rows_;
    gneiss::extent_rows* extents_ = nullptr; ///< in rows_
    std::unique_ptr<gneiss::cached_rows<gneiss::any_row_source>> cache_;
    std::optional<gneiss::any_cache_policy> policy_;
    std::optional<trainers::whole_features> whole_;
};

} // namespace ginex
