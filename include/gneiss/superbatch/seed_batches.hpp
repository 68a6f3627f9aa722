// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/sample/seed_set.hpp>

namespace gneiss {

/// The seeds of an epoch's batches: all that is needed to draw their samples ahead of training. Batches of nodes are
/// some; the seeds of a link batch are the ends of its edges and its negatives.
///
/// Copies share the memory of the seeds. Thread-safety: one thread at a time uses them.
class seed_batches {
public:
    /// No batches.
    seed_batches() = default;
    /// \param of  returns the seeds of batch k, below `count`, valid until it is called again
    seed_batches(std::uint64_t count, std::function<seed_set(std::uint64_t k)> of)
        : count_(count),
          of_(std::move(of)) {}
    /// Takes batches of nodes.
    seed_batches(node_batches nodes) // NOLINT(google-explicit-constructor): they are seeds
        : count_(nodes.size()),
          of_([from = std::move(nodes), seeds = std::make_shared<std::vector<node_id>>()](std::uint64_t k) {
              from.choose(k, *seeds);
              return seed_set{*seeds};
          }) {}

    /// Returns the number of batches.
    [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
    /// Returns the seeds of batch `k`, valid until those of another are asked for. Precondition: k < size().
    [[nodiscard]] seed_set of(std::uint64_t k) const { return of_(k); }

private:
    std::uint64_t count_ = 0;
    std::function<seed_set(std::uint64_t)> of_;
};

} // namespace gneiss
