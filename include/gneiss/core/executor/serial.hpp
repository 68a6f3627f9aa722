// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

/// Runs every task on the calling thread, in order, without overhead. An exception ends the loop at once. Thread-safe.
struct serial_executor {
    template <class Body>
    void run(std::size_t tasks, Body&& body) const {
        for (std::size_t i = 0; i < tasks; ++i) body(i);
    }
    [[nodiscard]] static constexpr std::size_t concurrency() noexcept { return 1; }
};

static_assert(executor<serial_executor>);

} // namespace gneiss
