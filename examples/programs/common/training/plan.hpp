#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/row_room.hpp>

#include "common/records.hpp"
#include "common/training/options.hpp"

namespace trainers {

/// Who charges a part to the budget: the run, when it begins, or the component that takes the memory, when it is made.
enum class charged_by : std::uint8_t { run, component };

/// What a run takes in memory, part by part: the table before a run, its refusal and the budget's charges show these.
class memory_plan {
public:
    void add(std::string name, std::uint64_t bytes, charged_by by) {
        parts_.push_back({std::move(name), bytes});
        by_.push_back(by);
    }
    [[nodiscard]] const std::vector<gneiss::memory_part>& parts() const noexcept { return parts_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept;
    /// Charges the parts of the run.
    [[nodiscard]] std::vector<gneiss::memory_charge> charge_run(gneiss::memory_budget& budget) const;

private:
    std::vector<gneiss::memory_part> parts_;
    std::vector<charged_by> by_; // [parts]
};

/// What a search for a plan varies.
struct plan_choice {
    std::uint32_t partitions = 1;
    std::uint32_t slots = 1; ///< partitions that a state may name
    bool in_memory = true;
    std::string order{};           ///< `--order`
    std::string prefetch = "auto"; ///< `--prefetch`
    bool sparing = false;          ///< room for the rows of one batch of the largest size, so that large ones run alone
};

/// What a run holds in memory, moves and writes, decided before it begins.
struct training_plan {
    training_plan() = default;
    /// Of a choice, for the dataset's partitions.
    training_plan(const plan_choice& choice, const gneiss::row_partitioning& stored);

    plan_choice choice;
    gneiss::row_partitioning partitioning{};
    gneiss::row_layout layout{}; ///< of learned rows; no floats: none are learned
    bool in_memory = true;
    std::uint32_t slots = 1;        ///< partitions that a state may name
    std::uint32_t prefetch = 0;     ///< further slots of the buffer
    bool loads_next_epoch = false;  ///< what the next epoch begins with is read in this one
    std::uint32_t spare = 1;        ///< free slots of the row file
    std::uint64_t budget = 0;       ///< bytes
    memory_plan memory;
    std::uint64_t table_bytes = 0; ///< what `table_memory` says
    std::uint64_t edge_bytes = 0, evaluation_bytes = 0;
    std::uint64_t least_evaluation_bytes = 0; ///< what evaluation_bytes may be where memory is worth more elsewhere
    std::uint64_t graph_bytes = 0, feature_bytes = 0; ///< of the buffers of a design that samples neighbors
    std::size_t batches = 0; ///< in flight: one misses the updates of all others at most
    std::uint64_t row_bytes = 0;   ///< of all batches' rows, see gneiss::row_room
    std::uint64_t state_edges = 0; ///< that a state trains at most; 0: any number
    std::uint64_t disk_bytes = 0; ///< of the run at most
    struct alternative {
        plan_choice choice;
        std::uint64_t swaps = 0, read_bytes = 0; ///< of rows, features and graph an epoch
    };
    std::optional<alternative> runner_up{}; ///< the best plan of those that were not taken
    std::function<gneiss::epoch_plan(std::uint64_t)> order;
    /// Bytes that the states of an epoch read beside rows and edges to train: features, graph. Empty: none.
    std::function<std::uint64_t(const gneiss::epoch_plan&)> further_reads;

    [[nodiscard]] std::uint64_t slot_bytes() const;
    [[nodiscard]] std::uint64_t embedding_bytes() const { return partitioning.nodes * layout.bytes(); }
    [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return memory.bytes(); }
    [[nodiscard]] std::uint64_t buffer_bytes() const { return memory_slots() * slot_bytes(); } ///< of the partition buffer
    /// Slots of the partition buffer: all partitions, or those of a state and the ones ahead.
    [[nodiscard]] bool keeps_all() const noexcept { return in_memory || slots >= partitioning.partitions; }
    [[nodiscard]] std::uint64_t memory_slots() const noexcept {
        return keeps_all() ? partitioning.partitions : std::uint64_t{slots} + prefetch;
    }
    /// Gives evaluation half of what is left of the budget, `least_ranking_bytes` to 1 GiB.
    void add_evaluation();
    static constexpr std::uint64_t least_ranking_bytes = std::uint64_t{8} << 20;
    /// Bytes that an evaluation by the whole graph may take beside its own part: graph and features of states, which are read
    /// anew after it. None where all is resident.
    [[nodiscard]] std::uint64_t borrowable_bytes() const noexcept { return keeps_all() ? 0 : graph_bytes + feature_bytes; }
    /// Nodes of a state at most.
    [[nodiscard]] std::uint64_t state_nodes() const noexcept {
        return keeps_all() ? partitioning.nodes : std::min(partitioning.nodes, slots * partitioning.capacity());
    }
    /// Adds the part of batches. Where memory is short, fewer are in flight, down to one that is sampled while one is computed, and
    /// the rows of fewer are in memory, down to two usual ones, or one where the choice is sparing; the largest always fits.
    ///
    /// \param in_flight  batches that the stages can use; all of them with --deterministic, `fixed`
    /// \param largest    what a batch takes at most
    /// \param usual      what most batches take at most
    /// \param others     what parts that are added later take at least [bytes]
    void add_batches(std::size_t in_flight, bool fixed, const gneiss::batch_memory& largest, const gneiss::batch_memory& usual, std::uint64_t others);
    /// Adds the parts of batches and of evaluation of a GNN: evaluation gets three quarters of what is left, up to 8 GiB.
    ///
    /// \param least  of the part of evaluation [bytes]
    void add_batches_and_evaluation(std::size_t in_flight, bool fixed, const gneiss::batch_memory& one, std::uint64_t least);
    /// One epoch's states and traffic, the edges' included.
    [[nodiscard]] programs::plan_record record(const gneiss::bucket_store& buckets, std::uint64_t epoch = 0) const;
};

/// The order that a choice names, or that of a file of buckets.
[[nodiscard]] std::function<gneiss::epoch_plan(std::uint64_t)> make_order(const plan_choice& choice, std::uint64_t seed);

/// What edges to train take in memory: all, or those of two states [bytes].
[[nodiscard]] std::uint64_t edge_memory(const run_options& options, const training_plan& plan,
    const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets);
/// Edges that a state trains: at most, and in the middle of all states.
struct state_edges {
    std::uint64_t most = 0, median = 0;
};
/// Of a plan; an estimate where its edges are to be sorted into other buckets.
/// \param sizes  of the stored buckets
[[nodiscard]] state_edges edges_of_states(const run_options& options, const training_plan& plan, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets, const gneiss::state_sizes& sizes);
/// What grows with the square of the partitions: the states of an epoch, of which every buffer has a copy; and where edges
/// are bucketed anew, the tables of their buckets, twice while they are made [bytes].
/// \param links  states train buckets of edges, so that all pairs of partitions meet
[[nodiscard]] std::uint64_t table_memory(const training_plan& plan, const gneiss::bucket_store& buckets, bool links);
/// What classes and splits of all nodes, and the nodes that train, are validated and tested, take [bytes].
[[nodiscard]] std::uint64_t label_memory(const gneiss::dataset_manifest& graph);
/// What a decoder and its threads hold between batches of `batch` edges [bytes].
[[nodiscard]] std::uint64_t link_model_bytes(const link_options& options, std::uint64_t batch, std::uint64_t threads,
    const gneiss::any_link_model& model, std::uint64_t nodes);
/// What the states of an epoch read of graph and features: what the state before has not [bytes]. `features` may be null.
[[nodiscard]] std::uint64_t reads_of(const gneiss::epoch_plan& states, gneiss::neighbor_direction keeps, const gneiss::bucket_store& buckets,
    const gneiss::feature_store* features);

/// Chooses store, partitions, buffer, slots to load ahead and order within the budget: all in memory where that fits; else what moves
/// few bytes an epoch, the runner-up beside it.
///
/// \param given          resolved
/// \param with           the plan of a choice. What it holds is in its parts, whether it fits or not
/// \param default_order  the order on disk
/// `buckets` are the dataset's. Throws gneiss::over_budget with the parts of the least plan, gneiss::error (no_space).
[[nodiscard]] training_plan choose_plan(const run_options& given, const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets,
    const std::string& default_order, const std::function<training_plan(const plan_choice&)>& with);
/// The plan of the same choice where the buckets are in its partitions: exact. Where it takes more than was estimated, fewer
/// partitions are resident, unless --buffer is given. Throws gneiss::over_budget with the parts of the least plan.
[[nodiscard]] training_plan choose_again(const run_options& given, const training_plan& before,
    const std::function<training_plan(const plan_choice&)>& with);
/// The flags as a plan chose them.
void take_choice(run_options& flags, const training_plan& plan);

/// The plan for people: parts, budget, traffic.
[[nodiscard]] std::string describe(const training_plan& plan, const programs::plan_record& record);

} // namespace trainers
