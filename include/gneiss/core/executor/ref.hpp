// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

/// Type-erased reference to any executor, at one indirect call per task, for virtual functions. Does not own: the executor must
/// outlive it. A copy is three pointers. Tasks, exceptions and thread-safety are those of the executor.
class executor_ref {
public:
    /// Refers to `executor`, which must outlive this.
    template <class E>
        requires(!std::same_as<E, executor_ref>)
    executor_ref(const E& executor) noexcept // NOLINT(google-explicit-constructor): stands for the executor
        : object_(std::addressof(executor)),
          run_([](const void* object, std::size_t tasks, const void* body, call task) {
              static_cast<const E*>(object)->run(tasks, [body, task](std::size_t i) { task(body, i); });
          }),
          concurrency_([](const void* object) { return static_cast<std::size_t>(static_cast<const E*>(object)->concurrency()); }) {
        static_assert(gneiss::executor<E>, "executor_ref: the object must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
    }

    template <class Body>
    void run(std::size_t tasks, const Body& body) const {
        run_(object_, tasks, std::addressof(body),
            [](const void* b, std::size_t i) { (*static_cast<const Body*>(b))(i); });
    }
    [[nodiscard]] std::size_t concurrency() const { return concurrency_(object_); }

private:
    using call = void (*)(const void* body, std::size_t task);

    const void* object_;
    void (*run_)(const void*, std::size_t, const void*, call);
    std::size_t (*concurrency_)(const void*);
};

static_assert(executor<executor_ref>);

} // namespace gneiss
