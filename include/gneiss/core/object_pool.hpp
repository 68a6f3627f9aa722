// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gneiss {

/// Keeps idle objects for reuse: as many are made as are in use at once, and the one used last is taken first.
///
/// Thread-safe. Cost: a lock a call; memory of all objects until the pool dies.
///
/// \tparam T  movable; a `std::unique_ptr` where moves are expensive
template <class T>
class object_pool {
public:
    /// An idle object, or nothing.
    [[nodiscard]] std::optional<T> take() {
        const std::scoped_lock lock(mutex_);
        if (idle_.empty()) return std::nullopt;
        std::optional<T> found(std::move(idle_.back()));
        idle_.pop_back();
        return found;
    }

    /// Makes `object` an idle one.
    void put(T object) {
        const std::scoped_lock lock(mutex_);
        idle_.push_back(std::move(object));
    }

    /// Calls `use` with an idle object, or else with what `make()` returns. The object is idle again afterwards, unless
    /// `use` throws: then it is gone. Neither is called under the lock.
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
