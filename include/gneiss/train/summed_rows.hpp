// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/staleness.hpp>

namespace gneiss {

/// Gradients of learned rows of the batches of a step, summed row by row in the order of replicas.
///
///     row_sums sums(rows, dim);
///     for (const training_batch& b : step) sums.add(b.nodes, b.gradients);   // of replica 0 first
///     sums.step(table, optimizer, t, executor);                             // once for each row
///
/// The sums of a row depend on the batches that read it alone: rows in several places, each with the sums of its own,
/// take the same bits. Memory: `need`. One thread.
class row_sums {
public:
    /// \param rows  number of rows
    /// \param dim   floats of a gradient
    row_sums(std::size_t rows, std::size_t dim) : at_(rows, none), dim_(dim) {}

    /// Returns the memory of the sums of `rows` rows, of which a step takes at most `most`. Lists grow by doubling.
    [[nodiscard]] static memory_need need(std::uint64_t rows, std::uint64_t most, std::uint64_t dim) {
        return {"sums of learned rows", sizeof(std::uint32_t) * rows + 2 * most * (4 + sizeof(float) * dim)};
    }

    /// Adds the gradients of a batch [ids, dim]. Throws errc::out_of_range, before anything is added, for an id that is
    /// none of a row.
    /// \param ids    distinct
    /// \param first  id of row 0
    void add(std::span<const std::uint32_t> ids, matrix_view<const float> gradients, std::uint64_t first = 0) {
        for (const std::uint32_t id : ids)
            if (id < first || id - first >= at_.size())
                throw error(errc::out_of_range,
                    "a gradient of row " + std::to_string(id) + ", but the rows are " + std::to_string(first) + " to " +
                        std::to_string(first + at_.size()));
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const std::span<const float> more = gradients[i].first(dim_);
            std::uint32_t& at = at_[static_cast<std::size_t>(ids[i] - first)];
            if (at == none) {
                at = static_cast<std::uint32_t>(ids_.size());
                ids_.push_back(static_cast<std::uint32_t>(ids[i] - first));
                sums_.insert(sums_.end(), more.begin(), more.end());
                continue;
            }
            float* const sum = sums_.data() + std::size_t{at} * dim_;
            for (std::size_t k = 0; k < dim_; ++k) sum[k] += more[k];
        }
    }

    /// Steps the rows that have gradients by their sums, as step t, then forgets those.
    /// \param table  [rows, dim + state]
    void step(matrix_view<float> table, const any_row_optimizer& by, std::uint64_t t, executor_ref executor) {
        if (!ids_.empty()) by.step_rows_at(table, ids_, {sums_.data(), ids_.size(), dim_}, t, executor);
        clear();
    }
    /// Forgets all gradients.
    void clear() noexcept {
        for (const std::uint32_t id : ids_) at_[id] = none;
        ids_.clear();
        sums_.clear();
    }

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    std::vector<std::uint32_t> at_;  // of each row: its place among the sums
    std::vector<std::uint32_t> ids_; // of the rows that have gradients
    std::vector<float> sums_;        // [ids, dim]
    std::size_t dim_;
};

/// Learned rows of all nodes in memory, which replicas share: the batches of a step read the rows of the step before,
/// and their gradients are summed in the order of replicas and applied once, with the last of them. A step of one batch
/// is that of `buffered_embeddings`.
///
/// Without a table, nothing is learned. The loop needs staleness 0: otherwise batches read rows while others step them.
/// Memory: the table's, and `row_sums::need`. Thread-safety: as in `embedding_source`. Source: Armada, section 3
/// (gradients are synchronized before each update), for rows in place of weights.
class summed_rows {
public:
    summed_rows() = default;
    /// Precondition: table and executor outlive this.
    summed_rows(embedding_table& table, executor_ref executor)
        : table_(&table),
          sums_(std::in_place, table.rows(), table.layout().dim),
          executor_(executor) {}

    [[nodiscard]] std::size_t columns() const noexcept { return table_ == nullptr ? 0 : table_->layout().dim; }
    /// Returns 0: rows are stepped when batches are applied.
    [[nodiscard]] static std::size_t state_columns() noexcept { return 0; }
    [[nodiscard]] static bool keeps_all() noexcept { return true; }
    /// Throws errc::invalid_argument if the rows have a different number of state floats.
    void set_optimizer(const any_row_optimizer& by) {
        if (table_ == nullptr) return;
        check_state_floats(by, table_->layout(), "nodes");
        optimizer_ = by;
    }
    void begin_epoch(const epoch_plan& /*states*/, std::uint32_t /*first*/) {
        if (sums_) sums_->clear();
    }
    [[nodiscard]] std::optional<lease> acquire(std::uint32_t /*state*/, const std::stop_token& /*stop*/) noexcept {
        return lease{};
    }
    void end_epoch() noexcept {}
    /// False: rows are in memory, and a checkpoint has them.
    [[nodiscard]] static bool commit_wanted() noexcept { return false; }
    void gather(training_batch& b, matrix_view<float> to) const {
        const matrix_view<const float> rows = std::as_const(*table_).values();
        parallel_for(*executor_, b.nodes.size(), 1024, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) std::ranges::copy(rows[b.nodes[i]], to[i].begin());
        });
    }
    void computed(training_batch& /*batch*/) noexcept {}
    void apply(training_batch& b) {
        sums_->add(b.nodes, b.gradients);
        if (b.ends_step) sums_->step(table_->table(), optimizer_, b.step, *executor_);
    }
    /// Returns null: no partition of them is leased.
    [[nodiscard]] static const resident_embeddings* resident(const lease& /*of*/) noexcept { return nullptr; }
    /// Returns an empty histogram: no row is stale.
    [[nodiscard]] static staleness_histogram row_staleness() { return {}; }

private:
    embedding_table* table_ = nullptr;
    std::optional<row_sums> sums_;
    std::optional<executor_ref> executor_;
    any_row_optimizer optimizer_{sgd{}};
};
static_assert(embedding_source<summed_rows>);

} // namespace gneiss
