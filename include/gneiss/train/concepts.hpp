// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <gneiss/core/trace_recorder.hpp>

namespace gneiss {

/// What flows through a pipeline: it knows its size, so that queues are bounded in bytes.
template <class T>
concept pipeline_item = std::movable<T> && requires(const T& item) {
    { item.bytes() } -> std::convertible_to<std::uint64_t>;
};

/// An item whose stages record spans, too: `trace` is the track of the thread that has it, null without a trace. `traced()`
/// are the numbers of the stage's span behind the stage, which may have set `moved_bytes`.
template <class T>
concept traced_item = pipeline_item<T> && requires(T& item, const T& done, trace_track* track, std::uint64_t bytes) {
    item.trace = track;
    item.moved_bytes = bytes;
    { done.traced() } -> std::same_as<trace_arguments>;
};

} // namespace gneiss
