// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Type-erased cache policy, chosen at run time: one indirect call per batch. Models `cache_policy`; movable.
///
///     any_cache_policy policy = lru(1000);
///     if (name == "s3fifo") policy = s3_fifo(1000);
class any_cache_policy {
public:
    /// Takes the policy over.
    template <class Policy>
        requires(!std::same_as<Policy, any_cache_policy>)
    any_cache_policy(Policy policy) // NOLINT(google-explicit-constructor): stands for the policy
        : policy_(std::make_unique<held<Policy>>(std::move(policy))) {}

    [[nodiscard]] std::size_t capacity() const { return policy_->capacity(); }
    [[nodiscard]] std::span<const node_id> initial() const { return policy_->initial(); }
    void next(std::span<const node_id> ids, change_set& out) { policy_->next(ids, out); }

private:
    struct any {
        virtual ~any() = default;
        [[nodiscard]] virtual std::size_t capacity() const = 0;
        [[nodiscard]] virtual std::span<const node_id> initial() const = 0;
        virtual void next(std::span<const node_id> ids, change_set& out) = 0;
    };
    template <class Policy>
    struct held final : any {
        static_assert(cache_policy<Policy>,
            "any_cache_policy: the object must be a gneiss::cache_policy, see gneiss/cache/concepts.hpp");
        explicit held(Policy p) : policy(std::move(p)) {}
        [[nodiscard]] std::size_t capacity() const override { return policy.capacity(); }
        [[nodiscard]] std::span<const node_id> initial() const override { return policy.initial(); }
        void next(std::span<const node_id> ids, change_set& out) override { policy.next(ids, out); }

        Policy policy;
    };

    std::unique_ptr<any> policy_;
};

static_assert(cache_policy<any_cache_policy>);

} // namespace gneiss
