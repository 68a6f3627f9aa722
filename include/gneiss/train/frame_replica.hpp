// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/input_columns.hpp>
#include <gneiss/train/remote_batches.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/statistics.hpp>
#include <gneiss/train/sum_of_replicas.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss {

/// A source of frames that others have made: of the one that was given last.
class given_frame {
public:
    /// Sets the frame, and that of the rows it shares with others, if any, which outlive the batch.
    void give(std::span<const std::byte> bytes, std::span<const std::byte> rows = {}) noexcept {
        bytes_ = bytes;
        rows_ = rows;
    }

    void begin_epoch(const epoch_start& /*start*/, const std::stop_token& /*stop*/) noexcept {}
    /// Returns no batches: the giver numbers them.
    [[nodiscard]] static state_work acquire(const epoch_start& /*start*/, std::uint32_t /*state*/) { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    /// Returns the given frame.
    [[nodiscard]] received_frame make(const state_work& /*work*/, const batch_key& /*key*/, mini_batch_arena& /*arena*/,
        const std::stop_token& /*stop*/) const {
        return {.bytes = bytes_, .owner = {}, .rows = rows_};
    }
    void enter(phase /*next*/) noexcept {}

private:
    std::span<const std::byte> bytes_, rows_;
};
static_assert(frame_source<given_frame>);

/// Replicas of a model as functions, for a driver that is elsewhere and brings frames and gradients: what `train_loop`
/// does with `remote_batches`, `frame_features`, a backend and `sum_of_replicas`, a batch or a step a call. Replicas
/// that start with equal parameters and make the same steps stay equal, bit for bit, and equal to that loop.
///
///     const training_statistics sums = here.differentiate(frame, key, t, gradients);   // of each batch of step t
///     here.step(std::array{of_replica_0, of_replica_1}, key, t);                       // in every replica
///
/// Rows of nodes may be learned, elsewhere: `differentiate` then reads those of the batch by a function, and
/// `row_gradients` are for their owners (`row_owner`), which step them.
///
/// Memory: a batch, and two copies of the gradients. One thread. Errors: those of `remote_batches`, `frame_features`
/// and the backend; errc::not_finite as `divergence`. Source: Armada, section 3 (compute layer).
template <train_backend Backend>
class frame_replica {
public:
    /// Copies the learned rows of nodes [nodes, learned], current before the step, from wherever they are.
    using read_rows = std::function<void(std::span<const node_id> nodes, matrix_view<float> to)>;

    /// \param columns  of the rows in every frame
    /// \param cached   capacity of the cache that the frames' deliveries are for [rows]; 0: there is none
    /// \param learned  columns of learned rows, in front of those of the frames
    frame_replica(Backend backend, const input_columns& columns, const remote_options& options, executor_ref executor,
        std::size_t cached = 0, std::size_t learned = 0)
        : backend_(std::move(backend)),
          features_(columns, cached),
          learned_(learned),
          batches_(source_, options, executor) {
        backend_.prepare(1, true);
        batch_.work = std::make_shared<const state_work>(); // of no state
    }
    frame_replica(const frame_replica&) = delete;
    frame_replica& operator=(const frame_replica&) = delete;
    ~frame_replica() = default;

    /// Takes the parameters as they are, and the optimizer: before the first step, and whenever either has changed.
    void begin(const training_optimizers& by) { backend_.upload(by); }
    /// Makes the parameters current for others.
    void end() { backend_.download(); }

    /// Forgets the rows of groups: their frames come again, for an empty cache.
    void empty_cache() noexcept { features_.clear(); }

    /// Returns the number of gradients.
    [[nodiscard]] std::size_t size() {
        std::size_t all = 0;
        for (const std::span<float> part : backend_.gradients()) all += part.size();
        return all;
    }

    /// Computes the loss of a batch, and writes the gradients of the parameters.
    ///
    /// \param key        of the frame
    /// \param step       t of the step that the batch belongs to, from 1
    /// \param gradients  [size()]
    /// \param rows       frame of the rows that the batch shares with others; empty: it has its own
    /// \param read       the way to learned rows, if there are some
    training_statistics differentiate(std::span<const std::byte> bytes, const batch_key& key, std::uint64_t step,
        std::span<float> gradients, std::span<const std::byte> rows = {}, const read_rows& read = {}) {
        check(gradients.size());
        if ((learned_ != 0) != static_cast<bool>(read))
            throw error(errc::invalid_argument, "learned rows need a way to them, and no others do");
        training_batch& b = batch_;
        b.key = key;
        b.step = step;
        b.statistics = {};
        source_.give(bytes, rows);
        batches_.produce(b, {});
        b.statistics.input_nodes = b.nodes.size();
        const input_columns fixed = features_.columns();
        const std::size_t columns = learned_ + fixed.dense;
        const row_target to = backend_.target(b, columns, learned_ != 0 ? columns : 0);
        b.rows_read = to.rows;
        b.in = {.dense = b.rows_read};
        b.gradients = to.gradients;
        if (read) read(b.nodes, b.rows_read.middle_columns(0, learned_));
        features_.gather(b, b.rows_read.middle_columns(learned_, fixed.dense));
        if (fixed.sparse != 0) b.in.sparse = {fixed.sparse, b.sparse.offsets, b.sparse.columns, b.sparse.values};
        try {
            backend_.to_device(b);
            backend_.differentiate(b);
            backend_.to_host(b);
        } catch (const error& e) {
            if (e.code() != errc::not_finite) throw;
            throw divergence(key, e.what());
        }
        std::size_t at = 0;
        for (const std::span<float> part : backend_.gradients()) {
            std::ranges::copy(part, gradients.subspan(at, part.size()).begin());
            std::ranges::fill(part, 0.0F);
            at += part.size();
        }
        return b.statistics;
    }

    /// Returns the nodes of the batch that was computed last, and the gradients of their learned rows [nodes, learned].
    /// Valid until the next.
    [[nodiscard]] std::pair<std::span<const node_id>, matrix_view<const float>> row_gradients() const {
        return {batch_.nodes, batch_.gradients.middle_columns(0, learned_)};
    }

    /// Makes step `step` by the sum of gradients, in this order.
    ///
    /// \param replicas  [size()] of each batch of the step, in the order of replicas; at least one
    /// \param last      key of the last of them
    void step(std::span<const std::span<const float>> replicas, const batch_key& last, std::uint64_t step) {
        if (replicas.empty()) throw error(errc::invalid_argument, "a step needs the gradients of a batch");
        for (const std::span<const float> of : replicas) check(of.size());
        const gradient_parts parts = backend_.gradients();
        for (std::size_t r = 0; r < replicas.size(); ++r) {
            std::size_t at = 0;
            for (const std::span<float> part : parts) {
                std::ranges::copy(replicas[r].subspan(at, part.size()), part.begin());
                at += part.size();
            }
            sums_.reduce(parts, {static_cast<std::uint32_t>(r), step, last, r + 1 == replicas.size()}, {});
        }
        batch_.key = last;
        batch_.step = step;
        backend_.step(batch_);
    }

private:
    void check(std::size_t count) {
        if (count != size())
            throw error(errc::config_mismatch,
                std::to_string(count) + " gradients for a model of " + std::to_string(size()) +
                    ": it is another model's");
    }

    Backend backend_;
    frame_features features_;
    std::size_t learned_;
    given_frame source_;
    remote_batches<given_frame> batches_;
    training_batch batch_;
    sum_of_replicas sums_;
};

} // namespace gneiss
