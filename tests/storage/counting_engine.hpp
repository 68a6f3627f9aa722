#pragma once

#include "storage/forwarding_engine.hpp"

#include <gneiss/storage/engine/any_engine.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace storage_test {

using shared_count = std::shared_ptr<std::atomic<std::int64_t>>;

/// Any engine; counts the requests in flight of all engines that share the count.
class counting_engine : public forwarding_engine<gneiss::any_engine> {
public:
    counting_engine(gneiss::any_engine engine, shared_count in_flight)
        : forwarding_engine(std::move(engine)),
          in_flight_(std::move(in_flight)) {}

    [[nodiscard]] std::uint64_t size(int file) { return engine_.size(file); }
    [[nodiscard]] std::size_t submit(std::span<const gneiss::io_request> requests) {
        const std::size_t taken = engine_.submit(requests);
        *in_flight_ += static_cast<std::int64_t>(taken);
        return taken;
    }
    [[nodiscard]] std::size_t wait(std::span<gneiss::io_completion> done, std::size_t at_least) {
        const std::size_t count = engine_.wait(done, at_least);
        *in_flight_ -= static_cast<std::int64_t>(count);
        return count;
    }

private:
    shared_count in_flight_;
};

} // namespace storage_test
