// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <gneiss/core/memory_budget.hpp>

namespace gneiss::detail {

/// Memory that a buffer may fill: charged at construction, and raised if a plan needs more. It never shrinks, as plans
/// of later epochs are similar. Thread-safety: one thread raises it, any reads `bytes`.
class growing_charge {
public:
    /// Precondition: the budget outlives this. Throws over_budget.
    growing_charge(memory_budget& budget, memory_need need)
        : budget_(budget),
          bytes_(need.bytes),
          charge_(budget.charge(std::move(need))) {}

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    /// Raises the charge, if it is less. Throws over_budget, and then nothing changes.
    void at_least(std::uint64_t needed) {
        if (needed <= bytes()) return;
        budget_.raise(charge_, needed);
        bytes_.store(needed, std::memory_order_relaxed);
    }

private:
    memory_budget& budget_;
    std::atomic<std::uint64_t> bytes_;
    memory_charge charge_;
};

} // namespace gneiss::detail
