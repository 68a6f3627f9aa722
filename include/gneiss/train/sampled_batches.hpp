// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/sample/any_graph_sampler.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/adjacency/neighbor_coverage.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/tasks.hpp>

namespace gneiss {

/// The graph of each state, as samplers read it.
///
/// Meaning: `acquire(i)` waits for the graph of state i; `enter(phase)` as in `batch_producer`. Optional:
/// `coverage(graph)` returns the chances of neighbors in a state for `training_batch::coverage`, or none.
/// Cost: `acquire` waits until the graph is loaded, and O(graph of the state) at most; `ready` O(1). Thread-safety: the
/// driving thread; many threads read views. Errors: errc::invalid_argument for a state that the topology was not made
/// for; any exception ends the epoch, and `run` rethrows it.
template <class T>
concept topology = requires(T& t, const T& c, const epoch_start& start, std::uint32_t i) {
    t.begin_epoch(start);
    { t.acquire(start, i) } -> std::same_as<std::shared_ptr<const typename T::view>>;
    { c.ready(i) } -> std::convertible_to<bool>;
    t.enter(phase::evaluate);
};

/// No graph: batches consist of their seeds.
struct no_topology {
    struct view {}; ///< nothing to read
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] static std::shared_ptr<const view> acquire(
        const epoch_start& /*start*/, std::uint32_t /*state*/) noexcept {
        return {};
    }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    void enter(phase /*next*/) noexcept {}
};
static_assert(topology<no_topology>);
/// No sampling.
struct no_hops {};
/// Makes no sampler.
inline constexpr auto make_no_hops = [] { return no_hops{}; };

/// The graph of the resident partitions.
class buffered_topology {
public:
    using view = resident_graph; ///< graph that samplers read

    /// Options of the slot.
    struct options {
        std::uint32_t resident_partitions; ///< most of a state: the number that memory was planned for
        double coverage = 0;               ///< share of missing neighbors in the chances of neighbors; 0: no chances
    };
    /// Precondition: the buffer outlives this.
    buffered_topology(graph_buffer& buffer, const options& of_states) : buffer_(buffer), options_(of_states) {}

    void begin_epoch(const epoch_start& start) { buffer_.begin_epoch(start.loaded(), start.from.state); }
    [[nodiscard]] std::shared_ptr<const view> acquire(const epoch_start& start, std::uint32_t i) {
        const std::size_t resident = start.states[i].resident.size();
        if (resident > options_.resident_partitions)
            throw error(errc::invalid_argument,
                "state " + std::to_string(i) + " has " + std::to_string(resident) +
                    " partitions, memory was planned for " + std::to_string(options_.resident_partitions));
        return buffer_.acquire(i);
    }
    /// Returns the chances of neighbors to be resident; none if all are, or without the option.
    [[nodiscard]] std::optional<neighbor_coverage> coverage(const view& graph) const {
        if (options_.coverage == 0) return {};
        neighbor_coverage result(buffer_.store(), graph.resident(), buffer_.directions(), options_.coverage,
            [&](partition_id p) { return graph.self_loops(p); });
        if (result.complete()) return {};
        return result;
    }
    [[nodiscard]] bool ready(std::uint32_t state) const { return buffer_.ready(state); }
    void enter(phase next) {
        if (next == phase::evaluate) buffer_.release();
    }

private:
    graph_buffer& buffer_;
    options options_;
};
static_assert(topology<buffered_topology>);

/// A graph in memory, the same for every state.
template <class G>
class graph_in_memory {
public:
    using view = G; ///< graph that samplers read

    /// Shares `graph`, which must outlive this.
    explicit graph_in_memory(const G& graph) : graph_(std::shared_ptr<const G>(), &graph) {}
    explicit graph_in_memory(const G&&) = delete; // the graph must outlive this
    /// Owns `graph` with others.
    explicit graph_in_memory(std::shared_ptr<const G> graph) : graph_(std::move(graph)) {}

    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] std::shared_ptr<const view> acquire(
        const epoch_start& /*start*/, std::uint32_t /*state*/) const noexcept {
        return graph_;
    }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    void enter(phase /*next*/) noexcept {}
    /// Returns the graph.
    [[nodiscard]] const G& graph() const noexcept { return *graph_; }

private:
    std::shared_ptr<const G> graph_;
};

/// Sampler that `sampled_batches` takes for a topology.
template <class S, class Topology>
concept batch_sampler_of = std::same_as<S, no_hops> || std::same_as<S, any_graph_sampler> ||
    std::same_as<S, any_sampler> || sampler_of<S, typename Topology::view> || device_sampler<S>;

/// Says what is missing: other types than the batches below take.
template <class Task, class Topology, class Sampler>
class sampled_batches {
    static_assert(train_task<Task>, "sampled_batches: Task must be a gneiss::train_task, see gneiss/train/tasks.hpp");
    static_assert(topology<Topology>,
        "sampled_batches: Topology must be a gneiss::topology, see gneiss/train/sampled_batches.hpp");
    static_assert(!topology<Topology> || batch_sampler_of<Sampler, Topology>,
        "sampled_batches: Sampler must be a gneiss::sampler_of<Sampler, Topology::view>, see "
        "gneiss/sample/any_sampler.hpp");

public:
    /// Takes whatever batches are made of.
    template <class... Arguments>
    explicit sampled_batches(Task& /*task*/, Topology& /*from*/, const Arguments&... /*arguments*/) {}
};

/// Batches whose neighborhoods are sampled on demand, in the graph of their state.
///
///     sampled_batches batches(task, topology, [&] { return dense_sampler<>(options, seed); }, executor);
///
/// `Sampler`: a `sampler_of` the topology's view, a `device_sampler`, `any_graph_sampler`, or `any_sampler`, which has
/// its graph and needs `no_topology`.
/// Batches of a graph that is the same in every state, that of `any_sampler` or `graph_in_memory`, can be drawn ahead:
/// see `inspected_batches`.
/// Memory: a sampler and a cutter for each producing thread, charged by `samplers`.
/// Thread-safety: as in `batch_producer`.
template <train_task Task, topology Topology, batch_sampler_of<Topology> Sampler>
class sampled_batches<Task, Topology, Sampler> {
    using task_cutter = decltype(std::declval<const Task&>().cutter());
    static constexpr bool samples = !std::same_as<Sampler, no_hops>;
    static constexpr bool erased = std::same_as<Sampler, any_graph_sampler>;
    static constexpr bool with_graph = std::same_as<Sampler, any_sampler>;
    static constexpr bool same_graph = with_graph || requires(const Topology& t) {
        { t.graph() } -> std::same_as<const typename Topology::view&>;
        requires storable_sampler_of<Sampler, typename Topology::view>;
    };

public:
    /// \param make       makes a sampler
    /// \param samplers   memory charge of the samplers
    /// Precondition: task and topology outlive this.
    template <std::invocable Make>
        requires std::same_as<std::invoke_result_t<const Make&>, Sampler>
    sampled_batches(Task& task, Topology& from, Make make, executor_ref executor, memory_charge samplers = {})
        : task_(task),
          topology_(from),
          make_(std::move(make)),
          executor_(executor),
          charge_(std::move(samplers)) {}

    void begin_epoch(const epoch_start& start, const std::stop_token& /*stop*/) {
        task_.begin_epoch(start);
        topology_.begin_epoch(start);
    }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t i) {
        auto examples = task_.acquire(start, i);
        const std::uint64_t batches = Task::batches(*examples);
        view result{std::move(examples), topology_.acquire(start, i), {}};
        if constexpr (requires { topology_.coverage(*result.graph); })
            result.coverage = topology_.coverage(*result.graph);
        return {.view = std::make_shared<const view>(std::move(result)), .features = {}, .batches = batches};
    }
    [[nodiscard]] bool ready(std::uint32_t state) const { return topology_.ready(state); }

    void produce(training_batch& b, const std::stop_token& /*stop*/) {
        const view& of = *static_cast<const view*>(b.work->view.get());
        workers_.with([this] { return std::make_unique<worker>(task_.cutter(), make_); },
            [&](std::unique_ptr<worker>& mine) {
                const seed_set seeds = mine->cutter.cut(b, *of.examples);
                if constexpr (!samples) { // the batch keeps them: another batch may be cut by `mine` before its rows
                                          // are gathered
                    const bool kept = b.links.has_value() || seeds.nodes.data() == b.seeds.data();
                    if (!kept) b.seeds.assign(seeds.nodes.begin(), seeds.nodes.end());
                    b.nodes = kept ? seeds.nodes : std::span<const node_id>(b.seeds);
                } else {
                    const drawn_sample drawn = draw(mine->sampler, b, of, seeds);
                    b.nodes = drawn.nodes;
                    b.numbers = drawn.numbers;
                    b.statistics.sampled_edges = drawn.edges;
                }
                if (of.coverage)
                    of.coverage->of(b.nodes, b.coverage);
                else
                    b.coverage.clear();
            });
    }
    void gathered(training_batch& /*batch*/) noexcept {}
    [[nodiscard]] static bool in_order() noexcept { return false; }
    [[nodiscard]] static bool repeats() noexcept { return Task::repeats; }
    void enter(phase next) { topology_.enter(next); }

    /// Cuts the task's part of batches, and returns their seeds; one per thread.
    class cutter_type {
    public:
        /// Cuts by the cutter of a task.
        explicit cutter_type(task_cutter by) : by_(std::move(by)) {}
        seed_set cut(training_batch& b) { return by_.cut(b, *static_cast<const view*>(b.work->view.get())->examples); }

    private:
        task_cutter by_;
    };
    /// Returns a cutter.
    [[nodiscard]] cutter_type cutter() const { return cutter_type(task_.cutter()); }
    /// Returns the work of the same state, number `i` of its plan, in another epoch, without holding the state.
    [[nodiscard]] state_work of_epoch(const state_work& work, std::uint64_t epoch, std::uint32_t i) const
        requires same_graph && requires(const Task& t, const typename Task::view& v) {
            { t.of_epoch(v, epoch, i) } -> std::same_as<std::shared_ptr<const typename Task::view>>;
        }
    {
        const view& from = *static_cast<const view*>(work.view.get());
        auto examples = task_.of_epoch(*from.examples, epoch, i);
        const std::uint64_t batches = Task::batches(*examples);
        view result{std::move(examples), from.graph, {}};
        return {.view = std::make_shared<const view>(std::move(result)), .features = {}, .batches = batches};
    }
    /// Returns a sampler of the graph that draws the samples of the batches.
    [[nodiscard]] any_sampler sampler() const
        requires same_graph
    {
        if constexpr (with_graph)
            return make_();
        else
            return {topology_.graph(), make_};
    }

private:
    struct view {
        std::shared_ptr<const typename Task::view> examples;
        std::shared_ptr<const typename Topology::view> graph;
        std::optional<neighbor_coverage> coverage; ///< none: not corrected
    };
    struct worker {
        worker(task_cutter by, const std::function<Sampler()>& make) : cutter(std::move(by)), sampler(make()) {}
        task_cutter cutter;
        Sampler sampler;
    };

    drawn_sample draw(Sampler& by, training_batch& b, const view& of, const seed_set& seeds) {
        if constexpr (with_graph)
            return by.read(
                by.sample(b.key, seeds.nodes, executor_, b.sample_arena, seeds.excluded), b.layers, executor_);
        else if constexpr (device_sampler<Sampler>)
            return by.sample(b.key, b.slot, graph_lists(*of.graph), seeds);
        else if constexpr (erased)
            return by.draw(b.key, *of.graph, seeds.nodes, executor_, b.sample_arena, seeds.excluded, b.layers);
        else
            return lay_out(by.sample(b.key, *of.graph, seeds.nodes, executor_, b.sample_arena, seeds.excluded),
                b.layers, executor_);
    }

    Task& task_;
    Topology& topology_;
    std::function<Sampler()> make_;
    executor_ref executor_;
    memory_charge charge_;
    object_pool<std::unique_ptr<worker>> workers_;
};

/// Deduces the sampler from the function that makes it.
template <class Task, class Topology, std::invocable Make, class... Rest>
sampled_batches(Task&, Topology&, Make, Rest&&...)
    -> sampled_batches<Task, Topology, std::invoke_result_t<const Make&>>;

} // namespace gneiss
