// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gneiss {

/// Keeps idle objects for reuse, most recently used first. Creates one only if all are in use.
///
/// Thread-safe. Cost: one lock per call; objects are freed with the pool.
///
/// \tparam T  movable; a `std::unique_ptr` where moves are expensive
template <class T>
class object_pool {
public:
    /// Takes an idle object, or returns nullopt.
    [[nodiscard]] std::optional<T> take() {
        const std::scoped_lock lock(mutex_);
        if (idle_.empty()) return std::nullopt;
        std::optional<T> found(std::move(idle_.back()));
        idle_.pop_back();
        return found;
    }

    /// Returns `object` to the pool.
    void put(T object) {
        const std::scoped_lock lock(mutex_);
        idle_.push_back(std::move(object));
    }

    /// Calls `use` with an idle object, or with the result of `make()` if none is idle. The object is idle again
    /// afterwards; if `use` throws, it is destroyed. Neither is called under the lock.
    template <class Make, class Use>
    void with(Make&& make, Use&& use) {
        std::optional<T> mine = take();
        if (!mine) mine.emplace(std::forward<Make>(make)());
        std::forward<Use>(use)(*mine);
        put(std::move(*mine));
    }

private:
    std::mutex mutex_;
    std::vector<T> idle_;
};

} // namespace gneiss
