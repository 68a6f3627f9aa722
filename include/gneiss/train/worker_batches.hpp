// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/dist/assignment.hpp>
#include <gneiss/dist/frame.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/remote_batches.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/tasks.hpp>

namespace gneiss {

/// Graph and features of a batch worker's resident partitions; none for a worker that is elsewhere.
struct worker_buffers {
    std::unique_ptr<graph_buffer> graph;
    std::unique_ptr<feature_buffer> features;
};

/// Options of `worker_batches`.
struct worker_options {
    std::uint64_t batch = 1000; ///< nodes
    std::uint64_t seed = 0;     ///< of the order of nodes and of samples
    std::uint64_t run = 0;      ///< of `frame_id`
    sampler_kind sampler = sampler_kind::neighbor;
    neighbor_options neighbors{};
    /// Returns the plans of an epoch, one for each worker: `assign_partitions`.
    std::function<std::vector<node_plan>(std::uint64_t epoch)> plans{};
    /// Appends the nodes that train in a state of a worker's plan, resident ones: `append_training_nodes`.
    std::function<void(const node_plan& plan, std::uint32_t state, std::vector<node_id>& out)> nodes{};
};

/// Logical batch workers in one process, as a `frame_source`: each holds its own partitions, and samples within them
/// (local construction). State t of the loop's plan is the round of state t of every worker, `rounds_of`;
/// `round_batches` numbers its batches. Workers without buffers are elsewhere: their batches are numbered, not made.
///
/// A batch is a pure function of (dataset, options, key), whoever makes it. Memory: that of the buffers, and a sampler
/// with a batch's sample for each producing thread, charged by `samplers`.
/// Errors: errc::invalid_argument for another plan than that of the workers, as many buffers as there are no workers
/// for, or a batch of a worker that is elsewhere; errc::out_of_range for a training node that is not resident; those of
/// buffers and samplers. Source: Armada, sections 3 and 5.
class worker_batches {
public:
    /// \param task     cuts labels or targets; its states are not used
    /// \param buffers  one for each worker
    /// Precondition: `task` and the stores of the buffers outlive this.
    worker_batches(worker_options options, const node_task& task, std::vector<worker_buffers> buffers,
        executor_ref executor, memory_charge samplers = {})
        : options_(std::move(options)),
          task_(task),
          buffers_(std::move(buffers)),
          executor_(executor),
          charge_(std::move(samplers)) {
        if (buffers_.empty()) throw error(errc::invalid_argument, "there are no batch workers");
    }

    void begin_epoch(const epoch_start& start, const std::stop_token& /*stop*/) {
        plans_ = options_.plans(start.epoch);
        if (plans_.size() != buffers_.size() || rounds_of(plans_) != start.states)
            throw error(errc::invalid_argument,
                "the plan of epoch " + std::to_string(start.epoch) + " is not that of " +
                    std::to_string(buffers_.size()) + " batch workers");
        const std::vector<node_plan> ahead =
            start.ahead == nullptr ? std::vector<node_plan>{} : options_.plans(start.epoch + 1);
        for (std::size_t w = 0; w < buffers_.size(); ++w) {
            if (!here(w)) continue;
            epoch_plan loaded = plans_[w].states;
            if (!ahead.empty()) loaded.push_back(ahead[w].states.front());
            const auto first = std::min(start.from.state, static_cast<std::uint32_t>(plans_[w].states.size()));
            if (first == loaded.size()) continue; // its epoch is over
            buffers_[w].graph->begin_epoch(loaded, first);
            buffers_[w].features->begin_epoch(loaded, first);
        }
    }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t i) {
        auto result = std::make_shared<round>();
        std::vector<std::uint64_t> batches;
        for (std::size_t w = 0; w < buffers_.size(); ++w) {
            worker& of = result->workers.emplace_back();
            if (i >= plans_[w].states.size()) {
                batches.push_back(0);
                continue;
            }
            std::vector<node_id> nodes;
            options_.nodes(plans_[w], i, nodes);
            const auto state = static_cast<std::uint32_t>(i * buffers_.size() + w); // of all workers, for the order
            of.seeds.emplace(std::move(nodes), options_.batch, options_.seed, start.epoch, state);
            if (here(w)) {
                of.graph = buffers_[w].graph->acquire(i);
                of.features = buffers_[w].features->acquire(i);
            }
            batches.push_back(of.seeds->size());
        }
        result->numbers = round_batches(std::move(batches));
        const std::uint64_t count = result->numbers.size();
        return {.view = std::move(result), .features = {}, .batches = count};
    }
    [[nodiscard]] bool ready(std::uint32_t i) const {
        for (std::size_t w = 0; w < buffers_.size(); ++w)
            if (here(w) && i < plans_[w].states.size() &&
                !(buffers_[w].graph->ready(i) && buffers_[w].features->ready(i)))
                return false;
        return true;
    }
    /// Returns the worker of batch `number` of a round that `acquire` returned, and the batch's place there.
    [[nodiscard]] static worker_batch place(const state_work& work, std::uint64_t number) {
        return static_cast<const round*>(work.view.get())->numbers[number];
    }
    /// Makes the frame of a batch in `arena`.
    [[nodiscard]] received_frame make(
        const state_work& work, const batch_key& key, mini_batch_arena& arena, const std::stop_token& /*stop*/) {
        const round& all = *static_cast<const round*>(work.view.get());
        const worker_batch at = all.numbers[key.number.index];
        const worker& of = all.workers[at.worker];
        if (of.graph == nullptr)
            throw error(errc::invalid_argument,
                to_string(key) + " is of batch worker " + std::to_string(at.worker) + ", which is elsewhere");
        received_frame result;
        makers_.with([this] { return std::make_unique<maker>(task_.cutter(), options_); },
            [&](std::unique_ptr<maker>& mine) {
                mine->cut.key = key;
                mine->cut.key.number.index = at.index;
                (void)mine->cutter.cut(mine->cut, *of.seeds);
                const std::span<const node_id> nodes = std::visit(
                    [&](auto& by) {
                        return input_nodes(by.sample(key, *of.graph, mine->cut.seeds, executor_, mine->sample));
                    },
                    mine->sampler);
                result.bytes = write(*mine, {options_.run, key}, nodes, *of.features, arena);
            });
        return result;
    }
    void enter(phase next) {
        if (next != phase::evaluate) return;
        for (const worker_buffers& of : buffers_) {
            if (!of.graph) continue;
            of.graph->release();
            of.features->release();
        }
    }
    /// Returns the buffers of the workers.
    [[nodiscard]] std::span<const worker_buffers> buffers() const noexcept { return buffers_; }

private:
    [[nodiscard]] bool here(std::size_t w) const noexcept { return buffers_[w].graph != nullptr; }

    struct worker {
        std::optional<node_batches> seeds;
        std::shared_ptr<const resident_graph> graph;
        std::shared_ptr<const resident_features> features;
    };
    struct round {
        std::vector<worker> workers;
        round_batches numbers;
    };
    /// Makes batches; one per thread.
    struct maker {
        using any_of_both = std::variant<neighbor_sampler<>, dense_sampler<>>;
        maker(node_task::cutter_type by, const worker_options& options)
            : cutter(std::move(by)),
              sampler(options.sampler == sampler_kind::dense
                      ? any_of_both(dense_sampler<>(options.neighbors, options.seed))
                      : any_of_both(neighbor_sampler<>(options.neighbors, options.seed))) {}
        node_task::cutter_type cutter;
        any_of_both sampler;
        training_batch cut; ///< seeds, labels and targets
        mini_batch_arena sample;
        sparse_feature_rows rows;
    };

    [[nodiscard]] std::span<const std::byte> write(maker& by, const frame_id& id, std::span<const node_id> nodes,
        const resident_features& features, mini_batch_arena& arena) const {
        const auto sample = mini_batch::attach(by.sample.reserve(by.sample.reserved())).bytes();
        frame_shape shape{.sample_bytes = sample.size(),
            .labels = by.cut.labels.size(),
            .targets = by.cut.targets.size(),
            .rows = nodes.size(),
            .columns = features.sparse() ? 0 : features.columns(),
            .sparse = features.sparse()};
        if (features.sparse()) {
            features.gather(executor_, nodes, by.rows);
            shape.entries = by.rows.columns.size();
            shape.values = !by.rows.values.empty();
        }
        frame_writer to(arena, id, shape);
        std::ranges::copy(sample, to.sample().begin());
        std::ranges::copy(by.cut.labels, to.labels().begin());
        std::ranges::copy(by.cut.targets, to.targets().begin());
        if (features.sparse()) {
            std::ranges::copy(by.rows.offsets, to.offsets().begin());
            std::ranges::copy(by.rows.columns, to.columns().begin());
            std::ranges::copy(by.rows.values, to.values().begin());
        } else {
            features.gather(executor_, nodes, to.rows());
        }
        return to.seal();
    }

    worker_options options_;
    const node_task& task_;
    std::vector<worker_buffers> buffers_;
    executor_ref executor_;
    memory_charge charge_;
    std::vector<node_plan> plans_;
    object_pool<std::unique_ptr<maker>> makers_;
};
static_assert(frame_source<worker_batches>);

} // namespace gneiss
