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
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/plan_search.hpp>
#include <gneiss/train/row_room.hpp>

#include "kit/report/records.hpp"
#include "kit/run/options.hpp"

namespace trainers {

using gneiss::plan_choice;

/// Memory of the batches of a run.
struct batch_needs {
    gneiss::batch_memory bound{};   ///< upper bound of any batch
    gneiss::batch_memory largest{}; ///< of the large ones; one of more runs alone
    gneiss::batch_memory usual{};   ///< of most
    std::uint64_t alone = 0;        ///< in other parts, of a batch of the bound [bytes]; beyond their own bytes

    /// Returns the needs of batches that no profile was drawn of.
    [[nodiscard]] static batch_needs bounded(const gneiss::batch_memory& bound) { return {bound, bound, bound}; }
};

/// Memory of the batches of a GNN, and of its encoder.
struct gnn_needs {
    batch_needs batches{};
    std::uint64_t encoder = 0; ///< [bytes]
};
/// Returns the needs by a profile, within the bounds; without one, the bounds.
///
/// \param row      bytes of a node's rows
/// \param scratch  of a batch, in addition to what the profile counts [bytes]
[[nodiscard]] gnn_needs needs_of(const gneiss::gnn_memory& bound, const std::optional<gneiss::batch_profile>& seen,
    std::uint64_t row, std::uint64_t scratch = 0);

/// Memory, traffic and disk space of a run, decided before it begins.
struct training_plan {
    training_plan() = default;
    /// Makes the plan of a choice, for the dataset's partitions.
    training_plan(const plan_choice& choice, const gneiss::row_partitioning& stored);

    plan_choice choice;
    gneiss::row_partitioning partitioning{};
    gneiss::row_layout layout{}; ///< layout of embeddings; no floats: none are trained
    bool in_memory = true;
    std::uint32_t slots = 1;       ///< partitions per state
    std::uint32_t prefetch = 0;    ///< further slots of the buffer
    bool frozen = false;           ///< embeddings are read only
    bool loads_next_epoch = false; ///< loads the first partitions of the next epoch in this one
    std::uint32_t spare = 1;       ///< free slots of the embedding file
    std::uint64_t budget = 0;      ///< bytes
    gneiss::memory_plan memory;
    std::uint64_t table_bytes = 0; ///< see `table_need`
    std::uint64_t edge_bytes = 0;
    std::uint64_t evaluation_bytes = 0; ///< of an evaluation while no batch is in flight, with what the batches free
    std::uint64_t graph_bytes = 0, feature_bytes = 0;  ///< buffers of a trainer that samples neighbors
    std::size_t batches = 0;                           ///< in flight: one misses the updates of all others at most
    std::uint64_t row_bytes = 0;                       ///< all batches' rows, see gneiss::row_room
    std::uint64_t sample_bytes = 0, encoder_bytes = 0; ///< of a batch, and of the encoder: one of more runs alone
    std::uint64_t alone_bytes = 0;                     ///< of a batch of the bound, alone, beyond the parts of training
    std::uint64_t state_edges = 0;                     ///< maximum per state; 0: unlimited
    std::uint64_t disk_bytes = 0;                      ///< maximum of the run
    struct alternative {
        plan_choice choice;
        std::uint64_t swaps = 0, read_bytes = 0; ///< embeddings, features and graph per epoch
    };
    std::optional<alternative> runner_up{}; ///< the best rejected plan
    std::uint64_t in_memory_bytes = 0; ///< memory of the plan with everything in memory, which does not fit; 0: given
    std::function<gneiss::epoch_plan(std::uint64_t)> order; ///< states of an epoch; empty: the trainer has none
    /// Bytes that the states of an epoch read in addition to embeddings and training edges: features, graph. Empty:
    /// none.
    std::function<std::uint64_t(const gneiss::epoch_plan&)> further_reads;

    [[nodiscard]] std::uint64_t slot_bytes() const;
    [[nodiscard]] std::uint64_t embedding_bytes() const { return partitioning.nodes * layout.bytes(); }
    [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return memory.bytes(); }
    /// Returns the options of the partition buffer, without its trace.
    [[nodiscard]] gneiss::partition_buffer_options buffer_options() const {
        return {.resident_partitions = in_memory ? partitioning.partitions : slots, .prefetch = prefetch};
    }
    /// Returns the memory of the partition buffer; none without embeddings.
    [[nodiscard]] gneiss::memory_need buffer_need() const;
    /// True if all partitions are resident; otherwise those of a state and the ones ahead are.
    [[nodiscard]] bool keeps_all() const noexcept { return in_memory || slots >= partitioning.partitions; }
    /// Returns the bytes that batches and encoder free while no batch is in flight.
    [[nodiscard]] std::uint64_t freed_bytes() const noexcept {
        return batches * sample_bytes + row_bytes + encoder_bytes;
    }
    /// Adds the part of work between epochs, evaluation above all: `share` of the remaining budget, at most `most`, but
    /// enough for `least` with what batches free. Adds what a batch that runs alone needs beyond it: they use this
    /// memory at different times. `least` 0: there is no such work.
    void add_evaluation(std::uint64_t least, double share, std::uint64_t most);
    static constexpr std::uint64_t least_ranking_bytes = std::uint64_t{8} << 20;
    /// Returns the memory for copying the best state, while evaluation is idle: the embeddings of a partition.
    [[nodiscard]] std::uint64_t best_bytes() const;
    /// Returns the bytes that a full-graph evaluation may use in addition to its own part: graph and features of
    /// states, which are reread after it. 0 if everything is resident.
    [[nodiscard]] std::uint64_t borrowable_bytes() const noexcept {
        return keeps_all() ? 0 : graph_bytes + feature_bytes;
    }
    /// Returns the maximum number of nodes of a state.
    [[nodiscard]] std::uint64_t state_nodes() const noexcept {
        return keeps_all() ? partitioning.nodes : std::min(partitioning.nodes, slots * partitioning.capacity());
    }
    /// Adds the part of batches. If memory is scarce, fewer are in flight, down to one that is sampled while one is
    /// computed, and fewer have rows in memory, down to two usual ones, or one with `sparing`, or a large one. A batch
    /// of the bound fits alone, with the part of evaluation.
    ///
    /// \param in_flight  batches that the stages can use; all of them, of the bound, with --deterministic, `fixed`
    /// \param between    minimum of the work between epochs [bytes]
    void add_batches(std::size_t in_flight, bool fixed, const batch_needs& of, std::uint64_t between);
    /// Adds the parts of encoder, batches and evaluation of a GNN: evaluation gets three quarters of the remainder, up
    /// to 8 GiB.
    ///
    /// \param least  of the work between epochs [bytes]; 0: there is none
    void add_batches_and_evaluation(std::size_t in_flight, bool fixed, const gnn_needs& of, std::uint64_t least);
    /// Returns the bytes that an epoch of these states reads, edges included.
    [[nodiscard]] std::uint64_t reads(const gneiss::bucket_store& buckets, const gneiss::epoch_plan& states) const;
    /// Returns budget and parts and, if there are states, those of one epoch and its traffic, edges included.
    [[nodiscard]] programs::plan_record record(const gneiss::bucket_store& buckets, std::uint64_t epoch = 0) const;
};

/// Returns the order that a choice names, or that of a file of buckets.
[[nodiscard]] std::function<gneiss::epoch_plan(std::uint64_t)> make_order(
    const plan_choice& choice, std::uint64_t seed);

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
/// Returns the bytes that the states of an epoch read of graph and features: those not in the previous state.
/// An estimate if edges are to be re-bucketed for `partitions`. `features` are in these, or null.
[[nodiscard]] std::uint64_t reads_of(const gneiss::epoch_plan& states, std::uint32_t partitions,
    gneiss::neighbor_direction keeps, const gneiss::bucket_store& buckets, const gneiss::feature_store* features);

/// Makes the plans of a run.
struct plan_maker {
    /// Returns the layout, the order and the reads of a choice's plan, without its memory.
    std::function<training_plan(const plan_choice&)> states;
    /// Returns the plan of a choice in a memory [bytes], with all its parts, whether it fits or not.
    std::function<training_plan(const plan_choice&, std::uint64_t)> with;
    std::function<std::vector<plan_choice>()> tuned{}; ///< as in gneiss::plan_request, like the following
    std::vector<bool> moves{false};
    std::uint32_t local_partitions = 0;
    std::uint64_t hidden_bytes = 0; ///< that an epoch reads while it computes
};

/// Chooses store, partitions, buffer, slots to load ahead and order within the budget: all in memory if that fits; else
/// by `gneiss::search_plan`, with the runner-up.
///
/// Epochs of edges are compared by the bytes that they read. A state of a node task is the neighborhood that samplers
/// see, so an epoch of one state is better the larger it is, and better than one of several, which are compared by
/// the bytes that they swap.
/// \param given           resolved
/// \param default_orders  orders of a buffer of some partitions, the most accurate one in front
/// `buckets` are the dataset's. Throws gneiss::over_budget with the parts of the smallest plan, gneiss::error
/// (no_space).
[[nodiscard]] training_plan choose_plan(const run_options& given, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets, const std::vector<std::string>& default_orders, const plan_maker& make);
/// Returns the exact plan of the same choice, once the buckets are in its partitions. If it exceeds the estimate, fewer
/// partitions are resident, unless --buffer is given. Throws gneiss::over_budget with the parts of the smallest plan.
[[nodiscard]] training_plan choose_again(const run_options& given, const training_plan& before, const plan_maker& make);
/// Returns the exact plan of the same choice, whether it fits or not.
[[nodiscard]] training_plan same_plan(const training_plan& before, const plan_maker& make);
/// Returns a choice with `stored` partitions, whose states have at least the share of the nodes that the plan's have.
[[nodiscard]] plan_choice stored_choice(const training_plan& plan, std::uint32_t stored);

/// Batches of a state, or none.
using seen_batches = std::optional<gneiss::batch_profile>;
/// Number of batches that a profile draws.
inline constexpr std::uint64_t profiled_batches = 8;

/// Means to draw batches for a plan.
struct batch_drawing {
    gneiss::engine_factory engines;
    std::stop_token stop;
};

/// Chooses a plan by the batches that its first state draws: first for batches of no size, which leaves as much memory
/// for the other parts as any profile can; then by the batches of that plan. The charge is that of the chosen plan's
/// own batches.
///
/// \param choose   choose(seen) returns the best plan for batches as seen, or by upper bounds if none were
/// \param again    again(plan, seen) returns the plan of the same choice
/// \param profile  profile(plan) draws batches of the plan's first state; none if it has none, or bounds are wanted
[[nodiscard]] training_plan choose_by_profile(const std::function<training_plan(const seen_batches&)>& choose,
    const std::function<training_plan(const training_plan&, const seen_batches&)>& again,
    const std::function<seen_batches(const training_plan&)>& profile);

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

/// Formats the plan for display: parts, budget, traffic, bias.
[[nodiscard]] std::string describe(const training_plan& plan, const programs::plan_record& record);

} // namespace trainers
