// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/memory_plan.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/train/plan_search.hpp>
#include <gneiss/train/row_room.hpp>

namespace gneiss {

struct partition_buffer_options;

/// Memory of the batches of a run.
struct batch_needs {
    batch_memory bound{};    ///< upper bound of any batch
    batch_memory largest{};  ///< of the large ones; one of more runs alone
    batch_memory usual{};    ///< of most
    std::uint64_t alone = 0; ///< in other parts, of a batch of the bound [bytes]; beyond their own bytes

    /// Returns the needs of batches that no profile was drawn of.
    [[nodiscard]] static batch_needs bounded(const batch_memory& bound) { return {bound, bound, bound}; }
};

/// Traffic of an epoch of a plan.
struct plan_traffic {
    std::uint64_t states = 0;                  ///< of the epoch
    std::uint64_t swaps = 0;                   ///< partitions loaded after the first state
    std::optional<std::uint64_t> swap_bound{}; ///< fewest swaps of any order, of an epoch of edges
    std::uint64_t read_bytes = 0;              ///< rows, edges, features, graph
    std::uint64_t written_bytes = 0;           ///< rows

    friend bool operator==(const plan_traffic&, const plan_traffic&) = default;
};

/// Memory, traffic and disk space of a run, decided before it begins: a choice of partitions, buffer and order, with
/// the parts of memory that it needs. A value: compared, printed, refused before work begins.
///
///     const training_plan plan = link_trainer::plan(run, edges, nodes, complex_decoder{}, options);
///     show(to_string(plan));
///     if (!plan.fits()) throw over_budget(plan.budget, plan.memory.parts());
struct training_plan {
    training_plan() = default;
    /// Makes the plan of a choice, for partitions as stored; without its memory. Throws errc::invalid_argument for
    /// slots ahead that are no number.
    training_plan(const plan_choice& choice, const row_partitioning& stored);

    plan_choice choice;              ///< what a search chose
    row_partitioning partitioning{}; ///< of the choice
    row_layout layout{};             ///< of embeddings; no floats: none are trained
    bool in_memory = true;           ///< all partitions are resident
    std::uint32_t slots = 1;         ///< partitions per state
    std::uint32_t prefetch = 0;      ///< further slots of the buffer
    bool frozen = false;             ///< embeddings are read only
    bool loads_next_epoch = false;   ///< loads the first partitions of the next epoch in this one
    std::uint32_t spare = 1;         ///< free slots of the embedding file
    std::uint64_t budget = 0;        ///< limit of the memory [bytes]
    memory_plan memory;              ///< the parts
    std::uint64_t edge_bytes = 0;    ///< buffer of training edges
    /// of an evaluation while no batch is in flight, with what the batches free
    std::uint64_t evaluation_bytes = 0;
    std::uint64_t graph_bytes = 0, feature_bytes = 0;  ///< buffers of a trainer that samples neighbors
    std::size_t batches = 0;                           ///< in flight: one misses the updates of all others at most
    std::uint64_t row_bytes = 0;                       ///< all batches' rows, see `row_room`
    std::uint64_t sample_bytes = 0, encoder_bytes = 0; ///< of a batch, and of the encoder: one of more runs alone
    std::uint64_t alone_bytes = 0;                     ///< of a batch of the bound, alone, beyond the parts of training
    std::uint64_t state_edges = 0;                     ///< maximum per state; 0: unlimited
    std::uint64_t disk_bytes = 0;                      ///< maximum of the run
    /// The best rejected plan; its bytes are those of rows, features and graph.
    struct alternative {
        plan_choice choice;
        std::uint64_t swaps = 0, read_bytes = 0; ///< per epoch
    };
    std::optional<alternative> runner_up{}; ///< the best rejected plan
    std::uint64_t in_memory_bytes = 0; ///< memory of the plan with everything in memory, which does not fit; 0: given
    std::function<epoch_plan(std::uint64_t)> order; ///< states of an epoch; empty: the trainer has none
    std::uint64_t edges_read = 0;                   ///< bytes of training edges that an epoch from disk reads
    /// Bytes that the states of an epoch read in addition to embeddings and training edges: features, graph. Empty:
    /// none.
    std::function<std::uint64_t(const epoch_plan&)> further_reads;

    /// Returns the bytes of a disk slot of embeddings.
    [[nodiscard]] std::uint64_t slot_bytes() const;
    /// Returns the bytes of all embeddings.
    [[nodiscard]] std::uint64_t embedding_bytes() const { return partitioning.nodes * layout.bytes(); }
    /// Returns the sum of the parts of memory.
    [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return memory.bytes(); }
    /// True if the parts fit the budget.
    [[nodiscard]] bool fits() const noexcept { return memory_bytes() <= budget; }
    /// Returns the options of the partition buffer, without its trace.
    [[nodiscard]] partition_buffer_options buffer_options() const;
    /// Returns the memory of the partition buffer; none without embeddings.
    [[nodiscard]] memory_need buffer_need() const;
    /// True if all partitions are resident; otherwise those of a state and the ones ahead are.
    [[nodiscard]] bool keeps_all() const noexcept { return in_memory || slots >= partitioning.partitions; }
    /// Returns the bytes that batches and encoder free while no batch is in flight.
    [[nodiscard]] std::uint64_t freed_bytes() const noexcept {
        return batches * sample_bytes + row_bytes + encoder_bytes;
    }
    /// Returns the bytes that a full-graph evaluation may use in addition to its own part: graph and features of
    /// states, which are reread after it. 0 if everything is resident.
    [[nodiscard]] std::uint64_t borrowable_bytes() const noexcept {
        return keeps_all() ? 0 : graph_bytes + feature_bytes;
    }
    /// Returns the memory for copying the best state, while evaluation is idle: the embeddings of a partition.
    [[nodiscard]] std::uint64_t best_bytes() const;
    static constexpr std::uint64_t least_ranking_bytes = std::uint64_t{8} << 20; ///< of an evaluation that ranks
    /// Returns the maximum number of nodes of a state.
    [[nodiscard]] std::uint64_t state_nodes() const noexcept;

    /// Adds the part of batches. If memory is scarce, fewer are in flight, down to one that is sampled while one is
    /// computed, and fewer have rows in memory, down to two usual ones, or one with `sparing`, or a large one. A batch
    /// of the bound fits alone, with the part of evaluation.
    ///
    /// \param in_flight  batches that the stages can use; all of them, of the bound, if `fixed`
    /// \param between    minimum of the work between epochs [bytes]
    void add_batches(std::size_t in_flight, bool fixed, const batch_needs& of, std::uint64_t between);
    /// Adds the part of work between epochs, evaluation above all: `share` of the remaining budget, at most `most`, but
    /// enough for `least` with what batches free. Adds what a batch that runs alone needs beyond it: they use this
    /// memory at different times. `least` 0: there is no such work.
    void add_evaluation(std::uint64_t least, double share, std::uint64_t most);

    /// True if the states of an epoch train edges, and hold some of the nodes.
    [[nodiscard]] bool splits_edges() const;
    /// Returns how much the states of an epoch of edges bias training, by their share of the partitions: "low" from a
    /// quarter, "moderate" from an eighth, "high"; empty: not at all.
    [[nodiscard]] std::string bias() const;
    /// Returns the bytes that an epoch of these states reads, edges included.
    [[nodiscard]] std::uint64_t reads(const epoch_plan& states) const;
    /// Returns what an epoch moves. Precondition: there is an order.
    [[nodiscard]] plan_traffic traffic(std::uint64_t epoch = 0) const;
};

/// Formats a plan for people, in lines: rows, parts of memory, batches, traffic, bias, disk.
[[nodiscard]] std::string to_string(const training_plan& plan);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/detail/training_plan.hpp>
#endif
