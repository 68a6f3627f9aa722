// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>

namespace gneiss {

/// Memory of a run before it begins: the needs of its parts. The names and numbers are those that the budget is charged
/// with, and that a refusal lists.
///
///     memory_plan plan;
///     plan.add(edge_buffer::need({.bytes = bytes})); // charged by the edge buffer
///     plan.reserve({"labels", 4 * nodes});           // held by the caller
///     if (plan.bytes() > limit) throw over_budget(limit, plan.parts());
///     memory_budget budget(limit);
///     const std::vector<memory_charge> reserved = plan.charge_reserved(budget);
class memory_plan {
public:
    /// Adds what a component charges when it is made. One of no bytes is left out.
    void add(memory_need need) { append(std::move(need), false); }
    /// Adds what no component charges: the caller does, by `charge_reserved`. One of no bytes is left out.
    void reserve(memory_need need) { append(std::move(need), true); }
    /// Raises a part to `bytes`; a larger one stays. Precondition: there is a part of that name.
    void raise(const std::string& name, std::uint64_t bytes) {
        const auto part = std::ranges::find(parts_, name, &memory_need::name);
        if (part == parts_.end()) throw error(errc::invalid_argument, "the plan has no part " + name);
        part->bytes = std::max(part->bytes, bytes);
    }

    /// Returns the parts, in the order in which they were added.
    [[nodiscard]] const std::vector<memory_need>& parts() const noexcept { return parts_; }
    /// Returns the bytes of the parts of a name.
    [[nodiscard]] std::uint64_t bytes_of(const std::string& name) const noexcept {
        std::uint64_t sum = 0;
        for (const memory_need& part : parts_) sum += part.name == name ? part.bytes : 0;
        return sum;
    }
    /// Returns the sum of all parts [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const memory_need& part : parts_) sum += part.bytes;
        return sum;
    }
    /// Charges what the caller reserves. Throws over_budget.
    [[nodiscard]] std::vector<memory_charge> charge_reserved(memory_budget& budget) const {
        std::vector<memory_charge> charges;
        for (std::size_t i = 0; i < parts_.size(); ++i)
            if (reserved_[i]) charges.push_back(budget.charge(parts_[i]));
        return charges;
    }

private:
    void append(memory_need need, bool reserved) {
        if (need.bytes == 0) return;
        parts_.push_back(std::move(need));
        reserved_.push_back(reserved);
    }

    std::vector<memory_need> parts_;
    std::vector<bool> reserved_; // [parts]
};

} // namespace gneiss
