// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/engine/any_engine.hpp>

namespace gneiss {

struct context_options {
    std::uint64_t memory = memory_budget::unlimited; ///< maximum for stores and batches together [bytes]
    std::size_t threads = 0;                         ///< 0: all CPUs
    std::uint64_t seed = 1;                          ///< seed of all random numbers
    engine_factory engines{};                        ///< empty: io_uring if available, else threads
};

/// Resources shared by the parts of a trainer: memory budget, threads, I/O engine and seed.
///
///     context run({.memory = std::uint64_t{1} << 30, .seed = 7});
///
/// Must outlive everything made with it. Errors: errc::unsupported if no engine works.
class context {
public:
    explicit context(const context_options& options = {})
        : budget_(options.memory), executor_(options.threads), seed_(options.seed), engines_(options.engines ? options.engines : working_engine()) {}
    context(const context&) = delete;
    context& operator=(const context&) = delete;

    [[nodiscard]] memory_budget& budget() noexcept { return budget_; }
    [[nodiscard]] executor_ref executor() const noexcept { return executor_; }
    [[nodiscard]] const engine_factory& engines() const noexcept { return engines_; }
    [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

private:
    [[nodiscard]] static engine_factory working_engine();

    memory_budget budget_;
    tbb_executor executor_;
    std::uint64_t seed_;
    engine_factory engines_;
};

/// Range of epochs for a for loop, each trained on demand.
template <class Trainer, class Epoch>
class epoch_range {
public:
    class iterator {
    public:
        iterator(Trainer& of, std::uint64_t left) : of_(&of), left_(left) {
            if (left_ != 0) last_ = of_->train_epoch();
        }
        const Epoch& operator*() const noexcept { return last_; }
        iterator& operator++() {
            if (--left_ != 0) last_ = of_->train_epoch();
            return *this;
        }
        bool operator==(std::default_sentinel_t /*end*/) const noexcept { return left_ == 0; }

    private:
        Trainer* of_;
        std::uint64_t left_;
        Epoch last_{};
    };

    epoch_range(Trainer& of, std::uint64_t count) noexcept : of_(of), count_(count) {}
    [[nodiscard]] iterator begin() const { return {of_, count_}; }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

private:
    Trainer& of_;
    std::uint64_t count_;
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/detail/context.hpp>
#endif
