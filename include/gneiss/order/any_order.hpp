// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/comet.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/grid_walks.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/order/search.hpp>

namespace gneiss {

/// Type-erased order, chosen at run time: one indirect call per epoch. Models `edge_bucket_order`.
class any_order {
public:
    /// Takes an order over and names it.
    template <class Order>
        requires(!std::same_as<Order, any_order> && edge_bucket_order<Order>)
    any_order(std::string name, Order order)
        : name_(std::move(name)),
          partitions_(order.partitions()),
          resident_partitions_(order.resident_partitions()),
          states_(std::move(order)) {}
    /// Says what is missing: any other type.
    template <class Order>
        requires(!std::same_as<Order, any_order> && !edge_bucket_order<Order>)
    any_order(std::string /*name*/, Order /*order*/) : partitions_(0),
                                                       resident_partitions_(0) {
        static_assert(edge_bucket_order<Order>,
            "any_order: the object must be a gneiss::edge_bucket_order, see gneiss/order/concepts.hpp");
    }

    /// Returns the name.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::uint32_t partitions() const noexcept { return partitions_; }
    [[nodiscard]] std::uint32_t resident_partitions() const noexcept { return resident_partitions_; }
    [[nodiscard]] epoch_plan operator()(std::uint64_t epoch) const { return states_(epoch); }

private:
    std::string name_;
    std::uint32_t partitions_, resident_partitions_;
    std::function<epoch_plan(std::uint64_t)> states_;
};

static_assert(edge_bucket_order<any_order>);

/// Names accepted by `make_order`.
inline constexpr std::array<std::string_view, 10> order_names{"memory", "row-major", "hilbert", "hilbert-symmetric",
    "beta", "beta-randomized", "comet", "comet-balanced", "comet-beta", "searched"};

/// Returns the order called `name`, for a buffer of `resident_partitions` out of `partitions` partitions.
///
///     const any_order order = make_order("comet", /*partitions*/ 32, /*resident*/ 8, seed);
///     const epoch_plan plan = order(epoch);
///
/// `row-major` and the Hilbert curves are the same in every epoch and for every seed. Throws errc::invalid_argument for
/// an unknown name (listing the known ones), a buffer in which two partitions cannot meet, or `memory` if not
/// everything fits.
[[nodiscard]] inline any_order make_order(
    std::string_view name, std::uint32_t partitions, std::uint32_t resident_partitions, std::uint64_t seed = 0) {
    const auto named = [&](auto order) { return any_order(std::string(name), std::move(order)); };
    if (name == "memory") {
        if (resident_partitions < partitions)
            throw error(errc::invalid_argument,
                "order memory keeps all " + std::to_string(partitions) + " partitions resident, but the buffer has " +
                    std::to_string(resident_partitions) + " slots");
        return named(in_memory_order(partitions, seed));
    }
    if (name == "row-major") return named(row_major_order(partitions, resident_partitions));
    if (name == "hilbert") return named(hilbert_order(partitions, resident_partitions));
    if (name == "hilbert-symmetric") return named(hilbert_order(partitions, resident_partitions, {.symmetric = true}));
    if (name == "beta") return named(beta_order(partitions, resident_partitions, seed));
    if (name == "beta-randomized")
        return named(beta_order(partitions, resident_partitions, seed, {.randomize_bucket_states = true}));
    if (name == "comet") return named(comet_order(partitions, resident_partitions, seed));
    if (name == "comet-balanced")
        return named(comet_order(partitions, resident_partitions, seed, logical_order::balanced));
    if (name == "comet-beta") return named(comet_order(partitions, resident_partitions, seed, logical_order::beta));
    if (name == "searched") return named(searched_order(partitions, resident_partitions, seed));
    std::string known;
    for (const std::string_view n : order_names) known += (known.empty() ? "" : ", ") + std::string(n);
    throw error(errc::invalid_argument, "no order is called '" + std::string(name) + "'; known are " + known);
}

} // namespace gneiss
