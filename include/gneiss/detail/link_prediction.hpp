// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/link_prediction.hpp>
#include <gneiss/model/schedule.hpp>
#include <gneiss/order/validate.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/train/choose_plan.hpp>
#include <gneiss/train/trainers/marius.hpp>

namespace gneiss {

namespace detail {

/// True if the engine has a file of that name. Throws io_error if it cannot be opened.
[[nodiscard]] inline bool file_exists(any_engine& engine, const std::filesystem::path& path) {
    try {
        const file opened(engine, path);
        return true;
    } catch (const io_error& e) {
        if (e.code() == std::errc::no_such_file_or_directory) return false;
        throw;
    }
}

} // namespace detail

GNEISS_INLINE node_embeddings::node_embeddings(
    context& run, std::filesystem::path file, const row_partitioning& rows, node_embeddings_options options)
    : options_(std::move(options)) {
    {
        any_engine engine = run.engines()();
        if (!options_.overwrite && detail::file_exists(engine, file))
            throw error(errc::already_exists, "exists already: choose another name or set overwrite", {.path = file});
        embedding_file::create(engine, file, rows, layout(), rows.partitions);
    }
    file_ = std::make_unique<embedding_file>(run.engines(), std::move(file), rows, layout(), rows.partitions);
    file_->fill([&](std::uint64_t first, matrix_view<float> to) {
        initialize_rows(options_.init, options_.optimizer.initial_state(), run.seed(), embedding_kind::nodes, first,
            options_.dim, to, run.executor());
    });
}
GNEISS_INLINE node_embeddings::~node_embeddings() = default;
GNEISS_INLINE node_embeddings::node_embeddings(node_embeddings&&) noexcept = default;
GNEISS_INLINE node_embeddings& node_embeddings::operator=(node_embeddings&&) noexcept = default;

namespace detail {

/// Returns the options of Marius. Throws errc::invalid_argument for a correction that the loss has no use for.
[[nodiscard]] inline marius_options marius_options_of(const link_trainer_options& options, std::uint64_t seed) {
    negative_options negatives = options.negatives;
    if (!negatives.log_q_correction) negatives.log_q_correction = options.loss.has_log_sum();
    if (*negatives.log_q_correction && !options.loss.has_log_sum())
        throw error(errc::invalid_argument,
            "is for losses with a log-sum: softmax, marius, and own ones that declare it",
            {.field = "log_q_correction"});
    return {.batch_edges = options.batch,
        .negatives = negatives,
        .own_negatives = options.own_negatives,
        .pipeline = {.staleness = options.staleness},
        .seed = seed};
}

/// Makes the plans of a link trainer.
class link_planner {
public:
    link_planner(context& run, const bucketed_edges& edges, const node_embeddings& nodes, const any_link_model& model,
        const link_trainer_options& options)
        : edges_(edges),
          sizes_(edges.open(run.engines()).loader),
          edges_read_(edges.read_bytes()),
          layout_(nodes.layout()),
          relations_(model.relation_rows(static_cast<std::size_t>(edges.relations())) * model.relation_floats()),
          options_(options),
          seed_(run.seed()),
          available_(run.budget().available()) {}

    /// Returns the plan of the options: of all partitions if none are given and they fit, else of as many as fit.
    [[nodiscard]] training_plan choose() const {
        const std::uint32_t p = edges_.rows().partitions;
        given_plan given{.in_memory = false,
            .more_partitions = false,
            .buffer = options_.resident == 0 ? p : std::min(options_.resident, p),
            .prefetch = std::to_string(options_.prefetch),
            .memory = available_};
        const plan_maker make{.states = [this](const plan_choice& choice) { return states(choice); },
            .with = [this](const plan_choice& choice, std::uint64_t memory) { return with(choice, memory); }};
        training_plan plan = choose_plan(given, edges_.rows(), {order_of_some}, make);
        if (options_.resident != 0 || plan.fits() || p == 1) return plan;
        const std::uint64_t whole = plan.memory_bytes();
        given.buffer.reset();
        if (options_.own_order) given.buffer = std::min(options_.own_order->resident_partitions(), p);
        plan = choose_plan(given, edges_.rows(), {order_of_some}, make);
        plan.in_memory_bytes = whole;
        return plan;
    }

private:
    static constexpr const char* order_of_some = "beta-randomized";

    [[nodiscard]] training_plan states(const plan_choice& choice) const {
        training_plan plan(choice, edges_.rows());
        plan.in_memory = plan.slots == plan.partitioning.partitions;
        plan.layout = layout_;
        plan.edges_read = edges_read_;
        plan.choice.order = options_.own_order ? options_.own_order->name()
            : !options_.order.empty()          ? options_.order
            : plan.in_memory                   ? "memory"
                                               : choice.order;
        const any_order order = options_.own_order
            ? *options_.own_order
            : make_order(plan.choice.order, plan.partitioning.partitions, plan.slots, seed_);
        plan.order = [order, own = options_.own_order.has_value(), p = plan.partitioning.partitions, r = plan.slots](
                         std::uint64_t epoch) {
            epoch_plan result = order(epoch);
            if (own) validate(result, p, r);
            return result;
        };
        return plan;
    }
    [[nodiscard]] training_plan with(const plan_choice& choice, std::uint64_t memory) const {
        training_plan plan = states(choice);
        plan.budget = memory;
        for (std::uint64_t epoch = 0; epoch < 16; ++epoch)
            plan.edge_bytes = std::max(
                plan.edge_bytes, edge_buffer::need(plan.order(epoch), sizes_, {.cache_all = plan.in_memory}).bytes);
        const train_loop_options loop =
            marius_options_of(options_, seed_).loop(layout_, edges_.rows().nodes, relations_);
        plan.batches = loop.in_flight();
        plan.sample_bytes = loop.batch_bytes;
        plan.row_bytes = loop.row_bytes;
        plan.memory.add(plan.buffer_need());
        plan.memory.add(edges_.reader_need());
        plan.memory.add(edge_buffer::need({.bytes = plan.edge_bytes}));
        plan.memory.add(loop.need());
        return plan;
    }

    const bucketed_edges& edges_;
    edge_loader sizes_;
    std::uint64_t edges_read_;
    row_layout layout_;
    std::uint64_t relations_; ///< floats
    const link_trainer_options& options_;
    std::uint64_t seed_, available_;
};

} // namespace detail

/// Members of a link trainer, in construction order.
struct link_trainer::parts {
    parts(context& run, const bucketed_edges& edges, node_embeddings& rows, any_link_model trained,
        const link_trainer_options& options)
        : run_(run),
          nodes_(rows),
          model_(std::move(trained)),
          plan_(plan_of(run, edges, rows, model_, options)),
          relations_(make_relations(edges, options)),
          buffer_(rows.file(), plan_.buffer_options(), run.budget()),
          reader_charge_(run.budget().charge(edges.reader_need())),
          source_(edges.open(run.engines())),
          edges_(source_.loader, {.cache_all = plan_.in_memory, .bytes = plan_.edge_bytes}, run.budget()),
          trainer_(make_marius(detail::marius_options_of(options, run.seed()),
              {.model = model_,
                  .optimizer = rows.optimizer(),
                  .rows = buffer_,
                  .edges = edges_,
                  .relations = relations_},
              run.executor(), run.budget())) {}

    [[nodiscard]] embedding_table make_relations(
        const bucketed_edges& edges, const link_trainer_options& options) const {
        const any_row_optimizer& by = nodes_.optimizer();
        const std::size_t floats = model_.relation_floats();
        embedding_table result(model_.relation_rows(static_cast<std::size_t>(edges.relations())),
            {static_cast<std::uint32_t>(floats), static_cast<std::uint32_t>(by.state_floats(floats))});
        initialize_rows(options.relations, by.initial_state(), run_.seed(), embedding_kind::relations, 0, floats,
            result.table(), run_.executor());
        return result;
    }
    [[nodiscard]] link_scorer scorer() const { return model_.scorer(relations_.values()); }
    [[nodiscard]] io_stats io() const {
        io_stats sum = nodes_.file().statistics();
        if (source_.reader) sum += source_.reader->statistics();
        return sum;
    }

    context& run_;
    node_embeddings& nodes_;
    any_link_model model_;
    training_plan plan_;
    embedding_table relations_;
    partition_buffer buffer_;
    memory_charge reader_charge_;
    bucketed_edges::source source_;
    edge_buffer edges_;
    resume_position at_{}; // resume position
    marius_trainer trainer_;
};

GNEISS_INLINE link_trainer::link_trainer(context& run, const bucketed_edges& edges, node_embeddings& nodes,
    any_link_model model, const link_trainer_options& options)
    : parts_(std::make_unique<parts>(run, edges, nodes, std::move(model), options)) {}
GNEISS_INLINE link_trainer::~link_trainer() = default;

GNEISS_INLINE training_plan link_trainer::plan_of(context& run, const bucketed_edges& edges,
    const node_embeddings& nodes, const any_link_model& model, const link_trainer_options& options) {
    const std::uint32_t p = edges.rows().partitions, most = options.resident == 0 ? p : std::min(options.resident, p);
    if (options.own_order && (options.own_order->partitions() != p || options.own_order->resident_partitions() > most))
        throw error(errc::invalid_argument,
            options.own_order->name() + " has " + std::to_string(options.own_order->resident_partitions()) + " of " +
                std::to_string(options.own_order->partitions()) + " partitions resident, the trainer " +
                std::to_string(most) + " of " + std::to_string(p),
            {.field = "own_order"});
    return detail::link_planner(run, edges, nodes, model, options).choose();
}

GNEISS_INLINE link_epoch link_trainer::train_epoch(
    const epoch_observer<training_statistics>& observer, const std::stop_token& stop) {
    parts& p = *parts_;
    const auto since = std::chrono::steady_clock::now();
    const io_stats before = p.io();
    const std::uint64_t number = p.at_.epoch;
    const training_epoch done = p.trainer_.run(p.plan_.order(number), number, p.at_.next, observer, stop);
    p.at_ = done.position;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
    return {number, done.model, p.io() - before, took.count(), done.stopped};
}

GNEISS_INLINE link_metrics link_trainer::evaluate(std::span<const edge> edges, const edge_scan& known) {
    memory_budget& budget = parts_->run_.budget();
    const std::uint64_t memory = std::min<std::uint64_t>(std::uint64_t{1} << 30, budget.available());
    const memory_charge ranking = budget.charge({"evaluation", memory});
    return rank_edges(parts_->scorer(), parts_->buffer_, edges, known, parts_->run_.executor(), memory);
}
GNEISS_INLINE link_scorer link_trainer::scorer() const { return parts_->scorer(); }
GNEISS_INLINE void link_trainer::set_optimizer(const any_row_optimizer& optimizer) {
    parts_->trainer_.set_optimizers({.rows = optimizer});
}
GNEISS_INLINE embedding_table& link_trainer::relations() noexcept { return parts_->relations_; }
GNEISS_INLINE partition_buffer& link_trainer::nodes() noexcept { return parts_->buffer_; }
GNEISS_INLINE pipeline_statistics link_trainer::statistics() const { return parts_->trainer_.statistics(); }
GNEISS_INLINE io_stats link_trainer::io() const { return parts_->io(); }

} // namespace gneiss
