// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// Location of memory. Each kind has its own limit.
enum class memory_kind : std::uint8_t { host, pinned, device };

/// Memory that a component takes. Components that charge a budget state theirs by a static member `need`, so that a
/// plan, a refusal and the budget's charges show one name and one number for one thing.
struct memory_need {
    std::string name;                     ///< name in plans and errors
    std::uint64_t bytes = 0;              ///< size
    memory_kind kind = memory_kind::host; ///< memory it is charged to

    friend bool operator==(const memory_need&, const memory_need&) = default;
};

/// Formats `bytes` with a binary unit and three significant digits: "1.50 GiB". `up`: rounds up, so that so much
/// suffices.
[[nodiscard]] inline std::string format_bytes(std::uint64_t bytes, bool up = false) {
    static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return std::to_string(bytes) + " B";
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1023.995 && unit + 1 < std::size(units)) {
        value /= 1024;
        ++unit;
    }
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    const double last = decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
    if (up) value = std::ceil(value * last) / last;
    std::string text = std::to_string(value);
    text.resize(text.find('.') + (decimals == 0 ? 0 : 1 + static_cast<std::size_t>(decimals)));
    return text + " " + units[unit];
}

/// A request does not fit. `parts()` lists everything charged, then the refused request.
class over_budget : public error {
public:
    /// Error for a limit, and everything charged with the refused request.
    over_budget(std::uint64_t limit, std::vector<memory_need> parts)
        : error(errc::over_budget, describe(limit, parts)),
          limit_(limit),
          parts_(std::move(parts)) {}

    /// Returns the limit [bytes].
    [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
    /// Returns the sum of all parts [bytes].
    [[nodiscard]] std::uint64_t needed() const noexcept { return sum(parts_); }
    /// Returns everything charged, then the refused request.
    [[nodiscard]] const std::vector<memory_need>& parts() const noexcept { return parts_; }

private:
    static std::uint64_t sum(const std::vector<memory_need>& parts) noexcept {
        std::uint64_t total = 0;
        for (const memory_need& part : parts) total += part.bytes;
        return total;
    }
    static std::string describe(std::uint64_t limit, const std::vector<memory_need>& parts) {
        std::string text =
            "needs " + format_bytes(sum(parts), true) + " of memory, the budget is " + format_bytes(limit);
        const char* before = ": ";
        for (const memory_need& part : parts) {
            text += before + part.name + " " + format_bytes(part.bytes);
            before = " + ";
        }
        return text;
    }

    std::uint64_t limit_;
    std::vector<memory_need> parts_;
};

class memory_budget;

/// Scoped charge, released on destruction. Must not outlive its budget.
class [[nodiscard]] memory_charge {
public:
    memory_charge() = default;
    memory_charge(memory_charge&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          index_(other.index_) {}
    memory_charge& operator=(memory_charge&& other) noexcept {
        std::swap(budget_, other.budget_);
        std::swap(index_, other.index_);
        return *this;
    }
    ~memory_charge();

private:
    friend class memory_budget;
    memory_charge(memory_budget& budget, std::size_t index) noexcept : budget_(&budget), index_(index) {}

    memory_budget* budget_ = nullptr;
    std::size_t index_ = 0;
};

/// Memory limit that components charge before they allocate.
///
///     memory_budget budget(std::uint64_t{8} << 30);
///     const memory_charge charge = budget.charge({"edge buffer", bytes}); // throws over_budget if it does not fit
///
/// Thread-safe. O(parts) per call: charge buffers, not elements.
///
/// From examples/13_memory_budget.cpp:
/// \snippet 13_memory_budget.cpp budget
class memory_budget {
public:
    /// Limit that nothing exceeds.
    static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

    /// Makes a budget with a limit for each kind of memory [bytes].
    explicit memory_budget(
        std::uint64_t host = unlimited, std::uint64_t pinned = unlimited, std::uint64_t device = unlimited)
        : limits_{host, pinned, device} {}
    memory_budget(const memory_budget&) = delete;
    memory_budget& operator=(const memory_budget&) = delete;

    /// Reserves the memory of `need`. If it does not fit, throws `over_budget` with everything charged so far.
    memory_charge charge(memory_need need) {
        const std::scoped_lock lock(mutex_);
        if (need.bytes > limit(need.kind) - used_of(need.kind)) refuse(std::move(need));
        std::size_t index = 0;
        while (index < parts_.size() && live_[index]) ++index;
        if (index == parts_.size()) {
            live_.push_back(false); // first: a surplus flag is harmless if the other allocation fails
            parts_.emplace_back();
        }
        parts_[index] = std::move(need);
        live_[index] = true;
        return {*this, index};
    }
    /// Raises a charge of this budget to `bytes`; a larger one stays. If that does not fit, throws `over_budget`
    /// with everything else charged and the refused need, and nothing changes.
    void raise(const memory_charge& charge, std::uint64_t bytes) {
        const std::scoped_lock lock(mutex_);
        memory_need& part = parts_[charge.index_];
        if (bytes <= part.bytes) return;
        if (bytes - part.bytes > limit(part.kind) - used_of(part.kind))
            refuse({part.name, bytes, part.kind}, charge.index_);
        part.bytes = bytes;
    }

    /// Returns the limit of a kind of memory [bytes].
    [[nodiscard]] std::uint64_t limit(memory_kind kind = memory_kind::host) const noexcept {
        return limits_[static_cast<std::size_t>(kind)];
    }
    /// Returns the bytes charged now.
    [[nodiscard]] std::uint64_t used(memory_kind kind = memory_kind::host) const {
        const std::scoped_lock lock(mutex_);
        return used_of(kind);
    }
    /// Returns the bytes that may still be charged.
    [[nodiscard]] std::uint64_t available(memory_kind kind = memory_kind::host) const {
        return limit(kind) - used(kind);
    }
    /// Current charges, in slot order.
    [[nodiscard]] std::vector<memory_need> parts(memory_kind kind = memory_kind::host) const {
        const std::scoped_lock lock(mutex_);
        return parts_of(kind);
    }

private:
    friend class memory_charge;

    void release(std::size_t index) noexcept {
        const std::scoped_lock lock(mutex_);
        live_[index] = false;
    }
    /// Throws over_budget for a need and all charges but that of slot `except`.
    [[noreturn]] void refuse(memory_need need, std::optional<std::size_t> except = std::nullopt) const {
        const memory_kind kind = need.kind;
        std::vector<memory_need> all = parts_of(kind, except);
        all.push_back(std::move(need));
        throw over_budget(limit(kind), std::move(all));
    }
    [[nodiscard]] std::uint64_t used_of(memory_kind kind) const noexcept {
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < parts_.size(); ++i)
            if (live_[i] && parts_[i].kind == kind) total += parts_[i].bytes;
        return total;
    }
    [[nodiscard]] std::vector<memory_need> parts_of(
        memory_kind kind, std::optional<std::size_t> except = std::nullopt) const {
        std::vector<memory_need> found;
        for (std::size_t i = 0; i < parts_.size(); ++i)
            if (live_[i] && parts_[i].kind == kind && except != i) found.push_back(parts_[i]);
        return found;
    }

    mutable std::mutex mutex_;
    std::uint64_t limits_[3];
    std::vector<memory_need> parts_;
    std::vector<bool> live_;
};

inline memory_charge::~memory_charge() {
    if (budget_ != nullptr) budget_->release(index_);
}

} // namespace gneiss
