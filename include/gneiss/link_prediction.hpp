// SPDX-License-Identifier: Apache-2.0
// Entry point for link prediction: trains node and relation embeddings of a graph that may exceed memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include <gneiss/context.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/eval/metrics.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/model/loss.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/storage/edge/bucketed_edges.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/statistics.hpp>
#include <gneiss/train/training_plan.hpp>

namespace gneiss {

class embedding_file;
class partition_buffer;

/// Options of `node_embeddings`.
struct node_embeddings_options {
    std::uint32_t dim = 100;                           ///< values of a row
    any_row_optimizer optimizer{adagrad{.rate = .2F}}; ///< its state is stored next to the values
    /// Distribution of initial values.
    initializer init = initializer::normal(0, .1F);
    bool overwrite = false; ///< discards an existing file; else it is an error
};

/// Node embeddings with their optimizer state, in a file that this creates. A trainer loads partitions into memory.
///
/// Initial values depend only on seed and node. Disk: two versions of every partition. The destructor keeps the file.
/// Errors: errc::already_exists for a file that exists, unless `overwrite`; io_error.
///
/// From examples/25_own_pipeline.cpp:
/// \snippet 25_own_pipeline.cpp buffers
class node_embeddings {
public:
    /// Precondition: `run` outlives this.
    node_embeddings(
        context& run, std::filesystem::path file, const row_partitioning& rows, node_embeddings_options options = {});
    ~node_embeddings();
    node_embeddings(node_embeddings&&) noexcept;
    node_embeddings& operator=(node_embeddings&&) noexcept;

    /// Returns the file.
    [[nodiscard]] embedding_file& file() noexcept { return *file_; }
    /// Returns the number of values of a row.
    [[nodiscard]] std::uint32_t dim() const noexcept { return options_.dim; }
    /// Returns the floats of a row: values and the optimizer's state.
    [[nodiscard]] row_layout layout() const noexcept {
        return {options_.dim, static_cast<std::uint32_t>(options_.optimizer.state_floats(options_.dim))};
    }
    /// Returns the optimizer of rows.
    [[nodiscard]] const any_row_optimizer& optimizer() const noexcept { return options_.optimizer; }

private:
    node_embeddings_options options_;
    std::unique_ptr<embedding_file> file_;
};

/// Options of `link_trainer`. The defaults are those of gneiss-marius, but for the order.
struct link_trainer_options {
    std::uint32_t resident = 0; ///< partitions in memory at a time; 0: as many as fit, see `link_trainer::plan`
    std::uint32_t prefetch = 2; ///< further partitions, prefetched or being written
    std::string order = {};     ///< a name of `order_names`; empty: beta-randomized, or memory where all are resident
    /// replaces `order`; for the partitions of the edges, of which it has at most `resident` resident. Each plan is
    /// validated
    std::optional<any_order> own_order{};
    std::uint64_t batch = 1000;                   ///< edges
    std::optional<any_negatives> own_negatives{}; ///< replaces the library's sampler; `negatives` bounds its lists
    negative_options negatives{};                 ///< negatives of a batch
    /// Loss of a query: a name by `make_loss`, or any `ranking_loss`.
    any_loss loss = make_loss("softmax");
    link_model_options model{}; ///< options of the link model, such as regularization
    /// Distribution of relations' initial values.
    initializer relations = initializer::uniform(-.1F, .1F);
    /// batches that may be unapplied when a batch reads its rows; 0: synchronous and reproducible
    std::uint64_t staleness = 16;
};

/// Statistics of an epoch of `link_trainer`.
struct link_epoch {
    std::uint64_t number = 0;  ///< number of the epoch
    training_statistics model; ///< sums over the epoch
    io_stats io;               ///< embeddings and edges
    double seconds = 0;        ///< wall-clock time
    bool stopped = false;      ///< ended early; the next call resumes it

    /// Returns the loss per query; an edge has one query for each of `negatives.sides`.
    [[nodiscard]] double mean_loss() const noexcept { return model.mean_loss(); }
};

/// Trains node and relation embeddings for link prediction: Marius (OSDI'21) with the given decoder.
///
///     context run({.memory = 8 << 20});
///     const bucketed_edges edges(my_edges, {.partitions = 8});
///     node_embeddings nodes(run, "nodes.rows", edges.rows(), {.dim = 32});
///     link_trainer train(run, edges, nodes, complex_decoder{}, {.resident = 2});
///     for (const auto& epoch : train.epochs(20)) losses.push_back(epoch.mean_loss());
///     const double mrr = train.evaluate(test_edges, known).both().mrr();
///
/// Memory: (resident + prefetch) partitions, the edges of two states and the batches in flight, charged to the
/// context's budget as `plan` says; a smaller `batch`, fewer negatives or a lower staleness shrink the batches. An
/// evaluation takes the rest of the budget, at most 1 GiB, and needs a few MiB: over_budget then names that rest as its
/// budget. Errors: over_budget with all parts; errc::invalid_argument for inconsistent arguments, such as an own order
/// whose plan is not valid; io_error. Thread-safety: one driving thread.
///
/// From examples/00_hello.cpp:
/// \include 00_hello.cpp
class link_trainer {
public:
    /// Precondition: arguments passed by reference outlive this.
    /// \param decode  a `decoder`
    template <class Decoder>
    link_trainer(context& run, const bucketed_edges& edges, node_embeddings& nodes, const Decoder& decode,
        const link_trainer_options& options = {})
        : link_trainer(run, edges, nodes, make_link_model(decode, options.loss, nodes.dim(), options.model), options) {}
    template <class Decoder>
    // edges must outlive this
    link_trainer(
        context&, const bucketed_edges&&, node_embeddings&, const Decoder&, const link_trainer_options& = {}) = delete;
    ~link_trainer();

    /// Returns the plan of such a trainer in the memory that the context's budget has left: partitions in memory, what
    /// is charged for each part, and what an epoch reads. It prints itself by `to_string`. Without `resident`, all
    /// partitions are in memory if they fit; else as many as fit. Makes nothing, and charges nothing.
    ///
    ///     const training_plan plan = link_trainer::plan(run, edges, nodes, complex_decoder{});
    ///     if (!plan.fits()) throw over_budget(plan.budget, plan.memory.parts());
    template <class Decoder>
    [[nodiscard]] static training_plan plan(context& run, const bucketed_edges& edges, const node_embeddings& nodes,
        const Decoder& decode, const link_trainer_options& options = {}) {
        return plan_of(run, edges, nodes, make_link_model(decode, options.loss, nodes.dim(), options.model), options);
    }

    /// Trains one epoch, or the rest of a stopped one.
    link_epoch train_epoch(const epoch_observer<training_statistics>& observer = {}, const std::stop_token& stop = {});

    /// Returns a range of `count` epochs for a for loop, each trained on demand.
    [[nodiscard]] auto epochs(std::uint64_t count) { return epoch_range<link_trainer, link_epoch>(*this, count); }

    /// Ranks both ends of each edge among all nodes. \param known  true edges excluded from the candidates; empty: raw
    /// ranks
    [[nodiscard]] link_metrics evaluate(std::span<const edge> edges, const edge_scan& known = {});
    /// Trained decoder with its relations, for module eval. This must outlive it.
    [[nodiscard]] link_scorer scorer() const;

    /// Sets the optimizer from the next epoch on, for schedules. Throws errc::invalid_argument for one with a different
    /// state.
    void set_optimizer(const any_row_optimizer& optimizer);

    /// Returns the learned relations.
    [[nodiscard]] embedding_table& relations() noexcept;
    /// Current node embeddings, an `embedding_stream`.
    [[nodiscard]] partition_buffer& nodes() noexcept;
    [[nodiscard]] pipeline_statistics statistics() const;
    [[nodiscard]] io_stats io() const;

private:
    link_trainer(context& run, const bucketed_edges& edges, node_embeddings& nodes, any_link_model model,
        const link_trainer_options& options);
    [[nodiscard]] static training_plan plan_of(context& run, const bucketed_edges& edges, const node_embeddings& nodes,
        const any_link_model& model, const link_trainer_options& options);

    struct parts;
    std::unique_ptr<parts> parts_;
};

} // namespace gneiss

#ifdef GNEISS_COMPILED
namespace gneiss {
extern template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const dot_decoder&, const link_trainer_options&);
extern template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const dot_decoder&, const link_trainer_options&);
extern template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const distmult_decoder&, const link_trainer_options&);
extern template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const distmult_decoder&, const link_trainer_options&);
extern template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const complex_decoder&, const link_trainer_options&);
extern template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const complex_decoder&, const link_trainer_options&);
extern template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const transe_decoder&, const link_trainer_options&);
extern template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const transe_decoder&, const link_trainer_options&);
} // namespace gneiss
#else
#include <gneiss/detail/link_prediction.hpp>
#endif
