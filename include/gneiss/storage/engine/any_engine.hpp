// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/engine/concepts.hpp>

namespace gneiss {

/// Owner of an engine of any type, chosen at run time; models `io_engine` itself.
///
/// Cost: one virtual call per batch of requests. Movable; files and queues hold its address, so move it before making
/// them.
/// Thread-safety: that of every engine, one thread at a time.
class any_engine {
public:
    /// Takes the engine over.
    template <class E>
        requires(!std::same_as<E, any_engine>)
    any_engine(E engine) // NOLINT(google-explicit-constructor): an engine is an any_engine
        : self_(std::make_unique<model<E>>(std::move(engine))) {}

    [[nodiscard]] engine_traits traits() const { return self_->traits(); }
    [[nodiscard]] int open(const std::filesystem::path& path, const open_options& options) {
        return self_->open(path, options);
    }
    void close(int file) { self_->close(file); }
    [[nodiscard]] std::uint64_t size(int file) { return self_->size(file); }
    void resize(int file, std::uint64_t bytes) { self_->resize(file, bytes); }
    [[nodiscard]] std::size_t direct_alignment(int file) const { return self_->direct_alignment(file); }
    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) { return self_->submit(requests); }
    [[nodiscard]] std::size_t wait(std::span<io_completion> done, std::size_t at_least) {
        return self_->wait(done, at_least);
    }
    [[nodiscard]] std::size_t in_flight() const { return self_->in_flight(); }

private:
    struct interface {
        virtual ~interface() = default;
        virtual engine_traits traits() const = 0;
        virtual int open(const std::filesystem::path& path, const open_options& options) = 0;
        virtual void close(int file) = 0;
        virtual std::uint64_t size(int file) = 0;
        virtual void resize(int file, std::uint64_t bytes) = 0;
        virtual std::size_t direct_alignment(int file) const = 0;
        virtual std::size_t submit(std::span<const io_request> requests) = 0;
        virtual std::size_t wait(std::span<io_completion> done, std::size_t at_least) = 0;
        virtual std::size_t in_flight() const = 0;
    };
    template <class E>
    struct model final : interface {
        static_assert(
            io_engine<E>, "any_engine: the object must be a gneiss::io_engine, see gneiss/storage/engine/concepts.hpp");
        explicit model(E&& from) : engine(std::move(from)) {}
        engine_traits traits() const override { return engine.traits(); }
        int open(const std::filesystem::path& path, const open_options& options) override {
            return engine.open(path, options);
        }
        void close(int file) override { engine.close(file); }
        std::uint64_t size(int file) override { return engine.size(file); }
        void resize(int file, std::uint64_t bytes) override { engine.resize(file, bytes); }
        std::size_t direct_alignment(int file) const override { return engine.direct_alignment(file); }
        std::size_t submit(std::span<const io_request> requests) override { return engine.submit(requests); }
        std::size_t wait(std::span<io_completion> done, std::size_t at_least) override {
            return engine.wait(done, at_least);
        }
        std::size_t in_flight() const override { return engine.in_flight(); }
        E engine;
    };

    std::unique_ptr<interface> self_;
};
static_assert(io_engine<any_engine>);

/// Makes an engine. Each I/O thread calls it for its own engine; callable from any thread.
using engine_factory = std::function<any_engine()>;

/// Makes an engine. Throws errc::invalid_argument if there is no factory.
[[nodiscard]] inline any_engine make_engine(const engine_factory& engines) {
    if (!engines)
        throw error(errc::invalid_argument, "an engine is needed, but there is no function that makes one",
            {.field = "engines"});
    return engines();
}

} // namespace gneiss
