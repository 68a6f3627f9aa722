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

/// Options of `context`.
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
///
/// From examples/25_own_pipeline.cpp:
/// \snippet 25_own_pipeline.cpp buffers
class context {
public:
    /// Probes the I/O engines. Throws errc::unsupported if none works.
    explicit context(const context_options& options = {})
        : budget_(options.memory),
          executor_(options.threads),
          seed_(options.seed),
          engines_(options.engines ? options.engines : working_engine()) {}
    context(const context&) = delete;
    context& operator=(const context&) = delete;

    /// Returns the budget that all parts charge.
    [[nodiscard]] memory_budget& budget() noexcept { return budget_; }
    /// Returns the executor of parallel loops.
    [[nodiscard]] executor_ref executor() const noexcept { return executor_; }
    /// Returns the maker of I/O engines, one per thread that reads or writes.
    [[nodiscard]] const engine_factory& engines() const noexcept { return engines_; }
    /// Returns the seed of all random keys.
    [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

private:
    [[nodiscard]] static engine_factory working_engine();

    memory_budget budget_;
    tbb_executor executor_;
    std::uint64_t seed_;
    engine_factory engines_;
};

/// Range of epochs for a for loop or `std::views`, each trained once, on demand: an `input_range`.
template <class Trainer, class Epoch>
class epoch_range {
public:
    /// Input iterator: the first access to an epoch trains it, and so does passing one without access. Errors of the
    /// trainer.
    class iterator {
    public:
        using iterator_concept = std::input_iterator_tag; ///< single pass
        using value_type = Epoch;                         ///< statistics of an epoch
        using difference_type = std::ptrdiff_t;           ///< number of epochs

        /// Constructs the end.
        iterator() = default;
        /// Points to the first of `left` epochs; 0: the end.
        iterator(Trainer& of, std::uint64_t left) noexcept : of_(&of), left_(left) {}
        /// Returns the statistics of the epoch. Precondition: not the end.
        const Epoch& operator*() const {
            train();
            return epoch_;
        }
        /// Moves to the next epoch. Precondition: not the end.
        iterator& operator++() {
            train();
            trained_ = false;
            --left_;
            return *this;
        }
        /// Moves to the next epoch. Precondition: not the end.
        void operator++(int) { ++*this; }
        /// True after the last epoch.
        bool operator==(std::default_sentinel_t /*end*/) const noexcept { return left_ == 0; }

    private:
        void train() const {
            if (!trained_) epoch_ = of_->train_epoch();
            trained_ = true;
        }

        Trainer* of_ = nullptr;
        std::uint64_t left_ = 0;
        mutable bool trained_ = false; // the current epoch, whose statistics are in epoch_
        mutable Epoch epoch_{};
    };

    /// Range of `count` epochs of a trainer, which must outlive it.
    epoch_range(Trainer& of, std::uint64_t count) noexcept : of_(&of), count_(count) {}
    /// Returns an iterator to the next epoch of the trainer.
    [[nodiscard]] iterator begin() const noexcept { return {*of_, count_}; }
    /// Returns the end of the range.
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

private:
    Trainer* of_;
    std::uint64_t count_;
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/detail/context.hpp>
#endif
