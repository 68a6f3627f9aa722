// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/cache/access_window.hpp>
#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/misses.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/io/run_file.hpp>
#include <gneiss/storage/io/trace_file.hpp>

namespace gneiss {

/// Schedule of sampling and gathering of superbatches.
enum class superbatch_schedule : std::uint8_t {
    conventional, ///< without superbatches: a batch is sampled just before it is gathered
    alternate,    ///< in turns (Ginex): superbatch k + 1 is sampled while the change sets of k are computed, then k is
                  ///< trained
    overlap       ///< superbatch k + 1 is sampled, and its change sets are computed, while k is trained
};

/// Computes the change sets of a superbatch elsewhere than on the CPU, exactly like `belady`: visit(batch, change set)
/// for each batch.
using change_set_maker = std::function<belady_outcome(trace_file& trace, const belady_options& options,
    const std::function<void(std::size_t, const change_set&)>& visit)>;

/// Options of superbatches.
struct superbatch_options {
    superbatch_schedule schedule = superbatch_schedule::overlap; ///< schedule of sampling and training
    std::uint64_t batches = 100; ///< per superbatch, at least 1; the last of an epoch may have fewer
    /// directory for files, created if absent. They are in its subdirectory `superbatches`, which is the inspector's
    /// alone: removed before, with all that a killed run left in it, and after; nothing else in the directory is
    /// touched
    std::filesystem::path directory{};
    std::size_t cache_capacity = 0; ///< capacity of the cache for which change sets are computed; 0: none
    bool keep_requests = false;     ///< store the requested ids even without a cache, for `superbatch::for_each_miss`
    bool direct_table = false;      ///< compute change sets with an array over all nodes instead of a hash table
    bool carry = true;              ///< keep rows in the cache from one superbatch to the next; not with `alternate`
    std::uint64_t accesses = 0;     ///< end a superbatch early before its batches exceed this number of nodes; 0: never
    /// number of epochs to train: while one ends, the next is sampled. Epochs from this number on are sampled one by
    /// one: each waits for its first superbatch, and begins with an empty cache if change sets control it
    std::uint64_t epochs = 1;
    change_set_maker change_sets{};  ///< empty: compute on the CPU
    trace_recorder* trace = nullptr; ///< receives tracks of the inspection; must outlive it
};

/// Statistics of an inspector, with times in seconds. Additive.
struct superbatch_statistics {
    double sample_seconds = 0, change_set_seconds = 0, switch_seconds = 0; ///< time by kind of work
    std::uint64_t superbatches = 0, batches = 0, accesses = 0;             ///< counts so far
    std::uint64_t file_bytes = 0;                                          ///< total over all superbatches
    std::uint64_t largest_bytes = 0;                                       ///< maximum over superbatches

    superbatch_statistics& operator+=(const superbatch_statistics& other) noexcept {
        sample_seconds += other.sample_seconds;
        change_set_seconds += other.change_set_seconds;
        switch_seconds += other.switch_seconds;
        superbatches += other.superbatches;
        batches += other.batches;
        accesses += other.accesses;
        file_bytes += other.file_bytes;
        largest_bytes = std::max(largest_bytes, other.largest_bytes);
        return *this;
    }
};

/// Batches sampled together: their samples, requested ids and cache change sets, in files that are removed with it.
/// Written by one thread; then one thread reads samples and one reads change sets.
class superbatch final : public access_window {
public:
    /// \param number  names the files
    superbatch(const std::filesystem::path& directory, std::uint64_t number, std::uint64_t epoch, std::uint64_t first)
        : number_(number),
          epoch_(epoch),
          first_(first),
          last_(first),
          directory_(directory) {}
    ~superbatch() override {
        std::error_code ignored;
        for (const char* what : kinds) std::filesystem::remove(path(what), ignored);
    }

    /// Returns the number of the epoch.
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
    [[nodiscard]] std::uint64_t first() const noexcept override { return first_; } ///< number of its first batch
    [[nodiscard]] std::uint64_t last() const noexcept override { return last_; }   ///< one past its last
    /// True if this is the last superbatch of its epoch.
    [[nodiscard]] bool ends_epoch() const noexcept { return ends_epoch_; }
    /// Returns the number of requested rows.
    [[nodiscard]] std::uint64_t accesses() const noexcept { return accesses_; }
    /// Returns the bytes of its files.
    [[nodiscard]] std::uint64_t file_bytes() const noexcept { return bytes_; }

    /// Rows that the cache admits and evicts before the first batch.
    [[nodiscard]] const change_set& fill() const noexcept override { return fill_; }
    /// True if `fill` assumes an empty cache.
    [[nodiscard]] bool begins_empty() const noexcept override { return begins_empty_; }

    /// Reads the sample of the next batch into `arena`. Errors as `run_file_reader`.
    [[nodiscard]] mini_batch load(mini_batch_arena& arena) {
        if (!samples_) samples_.emplace(path("samples"), number_);
        const std::size_t record = next_++;
        if (record == samples_->records()) throw error(errc::invalid_argument, "a superbatch has no more batches");
        const mini_batch result = mini_batch::attach(samples_->read(record, arena.reserve(samples_->size(record))));
        if (record + 1 == samples_->records()) samples_.reset();
        return result;
    }

    /// Reads the change set after the next batch, whose ids are `ids`. Throws errc::invalid_argument if the superbatch
    /// has none: its cache has no capacity.
    void changes(std::span<const node_id> ids, change_set& to) override {
        if (!has_changes_) throw error(errc::invalid_argument, "a superbatch without a cache has no change sets");
        if (!changes_) changes_.emplace(0, std::vector<node_id>{}, change_set_file(path("changes"), number_));
        changes_->next(ids, to);
    }

    /// Calls visit(batch, misses) for each batch, from 0: the rows that its cache will not hold, as the function of
    /// this name. `cached`: rows in the cache after `fill`; on return, those after the last batch. Throws
    /// errc::invalid_argument if requests are not stored: neither for a cache nor by `keep_requests`.
    void for_each_miss(bitmap& cached, const miss_visitor& visit) const override {
        trace_file trace(path("trace"), number_);
        if (trace.batches() != last_ - first_)
            throw error(errc::invalid_argument, "a superbatch did not keep its requests");
        std::optional<change_set_file> changes;
        if (has_changes_) changes.emplace(path("changes"), number_);
        gneiss::for_each_miss(trace, changes ? &*changes : nullptr, cached, visit);
    }

private:
    friend class superbatch_inspector;
    static constexpr const char* kinds[] = {"samples", "trace", "changes"};

    [[nodiscard]] std::filesystem::path path(const char* what) const {
        return directory_ / (std::to_string(number_) + "." + what);
    }

    std::uint64_t number_, epoch_, first_, last_;
    std::filesystem::path directory_;
    std::uint64_t accesses_ = 0, bytes_ = 0;
    bool ends_epoch_ = false, begins_empty_ = true, gathered_ = false, has_changes_ = false;
    change_set fill_;
    std::size_t next_ = 0;
    std::optional<run_file_reader> samples_;
    std::optional<change_set_replay<change_set_file>> changes_;
};

} // namespace gneiss
