// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/dist/feature_cache.hpp>
#include <gneiss/dist/frame.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/train/slots.hpp>

namespace gneiss {

/// A frame as a source gives it.
struct received_frame {
    std::span<const std::byte> bytes; ///< aligned to `mini_batch::alignment`; only read
    lease owner{};                    ///< keeps the bytes; null: they are in the arena of the batch
    /// Frame of the rows that the batch shares with others, aligned as well; empty: the frame has its own rows.
    std::span<const std::byte> rows{};
};

/// Makes batches as frames, in this process or in others.
///
/// Meaning: `begin_epoch`, `acquire`, `ready` and `enter` as in `batch_producer`. `make(work, key, arena, stop)`
/// returns the frame of a batch, a pure function of its key: a frame may be made again elsewhere, and either one used.
/// `arena` is memory that it may use for the bytes. Cost: `make` O(sample and rows), and messages. Thread-safety:
/// `make` by several threads, the rest by the driving thread. Errors: any exception ends the epoch, and `run` rethrows
/// it; `mini_batch_arena::full` for a frame above the arena's limit, which is requested again without one.
template <class S>
concept frame_source = requires(S& s, const S& c, const epoch_start& start, std::uint32_t i, const state_work& work,
    const batch_key& key, mini_batch_arena& arena, const std::stop_token& stop) {
    s.begin_epoch(start, stop);
    { s.acquire(start, i) } -> std::same_as<state_work>;
    { c.ready(i) } -> std::convertible_to<bool>;
    { s.make(work, key, arena, stop) } -> std::same_as<received_frame>;
    s.enter(phase::evaluate);
};

/// The frame that a batch was read from, for `frame_features`.
struct batch_frame {
    std::optional<frame> of{};   ///< none: the batch has not been produced
    std::optional<frame> rows{}; ///< of the group; none: the frame has its own rows
    lease owner{};               ///< keeps their bytes
};

/// Frames that batches were read from, and their rows; those that a group shares are counted once.
struct frame_statistics {
    std::uint64_t frames = 0, bytes = 0, rows = 0;
    std::uint64_t cached = 0; ///< rows that were left out, since a cache has them
};

/// Options of `remote_batches`.
struct remote_options {
    std::uint64_t run = 0;                         ///< of `frame_id`: frames of other runs are refused
    sampler_kind sampler = sampler_kind::neighbor; ///< of the samples
    std::uint64_t most_bytes = 0;                  ///< of a frame; 0: no bound
};

/// Says what is missing: another source than the batches below take.
template <class Source>
class remote_batches {
    static_assert(frame_source<Source>,
        "remote_batches: Source must be a gneiss::frame_source, see gneiss/train/remote_batches.hpp");

public:
    /// Takes whatever batches are made of.
    template <class... Arguments>
    explicit remote_batches(Source& /*from*/, const Arguments&... /*arguments*/) {}
};

/// Batches that arrive as frames: sample, labels or targets, and rows, which `frame_features` gathers. Nothing of a
/// frame is believed: it is checked against run, number and checksum, and its lists before they are read. Reading it
/// writes nothing, so that several processes may share its bytes.
///
/// Batches are functions of their keys: any two sources of the same frames train the same bits.
/// Errors of `produce`: those of the source, `frame::attach` and `layer_stack::assign`; errc::corrupt for labels,
/// targets or rows of another number than the sample's nodes. Source: Armada, section 3 (compute layer).
template <frame_source Source>
class remote_batches<Source> {
public:
    /// Precondition: `from` outlives this.
    remote_batches(Source& from, const remote_options& options, executor_ref executor)
        : source_(from),
          options_(options),
          executor_(executor) {}

    void begin_epoch(const epoch_start& start, const std::stop_token& stop) { source_.begin_epoch(start, stop); }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t i) { return source_.acquire(start, i); }
    [[nodiscard]] bool ready(std::uint32_t state) const { return source_.ready(state); }

    void produce(training_batch& b, const std::stop_token& stop) {
        batch_frame& held = b.payload<batch_frame>();
        held = {};
        received_frame got = source_.make(*b.work, b.key, b.sample_arena, stop);
        held.owner = std::move(got.owner);
        const frame& of = held.of.emplace(frame::attach(got.bytes, {options_.run, b.key, options_.most_bytes}));
        if (options_.sampler == sampler_kind::dense) {
            const auto sample = dense_sample<>::of(of.sample());
            take(b, lay_out(sample, b.layers, executor_), sample.node_ids.last(sample.seeds()));
        } else {
            const auto sample = neighbor_sample<>::of(of.sample());
            take(b, lay_out(sample, b.layers, executor_), sample.nodes.first(sample.seeds()));
        }
        if (!of.positions().empty()) {
            of.check_rows(held.rows.emplace(frame::attach(got.rows, {options_.run, {}, options_.most_bytes})));
            if (of.id() == held.rows->id()) count(*held.rows);
        }
        const bool rows = of.sparse() || of.dense().columns() != 0 || held.rows;
        if ((rows && (held.rows ? of.positions().size() : of.rows()) != b.nodes.size()) ||
            (!of.labels().empty() && of.labels().size() != b.seeds.size()) ||
            (!of.targets().empty() && (b.seeds.empty() || of.targets().size() % b.seeds.size() != 0)))
            throw error(errc::corrupt, "the frame of " + to_string(b.key) + " has labels or rows of other nodes");
        b.labels.assign(of.labels().begin(), of.labels().end());
        b.targets.assign(of.targets().begin(), of.targets().end());
        b.coverage.clear();
        frames_.fetch_add(1, std::memory_order_relaxed);
        count(of);
    }
    void gathered(training_batch& /*batch*/) noexcept {}
    [[nodiscard]] static bool in_order() noexcept { return false; }
    [[nodiscard]] static bool repeats() noexcept { return false; }
    void enter(phase next) { source_.enter(next); }
    /// Returns the frames read so far. By any thread.
    [[nodiscard]] frame_statistics statistics() const noexcept {
        return {frames_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed),
            rows_.load(std::memory_order_relaxed), cached_.load(std::memory_order_relaxed)};
    }

private:
    void count(const frame& of) noexcept {
        bytes_.fetch_add(of.bytes(), std::memory_order_relaxed);
        rows_.fetch_add(of.rows(), std::memory_order_relaxed);
        if (!of.from().empty()) cached_.fetch_add(of.from().size() - of.rows(), std::memory_order_relaxed);
    }
    static void take(training_batch& b, const drawn_sample& drawn, std::span<const node_id> seeds) {
        b.nodes = drawn.nodes;
        b.statistics.sampled_edges = drawn.edges;
        b.seeds.assign(seeds.begin(), seeds.end());
    }

    Source& source_;
    remote_options options_;
    executor_ref executor_;
    std::atomic<std::uint64_t> frames_ = 0, bytes_ = 0, rows_ = 0, cached_ = 0;
};

/// Deduces the source.
template <class Source>
remote_batches(Source&, const remote_options&, executor_ref) -> remote_batches<Source>;

/// Fixed features that arrive in the frames of `remote_batches`, or come from a cache of rows, which frames of rows
/// describe (`row_delivery`). Batches are gathered in the order of their numbers. Memory: that of `rows_mirror`, and
/// the rows of the groups whose batches are not all gathered.
class frame_features {
public:
    /// \param columns  of the rows in every frame
    /// \param cached   capacity of the cache [rows]; 0: there is none
    explicit frame_features(const input_columns& columns, std::size_t cached = 0)
        : columns_(columns),
          mirror_(cached, columns.dense) {}

    [[nodiscard]] input_columns columns() const noexcept { return columns_; }
    void begin_epoch(const epoch_start& /*start*/) noexcept { clear(); }
    /// Forgets the rows of groups whose batches are not all gathered: their frames come again.
    void clear() noexcept { groups_.clear(); }
    [[nodiscard]] static lease acquire(std::uint32_t /*state*/) noexcept { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    /// Copies the rows of the batch's frame, or those of its group. Throws errc::config_mismatch for other columns,
    /// errc::invalid_argument for a batch without a frame, errc::corrupt for rows that do not fit the cache.
    void gather(training_batch& b, matrix_view<float> dense) {
        const batch_frame& held = b.payload<batch_frame>();
        if (!held.of)
            throw error(errc::invalid_argument, "features of frames need batches of frames, see remote_batches");
        const frame& of = held.rows ? *held.rows : *held.of;
        if (of.dense().columns() != columns_.dense || of.sparse().has_value() != (columns_.sparse != 0))
            throw error(errc::config_mismatch,
                "the frame of " + to_string(b.key) + " has rows of " + std::to_string(of.dense().columns()) +
                    " dense columns, the model takes " + std::to_string(columns_.dense));
        const std::span<const std::uint32_t> shared = held.of->positions();
        const auto at = [&](std::size_t i) { return held.rows ? std::size_t{shared[i]} : i; };
        if (!of.from().empty()) {
            const matrix_view<const float> rows = rows_of(of);
            for (std::size_t i = 0; i < b.nodes.size(); ++i) std::ranges::copy(rows[shared[i]], dense[i].begin());
            if (b.key.number.index == of.last()) groups_.erase(of.id().key);
            return;
        }
        if (columns_.dense != 0)
            for (std::size_t i = 0; i < b.nodes.size(); ++i) std::ranges::copy(of.dense()[at(i)], dense[i].begin());
        if (!of.sparse()) return;
        const frame_sparse_rows& rows = *of.sparse();
        if (std::ranges::any_of(rows.columns, [&](std::uint32_t c) { return c >= columns_.sparse; }))
            throw error(errc::config_mismatch,
                "the frame of " + to_string(b.key) + " has a column beyond " + std::to_string(columns_.sparse));
        b.sparse.offsets.assign(1, 0);
        b.sparse.columns.clear();
        b.sparse.values.clear();
        for (std::size_t i = 0; i < b.nodes.size(); ++i) {
            const std::uint64_t begin = rows.offsets[at(i)], count = rows.offsets[at(i) + 1] - begin;
            const auto append = [&](auto& to, const auto& from) {
                const auto part = from.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
                to.insert(to.end(), part.begin(), part.end());
            };
            append(b.sparse.columns, rows.columns);
            if (!rows.values.empty()) append(b.sparse.values, rows.values);
            b.sparse.offsets.push_back(b.sparse.columns.size());
        }
    }
    void enter(phase /*next*/) noexcept {}

private:
    /// Rows of a group, from its frame and the cache.
    struct group_rows {
        std::optional<std::uint64_t> sequence{}; ///< of the delivery that is applied
        std::vector<float> rows{};
    };

    /// Returns the rows of a group; applies its changes to the cache when its first batch comes.
    [[nodiscard]] matrix_view<const float> rows_of(const frame& of) {
        group_rows& group = groups_[of.id().key];
        group.rows.resize(of.distinct() * columns_.dense);
        const matrix_view<float> rows{group.rows.data(), of.distinct(), columns_.dense};
        if (group.sequence != of.sequence()) mirror_.apply(of.sequence(), of.from(), of.enter(), of.dense(), rows);
        group.sequence = of.sequence();
        return {rows.data(), rows.rows(), rows.columns()};
    }

    input_columns columns_;
    rows_mirror mirror_;
    std::map<batch_key, group_rows> groups_; // until their last batches are gathered
};
static_assert(feature_source<frame_features>);

} // namespace gneiss
