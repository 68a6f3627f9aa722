// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/sample/excluded_edge.hpp>
#include <gneiss/sample/link_batches.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/sample/seed_set.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/train/node_targets.hpp>
#include <gneiss/train/slots.hpp>

namespace gneiss {

/// Cuts the examples of a state into batches, without the sampled neighborhood.
///
/// Meaning: `acquire` waits for the examples of state `i`, `batches` counts their batches. `cutter()` makes an object
/// with `cut(batch, view)`, one per thread, which writes the task's part of a batch (links, labels or a custom payload)
/// and returns its seeds: a pure function of batch.key and the view. `repeats`: true if a state may be passed over
/// again.
/// Cost: `acquire` waits until the examples are loaded, and O(examples); `cut` O(batch), in memory that the cutter and
/// the batch reuse; `batches` O(1); `cutter` once per sampling thread.
/// Thread-safety: `begin_epoch`, `acquire` and `batches` by the driving thread; `cutter` by several threads at once,
/// each of which cuts with its own.
/// Errors: any exception ends the epoch, and `run` rethrows it: errc::out_of_range for a label, for example.
template <class T>
concept train_task = requires(
    T& t, const T& c, const epoch_start& start, std::uint32_t i, training_batch& batch, const typename T::view& view) {
    t.begin_epoch(start);
    { t.acquire(start, i) } -> std::same_as<std::shared_ptr<const typename T::view>>;
    { T::batches(view) } -> std::convertible_to<std::uint64_t>;
    { c.cutter().cut(batch, view) } -> std::same_as<seed_set>;
    { T::repeats } -> std::convertible_to<bool>;
};

/// Options of `link_task`.
struct link_task_options {
    std::uint64_t batch = 1000;                  ///< edges
    batch_scope batch_from = batch_scope::state; ///< batches end at buckets or at states
    negative_options negatives{};                ///< negatives of a batch
    std::uint64_t seed = 0;                      ///< of the order of edges and the negatives
};

/// Link prediction: batches of edges, with negatives from any `negative_source`.
///
///     link_task task({.batch = 1000, .negatives = {.per_chunk = 500, .chunks = 2}, .seed = seed}, edges, rows);
template <class Negatives = negative_sampler>
class link_task {
    static_assert(negative_source<Negatives>,
        "link_task: Negatives must be a gneiss::negative_source, see gneiss/sample/negative.hpp");

public:
    static constexpr bool repeats = false; ///< a state is trained once

    using options = link_task_options; ///< options of the task
    /// Data of a state.
    struct view {
        link_state links;                   ///< edges and negatives of the state
        std::vector<edge_index> first_edge; ///< number of each bucket's edge 0 if target edges are excluded; else empty
    };

    /// \param partitioning  of the nodes
    /// \param exclude_from  numbers edges, so that samples exclude the edges that a batch predicts; null: samples keep
    /// them Precondition: buffers outlive this. Throws errc::invalid_argument for unusable negative options, or edges
    /// that are bucketed by other partitions.
    link_task(const link_task_options& settings, edge_buffer& edges, const row_partitioning& partitioning,
        const graph_buffer* exclude_from = nullptr)
        requires std::constructible_from<Negatives, const negative_options&, std::uint64_t>
        : link_task(settings, Negatives(settings.negatives, settings.seed), edges, partitioning, exclude_from) {}
    /// \param negatives  source of the negatives
    link_task(const link_task_options& settings, Negatives negatives, edge_buffer& edges,
        const row_partitioning& partitioning, const graph_buffer* exclude_from = nullptr)
        : options_(settings),
          source_(std::move(negatives)),
          edges_(edges),
          partitioning_(partitioning),
          exclude_from_(exclude_from) {
        validate(settings.negatives);
        options_.negatives = with_chunks(settings.negatives, settings.batch);
        edges_.expect(partitioning_);
    }

    void begin_epoch(const epoch_start& start) { edges_.begin_epoch(start.states, start.from.state); }
    [[nodiscard]] std::shared_ptr<const view> acquire(const epoch_start& start, std::uint32_t i) {
        const buffer_state& s = start.states[i];
        view result{link_state(s, partitioning_, edges_.acquire(i), options_.batch, options_.batch_from, options_.seed,
                        start.epoch, i),
            {}};
        if (exclude_from_ != nullptr)
            for (const edge_bucket& b : s.edge_buckets) result.first_edge.push_back(exclude_from_->first_edge(b));
        return std::make_shared<const view>(std::move(result));
    }
    /// Returns the view of the same state, number `i` of its plan, in another epoch. It does not hold the state: it
    /// shares the memory of the edges, which stay in memory once if the buffer keeps all of them (`cache_all`).
    [[nodiscard]] std::shared_ptr<const view> of_epoch(const view& v, std::uint64_t epoch, std::uint32_t i) const {
        auto result = std::make_shared<view>(v);
        result->links.edges = std::make_shared<const state_edges>(*v.links.edges);
        result->links.batches = state_batches(
            v.links.edges->sizes(), options_.batch, edge_shuffle_key(options_.seed, epoch, i), options_.batch_from);
        return result;
    }
    /// Returns the number of batches of a state.
    [[nodiscard]] static std::uint64_t batches(const view& v) noexcept { return v.links.size(); }

    /// Cuts batches; one per thread.
    class cutter_type {
    public:
        /// Draws negatives from a copy of `from`.
        cutter_type(const negative_options& negatives, const Negatives& from) : links_(negatives, from) {}

        /// Samples the batch, and lists its edges if the sample excludes them.
        seed_set cut(training_batch& b, const view& v) {
            b.links = links_.sample(b.key, v.links, b.link_arena);
            excluded_.clear();
            if (!v.first_edge.empty()) {
                const auto at = links_.positions();
                for (std::size_t i = 0; i < at.size(); ++i) {
                    const edge& e = links_.positives()[i];
                    excluded_.push_back({e.source, e.destination, v.first_edge[at[i].bucket] + at[i].edge});
                }
            }
            return {b.links->nodes, excluded_};
        }

    private:
        link_sampler<Negatives> links_;
        std::vector<excluded_edge<>> excluded_;
    };
    /// Returns a cutter.
    [[nodiscard]] cutter_type cutter() const { return {options_.negatives, source_}; }

private:
    options options_;
    Negatives source_;
    edge_buffer& edges_;
    row_partitioning partitioning_;
    const graph_buffer* exclude_from_;
};
static_assert(train_task<link_task<>>);

/// Batches of training nodes: node classification with labels, tasks with rows of targets or, without either, any loss
/// on nodes whose head reads batch.seeds.
///
///     node_task task({.batch = 1000, .seed = seed}, labels, classes, rows,
///         [&](std::uint32_t s, std::vector<node_id>& out) { append_training_nodes(plan, s, rows, nodes, out); });
class node_task {
public:
    static constexpr bool repeats = true; ///< a state may be passed over again
    using view = node_batches;            ///< data of a state

    /// Appends the nodes that train in state `state` of the epoch's plan: resident ones, each in one state. Called on
    /// the driving thread.
    using nodes_of_state = std::function<void(std::uint32_t state, std::vector<node_id>& out)>;

    /// Options of the task.
    struct options {
        std::uint64_t batch = 1000; ///< nodes
        std::uint64_t seed = 0;     ///< of the order of nodes
    };

    /// \param labels   of all nodes; outlives this; may be empty
    /// \param classes  upper bound of labels, exclusive
    /// Throws errc::invalid_argument unless every node has a label, or `unlabeled`.
    node_task(const options& settings, std::span<const class_id> labels, std::size_t classes,
        row_partitioning partitioning, nodes_of_state nodes)
        : options_(settings),
          labels_(labels),
          classes_(classes),
          partitioning_(std::move(partitioning)),
          nodes_(std::move(nodes)) {
        if (!labels.empty() && labels.size() != partitioning_.nodes)
            throw error(errc::invalid_argument, "every node needs a label, or unlabeled");
    }

    /// Constructs a task with rows of targets. Throws errc::invalid_argument without columns.
    node_task(const options& settings, node_targets targets, row_partitioning partitioning, nodes_of_state nodes)
        : node_task(settings, {}, 0, std::move(partitioning), std::move(nodes)) {
        if (targets.columns == 0 || !targets.read || targets.nodes != partitioning_.nodes)
            throw error(errc::invalid_argument, "every node needs a row of targets, of at least one column");
        targets_ = std::move(targets);
    }

    /// Constructs a task without labels.
    node_task(const options& settings, row_partitioning partitioning, nodes_of_state nodes)
        : node_task(settings, {}, 0, std::move(partitioning), std::move(nodes)) {}

    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    /// Throws errc::out_of_range for a training node that is not resident; in one partition, all are.
    [[nodiscard]] std::shared_ptr<const view> acquire(const epoch_start& start, std::uint32_t i) const {
        std::vector<node_id> nodes;
        nodes_(i, nodes);
        for (const node_id v : nodes)
            if (v >= partitioning_.nodes ||
                (partitioning_.partitions != 1 &&
                    !std::ranges::binary_search(start.states[i].resident, partitioning_.of(v))))
                throw error(errc::out_of_range,
                    "node " + std::to_string(v) + " trains in state " + std::to_string(i) +
                        ", where it is not resident");
        return std::make_shared<const view>(std::move(nodes), options_.batch, options_.seed, start.epoch, i);
    }
    /// Returns the view of the same state, number `i` of its plan, in another epoch.
    [[nodiscard]] std::shared_ptr<const view> of_epoch(const view& v, std::uint64_t epoch, std::uint32_t i) const {
        return std::make_shared<const view>(
            std::vector(v.nodes().begin(), v.nodes().end()), options_.batch, options_.seed, epoch, i);
    }
    /// Returns the number of batches of a state.
    [[nodiscard]] static std::uint64_t batches(const view& v) noexcept { return v.size(); }

    /// Cuts batches; one per thread.
    class cutter_type {
    public:
        /// Labels seeds by `labels`, or by `targets`; the latter outlive this.
        cutter_type(std::span<const class_id> labels, std::size_t classes, const node_targets* targets = nullptr)
            : labels_(labels),
              classes_(classes),
              targets_(targets) {}

        /// Throws errc::out_of_range for a label that is not below `classes`, naming the node.
        seed_set cut(training_batch& b, const view& v) {
            v.choose(b.key.number.index, b.seeds, b.key.number.pass);
            if (!labels_.empty()) labels_of(b.seeds, labels_, classes_, b.labels);
            if (targets_ != nullptr) targets_->read_seeds(b);
            return {b.seeds};
        }

    private:
        std::span<const class_id> labels_;
        std::size_t classes_;
        const node_targets* targets_;
    };
    /// Returns a cutter.
    [[nodiscard]] cutter_type cutter() const {
        return {labels_, classes_, targets_.columns == 0 ? nullptr : &targets_};
    }

private:
    options options_;
    std::span<const class_id> labels_;
    std::size_t classes_;
    node_targets targets_{};
    row_partitioning partitioning_;
    nodes_of_state nodes_;
};
static_assert(train_task<node_task>);

} // namespace gneiss
