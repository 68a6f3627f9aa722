// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/dist/assignment.hpp>
#include <gneiss/dist/feature_cache.hpp>
#include <gneiss/dist/frame.hpp>
#include <gneiss/dist/grouped_rows.hpp>
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
    /// Arguments of `batch_groups`: most batches that share rows, replicas, and the compute workers that they are on.
    std::uint32_t group = 1, replicas = 1, compute_workers = 1;
    /// Makes the empty cache of a compute worker; none: it has no cache. Features are then dense.
    std::function<delivery_planner()> cache{};
    std::uint64_t window = 100; ///< groups that are sampled ahead for the cache, at least the batches in flight
    sampler_kind sampler = sampler_kind::neighbor;
    neighbor_options neighbors{};
    /// Returns the plans of an epoch, one for each worker: `assign_partitions`.
    std::function<std::vector<node_plan>(std::uint64_t epoch)> plans{};
    /// Appends the nodes that train in a state of a worker's plan, resident ones: `append_training_nodes`.
    std::function<void(const node_plan& plan, std::uint32_t state, std::vector<node_id>& out)> nodes{};
};

/// Frames of a group's batches, and of the rows that they share.
struct group_frames {
    std::vector<std::span<const std::byte>> frames; ///< in the order of the batches' numbers
    std::span<const std::byte> rows;                ///< empty: the group's only frame has its own
    std::vector<mini_batch_arena> memory;           ///< of the spans
};

/// Logical batch workers in one process, as a `frame_source`: each holds its own partitions, and samples within them
/// (local construction). State t of the loop's plan is the round of state t of every worker, `rounds_of`;
/// `round_batches` numbers its batches. Workers without buffers are elsewhere: their batches are numbered, not made.
///
/// With `worker_options::group` above 1, batches of a group share the distinct rows of their nodes: the first one that
/// is requested makes the frames of all, which live until each was requested, and as long as a batch uses them.
///
/// With `worker_options::cache`, the groups of a window are sampled ahead, and the cache's planner says which rows each
/// leaves out (`row_delivery`). Its contents carry over from round to round and from epoch to epoch; an epoch that is
/// resumed begins with an empty cache. Rows are left out of bytes alone: gathered, they are the same.
///
/// A batch is a pure function of (dataset, options, key), whoever makes it. Memory: that of the buffers, and a sampler
/// with a batch's sample for each producing thread, charged by `samplers`; grouped frames, see `group_need`.
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
        if (options_.cache && !(planner_ && unplanned_ == 0 && start.from == batch_number{})) {
            fills_ += planner_ ? planner_->fills() : 0;
            planner_.emplace(options_.cache());
        }
        before_.reset();
        unplanned_ = start.states.size() - start.from.state; // rounds, until their groups are known
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
        result->groups = batch_groups(result->numbers, options_.group, options_.replicas, options_.compute_workers);
        result->made = std::vector<open_group>(result->groups.size());
        if (options_.cache) plan_rounds(*result, start, i);
        const std::uint64_t count = result->numbers.size();
        if (options_.cache) before_ = result;
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
        return of(work).numbers[number];
    }
    /// Returns the groups of a round that `acquire` returned.
    [[nodiscard]] static const batch_groups& groups(const state_work& work) { return of(work).groups; }
    /// Makes the frame of a batch: in `arena`, or with those of its group.
    [[nodiscard]] received_frame make(
        const state_work& work, const batch_key& key, mini_batch_arena& arena, const std::stop_token& /*stop*/) {
        if (options_.group == 1 && !options_.cache) return {.bytes = make_one(work, key, arena)};
        const round& all = of(work);
        const grouped_batch at = all.groups.of(key.number.index);
        const std::size_t members = all.groups[at.group].size();
        open_group& open = all.made[at.group];
        const std::scoped_lock lock(open.mutex);
        if (!open.frames) {
            open.frames = make_group(work, key, options_.cache ? delivery_of(all, key, at.group).get() : nullptr);
            open.given.assign(members, false);
        }
        open.given[at.member] = true;
        std::shared_ptr<const group_frames> frames = open.frames;
        if (std::ranges::count(open.given, true) == static_cast<std::ptrdiff_t>(members)) open.frames.reset();
        return {.bytes = frames->frames[at.member], .owner = frames, .rows = frames->rows};
    }
    /// Makes the frames of the group of a batch. A pure function of its arguments as well. By any thread.
    ///
    /// \param delivery  of the group's rows to a compute worker's cache; null: there is none
    [[nodiscard]] std::shared_ptr<const group_frames> make_group(
        const state_work& work, const batch_key& key, const row_delivery* delivery = nullptr) {
        const round& all = of(work);
        const std::span<const std::uint64_t> numbers = all.groups[all.groups.of(key.number.index).group];
        auto result = std::make_shared<group_frames>();
        result->memory.resize(numbers.size() + 1);
        const auto at = [&](std::size_t i) {
            batch_key one = key;
            one.number.index = numbers[i];
            return one;
        };
        if (numbers.size() == 1 && delivery == nullptr) {
            result->frames.push_back(make_one(work, at(0), result->memory[0]));
            return result;
        }
        const worker& owner = worker_of(all, key);
        with_maker([&](maker& mine) {
            mine.shared.clear();
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                const std::span<const node_id> nodes = draw(mine, all, at(i));
                frame_writer to(result->memory[i], {options_.run, at(i)},
                    {.sample_bytes = sample_of(mine).size(),
                        .labels = mine.cut.labels.size(),
                        .targets = mine.cut.targets.size(),
                        .positions = nodes.size(),
                        .group = numbers.front()});
                mine.shared.add(nodes, to.positions());
                result->frames.push_back(seal(mine, to));
            }
            result->rows = write_rows(
                mine, {options_.run, at(0)}, numbers.back(), *owner.features, delivery, result->memory.back());
        });
        return result;
    }
    /// Writes the distinct input nodes of a batch's group, in the order of the rows that it shares: they are sampled.
    /// By any thread.
    void group_nodes(const state_work& work, const batch_key& key, std::vector<node_id>& out) {
        group_nodes(of(work), key, out);
    }
    /// Returns the memory of grouped frames beyond that of the batches in flight: those of a worker that were used
    /// before others of their group, and those that are made and not yet requested.
    ///
    /// \param frame  bound of a frame [bytes]
    [[nodiscard]] static memory_need group_need(
        const worker_options& options, std::uint64_t workers, std::uint64_t frame) {
        return {"grouped batches", 2 * workers * options.compute_workers * (options.group - 1) * frame};
    }
    void enter(phase next) {
        if (next != phase::evaluate) return;
        for (const worker_buffers& of : buffers_) {
            if (!of.graph) continue;
            of.graph->release();
            of.features->release();
        }
    }
    /// Returns the memory of windows of the cache: the accesses of one, and the deliveries of two.
    ///
    /// \param groups  of a round, at most
    /// \param rows    distinct ones of a group, at most
    [[nodiscard]] static memory_need window_need(
        const worker_options& options, std::uint64_t groups, std::uint64_t rows) {
        return {"superbatch of the cache", std::min(options.window, groups) * rows * 72};
    }
    /// Returns the bytes of ids to the planner of a cache, and of its answers to batch workers, that processes would
    /// have exchanged. By any thread.
    [[nodiscard]] std::uint64_t id_bytes() const noexcept { return id_bytes_.load(std::memory_order_relaxed); }
    /// Returns the rows that were sent into slots of the cache that its policy had filled before.
    [[nodiscard]] std::uint64_t cache_fills() const {
        const std::scoped_lock lock(planning_);
        return fills_ + (planner_ ? planner_->fills() : 0);
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
    /// Frames of a group that not all of its batches have got.
    struct open_group {
        std::mutex mutex;
        std::shared_ptr<const group_frames> frames;
        std::vector<bool> given;
    };
    struct round {
        std::vector<worker> workers;
        round_batches numbers;
        batch_groups groups;
        mutable std::vector<open_group> made;
        // of a cache, under `planning_`:
        std::weak_ptr<const round> before; ///< round with the groups before these
        std::uint64_t epoch = 0;
        std::uint32_t state = 0;
        std::vector<std::size_t> order;  ///< groups as their first batches come
        std::vector<std::size_t> place;  ///< [groups] in `order`; those that do not come any more: size
        mutable std::size_t planned = 0; ///< groups of `order` whose deliveries were planned
        mutable std::vector<std::shared_ptr<const row_delivery>> deliveries; ///< [order], of two windows
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
        grouped_rows shared;
        std::vector<std::uint32_t> positions;
    };

    [[nodiscard]] static const round& of(const state_work& work) { return *static_cast<const round*>(work.view.get()); }
    [[nodiscard]] static const worker& worker_of(const round& all, const batch_key& key) {
        const std::uint32_t number = all.numbers[key.number.index].worker;
        if (all.workers[number].graph == nullptr)
            throw error(errc::invalid_argument,
                to_string(key) + " is of batch worker " + std::to_string(number) + ", which is elsewhere");
        return all.workers[number];
    }
    template <class Use>
    void with_maker(const Use& use) {
        makers_.with([this] { return std::make_unique<maker>(task_.cutter(), options_); },
            [&](std::unique_ptr<maker>& mine) { use(*mine); });
    }
    /// Cuts and samples a batch. Returns its input nodes, in memory of the maker.
    [[nodiscard]] std::span<const node_id> draw(maker& by, const round& all, const batch_key& key) const {
        const worker& owner = worker_of(all, key);
        by.cut.key = key;
        by.cut.key.number.index = all.numbers[key.number.index].index;
        (void)by.cutter.cut(by.cut, *owner.seeds);
        return std::visit(
            [&](auto& sampler) {
                return input_nodes(sampler.sample(key, *owner.graph, by.cut.seeds, executor_, by.sample));
            },
            by.sampler);
    }
    [[nodiscard]] std::span<const std::byte> make_one(
        const state_work& work, const batch_key& key, mini_batch_arena& arena) {
        std::span<const std::byte> result;
        const round& all = of(work);
        with_maker([&](maker& mine) {
            const std::span<const node_id> nodes = draw(mine, all, key);
            result = write(mine, {options_.run, key}, nodes, *worker_of(all, key).features, arena);
        });
        return result;
    }
    [[nodiscard]] static std::span<const std::byte> sample_of(maker& by) {
        return mini_batch::attach(by.sample.reserve(by.sample.reserved())).bytes();
    }
    /// Writes sample, labels and targets.
    [[nodiscard]] static std::span<const std::byte> seal(maker& by, frame_writer& to) {
        std::ranges::copy(sample_of(by), to.sample().begin());
        std::ranges::copy(by.cut.labels, to.labels().begin());
        std::ranges::copy(by.cut.targets, to.targets().begin());
        return to.seal();
    }

    [[nodiscard]] std::span<const std::byte> write(maker& by, const frame_id& id, std::span<const node_id> nodes,
        const resident_features& features, mini_batch_arena& arena) const {
        frame_writer to(arena, id,
            shape_with_rows(by, nodes, features,
                {.sample_bytes = sample_of(by).size(),
                    .labels = by.cut.labels.size(),
                    .targets = by.cut.targets.size()}));
        copy_rows(by, nodes, features, to);
        return seal(by, to);
    }
    /// Writes the frame of the rows that a group shares.
    [[nodiscard]] std::span<const std::byte> write_rows(maker& by, const frame_id& id, std::uint64_t last,
        const resident_features& features, const row_delivery* delivery, mini_batch_arena& arena) const {
        std::vector<node_id> sent;
        std::span<const node_id> nodes = by.shared.ids();
        if (delivery != nullptr) {
            if (delivery->from.size() != nodes.size() || features.sparse())
                throw error(errc::invalid_argument,
                    "the delivery of " + to_string(id.key) + " is of other rows, or its rows are sparse");
            for (std::size_t i = 0; i < nodes.size(); ++i)
                if (delivery->from[i] == no_slot) sent.push_back(nodes[i]);
            nodes = sent;
        }
        frame_writer to(arena, id,
            shape_with_rows(
                by, nodes, features, {.sample_bytes = mini_batch::header_bytes(), .last = last, .delivery = delivery}));
        (void)mini_batch::format(to.sample(), id.key);
        copy_rows(by, nodes, features, to);
        return to.seal();
    }
    /// Returns `shape` with the rows of nodes; gathers them if they are sparse.
    [[nodiscard]] frame_shape shape_with_rows(
        maker& by, std::span<const node_id> nodes, const resident_features& features, frame_shape shape) const {
        shape.rows = nodes.size();
        shape.columns = features.sparse() ? 0 : features.columns();
        shape.sparse = features.sparse();
        if (!features.sparse()) return shape;
        features.gather(executor_, nodes, by.rows);
        shape.entries = by.rows.columns.size();
        shape.values = !by.rows.values.empty();
        return shape;
    }
    void copy_rows(
        maker& by, std::span<const node_id> nodes, const resident_features& features, frame_writer& to) const {
        if (!features.sparse()) return features.gather(executor_, nodes, to.rows());
        std::ranges::copy(by.rows.offsets, to.offsets().begin());
        std::ranges::copy(by.rows.columns, to.columns().begin());
        std::ranges::copy(by.rows.values, to.values().begin());
    }

    void group_nodes(const round& all, const batch_key& key, std::vector<node_id>& out) {
        with_maker([&](maker& mine) {
            mine.shared.clear();
            for (const std::uint64_t number : all.groups[all.groups.of(key.number.index).group]) {
                batch_key one = key;
                one.number.index = number;
                const std::span<const node_id> nodes = draw(mine, all, one);
                mine.positions.resize(nodes.size());
                mine.shared.add(nodes, mine.positions);
            }
            out.assign(mine.shared.ids().begin(), mine.shared.ids().end());
        });
    }
    /// Orders the groups of a round that begins at a batch for the cache.
    void plan_rounds(round& of_round, const epoch_start& start, std::uint32_t state) {
        const std::scoped_lock lock(planning_);
        of_round.before = before_;
        of_round.epoch = start.epoch;
        of_round.state = state;
        const std::uint64_t first = state == start.from.state ? start.from.index : 0;
        of_round.place.assign(of_round.groups.size(), of_round.groups.size());
        for (std::uint64_t number = first; number < of_round.numbers.size(); ++number) {
            const std::size_t group = of_round.groups.of(number).group;
            if (of_round.place[group] != of_round.groups.size()) continue;
            of_round.place[group] = of_round.order.size();
            of_round.order.push_back(group);
        }
        of_round.deliveries.resize(of_round.order.size());
        unplanned_ += of_round.order.size();
        --unplanned_; // the round itself
    }
    /// Plans the deliveries of the next window of a round.
    void plan_window(const round& of_round) {
        const std::size_t first = of_round.planned,
                          last = std::min<std::size_t>(first + options_.window, of_round.order.size());
        memory_trace trace;
        std::vector<node_id> nodes;
        for (std::size_t i = first; i < last; ++i) {
            group_nodes(
                of_round, {of_round.epoch, {of_round.state, 0, of_round.groups[of_round.order[i]].front()}}, nodes);
            trace.append(nodes);
        }
        if (planner_->needs_window()) planner_->begin_window(trace);
        for (std::size_t i = first; i < last; ++i) {
            auto one = std::make_shared<row_delivery>(planner_->next(trace.read(i - first, nodes)));
            id_bytes_.fetch_add(2 * one->from.size() * sizeof(node_id) + one->enter.size() * sizeof(entering_row),
                std::memory_order_relaxed);
            of_round.deliveries[i] = std::move(one);
            --unplanned_;
        }
        of_round.planned = last;
        const std::size_t old = first < options_.window ? 0 : first - static_cast<std::size_t>(options_.window);
        for (std::size_t i = 0; i < old; ++i) of_round.deliveries[i].reset();
    }
    /// Plans the first `count` deliveries of a round, after those of all earlier rounds.
    void plan_to(const round& of_round, std::size_t count) {
        if (of_round.planned >= count) return;
        if (const auto earlier = of_round.before.lock()) plan_to(*earlier, earlier->order.size());
        while (of_round.planned < count) plan_window(of_round);
    }
    /// Returns the delivery of a group.
    [[nodiscard]] std::shared_ptr<const row_delivery> delivery_of(
        const round& of_round, const batch_key& key, std::size_t group) {
        const std::scoped_lock lock(planning_);
        const std::size_t place = of_round.place[group];
        if (place < of_round.order.size()) plan_to(of_round, place + 1);
        if (place >= of_round.order.size() || !of_round.deliveries[place])
            throw error(errc::invalid_argument, "the delivery of " + to_string(key) + " is no longer there");
        return of_round.deliveries[place];
    }

    worker_options options_;
    const node_task& task_;
    std::vector<worker_buffers> buffers_;
    executor_ref executor_;
    memory_charge charge_;
    std::vector<node_plan> plans_;
    object_pool<std::unique_ptr<maker>> makers_;
    mutable std::mutex planning_;
    std::optional<delivery_planner> planner_;
    std::weak_ptr<const round> before_; // round that was acquired last
    std::uint64_t fills_ = 0;           // of earlier planners
    std::uint64_t unplanned_ = 0;       // groups of the epoch, and rounds to come
    std::atomic<std::uint64_t> id_bytes_ = 0;
};
static_assert(frame_source<worker_batches>);

} // namespace gneiss
