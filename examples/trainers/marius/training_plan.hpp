#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/bucket_store.hpp>

#include "common/records.hpp"
#include "options.hpp"

namespace marius {

/// What a run holds in memory, moves and writes, decided before it begins.
struct training_plan {
    gneiss::row_partitioning partitioning{};
    gneiss::row_layout layout{};
    bool in_memory = true;
    std::uint32_t slots = 1;        ///< partitions that a state may name
    std::uint32_t prefetch = 0;     ///< further slots of the buffer
    std::uint32_t spare = 1;        ///< free slots of the row file
    std::uint64_t budget = 0;       ///< bytes
    std::vector<gneiss::memory_part> parts;
    std::uint64_t edge_bytes = 0, evaluation_bytes = 0, batch_bytes = 0;
    std::uint64_t disk_bytes = 0; ///< of the run at most
    std::function<gneiss::plan(std::uint64_t)> order;

    [[nodiscard]] std::uint64_t slot_bytes() const;
    [[nodiscard]] std::uint64_t embedding_bytes() const { return partitioning.nodes * layout.bytes(); }
    [[nodiscard]] std::uint64_t memory_bytes() const;
    /// One epoch's states and traffic, the edges' included.
    [[nodiscard]] programs::plan_record record(const gneiss::bucket_store& buckets, std::uint64_t epoch = 0) const;
};

/// Chooses store, partitions, buffer and order within the budget, and writes the choice back into `chosen`.
///
/// `buckets` are the dataset's; with another number of partitions, edges are estimated until they are bucketed anew.
/// Throws gneiss::over_budget with the parts of the least plan, gneiss::error (no_space), usage_error.
[[nodiscard]] training_plan plan_training(options& chosen, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets, const gneiss::any_link_model& model, std::size_t state_floats);

/// The plan for people: parts, budget, traffic.
[[nodiscard]] std::string describe(const training_plan& plan, const programs::plan_record& record);

} // namespace marius
