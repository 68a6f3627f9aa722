// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace gneiss {

/// What flows through a pipeline: it knows its size, so that queues are bounded in bytes.
template <class T>
concept pipeline_item = std::movable<T> && requires(const T& item) {
    { item.bytes() } -> std::convertible_to<std::uint64_t>;
};

} // namespace gneiss
