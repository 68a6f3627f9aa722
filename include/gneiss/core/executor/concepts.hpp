// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>

namespace gneiss {

/// Runs independent tasks.
///
/// Meaning: `e.run(tasks, body)` calls `body(i)` once for each i in [0, tasks), in any order and on any threads, and
/// returns when all calls have returned. The first exception of a body is rethrown after the others have ended or were
/// skipped. `e.concurrency()` is the maximum number of concurrent bodies; results must not depend on it.
/// Cost: O(tasks) scheduling; make a task worth microseconds.
template <class E>
concept executor = requires(const E& e, std::size_t tasks, const std::function<void(std::size_t)>& body) {
    e.run(tasks, body);
    { e.concurrency() } -> std::convertible_to<std::size_t>;
};

} // namespace gneiss
