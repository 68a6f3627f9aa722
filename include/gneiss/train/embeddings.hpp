// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/staleness.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss {

/// Stage that steps learned rows.
enum class step_place : std::uint8_t {
    update, ///< in the update stage, on the current rows
    compute ///< in the compute stage, on the rows as the batch read them; the differences are added (Marius)
};

/// Parts of a model that training leaves as they are, with their optimizer state. On the CPU only.
struct frozen_parts {
    bool nodes = false;     ///< learned rows of nodes: their partitions are never written
    bool relations = false; ///< rows of relations
    bool weights = false;   ///< weights of an encoder

    /// True if any part is frozen.
    [[nodiscard]] bool any() const noexcept { return nodes || relations || weights; }
};

/// No learned rows of nodes.
struct no_embeddings {
    /// Returns 0.
    [[nodiscard]] static std::size_t columns() noexcept { return 0; }
    /// Returns 0.
    [[nodiscard]] static std::size_t state_columns() noexcept { return 0; }
    /// True: there is nothing to load.
    [[nodiscard]] static bool keeps_all() noexcept { return true; }
    void set_optimizer(const any_row_optimizer& /*by*/) noexcept {}
    void begin_epoch(const epoch_plan& /*states*/, std::uint32_t /*first*/) noexcept {}
    [[nodiscard]] std::optional<lease> acquire(std::uint32_t /*state*/, const std::stop_token& /*stop*/) noexcept {
        return lease{};
    }
    void end_epoch() noexcept {}
    /// False: there is nothing to write.
    [[nodiscard]] static bool commit_wanted() noexcept { return false; }
    void gather(training_batch& /*batch*/, matrix_view<float> /*rows*/) noexcept {}
    void computed(training_batch& /*batch*/) noexcept {}
    void apply(training_batch& /*batch*/) noexcept {}
    [[nodiscard]] static const resident_embeddings* resident(const lease& /*of*/) noexcept { return nullptr; }
    /// Returns an empty histogram.
    [[nodiscard]] static staleness_histogram row_staleness() { return {}; }
};
static_assert(embedding_source<no_embeddings>);

/// Rows of a partition buffer, stepped by a row optimizer when batches are applied.
///
///     partition_buffer buffer(file, {.resident_partitions = 4}, budget);
///     buffered_embeddings embeddings(buffer, {}, executor); // the loop's optimizers step the rows
///
/// Memory: the buffer's. Thread-safety: as in `embedding_source`.
class buffered_embeddings {
public:
    /// Options of the slot.
    struct options {
        step_place step_at = step_place::update; ///< stage that steps the rows
        /// Relations that are read when a batch is gathered and stepped when it is applied, so that they are as stale
        /// as nodes; null: the backend steps them. Less accurate: each batch changes most relations, but few nodes
        /// (Marius, §3 and Figure 12). CPU only.
        embedding_table* relations = nullptr;
        bool frozen = false; ///< rows are read only: nothing steps or writes them
    };

    /// Precondition: all arguments outlive this.
    buffered_embeddings(partition_buffer& rows, const options& settings, executor_ref executor)
        : rows_(rows),
          options_(settings),
          layout_(rows.file().layout()),
          executor_(executor) {}

    [[nodiscard]] std::size_t columns() const noexcept { return layout_.dim; }
    [[nodiscard]] std::size_t state_columns() const noexcept {
        return options_.step_at == step_place::compute ? layout_.state : 0;
    }
    [[nodiscard]] bool keeps_all() const noexcept { return rows_.keeps_all(); }
    /// Throws errc::invalid_argument if the rows or relations have a different number of state floats.
    void set_optimizer(const any_row_optimizer& by) {
        check_state_floats(by, layout_, "nodes");
        if (options_.relations != nullptr) check_state_floats(by, options_.relations->layout(), "relations");
        optimizer_ = by;
    }

    void begin_epoch(const epoch_plan& states, std::uint32_t first) {
        rows_.begin_epoch(states, first, options_.frozen ? lease_use::read : lease_use::update);
    }
    [[nodiscard]] std::optional<lease> acquire(std::uint32_t state, const std::stop_token& stop) {
        if (options_.frozen) return rows_.acquire_read(state, stop);
        return rows_.acquire(state, stop);
    }
    void end_epoch() { rows_.end_epoch(); }
    [[nodiscard]] bool commit_wanted() const { return rows_.commit_wanted(); }

    void gather(training_batch& b, matrix_view<float> to) {
        staleness_.read(b.nodes);
        gather_rows(executor_, *resident(b.rows), b.nodes, to);
        b.copied_bytes += to.rows() * to.columns() * sizeof(float);
        if (options_.relations == nullptr) return;
        const matrix_view<const float> now = std::as_const(*options_.relations).values();
        b.relations = {b.memory_of_rows.relations.at_least(now.rows() * now.columns()), now.rows(), now.columns()};
        const std::scoped_lock lock(relations_turn_);
        for (std::size_t r = 0; r < now.rows(); ++r) std::ranges::copy(now[r], b.relations[r].begin());
    }

    /// If compute steps: replaces the batch's copy of its rows by the change that a step makes.
    void computed(training_batch& b) const {
        if (options_.step_at != step_place::compute || options_.frozen || b.gradients.empty()) return;
        const std::size_t width = layout_.floats();
        parallel_for(executor_, b.rows_read.rows(), 256, [&](std::size_t begin, std::size_t end) {
            std::vector<float> before(width);
            for (std::size_t i = begin; i < end; ++i) {
                const std::span<float> row = b.rows_read[i];
                std::ranges::copy(row, before.begin());
                optimizer_.step_row(row, b.gradients[i], b.step);
                for (std::size_t k = 0; k < width; ++k) row[k] -= before[k];
            }
        });
    }

    void apply(training_batch& b) {
        if (!options_.frozen) step_nodes(b);
        if (options_.relations != nullptr && !b.relation_gradients.ids().empty()) {
            const std::scoped_lock lock(relations_turn_);
            optimizer_.step_rows_at(options_.relations->table(), b.relation_gradients.ids(),
                b.relation_gradients.rows(), b.step, executor_);
        }
        staleness_.applied();
    }

    [[nodiscard]] static const resident_embeddings* resident(const lease& of) noexcept {
        return static_cast<const resident_embeddings*>(of.get());
    }
    /// Returns the staleness of rows (sampled); `pipeline_statistics` has that of batches.
    [[nodiscard]] staleness_histogram row_staleness() const { return staleness_.histogram(); }

private:
    void step_nodes(const training_batch& b) {
        auto& rows = const_cast<resident_embeddings&>(*resident(b.rows)); // a state_lease: this is no epoch that reads
        if (options_.step_at == step_place::compute)
            for_each_row(executor_, rows, b.nodes, [&](std::size_t i, std::span<float> row) {
                const std::span<const float> delta = b.rows_read[i];
                for (std::size_t k = 0; k < row.size(); ++k) row[k] += delta[k];
            });
        else
            for_each_row(executor_, rows, b.nodes, [&](std::size_t i, std::span<float> row) {
                optimizer_.step_row(row, b.gradients[i].first(layout_.dim), b.step);
            });
    }

    partition_buffer& rows_;
    options options_;
    row_layout layout_;
    executor_ref executor_;
    any_row_optimizer optimizer_{sgd{}};
    std::mutex relations_turn_; // guards asynchronous relations
    row_staleness_sampler staleness_;
};
static_assert(embedding_source<buffered_embeddings>);

} // namespace gneiss
