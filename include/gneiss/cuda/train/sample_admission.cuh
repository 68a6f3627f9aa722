// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

namespace gneiss::cuda {

/// What the host reads of a sample that the device drew, with the results of its step.
struct sample_report {
    std::uint32_t admitted = 0;    ///< false: the step has computed nothing
    detail::failed_batch failed{}; ///< the sample failed
};

/// Asks on the device whether a sample, whose sizes the host does not know, fits into the room of a step. If not, or if
/// a step before was refused and has not been computed since, its layers become empty and its number 0, so that no
/// kernel of the step changes a parameter.
///
///     admission.drawn = …, admission.counts = …, …;
///     admit(in, admission); // then the kernels of the step read `counts` and `steps`
struct sample_admission {
    static constexpr std::uint32_t most_layers = 32; ///< layers of a sample

    const layer_counts* drawn = nullptr;          ///< [layers] sizes of the sample; null: the host knows them
    const detail::failed_batch* failed = nullptr; ///< failure of the sample
    const step_state* given = nullptr;            ///< [steps] numbers of the step
    std::uint32_t* refused = nullptr;             ///< true from the first step that was refused on
    layer_counts* counts = nullptr;               ///< [layers] sizes for the step: those of the sample, or zeros
    step_state* steps = nullptr;                  ///< [step_count] those given, or of no step
    layer_counts* reported = nullptr;             ///< [layers] sizes of the sample, for the host
    sample_report* report = nullptr;              ///< for the host
    std::uint32_t layers = 0;                     ///< number of layers
    std::uint32_t step_count = 2;                 ///< number of step states
    std::uint32_t targets[most_layers] = {};      ///< room of each layer
    std::uint32_t sources[most_layers] = {};      ///< room of each layer
    std::uint32_t edges[most_layers] = {};        ///< room of each layer

    friend bool operator==(const sample_admission&, const sample_admission&) = default;

    /// Sets the room: that of `views`. Throws errc::out_of_range for more layers than `most_layers`.
    void fit(std::span<const layer_view> views) {
        if (views.size() > most_layers)
            throw error(errc::out_of_range,
                std::to_string(views.size()) + " layers of a sample: at most " + std::to_string(most_layers));
        layers = static_cast<std::uint32_t>(views.size());
        for (std::size_t i = 0; i < views.size(); ++i) {
            targets[i] = views[i].target_capacity;
            sources[i] = views[i].source_capacity;
            edges[i] = views[i].edge_capacity;
        }
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
    for (std::uint32_t i = 0; i < by.step_count; ++i) {
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
