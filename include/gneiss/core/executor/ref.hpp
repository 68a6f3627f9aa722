// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

/// Type-erased reference to any executor, at one indirect call per task, for virtual functions. Does not own: the
/// executor must outlive it, but for a temporary, of which it keeps a copy. A copy is five pointers. Tasks, exceptions
/// and thread-safety are those of the executor.
class executor_ref {
public:
    /// Refers to `executor`, which must outlive this.
    template <class E>
        requires(!std::same_as<E, executor_ref>)
    executor_ref(const E& executor) noexcept { // NOLINT(google-explicit-constructor): stands for the executor
        refer(std::addressof(executor));
    }
    /// Keeps a temporary executor; allocates unless it is empty.
    template <class E>
        requires(!std::is_lvalue_reference_v<E> && !std::same_as<std::remove_const_t<E>, executor_ref>)
    executor_ref(E&& executor) { // NOLINT(google-explicit-constructor): stands for the executor
        if constexpr (std::is_empty_v<E> && std::is_default_constructible_v<E>) {
            static const std::remove_const_t<E> same{}; // one empty executor is as good as another
            refer(&same);
        } else {
            auto copy = std::make_shared<const E>(std::forward<E>(executor));
            refer(copy.get());
            kept_ = std::move(copy);
        }
    }

    template <class Body>
    void run(std::size_t tasks, const Body& body) const {
        run_(object_, tasks, std::addressof(body),
            [](const void* b, std::size_t i) { (*static_cast<const Body*>(b))(i); });
    }
    [[nodiscard]] std::size_t concurrency() const { return concurrency_(object_); }

private:
    using call = void (*)(const void* body, std::size_t task);

    template <class E>
    void refer(const E* executor) noexcept {
        static_assert(gneiss::executor<E>,
            "executor_ref: the object must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
        object_ = executor;
        if constexpr (gneiss::executor<E>) {
            run_ = [](const void* object, std::size_t tasks, const void* body, call task) {
                static_cast<const E*>(object)->run(tasks, [body, task](std::size_t i) { task(body, i); });
            };
            concurrency_ = [](const void* object) {
                return static_cast<std::size_t>(static_cast<const E*>(object)->concurrency());
            };
        }
    }

    const void* object_ = nullptr;
    void (*run_)(const void*, std::size_t, const void*, call) = nullptr;
    std::size_t (*concurrency_)(const void*) = nullptr;
    std::shared_ptr<const void> kept_; // the executor, if it was a temporary
};

static_assert(executor<executor_ref>);

} // namespace gneiss
