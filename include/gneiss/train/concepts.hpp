// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <gneiss/core/trace_recorder.hpp>

namespace gneiss {

/// An item of a pipeline. It reports its size, so that queues are bounded in bytes.
template <class T>
concept pipeline_item = std::movable<T> && requires(const T& item) {
    { item.bytes() } -> std::convertible_to<std::uint64_t>;
};

/// An item whose stages also record spans. `trace` is the track of the thread that holds the item, null without a
/// trace. `traced()` returns the arguments of a stage's span after the stage, which may have set `moved_bytes`.
template <class T>
concept traced_item = pipeline_item<T> && requires(T& item, const T& done, trace_track* track, std::uint64_t bytes) {
    item.trace = track;
    item.moved_bytes = bytes;
    { done.traced() } -> std::same_as<trace_arguments>;
};

} // namespace gneiss
