// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>

namespace gneiss::detail {

/// Memory that a buffer may fill: charged at construction, and more if a plan needs more. It never shrinks, as plans of
/// later epochs are similar. Thread-safety: one thread grows it, any reads `bytes`.
class growing_charge {
public:
    /// Precondition: the budget outlives this. Throws over_budget.
    growing_charge(memory_budget& budget, std::string name, std::uint64_t bytes)
        : budget_(budget),
          name_(std::move(name)),
          bytes_(bytes) {
        charges_.push_back(budget.charge(name_, bytes));
    }

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    /// Charges the difference, if any. Throws over_budget, and then nothing changes.
    void at_least(std::uint64_t needed) {
        if (needed <= bytes()) return;
        charges_.push_back(budget_.charge(name_ + " of this plan", needed - bytes()));
        bytes_.store(needed, std::memory_order_relaxed);
    }

private:
    memory_budget& budget_;
    std::string name_;
    std::atomic<std::uint64_t> bytes_;
    std::vector<memory_charge> charges_;
};

} // namespace gneiss::detail
