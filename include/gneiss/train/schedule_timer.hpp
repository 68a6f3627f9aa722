// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/model/cpu_encoder.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/layer_schedule.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

/// Sizes of a hop of a batch.
struct hop_sizes {
    std::uint64_t sources = 0; ///< rows that the layer reads
    std::uint64_t targets = 0; ///< rows that it computes
    std::uint64_t edges = 0;   ///< neighbors of all targets
};

/// Options of `schedule_timer`.
struct schedule_timer_options {
    std::uint64_t batches = 8;       ///< batches that are timed; later ones are not computed
    std::uint64_t repeats = 2;       ///< timed passes over a batch, the least counts; one before allocates memory
    std::function<double()> clock{}; ///< seconds; none: a steady clock
};

/// Times schedules of a network, whole steps of forward, loss and backward, on the batches of a training in which it
/// stands for the CPU's backend. It trains nothing: parameters keep their bits, and gradients are zero after each
/// batch.
///
///     schedule_timer timer(layers, candidates, columns, weights,
///         [&](cpu_encoder& encode) { return cpu_backend_of(task, encode, weights, seed, executor); });
///     any_backend by(std::ref(timer));
///     auto warm_up = make_joestar(options, {…, .task = task, .weights = weights, .backend = &by}, executor, budget);
///     warm_up.run(states, 0, {}, observer_that_stops_after_some_batches, stop);
///     const std::vector<std::optional<double>> seconds = timer.seconds();
///
/// Each batch is computed by all schedules before the next one, from another schedule on. The time of a schedule is
/// that of the first one, the median of all batches, times the median of their ratios within a batch: a machine whose
/// speed changes from batch to batch slows all of them. A schedule that takes more memory in a batch than the layers as
/// given is not timed any more: memory is that of `memory_of` for these. Histories of partitions are neither read nor
/// pushed: rows of the halo are zero. Cost: schedules · (repeats + 1) passes over each of `batches` batches. Errors:
/// those of the passes; errc::invalid_argument for rows that are learned.
class schedule_timer : public host_backend {
public:
    /// \param layers   as given
    /// \param weights  of an encoder of these layers, allocated; outlive this
    /// \param make     returns the backend of an encoder with these weights, which trains nothing before `step`
    schedule_timer(const std::vector<layer_options>& layers, std::span<const layer_schedule> candidates,
        input_columns in, dense_parameters<>& weights, const std::function<any_backend(cpu_encoder&)>& make,
        schedule_timer_options options = {})
        : weights_(weights),
          options_(std::move(options)),
          given_(arrays_, layers, in) {
        if (!options_.clock)
            options_.clock = [] {
                return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
            };
        if (options_.batches == 0 || options_.repeats == 0)
            throw error(errc::invalid_argument, "a schedule is timed by a batch and a pass at least");
        for (const layer_schedule& products : candidates) {
            dense_parameters<> same; // arrays have the places of those of `weights`
            encoders_.push_back(std::make_unique<cpu_encoder>(same, scheduled(layers, products), in));
            backends_.push_back(make(*encoders_.back()));
        }
        seconds_.assign(encoders_.size(), std::vector<double>());
    }
    schedule_timer(const schedule_timer&) = delete;
    schedule_timer& operator=(const schedule_timer&) = delete;
    ~schedule_timer() = default;

    /// Returns the seconds of each schedule for a batch; none for one that was left out, and for all before the first
    /// batch.
    [[nodiscard]] std::vector<std::optional<double>> seconds() const {
        std::vector<std::optional<double>> result(seconds_.size());
        if (seen_ == 0) return result;
        for (std::size_t i = 0; i < result.size(); ++i) {
            if (!seconds_[i]) continue;
            result[i] = median(*seconds_[i]);
            if (i == 0 || !seconds_[0]) continue;
            std::vector<double> ratios;
            for (std::size_t b = 0; b < seconds_[i]->size(); ++b)
                ratios.push_back((*seconds_[i])[b] / std::max((*seconds_[0])[b], 1e-9));
            result[i] = median(*seconds_[0]) * median(std::move(ratios));
        }
        return result;
    }
    /// Returns the batches that were timed.
    [[nodiscard]] std::uint64_t batches() const noexcept { return seen_; }
    /// Returns the sizes of the first batch, by hop.
    [[nodiscard]] const std::vector<hop_sizes>& sizes() const noexcept { return sizes_; }
    /// True if no further batch is timed.
    [[nodiscard]] bool done() const noexcept { return seen_ == options_.batches; }

    void upload(const training_optimizers& /*by*/) { given_.check_weights(weights_); }
    [[nodiscard]] std::uint64_t memory_of(const training_batch& b) const { return memory_of(given_, b); }
    void differentiate(training_batch& b) {
        if (done()) return;
        if (!b.gradients.empty())
            throw error(errc::invalid_argument, "schedules are timed on given features, not on rows that are learned");
        const training_statistics before = b.statistics;
        const std::uint64_t most = memory_of(given_, b);
        for (std::size_t k = 0; k < encoders_.size(); ++k) {
            const std::size_t i = (k + static_cast<std::size_t>(seen_)) % encoders_.size();
            if (seconds_[i] && memory_of(*encoders_[i], b) > most) seconds_[i].reset();
            if (!seconds_[i]) continue;
            double least = std::numeric_limits<double>::infinity();
            for (std::uint64_t pass = 0; pass <= options_.repeats; ++pass) {
                b.statistics = before;
                const double begin = options_.clock();
                backends_[i].differentiate(b);
                const double end = options_.clock();
                weights_.zero_gradients();
                if (pass != 0) least = std::min(least, end - begin);
            }
            seconds_[i]->push_back(least);
            backends_[i].release();
        }
        if (seen_++ == 0)
            for (std::size_t hop = 0; hop < b.layers.size(); ++hop)
                sizes_.push_back({b.layers[hop].sources, b.layers[hop].targets, b.layers[hop].edges()});
    }

private:
    /// Returns the middle one of values, or the mean of both; there is one at least.
    [[nodiscard]] static double median(std::vector<double> values) {
        std::ranges::sort(values);
        return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
    }
    [[nodiscard]] static std::uint64_t memory_of(const cpu_encoder& encode, const training_batch& b) {
        return encode.memory_of(b.layers, b.nodes.size(), !b.coverage.empty());
    }

    dense_parameters<>& weights_;
    schedule_timer_options options_;
    dense_parameters<> arrays_;
    cpu_encoder given_;
    std::vector<std::unique_ptr<cpu_encoder>> encoders_;
    std::vector<any_backend> backends_;
    std::vector<std::optional<std::vector<double>>> seconds_; // [schedules, batches]; none: left out
    std::vector<hop_sizes> sizes_;
    std::uint64_t seen_ = 0;
};
static_assert(train_backend<schedule_timer>);

namespace detail {

/// True if the CPU computes the batches of a backend: there is none, or it times schedules.
[[nodiscard]] inline bool computes_on_cpu(const any_backend* backend) noexcept {
    return backend == nullptr || backend->get_if<schedule_timer>() != nullptr;
}

} // namespace detail
} // namespace gneiss
