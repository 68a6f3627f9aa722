// SPDX-License-Identifier: Apache-2.0
// The door to link prediction: node and relation embeddings of a graph that may be larger than memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/context.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/eval/metrics.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/model/loss.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/schedule.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/storage/edge/bucketed_edges.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/train/embedding_trainer.hpp>

namespace gneiss {

struct node_embeddings_options {
    std::uint32_t dim = 100;
    any_row_optimizer optimizer{adagrad{.rate = .2F}}; ///< its state lies beside the values
    initializer init = initializer::normal(0, .1F);
};

/// Embeddings of nodes in a file that this makes, with the state of their optimizer. Partitions come to memory by a trainer.
///
/// First values depend on seed and node alone. Disk: two versions of every partition. Errors: io_error.
class node_embeddings {
public:
    /// Precondition: `run` outlives this.
    node_embeddings(context& run, std::filesystem::path file, const row_partitioning& rows, node_embeddings_options options = {})
        : options_(std::move(options)) {
        const row_layout layout{options_.dim, static_cast<std::uint32_t>(options_.optimizer.state_floats(options_.dim))};
        {
            any_engine engine = run.engines()();
            embedding_file::create(engine, file, rows, layout, rows.partitions);
        }
        file_ = std::make_unique<embedding_file>(run.engines(), std::move(file), rows, layout, rows.partitions);
        file_->fill([&](std::uint64_t first, matrix_view<float> to) {
            initialize_rows(options_.init, options_.optimizer.initial_state(), run.seed(), embedding_kind::nodes, first, options_.dim, to, run.executor());
        });
    }

    [[nodiscard]] embedding_file& file() noexcept { return *file_; }
    [[nodiscard]] std::uint32_t dim() const noexcept { return options_.dim; }
    [[nodiscard]] const any_row_optimizer& optimizer() const noexcept { return options_.optimizer; }

private:
    node_embeddings_options options_;
    std::unique_ptr<embedding_file> file_;
};

/// Defaults are those of gneiss-marius.
struct link_trainer_options {
    std::uint32_t resident = 0;      ///< partitions in memory at a time; 0: all
    std::uint32_t prefetch = 2;      ///< further partitions, that arrive early or are being written
    std::string order = {};          ///< a name of `order_names`; empty: beta-randomized, or memory where all are resident
    std::uint64_t batch = 1000;      ///< edges
    std::optional<any_negatives> own_negatives{}; ///< drawn in place of the library's; `negatives` bounds their lists
    negative_options negatives{.per_chunk = 1000, .chunks = 2, .degree_fraction = 0, .log_q_correction = true};
    any_loss loss = make_loss("softmax");
    link_model_options model{};
    initializer relations = initializer::uniform(-.1F, .1F);
    std::uint64_t staleness = 16;    ///< batches that may be unapplied when a batch reads its rows; 0: synchronous, and repeatable
};

/// An epoch of `link_trainer`.
struct link_epoch {
    std::uint64_t number = 0;
    training_statistics model; ///< sums over the epoch
    io_stats io;               ///< of embeddings and edges
    double seconds = 0;

    [[nodiscard]] double mean_loss() const noexcept { return model.mean_loss(); } ///< a question; an edge has two
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
/// Memory: (resident + prefetch) partitions, two states' edges and the batches in flight, charged to the context's budget.
/// Errors: over_budget with all parts; errc::invalid_argument for what does not fit together; io_error.
/// Thread-safety: one driving thread.
class link_trainer {
public:
    /// Precondition: what is passed by reference outlives this.
    /// \param decode  a `decoder`
    template <class Decoder>
    link_trainer(context& run, const bucketed_edges& edges, node_embeddings& nodes, const Decoder& decode, link_trainer_options options = {})
        : run_(run), nodes_(nodes), options_(std::move(options)), partitions_(edges.rows().partitions),
          resident_(options_.resident == 0 ? partitions_ : std::min(options_.resident, partitions_)),
          order_(make_order(!options_.order.empty() ? options_.order : resident_ == partitions_ ? "memory" : "beta-randomized", partitions_, resident_, run.seed())),
          model_(make_link_model(decode, options_.loss, nodes.dim(), options_.model)),
          relations_(make_relations(edges)), buffer_(nodes.file(), {.resident_partitions = resident_, .prefetch = options_.prefetch}, run.budget()),
          reader_charge_(run.budget().charge("bucket blocks", edges.reader_bytes())), source_(edges.open(run.engines())),
          edges_(source_.loader, partitions_, resident_ == partitions_, edge_bytes(), run.budget()),
          trainer_({.batch_edges = options_.batch, .negatives = options_.negatives, .own_negatives = options_.own_negatives, .pipeline = {.staleness = options_.staleness}, .seed = run.seed()},
              model_, nodes.optimizer(), buffer_, edges_, relations_, run.executor(), run.budget()) {}

    /// Trains one epoch.
    link_epoch train_epoch(const training_observer& observer = {}, const std::stop_token& stop = {}) {
        const auto since = std::chrono::steady_clock::now();
        const io_stats before = io();
        const training_epoch done = trainer_.run(order_(next_), next_, {}, observer, stop);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
        return {next_++, done.model, io() - before, took.count()};
    }

    /// `count` epochs, each trained when it is asked for: the range of a for loop.
    [[nodiscard]] auto epochs(std::uint64_t count) { return epoch_range<link_trainer, link_epoch>(*this, count); }

    /// Ranks both ends of each edge among all nodes. \param known  true edges, which are no candidates; empty: raw ranks
    [[nodiscard]] link_metrics evaluate(std::span<const edge> edges, const edge_scan& known = {}) {
        return rank_edges(scorer(), buffer_, edges, known, run_.executor());
    }
    /// The trained decoder, with its relations: what eval/ asks. This outlives it.
    [[nodiscard]] link_scorer scorer() const { return model_.scorer(relations_.values()); }

    /// Steps by this optimizer from the next epoch on: for schedules. Throws errc::invalid_argument for one with other state.
    void set_optimizer(const any_row_optimizer& optimizer) { trainer_.set_optimizer(optimizer); }

    [[nodiscard]] embedding_table& relations() noexcept { return relations_; }
    /// Node rows as they are now: an `embedding_stream`.
    [[nodiscard]] partition_buffer& nodes() noexcept { return buffer_; }
    [[nodiscard]] pipeline_statistics statistics() const { return trainer_.statistics(); }
    [[nodiscard]] io_stats io() const {
        io_stats sum = nodes_.file().statistics();
        if (source_.reader) sum += source_.reader->statistics();
        return sum;
    }

private:
    [[nodiscard]] embedding_table make_relations(const bucketed_edges& edges) const {
        const any_row_optimizer& by = nodes_.optimizer();
        const std::size_t floats = model_.relation_floats();
        embedding_table result(model_.relation_rows(static_cast<std::size_t>(edges.relations())),
            {static_cast<std::uint32_t>(floats), static_cast<std::uint32_t>(by.state_floats(floats))});
        initialize_rows(options_.relations, by.initial_state(), run_.seed(), embedding_kind::relations, 0, floats, result.table(), run_.executor());
        return result;
    }
    [[nodiscard]] std::uint64_t edge_bytes() const {
        std::uint64_t most = 0;
        for (std::uint64_t epoch = 0; epoch < 16; ++epoch) most = std::max(most, edge_buffer::bytes_needed(order_(epoch), source_.loader, resident_ == partitions_));
        return most;
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
    std::uint64_t next_ = 0; // epoch
    embedding_trainer trainer_;
};

} // namespace gneiss
