#pragma once

#include <gneiss/storage/engine/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace storage_test {

/// Forwards all calls to another engine: base of engines that differ in a call or two.
template <class Engine>
class forwarding_engine {
public:
    explicit forwarding_engine(Engine engine) : engine_(std::move(engine)) {}

    [[nodiscard]] gneiss::engine_traits traits() const { return engine_.traits(); }
    [[nodiscard]] int open(const std::filesystem::path& path, const gneiss::open_options& options) {
        return engine_.open(path, options);
    }
    void close(int file) { engine_.close(file); }
    [[nodiscard]] std::uint64_t size(int file) const { return engine_.size(file); }
    void resize(int file, std::uint64_t bytes) { engine_.resize(file, bytes); }
    [[nodiscard]] std::size_t direct_alignment(int file) const { return engine_.direct_alignment(file); }
    [[nodiscard]] std::size_t submit(std::span<const gneiss::io_request> requests) { return engine_.submit(requests); }
    [[nodiscard]] std::size_t wait(std::span<gneiss::io_completion> done, std::size_t at_least) {
        return engine_.wait(done, at_least);
    }
    [[nodiscard]] std::size_t in_flight() const { return engine_.in_flight(); }

protected:
    Engine engine_;
};

} // namespace storage_test
