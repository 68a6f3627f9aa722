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
    const row_layout layout{options_.dim, static_cast<std::uint32_t>(options_.optimizer.state_floats(options_.dim))};
    {
        any_engine engine = run.engines()();
        if (!options_.overwrite && detail::file_exists(engine, file))
            throw error(errc::already_exists, "exists already: choose another name or set overwrite", {.path = file});
        embedding_file::create(engine, file, rows, layout, rows.partitions);
    }
    file_ = std::make_unique<embedding_file>(run.engines(), std::move(file), rows, layout, rows.partitions);
    file_->fill([&](std::uint64_t first, matrix_view<float> to) {
        initialize_rows(options_.init, options_.optimizer.initial_state(), run.seed(), embedding_kind::nodes, first,
            options_.dim, to, run.executor());
    });
}
GNEISS_INLINE node_embeddings::~node_embeddings() = default;
GNEISS_INLINE node_embeddings::node_embeddings(node_embeddings&&) noexcept = default;
GNEISS_INLINE node_embeddings& node_embeddings::operator=(node_embeddings&&) noexcept = default;

/// Members of a link trainer, in construction order.
struct link_trainer::parts {
    parts(context& run, const bucketed_edges& edges, node_embeddings& rows, any_link_model trained,
        const link_trainer_options& options)
        : run_(run),
          nodes_(rows),
          options_(options),
          partitions_(edges.rows().partitions),
          resident_(options_.resident == 0 ? partitions_ : std::min(options_.resident, partitions_)),
          order_(order()),
          model_(std::move(trained)),
          relations_(make_relations(edges)),
          buffer_(rows.file(), {.resident_partitions = resident_, .prefetch = options_.prefetch}, run.budget()),
          reader_charge_(run.budget().charge(edges.reader_need())),
          source_(edges.open(run.engines())),
          edges_(source_.loader, {.cache_all = keeps_all(), .bytes = edge_bytes()}, run.budget()),
          trainer_(make_marius({.batch_edges = options_.batch,
                                   .negatives = negatives(),
                                   .own_negatives = options_.own_negatives,
                                   .pipeline = {.staleness = options_.staleness},
                                   .seed = run.seed()},
              {.model = model_,
                  .optimizer = rows.optimizer(),
                  .rows = buffer_,
                  .edges = edges_,
                  .relations = relations_},
              run.executor(), run.budget())) {}

    [[nodiscard]] any_order order() const {
        if (!options_.own_order)
            return make_order(!options_.order.empty() ? options_.order
                    : keeps_all()                     ? "memory"
                                                      : "beta-randomized",
                partitions_, resident_, run_.seed());
        const any_order& own = *options_.own_order;
        if (own.partitions() != partitions_ || own.resident_partitions() > resident_)
            throw error(errc::invalid_argument,
                own.name() + " has " + std::to_string(own.resident_partitions()) + " of " +
                    std::to_string(own.partitions()) + " partitions resident, the trainer " +
                    std::to_string(resident_) + " of " + std::to_string(partitions_),
                {.field = "own_order"});
        return own;
    }
    [[nodiscard]] epoch_plan plan(std::uint64_t epoch) const {
        epoch_plan result = order_(epoch);
        if (options_.own_order) validate(result, partitions_, resident_);
        return result;
    }
    [[nodiscard]] negative_options negatives() const {
        negative_options result = options_.negatives;
        if (!result.log_q_correction) result.log_q_correction = options_.loss.has_log_sum();
        if (*result.log_q_correction && !options_.loss.has_log_sum())
            throw error(errc::invalid_argument,
                "is for losses with a log-sum: softmax, marius, and own ones that declare it",
                {.field = "log_q_correction"});
        return result;
    }
    [[nodiscard]] embedding_table make_relations(const bucketed_edges& edges) const {
        const any_row_optimizer& by = nodes_.optimizer();
        const std::size_t floats = model_.relation_floats();
        embedding_table result(model_.relation_rows(static_cast<std::size_t>(edges.relations())),
            {static_cast<std::uint32_t>(floats), static_cast<std::uint32_t>(by.state_floats(floats))});
        initialize_rows(options_.relations, by.initial_state(), run_.seed(), embedding_kind::relations, 0, floats,
            result.table(), run_.executor());
        return result;
    }
    [[nodiscard]] bool keeps_all() const noexcept { return resident_ == partitions_; }
    [[nodiscard]] std::uint64_t edge_bytes() const {
        std::uint64_t most = 0;
        for (std::uint64_t epoch = 0; epoch < 16; ++epoch)
            most = std::max(most, edge_buffer::need(plan(epoch), source_.loader, {.cache_all = keeps_all()}).bytes);
        return most;
    }
    [[nodiscard]] link_scorer scorer() const { return model_.scorer(relations_.values()); }
    [[nodiscard]] io_stats io() const {
        io_stats sum = nodes_.file().statistics();
        if (source_.reader) sum += source_.reader->statistics();
        return sum;
    }

    context& run_;
    node_embeddings& nodes_;
    link_trainer_options options_;
    std::uint32_t partitions_, resident_;
    any_order order_;
    any_link_model model_;
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

GNEISS_INLINE link_epoch link_trainer::train_epoch(
    const epoch_observer<training_statistics>& observer, const std::stop_token& stop) {
    parts& p = *parts_;
    const auto since = std::chrono::steady_clock::now();
    const io_stats before = p.io();
    const std::uint64_t number = p.at_.epoch;
    const training_epoch done = p.trainer_.run(p.plan(number), number, p.at_.next, observer, stop);
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
