// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

class bitmap;

/// Accesses of consecutive batches that are known before the batches run, and the contents of a cache at each of them.
///
/// Meaning: a producer of batches that looks ahead gives each batch the window that it lies in
/// (`training_batch::window`); a cache of rows then follows the window's change sets instead of a policy. Files, memory
/// or another process may be behind it. `superbatch` is one, in files (Ginex, VLDB'22, section 3.1).
/// Cost: `changes` O(ids), and I/O; `for_each_miss` O(accesses of the window), and one pass over its files; the rest
/// O(1).
/// Thread-safety: one thread, which gathers the batches in order; `for_each_miss` by one thread more.
/// Errors: those of the store behind it.
class access_window {
public:
    access_window() = default;
    access_window(const access_window&) = delete;
    access_window& operator=(const access_window&) = delete;
    virtual ~access_window() = default;

    [[nodiscard]] virtual std::uint64_t first() const noexcept = 0; ///< number of its first batch
    [[nodiscard]] virtual std::uint64_t last() const noexcept = 0;  ///< one past its last
    /// Returns the rows that the cache admits and evicts before the first batch.
    [[nodiscard]] virtual const change_set& fill() const noexcept = 0;
    /// True if `fill` assumes an empty cache.
    [[nodiscard]] virtual bool begins_empty() const noexcept = 0;
    /// Writes the change set after the next batch, whose ids are `ids`. Throws errc::invalid_argument if the window has
    /// none.
    virtual void changes(std::span<const node_id> ids, change_set& to) = 0;

    /// Visits the misses of a batch; batches are numbered from 0.
    using miss_visitor = std::function<void(std::size_t batch, std::span<const node_id> misses)>;
    /// Calls `visit` for each batch, from 0, with the rows that its cache will not hold. `cached`: rows in the cache
    /// after `fill`; on return, those after the last batch. Throws errc::invalid_argument if requests are not stored.
    virtual void for_each_miss(bitmap& cached, const miss_visitor& visit) const = 0;
};

} // namespace gneiss
