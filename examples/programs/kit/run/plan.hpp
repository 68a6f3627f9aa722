// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/memory_plan.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/train/batch_profile.hpp>
#include <gneiss/train/choose_plan.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/training_plan.hpp>

#include "kit/cli/machine_rates.hpp"
#include "kit/report/records.hpp"
#include "kit/run/options.hpp"

namespace trainers {

using gneiss::training_plan;

/// Memory of the batches of a GNN, and of its encoder.
struct gnn_needs {
    gneiss::batch_needs batches{};
    std::uint64_t encoder = 0; ///< [bytes]
};
/// Returns the needs by a profile, within the bounds; without one, the bounds.
///
/// \param row      bytes of a node's rows
/// \param scratch  of a batch, in addition to what the profile counts [bytes]
[[nodiscard]] gnn_needs needs_of(const gneiss::gnn_memory& bound, const std::optional<gneiss::batch_profile>& seen,
    std::uint64_t row, std::uint64_t scratch = 0);

/// Returns somewhat more than was drawn: the batches of an epoch are much alike, small ones less so. Their sizes are
/// sums of draws, so eight square roots are far more than they ever differ by. A batch beyond that runs alone.
[[nodiscard]] std::uint64_t some_more(std::uint64_t drawn);

/// Adds the parts of encoder, batches and evaluation of a GNN: evaluation gets three quarters of the remainder, up to
/// 8 GiB.
///
/// \param least  of the work between epochs [bytes]; 0: there is none
void add_batches_and_evaluation(
    training_plan& plan, std::size_t in_flight, bool fixed, const gnn_needs& of, std::uint64_t least);

/// Returns budget and parts and, if there are states, those of the first epoch and its traffic, edges included.
[[nodiscard]] programs::plan_record record_of(const training_plan& plan);

/// Returns the order that a choice names, or that of a file of buckets.
[[nodiscard]] std::function<gneiss::epoch_plan(std::uint64_t)> make_order(
    const gneiss::plan_choice& choice, std::uint64_t seed);

/// Returns the memory of training edges: all, or those of two states [bytes].
[[nodiscard]] std::uint64_t edge_memory(const run_options& options, const training_plan& plan,
    const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets);
/// Edges that a state trains: maximum and median over all states.
struct state_edges {
    std::uint64_t most = 0, median = 0;
};
/// Returns the edges per state of a plan; an estimate if its edges are to be re-bucketed.
/// \param sizes  of the stored buckets
[[nodiscard]] state_edges edges_of_states(const run_options& options, const training_plan& plan,
    const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets, const gneiss::state_sizes& sizes);
/// Returns the memory that grows with the square of the partitions [bytes]: the states of an epoch, of which every
/// buffer has a copy; and, if edges are re-bucketed, the tables of their buckets, twice during construction.
/// \param links  states train edge buckets, so all pairs of partitions are resident together
[[nodiscard]] gneiss::memory_need table_need(
    const training_plan& plan, const gneiss::bucket_store& buckets, bool links);
/// Returns the memory of labels and splits of all nodes, and of the lists of training nodes and, if the run evaluates,
/// of validation and test nodes.
[[nodiscard]] gneiss::memory_need label_need(const gneiss::dataset_manifest& graph, bool evaluates);
/// Returns the memory that a decoder and its threads hold between batches of `batch` edges.
[[nodiscard]] gneiss::memory_need decoder_need(const link_options& options, std::uint64_t batch, std::uint64_t threads,
    const gneiss::any_link_model& model, std::uint64_t nodes);
/// As `gneiss::choose_plan`, by the flags, with spare slots and disk space.
/// \param given  resolved
/// `buckets` are the dataset's. Throws errc::over_budget with the parts of the smallest plan and what helps.
[[nodiscard]] training_plan choose_plan(const run_options& given, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets, const std::vector<std::string>& default_orders,
    const gneiss::plan_maker& make);
/// As `gneiss::choose_again`, after memory that is free was returned to the system.
[[nodiscard]] training_plan choose_again(
    const run_options& given, const training_plan& before, const gneiss::plan_maker& make);
/// As `gneiss::choose_by_profile`, which returns the memory of a profile to the system.
[[nodiscard]] training_plan choose_by_profile(const std::function<training_plan(const gneiss::seen_batches&)>& choose,
    const std::function<training_plan(const training_plan&, const gneiss::seen_batches&)>& again,
    const std::function<gneiss::seen_batches(const training_plan&)>& profile);

/// Means to draw batches for a plan.
struct batch_drawing {
    gneiss::engine_factory engines;
    std::stop_token stop;
};

/// Returns flags with the plan's choice.
template <std::derived_from<run_options> Options>
[[nodiscard]] Options chosen(Options flags, const training_plan& plan) {
    if (flags.store != "device") flags.store = plan.in_memory ? "memory" : "disk";
    flags.partitions = plan.choice.partitions;
    flags.buffer = plan.choice.slots;
    flags.order = plan.choice.order;
    flags.prefetch = plan.choice.prefetch;
    return flags;
}

/// True if nodes are placed by locality: the partitions have at most a quarter of the edges between them that random
/// ones have. A plan with more partitions divides them, and what is then cut is not known.
[[nodiscard]] bool places_neighbors_together(const gneiss::bucket_store& buckets);
/// Returns a warning for a plan of edges whose states hold less than an eighth of nodes that are not placed by
/// locality; empty: none. \param buckets  the dataset's
[[nodiscard]] std::string doubt_buffer(const training_plan& plan, const gneiss::bucket_store& buckets);

/// Returns the seconds of an epoch: its work and what the plan reads and writes, at some rates on `threads` threads (0:
/// all CPUs). None if a rate is unknown.
[[nodiscard]] std::optional<double> epoch_seconds(programs::epoch_work work, const programs::plan_record& plan,
    const programs::machine_rates& rates, std::uint64_t threads);

/// Formats the whole plan for display, with the flags that lower its bias.
[[nodiscard]] std::string describe(const training_plan& plan);
/// Formats a plan in one or two lines: where nodes are and the largest parts of memory; bytes of an epoch, and bias.
[[nodiscard]] std::string summarize(const training_plan& plan);

} // namespace trainers
