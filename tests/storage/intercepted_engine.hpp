#pragma once

#include <gneiss/storage/engine/memory.hpp>

#include <atomic>
#include <functional>

namespace storage_test {

/// Does something in the middle of an operation: whatever engine first starts one of that kind calls it.
struct interception {
    gneiss::io_operation kind;
    std::function<void()> during;
    std::atomic<bool> armed = false;
};

/// Files in memory whose operations can be intercepted.
class intercepted_engine {
public:
    intercepted_engine(const gneiss::memory_file_system& disk, interception& by) : engine_(disk), by_(&by) {}

    [[nodiscard]] gneiss::engine_traits traits() const { return engine_.traits(); }
    [[nodiscard]] int open(const std::filesystem::path& path, const gneiss::open_options& options) { return engine_.open(path, options); }
    void close(int file) { engine_.close(file); }
    [[nodiscard]] std::uint64_t size(int file) const { return engine_.size(file); }
    void resize(int file, std::uint64_t bytes) { engine_.resize(file, bytes); }
    [[nodiscard]] std::size_t direct_alignment(int file) const { return engine_.direct_alignment(file); }
    [[nodiscard]] std::size_t submit(std::span<const gneiss::io_request> requests) {
        for (const gneiss::io_request& each : requests)
            if (each.operation == by_->kind && by_->armed.exchange(false)) by_->during();
        return engine_.submit(requests);
    }
    [[nodiscard]] std::size_t wait(std::span<gneiss::io_completion> done, std::size_t at_least) { return engine_.wait(done, at_least); }
    [[nodiscard]] std::size_t in_flight() const { return engine_.in_flight(); }

private:
    gneiss::memory_engine engine_;
    interception* by_;
};

} // namespace storage_test
