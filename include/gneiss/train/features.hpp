// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>

#include <gneiss/cache/any_policy.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/extent_gather.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/slots.hpp>

namespace gneiss {

/// No features.
struct no_features {
    /// No columns.
    [[nodiscard]] static input_columns columns() noexcept { return {}; }
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] static lease acquire(std::uint32_t /*state*/) noexcept { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    void gather(training_batch& /*batch*/, matrix_view<float> /*dense*/) noexcept {}
    void enter(phase /*next*/) noexcept {}
};
static_assert(feature_source<no_features>);

namespace detail {

[[nodiscard]] inline input_columns columns_of(bool sparse, std::uint64_t columns) noexcept {
    const auto count = static_cast<std::size_t>(columns);
    return sparse ? input_columns{.dense = 0, .sparse = count} : input_columns{.dense = count, .sparse = 0};
}
inline void gather_resident(
    const resident_features& from, training_batch& b, matrix_view<float> dense, executor_ref executor) {
    if (from.sparse()) {
        from.gather(executor, b.nodes, b.sparse);
        b.copied_bytes += b.sparse.bytes();
    } else {
        from.gather(executor, b.nodes, dense);
        b.copied_bytes += dense.rows() * dense.columns() * sizeof(float);
    }
}

} // namespace detail

/// Features of the resident partitions of a state.
class buffered_features {
public:
    /// Precondition: the buffer outlives this.
    buffered_features(feature_buffer& buffer, executor_ref executor) : buffer_(buffer), executor_(executor) {}

    [[nodiscard]] input_columns columns() const {
        return detail::columns_of(buffer_.store().sparse(), buffer_.store().columns());
    }
    void begin_epoch(const epoch_start& start) { buffer_.begin_epoch(start.loaded(), start.from.state); }
    [[nodiscard]] lease acquire(std::uint32_t state) { return buffer_.acquire(state); }
    [[nodiscard]] bool ready(std::uint32_t state) const { return buffer_.ready(state); }
    void gather(training_batch& b, matrix_view<float> dense) const {
        detail::gather_resident(*static_cast<const resident_features*>(b.features.get()), b, dense, executor_);
    }
    void enter(phase next) {
        if (next == phase::evaluate) buffer_.release();
    }

private:
    feature_buffer& buffer_;
    executor_ref executor_;
};
static_assert(feature_source<buffered_features>);

/// Features of all nodes in memory.
class features_in_memory {
public:
    /// Shares the features.
    features_in_memory(std::shared_ptr<const resident_features> all, executor_ref executor)
        : all_(std::move(all)),
          executor_(executor) {}

    [[nodiscard]] input_columns columns() const { return detail::columns_of(all_->sparse(), all_->columns()); }
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] lease acquire(std::uint32_t /*state*/) const { return all_; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    void gather(training_batch& b, matrix_view<float> dense) const {
        detail::gather_resident(*all_, b, dense, executor_);
    }
    void enter(phase /*next*/) noexcept {}

private:
    std::shared_ptr<const resident_features> all_;
    executor_ref executor_;
};
static_assert(feature_source<features_in_memory>);

/// Dense features of all nodes in a matrix [nodes, columns], which outlives this.
class matrix_features {
public:
    /// Views the matrix.
    explicit matrix_features(matrix_view<const float> features) : features_(features) {}

    [[nodiscard]] input_columns columns() const noexcept { return {.dense = features_.columns(), .sparse = 0}; }
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] static lease acquire(std::uint32_t /*state*/) noexcept { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    /// Throws errc::out_of_range for a node without a row.
    void gather(training_batch& b, matrix_view<float> dense) const {
        check_rows(b.nodes, features_.rows());
        for (std::size_t i = 0; i < b.nodes.size(); ++i) std::ranges::copy(features_[b.nodes[i]], dense[i].begin());
        b.copied_bytes += dense.rows() * dense.columns() * sizeof(float);
    }
    void enter(phase /*next*/) noexcept {}

private:
    matrix_view<const float> features_;
};
static_assert(feature_source<matrix_features>);

/// Dense features of nodes as rows of a source, with their encoding.
struct feature_rows {
    any_row_source& source;                       ///< source of the stored rows
    cached_rows<any_row_source>* cache = nullptr; ///< over the source; null: every row is read
    any_cache_policy* policy = nullptr; ///< controls the contents of the cache; null: the change sets of superbatches
    extent_rows* extents = nullptr; ///< the source, with a cache without a policy: deals the misses of superbatches out
    std::size_t columns = 0;        ///< values of a row
    feature_type type = feature_type::f32; ///< of the values
    bool normalized = false;               ///< rows are scaled by `normalize_row`
};

namespace detail {

/// Writes rows of a stored type to `dense`, as floats, where rows of f32 are already; normalizes those that are to be.
inline void decode_rows(const feature_rows& of, std::size_t count, const gather_target& read, matrix_view<float> dense,
    executor_ref executor) {
    parallel_for(executor, count, 1024, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) {
            if (of.type != feature_type::f32) decode_row(of.type, read.row(i), dense[i]);
            if (of.normalized) normalize_row(dense[i]);
        }
    });
}

/// Reads rows to `to` as a device keeps them: as values of `type`, f32 or the stored one, normalized if they are to be.
/// \param floats  the same memory, if they are f32
/// \param stored  memory for rows of another type before they are decoded
inline void read_rows_as(feature_type type, const feature_rows& of, std::span<const node_id> ids,
    const gather_target& to, matrix_view<float> floats, reusable_buffer<std::byte>& stored, executor_ref executor) {
    const bool decoded = type != of.type;
    gather_target read = to;
    if (decoded) {
        const std::size_t row = row_bytes(of.type, of.columns);
        read = {.data = stored.at_least(ids.size() * row), .stride = row};
    }
    of.source.gather(ids, read);
    if (decoded || of.normalized) decode_rows(of, ids.size(), read, floats, executor);
}

/// Adds the nanoseconds of `work`.
template <class Work>
void timed(std::atomic<std::int64_t>& to, Work&& work) {
    const auto since = std::chrono::steady_clock::now();
    work();
    to.fetch_add(std::chrono::nanoseconds(std::chrono::steady_clock::now() - since).count(), std::memory_order_relaxed);
}

} // namespace detail

/// Dense features that the backend's device reads by itself (`device_features`): nothing is gathered on the host.
class features_on_device {
public:
    /// Features of a number of columns.
    explicit features_on_device(std::size_t columns) : columns_(columns) {}

    [[nodiscard]] input_columns columns() const noexcept { return {.dense = columns_, .sparse = 0}; }
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] static lease acquire(std::uint32_t /*state*/) noexcept { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    void gather(training_batch& /*batch*/, matrix_view<float> /*dense*/) noexcept {}
    void enter(phase /*next*/) noexcept {}

private:
    std::size_t columns_;
};
static_assert(feature_source<features_on_device>);

/// Dense features of nodes as rows of a source, with a cache on the backend's device (`device_cached_features`).
struct device_cached_rows {
    feature_rows rows;                               ///< rows, without a cache
    std::size_t slots = 0;                           ///< rows of the device's cache
    slot_table_kind table = slot_table_kind::hashed; ///< of the ids of cached rows
    feature_type type = feature_type::f32;           ///< of rows on the device: f32, or the stored one

    /// Returns the bytes of a row on the device.
    [[nodiscard]] std::size_t row_bytes() const noexcept {
        return static_cast<std::size_t>(device_features::row_bytes(rows.columns, type));
    }
};

/// Input features: rows of a source; all of them in memory, dense or sparse; those of a device; or rows that a device
/// caches.
using feature_input =
    std::variant<feature_rows, std::shared_ptr<const resident_features>, features_on_device, device_cached_rows>;

/// Treatment of cached rows at the end of a superbatch. An emptied cache takes turns in memory with the inspection of
/// the next one; a policy that controls it must keep its initial rows, the first that it admits is
/// errc::invalid_argument.
enum class cache_between_superbatches : std::uint8_t { kept, emptied };

/// Features read row by row, through a cache that a policy or the change sets of superbatches control.
///
///     any_cache_policy policy = lru(10'000);
///     cached_features features({.source = rows, .cache = &cache, .policy = &policy, .columns = 128},
///         cache_between_superbatches::kept, executor);
///
/// The cache is filled when training, or a superbatch, begins; a change set is applied after each batch. With
/// `extents`, the rows that the batches of a superbatch miss are read in the pass that fills the cache, see
/// `extent_rows`.
/// Source: Ginex, VLDB'22, section 3.3.
class cached_features {
public:
    /// Nanoseconds of each part of the work.
    struct times {
        std::atomic<std::int64_t> fill{0}, gather{0}, update{0}; ///< time of each part
    };

    /// Precondition: what `rows` refers to outlives this.
    cached_features(const feature_rows& rows, cache_between_superbatches between, executor_ref executor)
        : rows_(rows),
          between_(between),
          executor_(executor) {}

    [[nodiscard]] input_columns columns() const noexcept { return {.dense = rows_.columns, .sparse = 0}; }
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] static lease acquire(std::uint32_t /*state*/) noexcept { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }

    void gather(training_batch& b, matrix_view<float> dense) {
        if (rows_.cache != nullptr) detail::timed(times_.fill, [&] { fill(b); });
        const std::span<const node_id> ids = b.nodes;
        gather_target to = gather_target::of(dense);
        const std::size_t row = row_bytes(rows_.type, rows_.columns);
        if (rows_.type != feature_type::f32) to = {stored_.at_least(ids.size() * row), row};
        detail::timed(times_.gather, [&] {
            trace_span span(b.trace, "read rows", b.traced());
            const std::uint64_t before = span ? bytes_read() : 0;
            if (rows_.extents != nullptr && b.window) rows_.extents->select(b.key.number.index - b.window->first());
            if (rows_.cache != nullptr)
                rows_.cache->gather(ids, to);
            else
                rows_.source.gather(ids, to);
            if (span) span.bytes(bytes_read() - before);
        });
        b.copied_bytes += ids.size() * row;
        if (rows_.cache != nullptr) detail::timed(times_.update, [&] { update(b, to); });
        if (rows_.type != feature_type::f32 || rows_.normalized)
            detail::timed(times_.gather, [&] { detail::decode_rows(rows_, ids.size(), to, dense, executor_); });
        if (rows_.type != feature_type::f32) b.copied_bytes += ids.size() * rows_.columns * sizeof(float);
    }

    void enter(phase /*next*/) noexcept {} // superbatches rely on cached rows

    /// Returns times so far.
    [[nodiscard]] const times& spent() const noexcept { return times_; }

private:
    /// Bytes read below the cache so far.
    [[nodiscard]] std::uint64_t bytes_read() const { return rows_.source.statistics().io.read_bytes; }

    /// Fills the cache when training, or a superbatch, begins.
    void fill(const training_batch& b) {
        const bool begins = b.window && b.key.number.index == b.window->first();
        if (rows_.policy != nullptr) {
            if (std::exchange(filled_, true) && !(begins && between_ == cache_between_superbatches::emptied)) return;
            const trace_span span(b.trace, "fill cache", b.traced());
            rows_.cache->fill(rows_.policy->initial());
        } else if (begins) {
            const trace_span span(b.trace, "fill cache", b.traced());
            if (b.window->begins_empty() && rows_.cache->held() != 0) {
                rows_.cache->release();
                rows_.cache->acquire();
            }
            if (rows_.extents != nullptr) expect(b.window);
            rows_.cache->fill(b.window->fill().in, b.window->fill().out);
        }
    }

    /// Announces the rows that the batches of a superbatch will miss, once the cache is filled.
    void expect(const std::shared_ptr<access_window>& window) {
        bitmap cached(static_cast<std::size_t>(rows_.cache->rows()));
        for (std::size_t id = 0; id < cached.size(); ++id)
            if (rows_.cache->holds(static_cast<node_id>(id))) cached.set(id);
        for (const node_id id : window->fill().out) cached.reset(id);
        for (const node_id id : window->fill().in) cached.set(id);
        rows_.extents->expect({.batches = window->last() - window->first(),
            .visit = [window, filled = std::move(cached)](const auto& visit) {
                bitmap now = filled;
                window->for_each_miss(now, visit);
            }});
    }

    void update(training_batch& b, const gather_target& rows) {
        const trace_span span(b.trace, "update cache", b.traced());
        if (rows_.policy != nullptr) {
            rows_.policy->next(b.nodes, changes_);
            if (between_ == cache_between_superbatches::emptied && !changes_.empty())
                throw error(errc::invalid_argument,
                    "a cache that is emptied between superbatches needs a policy that keeps its initial rows");
        } else if (b.window && rows_.cache->capacity() != 0)
            b.window->changes(b.nodes, changes_);
        else
            return; // no slots, no changes; samples drawn after a stop belong to no superbatch
        rows_.cache->apply(changes_, b.nodes, rows);
        b.copied_bytes += changes_.in.size() * row_bytes(rows_.type, rows_.columns);
    }

    feature_rows rows_;
    cache_between_superbatches between_;
    executor_ref executor_;
    bool filled_ = false; // the policy's rows are in the cache
    change_set changes_;
    reusable_buffer<std::byte> stored_; // rows before they are decoded
    times times_;
};
static_assert(feature_source<cached_features>);

} // namespace gneiss
