#pragma once

#include "storage/forwarding_engine.hpp"

#include <gneiss/storage/engine/memory.hpp>

#include <atomic>
#include <functional>

namespace storage_test {

/// A callback during an operation: the first engine that starts one of that kind calls it.
struct interception {
    gneiss::io_operation kind;
    std::function<void()> during;
    std::atomic<bool> armed = false;
};

/// Files in memory whose operations can be intercepted.
class intercepted_engine : public forwarding_engine<gneiss::memory_engine> {
public:
    intercepted_engine(const gneiss::memory_file_system& disk, interception& by)
        : forwarding_engine(gneiss::memory_engine(disk)),
          by_(&by) {}

    [[nodiscard]] std::size_t submit(std::span<const gneiss::io_request> requests) {
        for (const gneiss::io_request& each : requests)
            if (each.operation == by_->kind && by_->armed.exchange(false)) by_->during();
        return engine_.submit(requests);
    }

private:
    interception* by_;
};

} // namespace storage_test
