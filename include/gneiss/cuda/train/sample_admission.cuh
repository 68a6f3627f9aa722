// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

namespace gneiss::cuda {

/// Outcome of an admission, for the host.
struct sample_report {
    std::uint32_t admitted = 0;    ///< false: the step has computed nothing
    detail::failed_batch failed{}; ///< the sample failed
};

/// Outcome of an admission on the host, valid once the results of the step are.
struct sample_answer {
    std::span<const sample_report> report{}; ///< [1]
    std::span<const layer_counts> sizes{};   ///< [layers] of the sample
};

/// Asks on the device whether a sample, whose sizes the host does not know, fits into the room of a step. If not, or if
/// a step before was refused and has not been computed since, its layers become empty and its number that of no step,
/// so that no kernel of the step changes a parameter.
///
///     sample_admission ask;
///     const sample_answer answer = ask.answer_in(results, layers);
///     ask.take(slot, views, at, failed, refused);
///     admit(in, ask); // then the kernels of the step, which read the sizes of `views`, and `at`
struct sample_admission {
    static constexpr std::uint32_t most_layers = 32; ///< layers of a sample
    static constexpr std::uint32_t step_count = 2;   ///< step states: of weights and of rows

    const layer_counts* drawn = nullptr;          ///< [layers] sizes of the sample; null: the host knows them
    const detail::failed_batch* failed = nullptr; ///< failure of the sample
    const step_state* given = nullptr;            ///< [step_count] numbers of the step
    std::uint32_t* refused = nullptr;             ///< true from the first step that was refused on
    layer_counts* counts = nullptr;               ///< [layers] sizes for the step: those of the sample, or zeros
    step_state* steps = nullptr;                  ///< [step_count] those given, or of no step
    layer_counts* reported = nullptr;             ///< [layers] sizes of the sample, for the host
    sample_report* report = nullptr;              ///< for the host
    std::uint32_t layers = 0;                     ///< number of layers
    std::uint32_t targets[most_layers] = {};      ///< room of each layer
    std::uint32_t sources[most_layers] = {};      ///< room of each layer
    std::uint32_t edges[most_layers] = {};        ///< room of each layer

    friend bool operator==(const sample_admission&, const sample_admission&) = default;

    /// Returns the bytes of its arrays in the slot of a batch.
    [[nodiscard]] static std::uint64_t bytes_of(std::size_t layers) noexcept {
        return transfer_slot::array_bytes(layers, sizeof(layer_counts)) +
            transfer_slot::array_bytes(step_count, sizeof(step_state));
    }
    /// Returns the bytes of the answer in the slot of results.
    [[nodiscard]] static std::uint64_t answer_bytes(std::size_t layers) noexcept {
        return transfer_slot::array_bytes(1, sizeof(sample_report)) +
            transfer_slot::array_bytes(layers, sizeof(layer_counts));
    }
    /// Adds the answer to a slot of results.
    [[nodiscard]] sample_answer answer_in(transfer_slot& results, std::size_t of_layers) {
        const auto one = results.room<sample_report>(1);
        const auto sizes = results.room<layer_counts>(of_layers);
        report = one.device;
        reported = sizes.device;
        return {one.host, sizes.host};
    }
    /// Asks for the room of `views`, and makes them and `at` read what is admitted, in the slot of the batch. Throws
    /// errc::out_of_range for more layers than `most_layers`.
    void take(transfer_slot& slot, std::span<layer_view> views, const step_state*& at,
        const detail::failed_batch* of_sample, std::uint32_t* of_steps) {
        if (views.size() > most_layers)
            throw error(errc::out_of_range,
                std::to_string(views.size()) + " layers of a sample: at most " + std::to_string(most_layers));
        layers = static_cast<std::uint32_t>(views.size());
        drawn = views.front().counts;
        failed = of_sample;
        refused = of_steps;
        given = at;
        counts = slot.room<layer_counts>(0, layers).device;
        at = steps = slot.room<step_state>(0, step_count).device;
        for (std::size_t i = 0; i < views.size(); ++i) {
            targets[i] = views[i].target_capacity;
            sources[i] = views[i].source_capacity;
            edges[i] = views[i].edge_capacity;
            views[i].counts = counts + i;
        }
    }
    /// Makes them read sizes and number of the batch itself, and fits the views to the sizes.
    void leave(std::span<layer_view> views, const step_state*& at, std::span<const layer_counts> sizes) {
        for (std::size_t i = 0; i < views.size(); ++i) {
            views[i].counts = drawn + i;
            views[i].target_capacity = sizes[i].targets;
            views[i].source_capacity = sizes[i].sources;
            views[i].edge_capacity = sizes[i].edges;
        }
        at = given;
        *this = {};
    }
};

namespace detail {

/// One thread.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) admit_sample(sample_admission by) {
    bool fits = *by.refused == 0 && by.failed->what == sample_failure::none;
    for (std::uint32_t i = 0; i < by.layers; ++i) {
        const layer_counts of = by.drawn[i];
        by.reported[i] = of;
        fits = fits && of.targets <= by.targets[i] && of.sources <= by.sources[i] && of.edges <= by.edges[i];
    }
    for (std::uint32_t i = 0; i < by.layers; ++i) by.counts[i] = fits ? by.drawn[i] : layer_counts{};
    for (std::uint32_t i = 0; i < sample_admission::step_count; ++i) {
        step_state at = by.given[i];
        if (!fits) at.t = step_state::none;
        by.steps[i] = at;
    }
    *by.report = {fits ? 1U : 0U, *by.failed};
    if (!fits) *by.refused = 1;
}

} // namespace detail

/// Asks for a sample: one kernel of one thread.
inline void admit(cudaStream_t in, const sample_admission& by) { launch(in, detail::admit_sample<1>, 1, 1, 0, by); }

} // namespace gneiss::cuda
