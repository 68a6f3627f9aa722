// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/dist/assignment.hpp>
#include <gneiss/dist/frame.hpp>
#include <gneiss/dist/group_sampler.hpp>
#include <gneiss/dist/grouped_rows.hpp>
#include <gneiss/dist/hop_messages.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/detail/batch_maker.hpp>
#include <gneiss/train/detail/superbatch_deliveries.hpp>
#include <gneiss/train/remote_batches.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/tasks.hpp>
#include <gneiss/train/worker_options.hpp>

namespace gneiss {

/// Graph and features of a batch worker's resident partitions; none for a worker that is elsewhere.
struct worker_buffers {
    std::unique_ptr<graph_buffer> graph;
    std::unique_ptr<feature_buffer> features;
};

/// Logical batch workers in one process, as a `frame_source`: each holds its own partitions, and samples within
/// them, or within those of all workers, by questions to their owners. State t of the loop's plan is the round of state
/// t of every worker, `rounds_of`; `round_batches` numbers its batches. Workers without buffers are elsewhere: their
/// batches are numbered, not made.
///
/// With `worker_options::group` above 1, batches of a group share the distinct rows of their nodes: the first one that
/// is requested makes the frames of all, which live until each was requested, and as long as a batch uses them.
///
/// With `worker_options::cache`, the groups of a window are sampled ahead, and the cache's planner says which rows each
/// leaves out (`row_delivery`). Its contents carry over from round to round and from epoch to epoch; an epoch that is
/// resumed begins with an empty cache. Rows are left out of bytes alone: gathered, they are the same.
///
/// A batch is a pure function of (dataset, options, key), whoever makes it. Memory: that of the buffers, and a sampler
/// with a batch's sample for each producing thread, charged by `samplers`, with remote construction also its questions
/// and their answers; grouped frames, see `group_need`. The graphs of remote construction have
/// `graph_buffer_options::owned_lists`. Errors: errc::invalid_argument for another plan than that of the workers, as
/// many buffers as there are no workers for, or a batch of a worker that is elsewhere; errc::out_of_range for a
/// training node that is not resident; those of buffers and samplers. Source: Armada, sections 3 and 5.
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
          charge_(std::move(samplers)),
          deliveries_(options_.cache, options_.window) {
        if (buffers_.empty()) throw error(errc::invalid_argument, "there are no batch workers");
        if (options_.sampler == sampler_kind::layerwise)
            throw error(errc::invalid_argument, "batch workers draw for each node, not the nodes of a hop together");
    }

    void begin_epoch(const epoch_start& start, const std::stop_token& /*stop*/) {
        plans_ = options_.plans(start.epoch);
        if (deliveries_) deliveries_.begin_epoch(start);
        if (plans_.size() != buffers_.size() || rounds_of(plans_) != start.states)
            throw error(errc::invalid_argument,
                "the plan of epoch " + std::to_string(start.epoch) + " is not that of " +
                    std::to_string(buffers_.size()) + " batch workers");
        const std::vector<node_plan> ahead =
            start.ahead == nullptr ? std::vector<node_plan>{} : options_.plans(start.epoch + 1);
        for (std::size_t w = 0; w < buffers_.size(); ++w) {
            if (!here(w)) continue;
            const auto loaded = [&](const auto& states_of) {
                epoch_plan result = states_of(plans_);
                if (!ahead.empty()) result.push_back(states_of(ahead).front());
                return result;
            };
            const auto own = [w](const std::vector<node_plan>& of) { return of[w].states; };
            const auto owned = [w](const std::vector<node_plan>& of) {
                return owned_rounds(of, static_cast<std::uint32_t>(w));
            };
            const epoch_plan states = loaded(own);
            const auto first = std::min(start.from.state, static_cast<std::uint32_t>(plans_[w].states.size()));
            if (first == states.size()) continue; // its epoch is over
            buffers_[w].graph->begin_epoch(remote() ? loaded(owned) : states, first);
            buffers_[w].features->begin_epoch(options_.all_features ? loaded(owned) : states, first);
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
        if (remote())
            for (std::size_t w = 0; w < buffers_.size(); ++w) result->workers[w].owners = owners_in(i, w);
        result->numbers = round_batches(std::move(batches));
        result->groups = batch_groups(result->numbers, options_.group, options_.replicas, options_.compute_workers);
        result->made = std::vector<open_group>(result->groups.size());
        const std::uint64_t count = result->numbers.size();
        if (deliveries_) {
            const std::shared_ptr<detail::superbatch_deliveries::round> cached(result, &result->cached);
            cached->nodes = [this, &all = *result, epoch = start.epoch, i](
                                std::size_t group, std::vector<node_id>& out) {
                group_nodes(all, {epoch, {i, 0, all.groups[group].front()}}, out);
            };
            deliveries_.begin_round(cached, result->groups, i == start.from.state ? start.from.index : 0, count);
        }
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
        if (options_.group == 1 && !deliveries_) return {.bytes = make_one(work, key, arena)};
        const round& all = of(work);
        const grouped_batch at = all.groups.of(key.number.index);
        const std::size_t members = all.groups[at.group].size();
        open_group& open = all.made[at.group];
        const std::scoped_lock lock(open.mutex);
        if (!open.frames) {
            open.frames =
                make_group(work, key, deliveries_ ? deliveries_.delivery_of(all.cached, at.group).get() : nullptr);
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
            begin_group(mine, all, key, numbers);
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                const std::span<const node_id> nodes = draw(mine, all, at(i), i);
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
                mine, {options_.run, at(0)}, numbers.back(), all, *owner.features, delivery, result->memory.back());
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
    /// Answers a question for worker `w`, which is here, about the partitions that it holds in a round that `acquire`
    /// returned: a pure function of the question. In `arena`. By any thread. Errors: those of `hop_owner` and of
    /// `hop_messages.hpp`, errc::invalid_argument for a worker that is elsewhere or has no partitions in the round.
    [[nodiscard]] std::span<const std::byte> answer(
        const state_work& work, std::uint32_t w, std::span<const std::byte> question, mini_batch_arena& arena) {
        return answer(of(work), w, question, arena);
    }
    /// Returns the messages of remote construction so far. By any thread.
    [[nodiscard]] construction_traffic traffic() const {
        const std::scoped_lock lock(counting_);
        return traffic_;
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
    [[nodiscard]] std::uint64_t id_bytes() const { return deliveries_.id_bytes(); }
    /// Returns the rows that were sent into slots of the cache that its policy had filled before.
    [[nodiscard]] std::uint64_t cache_fills() const { return deliveries_.fills(); }
    /// Returns the buffers of the workers.
    [[nodiscard]] std::span<const worker_buffers> buffers() const noexcept { return buffers_; }

private:
    [[nodiscard]] bool remote() const noexcept { return options_.construct == construction::remote; }
    [[nodiscard]] bool here(std::size_t w) const noexcept { return buffers_[w].graph != nullptr; }

    struct worker {
        std::optional<node_batches> seeds;
        std::shared_ptr<const resident_graph> graph;
        std::shared_ptr<const resident_features> features;
        partition_owners owners; ///< remote construction: as it sees them, whose own are those that all hold
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
        detail::superbatch_deliveries::round cached;
    };
    using maker = detail::batch_maker;
    using answering_owner = detail::owner_answers;

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
    /// Cuts a batch. Returns its worker.
    const worker& cut(maker& by, const round& all, const batch_key& key) const {
        const worker& owner = worker_of(all, key);
        by.cut.key = key;
        by.cut.key.number.index = all.numbers[key.number.index].index;
        (void)by.cutter.cut(by.cut, *owner.seeds);
        return owner;
    }
    /// Has the batches of a group drawn one after another. With remote construction, it samples them here, so that a
    /// hop is one message to each owner.
    void begin_group(maker& by, const round& all, const batch_key& key, std::span<const std::uint64_t> numbers) {
        if (!remote()) return;
        by.seeds.resize(numbers.size());
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            batch_key one = key;
            one.number.index = numbers[i];
            (void)cut(by, all, one);
            by.seeds[i].assign(by.cut.seeds.begin(), by.cut.seeds.end());
        }
        const std::uint32_t self = all.numbers[key.number.index].worker;
        std::visit(
            [&](auto& sampler) {
                count(sampler.group.draw({options_.run, key}, numbers, by.seeds, all.workers[self].owners,
                    static_cast<std::uint32_t>(buffers_.size()), self, by.own.draws, *all.workers[self].graph,
                    executor_, asking(all, key)));
            },
            by.sampler);
    }
    /// Cuts and samples the `member`-th batch of the group. Returns its input nodes, in memory of the maker.
    [[nodiscard]] std::span<const node_id> draw(
        maker& by, const round& all, const batch_key& key, std::size_t member) const {
        const worker& owner = cut(by, all, key);
        return std::visit(
            [&](auto& sampler) {
                if (remote()) return input_nodes(sampler.group.sample(member).write(key, by.sample));
                return input_nodes(sampler.alone.sample(key, *owner.graph, by.cut.seeds, executor_, by.sample));
            },
            by.sampler);
    }
    [[nodiscard]] std::span<const std::byte> make_one(
        const state_work& work, const batch_key& key, mini_batch_arena& arena) {
        std::span<const std::byte> result;
        const round& all = of(work);
        with_maker([&](maker& mine) {
            begin_group(mine, all, key, {&key.number.index, 1});
            const std::span<const node_id> nodes = draw(mine, all, key, 0);
            result = write(mine, {options_.run, key}, nodes, all, *worker_of(all, key).features, arena);
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
        const round& all, const resident_features& features, mini_batch_arena& arena) {
        frame_writer to(arena, id,
            shape_with_rows(by, id, nodes, all, features,
                {.sample_bytes = sample_of(by).size(),
                    .labels = by.cut.labels.size(),
                    .targets = by.cut.targets.size()}));
        copy_rows(by, nodes, features, to);
        return seal(by, to);
    }
    /// Writes the frame of the rows that a group shares.
    [[nodiscard]] std::span<const std::byte> write_rows(maker& by, const frame_id& id, std::uint64_t last,
        const round& all, const resident_features& features, const row_delivery* delivery, mini_batch_arena& arena) {
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
            shape_with_rows(by, id, nodes, all, features,
                {.sample_bytes = mini_batch::header_bytes(), .last = last, .delivery = delivery}));
        (void)mini_batch::format(to.sample(), id.key);
        copy_rows(by, nodes, features, to);
        return to.seal();
    }
    /// True if the rows of nodes come from their owners.
    [[nodiscard]] bool asks_for_features() const noexcept { return remote() && !options_.all_features; }
    /// Returns `shape` with the rows of nodes; gathers them if they are sparse, or of other owners.
    [[nodiscard]] frame_shape shape_with_rows(maker& by, const frame_id& id, std::span<const node_id> nodes,
        const round& all, const resident_features& features, frame_shape shape) {
        if (features.columns() == 0) return shape; // there are no features
        shape.rows = nodes.size();
        if (shape.sparse = features.sparse(); !shape.sparse) shape.columns = features.columns();
        if (asks_for_features()) {
            const std::uint32_t self = all.numbers[id.key.number.index].worker;
            count(by.of_owners.gather(id, nodes, all.workers[self].owners, static_cast<std::uint32_t>(buffers_.size()),
                self, features, executor_, asking(all, id.key), by.rows));
        } else if (features.sparse())
            features.gather(executor_, nodes, by.rows.sparse);
        if (!features.sparse()) return shape;
        shape.entries = by.rows.sparse.columns.size();
        shape.values = !by.rows.sparse.values.empty();
        return shape;
    }
    void copy_rows(
        maker& by, std::span<const node_id> nodes, const resident_features& features, frame_writer& to) const {
        if (!features.sparse()) {
            if (!asks_for_features()) return features.gather(executor_, nodes.first(to.rows().rows()), to.rows());
            std::ranges::copy(by.rows.dense, to.rows().data());
            return;
        }
        const sparse_feature_rows& rows = by.rows.sparse;
        std::ranges::copy(rows.offsets, to.offsets().begin());
        std::ranges::copy(rows.columns, to.columns().begin());
        std::ranges::copy(rows.values, to.values().begin());
    }

    /// Returns the owners of the partitions of a round, as worker `self` sees them; none if it is elsewhere.
    [[nodiscard]] partition_owners owners_in(std::uint32_t state, std::size_t self) const {
        if (!here(self)) return {};
        const row_partitioning& rows = buffers_[self].graph->store().rows();
        std::vector<std::uint32_t> owners(rows.partitions, partition_owners::no_owner);
        const auto own = [&](std::size_t w) {
            if (state >= plans_[w].states.size()) return;
            for (const partition_id p : plans_[w].states[state].resident) owners[p] = static_cast<std::uint32_t>(w);
        };
        for (std::size_t w = 0; w < plans_.size(); ++w) own(w);
        own(self);
        return {rows, std::move(owners)};
    }
    /// Returns the way to the owners of a round: the one given, or calls of `answer`.
    [[nodiscard]] ask_owners asking(const round& all, const batch_key& key) {
        if (options_.ask)
            return [this, key](std::span<const owner_message> questions) { return options_.ask(key, questions); };
        return [this, &all](std::span<const owner_message> questions) {
            std::vector<owner_message> answers;
            for (const owner_message& question : questions) {
                auto arena = std::make_shared<mini_batch_arena>();
                const std::span<const std::byte> bytes = answer(all, question.owner, question.bytes, *arena);
                answers.push_back({question.owner, bytes, std::move(arena)});
            }
            return answers;
        };
    }
    [[nodiscard]] std::span<const std::byte> answer(
        const round& all, std::uint32_t w, std::span<const std::byte> question, mini_batch_arena& arena) {
        if (w >= all.workers.size() || all.workers[w].graph == nullptr)
            throw error(errc::invalid_argument,
                "batch worker " + std::to_string(w) + " is asked, which holds no partitions here");
        const worker& of = all.workers[w];
        const auto owns = [&](node_id node) { return of.owners.of(node) == w; };
        std::span<const std::byte> result;
        owners_.with([this] { return std::make_unique<answering_owner>(options_); },
            [&](std::unique_ptr<answering_owner>& mine) {
                result = asks_for_rows(question)
                    ? detail::answer_rows(question, options_.run, *of.features, owns, executor_, mine->rows, arena)
                    : mine->draws.answer(question, options_.run, *of.graph, owns, executor_, arena);
            });
        return result;
    }
    void count(const construction_traffic& sent) {
        const std::scoped_lock lock(counting_);
        traffic_ += sent;
    }
    void group_nodes(const round& all, const batch_key& key, std::vector<node_id>& out) {
        with_maker([&](maker& mine) {
            mine.shared.clear();
            const std::span<const std::uint64_t> numbers = all.groups[all.groups.of(key.number.index).group];
            begin_group(mine, all, key, numbers);
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                batch_key one = key;
                one.number.index = numbers[i];
                const std::span<const node_id> nodes = draw(mine, all, one, i);
                mine.positions.resize(nodes.size());
                mine.shared.add(nodes, mine.positions);
            }
            out.assign(mine.shared.ids().begin(), mine.shared.ids().end());
        });
    }
    worker_options options_;
    const node_task& task_;
    std::vector<worker_buffers> buffers_;
    executor_ref executor_;
    memory_charge charge_;
    std::vector<node_plan> plans_;
    object_pool<std::unique_ptr<maker>> makers_;
    detail::superbatch_deliveries deliveries_;
    object_pool<std::unique_ptr<answering_owner>> owners_;
    mutable std::mutex counting_;
    construction_traffic traffic_; // guarded by counting_
};
static_assert(frame_source<worker_batches>);

} // namespace gneiss
