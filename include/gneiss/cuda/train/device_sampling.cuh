// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/dense.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/layerwise.cuh>
#include <gneiss/cuda/sample/neighbor.cuh>
#include <gneiss/cuda/sample/node_numbers.cuh>
#include <gneiss/cuda/train/device_macro_batch.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/graph_lists.hpp>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/sample/seed_set.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/device_setup.hpp>

namespace gneiss::cuda {

/// Samples of the batches in flight, each drawn into its slot on the device: bit-identical to the CPU's samples, by
/// weights up to the device's logarithm. The host gets the node ids, whose rows it may have to gather; or, where it
/// needs none and capacities are known from an epoch before, neither ids nor sizes, and waits for nothing
/// (`device_sampling_setup::ids_on_host`).
///
/// The graph of a state is copied when its first batch is drawn, while batches of the state before may still be drawn
/// from theirs (`device_sampling_setup::graphs`); a graph of the same partitions is not copied again. Macro-batches are
/// on the device already (`device_macro_batches`). If samples are recorded, a slot's first sample of a graph runs
/// eagerly, the second is recorded, and others are replayed, also of a later macro-batch in the same room.
/// Memory: the graphs, and 8 bytes per node once; per batch in flight a sampler with room for what fan-outs allow.
/// Thread-safety: different slots may be drawn by different threads.
class device_sampling {
public:
    /// Throws over_budget if the graphs will not fit.
    /// \param macros  the graphs are macro-batches, whose sizes are those of `with`; null: they are of all nodes
    device_sampling(memory_budget& budget, const device_sampling_setup& with,
        std::shared_ptr<const device_macro_batches> macros = {})
        : budget_(budget),
          with_(with),
          macros_(std::move(macros)),
          lists_(!with.lists_by_source   ? source_lists::none
                  : with.lists_of_inputs ? source_lists::all
                                         : source_lists::between),
          numbers_(budget, with.nodes) {
        if (macros_ && with.sampler != sampler_kind::neighbor)
            throw error(errc::invalid_argument, "macro-batches are sampled by neighbor sampling");
        if (macros_) return;
        memory_need most =
            device_graph<>::need(with.nodes, with.edges, keeps(), with.excluded != 0, with.weight != nullptr);
        most.bytes *= with.graphs;
        static_cast<void>(budget.charge(most)); // before training begins
    }

    /// Sets the number of batches in flight.
    void resize(std::size_t count) {
        while (slots_.size() > count) slots_.pop_back();
        while (slots_.size() < count) slots_.push_back(std::make_unique<slot>());
    }

    /// Samples a batch into slot `number`. Waits for it, unless the host needs neither sizes nor ids (`keeps`): then
    /// there are no nodes. Throws `sample_error`; over_budget, device_error and errors of the graph while it is copied.
    [[nodiscard]] drawn_sample sample(
        const batch_key& key, std::size_t number, const graph_lists& graph, const seed_set& seeds) {
        slot& s = *slots_.at(number);
        if (macros_) return sample_macro_batch(key, s, graph, seeds);
        const graph_use from(*this, graph);
        return sample(key, s, {from.graph.lists->view(), nullptr, from.graph.number}, seeds.nodes, seeds.excluded);
    }
    /// Waits for a sample that the host has not seen, sets the capacities of its views to its sizes, and returns it.
    /// Throws `sample_error`.
    [[nodiscard]] drawn_sample see(std::size_t number) {
        slot& s = *slots_.at(number);
        return std::visit([&](auto& sampler) { return look_at(sampler, s); }, *s.sampler);
    }

    /// True if the host gets no ids, once an epoch has set the capacities.
    [[nodiscard]] bool keeps_ids() const noexcept { return !with_.ids_on_host; }
    /// Says that the capacities of later epochs are known.
    void warmed(std::uint64_t epoch) noexcept {
        std::uint64_t none = 0;
        warm_epoch_.compare_exchange_strong(none, epoch + 1);
    }
    /// True if the device keeps the last sample of a slot: the host has neither its sizes nor its ids, and the views
    /// have the capacities of the sampler.
    [[nodiscard]] bool keeps(std::size_t number) const { return slots_.at(number)->keeps; }
    /// Makes later work of `in` wait for the sample of a slot.
    void ready(std::size_t number, stream& in) const { in.wait(slots_.at(number)->drawn); }
    /// Returns the first failure of a slot's samples, in device memory.
    [[nodiscard]] const detail::failed_batch* failure(std::size_t number) const {
        return std::visit([](const auto& sampler) { return sampler.failure(); }, *slots_.at(number)->sampler);
    }
    /// Returns the number of edges of a sample, whose layers have these sizes.
    [[nodiscard]] std::uint64_t edges(std::span<const layer_counts> of) const noexcept {
        std::uint64_t sum = 0;
        for (const layer_counts& layer : of.first(dense() ? 1 : of.size())) sum += layer.edges;
        return sum;
    }
    /// Ends a sample that the device kept: its step has passed. Throws `sample_error` if it failed.
    void end(std::size_t number, const detail::failed_batch& failed) {
        std::visit(
            [&](auto& sampler) {
                sampler.passed();
                sampler.check(failed);
            },
            *slots_.at(number)->sampler);
    }

    /// Returns the last sample in a slot: the layers in order of computation, and ids of the first one's sources.
    [[nodiscard]] std::span<const layer_view> views(std::size_t number) const { return slots_.at(number)->views; }
    /// Returns the ids of a slot's nodes, in device memory.
    [[nodiscard]] const node_id* names(std::size_t number) const { return slots_.at(number)->names; }
    /// Returns the places of their rows in a table by id, or in that of macro-batches.
    [[nodiscard]] const std::uint32_t* places(std::size_t number) const {
        const slot& s = *slots_.at(number);
        return s.places_of.empty() ? s.names : s.places_of.data();
    }

private:
    using any_sampler = std::variant<dense_sampler<>, neighbor_sampler<>, layerwise_sampler<>>;
    /// The sample of a graph, one of two in use.
    struct recorded_sample {
        std::uint64_t of = 0; ///< number of the graph drawn from last; 0: none
        std::optional<graph> launches;
    };
    struct slot {
        stream in;
        std::optional<any_sampler> sampler; ///< since its first batch
        std::array<recorded_sample, 2> recorded;
        std::vector<layer_view> views;
        const node_id* names = nullptr;
        device_buffer<node_id> names_of;        ///< of macro-batches
        device_buffer<std::uint32_t> places_of; ///< likewise, if rows are there
        pinned_buffer<node_id> ids, numbers;
        std::vector<node_id> seeds; ///< numbers of a macro-batch
        event drawn;                ///< the last sample, if the device keeps it
        bool keeps = false;         ///< the device keeps it
    };
    /// A graph in the device's memory.
    struct copied_graph {
        std::shared_ptr<const device_graph<>> lists;
        std::uint64_t number = 0; ///< among all copies so far, from 1
    };
    /// It, with the partitions that it is of.
    struct held_graph {
        std::vector<partition_id> partitions;
        copied_graph copy;
    };
    /// A batch's use of a graph, which stays in memory meanwhile.
    struct graph_use {
        graph_use(device_sampling& owner, const graph_lists& of) : by(owner), graph(owner.copy_of(of)) {}
        graph_use(const graph_use&) = delete;
        graph_use& operator=(const graph_use&) = delete;
        ~graph_use() {
            {
                const std::scoped_lock alone(by.copying_);
                graph.lists.reset();
            }
            by.unused_.notify_all();
        }
        device_sampling& by;
        copied_graph graph;
    };

    /// Draws from a graph: see `sample`. `from` has places if rows of macro-batches are there.
    [[nodiscard]] drawn_sample sample(const batch_key& key, slot& s, const device_macro_batches::copy_of_graph& from,
        std::span<const node_id> seeds, std::span<const excluded_edge<>> excluded) {
        if (!s.sampler) s.sampler.emplace(make(from.graph));
        return std::visit(
            [&](auto& sampler) {
                sampler.use(from.graph);
                s.names = names_in(sampler, s, from);
                {
                    const std::scoped_lock alone(numbering_);
                    s.in.wait(numbered_);
                    sampler.set(s.in, key, seeds, excluded);
                    run(sampler, s, from);
                    numbered_.record(s.in);
                }
                s.views.clear();
                for (std::size_t i = 0; i < sampler.layers(); ++i) s.views.push_back(sampler.layer(i));
                const std::uint64_t warm = warm_epoch_.load();
                s.keeps = !with_.ids_on_host && warm != 0 && warm != key.epoch + 1;
                if (!s.keeps) return look_at(sampler, s);
                s.drawn.record(s.in);
                return drawn_sample{};
            },
            *s.sampler);
    }
    [[nodiscard]] drawn_sample sample_macro_batch(
        const batch_key& key, slot& s, const graph_lists& graph, const seed_set& seeds) {
        if (graph.macro() == nullptr || !seeds.excluded.empty())
            throw error(errc::invalid_argument, "a device of macro-batches samples these, without excluded edges");
        graph.macro()->numbers_of(seeds.nodes, s.seeds);
        return sample(key, s, macros_->copy_of(key.epoch, key.number.state), s.seeds, {});
    }
    /// Returns the ids of a sample's nodes, which are written by run().
    [[nodiscard]] const node_id* names_in(
        const auto& sampler, slot& s, const device_macro_batches::copy_of_graph& from) const {
        if constexpr (requires { sampler.view(); }) {
            return sampler.view().node_ids;
        } else {
            if (!macros_) return sampler.nodes();
            if (s.names_of.empty()) s.names_of = {budget_, "ids of a sample", sampler.node_capacity()};
            if (s.places_of.empty() && from.places != nullptr)
                s.places_of = {budget_, "places of a sample's rows", sampler.node_capacity()};
            return s.names_of.data();
        }
    }

    /// Waits for the last sample and copies its ids; its views get its own capacities.
    [[nodiscard]] drawn_sample look_at(auto& sampler, slot& s) {
        const sample_sizes sizes = sampler.synchronize(s.in);
        const std::size_t hops = sizes.edges.size(), count = sizes.nodes.back();
        std::uint64_t edges = 0;
        for (const std::uint32_t of_hop : sizes.edges) edges += of_hop;
        for (std::size_t i = 0; i < hops; ++i) {
            const std::size_t hop = hops - 1 - i;
            layer_view& view = s.views[i];
            view.target_capacity = sizes.nodes[hop];
            view.source_capacity = sizes.nodes[hop + 1];
            view.edge_capacity = sizes.edges[hop];
            if (dense())
                for (std::size_t h = 0; h < hop; ++h) view.edge_capacity += sizes.edges[h];
        }
        const auto bring = [&](pinned_buffer<node_id>& to, const node_id* from) {
            if (to.size() < count) {
                to = {};
                to = pinned_buffer<node_id>(budget_, "nodes of a sample", static_cast<std::size_t>(grown(count)));
            }
            copy_to_host_async(to.span(), std::span(from, count), s.in);
        };
        bring(s.ids, s.names);
        drawn_sample result{.nodes = s.ids.span().first(count), .edges = edges};
        if constexpr (requires { sampler.nodes(); })
            if (macros_ && s.places_of.empty()) { // the host gathers the rows
                bring(s.numbers, sampler.nodes());
                result.numbers = s.numbers.span().first(count);
            }
        s.in.synchronize();
        return result;
    }
    /// Draws the sample that is set.
    void run(auto& sampler, slot& s, const device_macro_batches::copy_of_graph& from) const {
        const auto draw = [&] {
            sampler.run(s.in);
            if constexpr (requires { sampler.nodes(); })
                if (macros_)
                    device_macro_batches::name(s.in, from, sampler.node_count(), sampler.node_capacity(),
                        sampler.nodes(), s.names_of.data(), s.places_of.data());
        };
        if (!with_.recorded) return draw();
        recorded_sample& last = s.recorded[static_cast<std::size_t>(from.number % 2)];
        if (last.of != from.number) {
            last.launches.reset(); // the last launch has passed
            last.of = from.number;
            return draw();
        }
        if (!last.launches) last.launches.emplace(graph::record(s.in, draw));
        last.launches->launch(s.in);
    }

    [[nodiscard]] bool dense() const noexcept { return with_.sampler == sampler_kind::dense; }
    /// Returns the directions that the fan-outs draw from.
    [[nodiscard]] neighbor_direction keeps() const noexcept {
        bool in = false, out = false;
        for (const hop_fanout& hop : with_.neighbors.fanout) {
            in = in || hop.in != 0 || hop.both != 0;
            out = out || hop.out != 0 || hop.both != 0;
        }
        return in && out ? neighbor_direction::both : out ? neighbor_direction::out : neighbor_direction::in;
    }
    /// Returns the copy of a graph, made now unless there is one. Waits until the oldest of too many is unused.
    [[nodiscard]] copied_graph copy_of(const graph_lists& graph) {
        std::unique_lock alone(copying_);
        for (const held_graph& held : graphs_)
            if (std::ranges::equal(held.partitions, graph.resident())) return held.copy;
        while (graphs_.size() >= with_.graphs) {
            const auto oldest = graphs_.begin();
            if (oldest->copy.lists.use_count() != 1) {
                unused_.wait(alone);
                continue;
            }
            if (keeps_ids()) { // its samples may be in progress
                const std::scoped_lock last(numbering_);
                numbered_.synchronize();
            }
            graphs_.erase(oldest);
        }
        const auto resident = graph.resident();
        graphs_.push_back({{resident.begin(), resident.end()},
            {std::make_shared<const device_graph<>>(
                 budget_, graph, keeps(), with_.excluded != 0, copies_, with_.weight),
                ++copied_}});
        return graphs_.back().copy;
    }
    [[nodiscard]] any_sampler make(graph_view<node_id> graph) {
        graph.edges = with_.edges; // room for every state
        const sample_capacity most{
            .seeds = static_cast<std::uint32_t>(std::min<std::uint64_t>(with_.seeds, with_.nodes)),
            .excluded = with_.excluded};
        const auto of = [&]<class Sampler>(std::in_place_type_t<Sampler> type) {
            return any_sampler(type, budget_, numbers_, graph, with_.neighbors, with_.seed, most, lists_);
        };
        if (dense()) return of(std::in_place_type<dense_sampler<>>);
        if (with_.sampler == sampler_kind::layerwise) return of(std::in_place_type<layerwise_sampler<>>);
        return of(std::in_place_type<neighbor_sampler<>>);
    }

    memory_budget& budget_;
    device_sampling_setup with_;
    std::shared_ptr<const device_macro_batches> macros_; ///< null: graphs are of all nodes
    source_lists lists_;
    std::mutex copying_; ///< of the next four
    std::condition_variable unused_;
    stream copies_;
    std::vector<held_graph> graphs_; ///< oldest first
    std::uint64_t copied_ = 0;       ///< graphs so far
    node_numbers numbers_;
    event numbered_; ///< the last batch has done with them
    std::mutex numbering_;
    std::atomic<std::uint64_t> warm_epoch_{0}; ///< that set the capacities, plus 1; 0: none yet
    std::vector<std::unique_ptr<slot>> slots_;
};
static_assert(device_sampler<device_sampling>);

} // namespace gneiss::cuda
