// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/summed_rows.hpp>

namespace gneiss {

/// Owners of the learned rows of nodes: partition p is owner p mod n's, with its nodes in their order.
class row_owners {
public:
    /// Spreads the partitions over `count` owners. Throws errc::invalid_argument for no owner.
    row_owners(row_partitioning rows, std::uint32_t count) : rows_(std::move(rows)), first_(rows_.partitions) {
        if (count == 0) throw error(errc::invalid_argument, "learned rows need an owner");
        sizes_.resize(count);
        for (partition_id p = 0; p < rows_.partitions; ++p) {
            first_[p] = sizes_[p % count];
            sizes_[p % count] += rows_.size(p);
        }
    }

    /// Returns the number of owners.
    [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(sizes_.size()); }
    /// Returns the number of rows of an owner.
    [[nodiscard]] std::uint64_t rows_of(std::uint32_t owner) const { return sizes_.at(owner); }
    /// Returns the owner of a node's row. Precondition: it is a node.
    [[nodiscard]] std::uint32_t owner_of(node_id node) const noexcept { return rows_.of(node) % count(); }
    /// Returns the place of a node's row among those of its owner. Precondition: it is a node.
    [[nodiscard]] std::uint32_t place_of(node_id node) const noexcept {
        const partition_id p = rows_.of(node);
        return static_cast<std::uint32_t>(first_[p] + (node - rows_.begin(p)));
    }
    /// Calls visit(first, count, place) with the nodes of each partition of an owner, and the place of the first.
    template <class Visit>
    void for_each_range(std::uint32_t owner, Visit&& visit) const {
        for (partition_id p = owner; p < rows_.partitions; p += count())
            visit(rows_.begin(p), rows_.size(p), first_[p]);
    }
    /// Nodes by the owners of their rows.
    struct split {
        std::vector<std::vector<std::uint32_t>> places;          ///< among the rows of each owner [owners]
        std::vector<std::pair<std::uint32_t, std::uint32_t>> of; ///< [nodes] owner, and index in its places
    };
    /// Divides nodes by owner. O(nodes). Throws errc::out_of_range for what is no node.
    [[nodiscard]] split divide(std::span<const node_id> nodes) const {
        split result{.places = std::vector<std::vector<std::uint32_t>>(count()), .of = {}};
        result.of.reserve(nodes.size());
        for (const node_id node : nodes) {
            if (node >= rows_.nodes)
                throw error(errc::out_of_range,
                    "a learned row of node " + std::to_string(node) + " of " + std::to_string(rows_.nodes));
            const std::uint32_t owner = owner_of(node);
            result.of.emplace_back(owner, static_cast<std::uint32_t>(result.places[owner].size()));
            result.places[owner].push_back(place_of(node));
        }
        return result;
    }

private:
    row_partitioning rows_;
    std::vector<std::uint64_t> first_; // place of the first row of each partition
    std::vector<std::uint64_t> sizes_; // of owners
};

/// Gradients of some rows of an owner, of one batch.
struct row_gradients {
    std::span<const std::uint32_t> places; ///< distinct
    matrix_view<const float> gradients;    ///< [places, dim]
};

/// Learned rows of an owner: values and optimizer state of its partitions. Batches of step t read the rows of step
/// t - 1; the gradients of the step's batches are summed in the order of replicas, and applied once. Calls name a step
/// and a *generation*, of those who compute it: another step or generation than the owner's is refused, so that nothing
/// is applied twice, or by a group that has gone on without this owner.
///
/// Thread-safety: none. Memory: rows, and `row_sums::need`. Source: Armada, section 3.
class row_owner {
public:
    /// Rows of zeros. \param layout  of a row
    row_owner(std::uint64_t rows, row_layout layout, executor_ref executor)
        : table_(static_cast<std::size_t>(rows), layout),
          sums_(static_cast<std::size_t>(rows), layout.dim),
          executor_(executor) {}

    /// Continues after `steps` steps with these rows [rows · (dim + state)], by an optimizer, in a generation. Throws
    /// errc::config_mismatch for rows of another size, errc::invalid_argument for an optimizer of other state.
    void begin(std::uint64_t generation, std::uint64_t steps, std::span<const float> rows, any_row_optimizer by) {
        if (rows.size() != table_.data().size())
            throw error(errc::config_mismatch,
                std::to_string(rows.size()) + " floats of learned rows in the place of " +
                    std::to_string(table_.data().size()) + ": they are another model's");
        check_state_floats(by, table_.layout(), "nodes");
        std::ranges::copy(rows, table_.data().begin());
        optimizer_ = std::move(by);
        sums_.clear();
        generation_ = generation;
        steps_ = steps;
    }
    /// Goes on in another generation, whose steps follow those made.
    void join(std::uint64_t generation) noexcept { generation_ = generation; }
    /// Copies the values of rows [places, dim] for a batch of step `step`. Throws errc::invalid_argument for another
    /// step or generation; errc::out_of_range.
    void read(std::uint64_t generation, std::uint64_t step, std::span<const std::uint32_t> places,
        matrix_view<float> to) const {
        check(generation, step);
        const matrix_view<const float> rows = table_.values();
        for (std::size_t i = 0; i < places.size(); ++i) {
            if (places[i] >= rows.rows())
                throw error(errc::out_of_range,
                    "learned row " + std::to_string(places[i]) + " of " + std::to_string(rows.rows()));
            std::ranges::copy(rows[places[i]], to[i].begin());
        }
    }
    /// Makes step `step` by the gradients of its batches, of replica 0 first. Throws as `read`, with the rows as they
    /// were; errc::config_mismatch for gradients of another width.
    void apply(std::uint64_t generation, std::uint64_t step, std::span<const row_gradients> replicas) {
        check(generation, step);
        try {
            for (const auto& [places, gradients] : replicas) {
                if (gradients.rows() != places.size() ||
                    (!places.empty() && gradients.columns() != table_.layout().dim))
                    throw error(errc::config_mismatch, "gradients of learned rows of another width, or number");
                sums_.add(places, gradients);
            }
        } catch (...) {
            sums_.clear();
            throw;
        }
        sums_.step(table_.table(), optimizer_, step, executor_);
        ++steps_;
    }
    /// Returns all rows with their state [rows · (dim + state)].
    [[nodiscard]] std::span<const float> rows() const noexcept { return table_.data(); }
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; } ///< made so far

private:
    void check(std::uint64_t generation, std::uint64_t step) const {
        if (generation == generation_ && step == steps_ + 1) return;
        throw error(errc::invalid_argument,
            "step " + std::to_string(step) + " of generation " + std::to_string(generation) +
                " is refused by an owner of learned rows after step " + std::to_string(steps_) + " of generation " +
                std::to_string(generation_));
    }

    embedding_table table_;
    row_sums sums_;
    executor_ref executor_;
    any_row_optimizer optimizer_{sgd{}};
    std::uint64_t generation_ = 0, steps_ = 0;
};

} // namespace gneiss
