// SPDX-License-Identifier: Apache-2.0
#include "training_plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/types.hpp>
#include <gneiss/order/large_batches.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/order/multistage_cost.hpp>
#include <gneiss/sample/node_batches.hpp>

#include "kit/cli/machine.hpp"
#include "kit/gnn/class_weights.hpp"
#include "kit/gnn/node_metrics.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/refused_plan.hpp"

namespace joestar {

namespace {

class planner {
public:
    explicit planner(const planned_run& run)
        : run_(run),
          how_(run.how),
          graph_(run.data.manifest()),
          buckets_(run.data.buckets()),
          store_(run.features.files(), {graph_.nodes, 1}),
          least_evaluation_(trainers::least_evaluation(how_, run.net, run.features, buckets_)),
          rss_(programs::anonymous_rss()) {}

    [[nodiscard]] training_plan choose() const {
        const auto all = static_cast<std::uint64_t>(run_.train.size());
        if (how_.single()) return fitting(with(draw(0)));
        if (how_.by_partitions()) {
            training_plan plan = by_partitions();
            plan.traffic += least_traffic(static_cast<std::uint32_t>(plan.large));
            return plan;
        }
        if (const auto asked = how_.macro_of(all)) {
            training_plan plan = with(draw(*asked));
            if (fits(plan)) return plan;
            const training_plan best = largest(std::min(*how_.batch, all), *asked);
            refuse(plan,
                fits(best) ? fmt::format("--macro {} fits, {} does not", best.large, *asked)
                           : fmt::format("no --macro fits: one of {} nodes takes {}; {}", best.large,
                                 gneiss::format_bytes(bytes_of(best), true), remedies(best)));
        }
        return fitting(largest(std::min(*how_.batch, all), all));
    }

private:
    /// Sizes of a partition.
    struct partition_size {
        std::uint64_t nodes = 0, halo = 0, edges = 0; ///< inside; neighbors of them outside; of all their lists
        std::uint64_t train = 0;
    };
    /// Returns the plan of --macro partitions, or of most that fit.
    [[nodiscard]] training_plan by_partitions() const {
        const std::vector<partition_size> sizes = partition_sizes();
        profile batches = draw(0); // in the whole graph: at least as large as within a border
        const auto plan_of = [&](std::uint64_t macro) { return with(bound(sizes, macro, batches)); };
        // the lists that are left when edges of the halo are removed
        batches.batch_bytes += 2 * (8 * batches.batch_edges + 4 * how_.hops().size() * batches.batch_nodes);
        using enum history_place;
        for (const history_place place :
            run_.device != nullptr ? std::vector{device, pinned, disk} : std::vector{memory, disk}) {
            batches.past = place;     // the first that fits
            if (how_.history_store) { // a run that began on a device goes on in memory
                if (*how_.history_store == store_of(place) || (place == memory && how_.history_store == "device"))
                    break;
            } else {
                const training_plan plan = plan_of(how_.macro_of(sizes.size()).value_or(1));
                if (place == device ? in_half(plan) : fits(plan)) break;
            }
        }
        const auto all = static_cast<std::uint64_t>(sizes.size());
        const auto asked = how_.macro_of(all);
        training_plan best = plan_of(1);
        if (run_.device != nullptr && device_bytes(best) > run_.device->free_memory())
            throw trainers::refused_plan(run_.device->free_memory(), best.device_needs,
                fmt::format("{}{}more --device-memory",
                    batches.past == history_place::device ? "--history-store memory keeps histories in pinned memory, "
                                                          : "",
                    how_.history == "f32" ? "--history f16 halves them, or " : ""));
        if (asked) {
            training_plan plan = plan_of(*asked);
            if (fits(plan)) return plan;
            if (!fits(best))
                refuse(plan,
                    fmt::format("no --macro fits: one partition takes {}; {}",
                        gneiss::format_bytes(bytes_of(best), true), remedies(best)));
        }
        best = fitting(std::move(best));
        for (std::uint64_t below = asked.value_or(all + 1); best.large + 1 < below;) { // fits up to best.large
            const std::uint64_t middle = (best.large + below) / 2;
            if (training_plan more = plan_of(middle); fits(more))
                best = std::move(more);
            else
                below = middle;
        }
        if (asked) refuse(plan_of(*asked), fmt::format("--macro {} fits, {} does not", best.large, *asked));
        return best;
    }
    /// Counts the nodes, halos and edges of all partitions. O(edges).
    [[nodiscard]] std::vector<partition_size> partition_sizes() const {
        const std::span<const std::uint16_t> parts = run_.border->parts();
        std::vector<partition_size> result(run_.border->partitions());
        std::vector<std::vector<gneiss::node_id>> nodes(result.size());
        for (std::size_t v = 0; v < parts.size(); ++v) nodes[parts[v]].push_back(static_cast<gneiss::node_id>(v));
        for (const gneiss::node_id v : run_.train) ++result[parts[v]].train;
        std::vector<std::uint32_t> seen(parts.size(), 0); // as halo of partition i - 1
        run_.lists.visit([&](const auto& graph) {
            for (std::size_t p = 0; p < result.size(); ++p) {
                result[p].nodes = nodes[p].size();
                expand(graph, nodes[p], all_of(how_.hops().front()), 0, [&](const gneiss::neighbor_sample<>& drawn) {
                    result[p].edges += drawn.edges();
                    for (const gneiss::node_id v : drawn.nodes)
                        if (parts[v] != p && std::exchange(seen[v], static_cast<std::uint32_t>(p + 1)) != p + 1)
                            ++result[p].halo;
                });
            }
        });
        return result;
    }
    /// Returns bounds of the macro-batches of `macro` partitions, whichever they are, with these batches.
    [[nodiscard]] profile bound(const std::vector<partition_size>& sizes, std::uint64_t macro, profile batches) const {
        const auto most = [&](auto size) {
            std::vector<std::uint64_t> all;
            for (const partition_size& of : sizes) all.push_back(size(of));
            std::ranges::sort(all, std::greater());
            return std::accumulate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(macro), std::uint64_t{0});
        };
        const std::uint64_t inside = most([](const partition_size& of) { return of.nodes; });
        batches.large = macro;
        batches.inside = inside;
        batches.halo = std::min(graph_.nodes - std::ranges::min(sizes, {}, &partition_size::nodes).nodes,
            most([](const partition_size& of) { return of.halo; }));
        batches.nodes = std::min(graph_.nodes, most([](const partition_size& of) { return of.nodes + of.halo; }));
        batches.rows = *how_.halo == "feature" ? batches.nodes : inside;
        batches.edges = most([](const partition_size& of) { return of.edges; });
        batches.bytes = 4 * (batches.nodes + inside + 1 + batches.edges) + 4096;
        const std::uint64_t hops = how_.first_hops().fanout.size();
        if (how_.sampled() == gneiss::sampled_ahead::reach) batches.edges *= hops;
        if (how_.sampled() == gneiss::sampled_ahead::exact) {
            const std::uint64_t count = std::max<std::uint64_t>(
                gneiss::ceil_div(most([](const partition_size& of) { return of.train; }), *how_.batch), 1);
            batches.nodes = std::min(batches.nodes, count * trainers::some_more(batches.batch_nodes));
            batches.rows = std::min(batches.rows, batches.nodes);
            batches.halo = std::min(batches.halo, batches.nodes);
            batches.edges = count * trainers::some_more(batches.batch_edges);
            batches.bytes = 4 * (batches.nodes + batches.edges) + 4096 +
                count * (4 * (hops + 1) * trainers::some_more(batches.batch_nodes) + 16 * (hops + 1) + 64);
        }
        return batches;
    }
    /// Returns the plan of the largest macro-batch that fits, or of the smallest. Sizes grow less than their number of
    /// training nodes: what twice as many would need at most is known before they are drawn.
    [[nodiscard]] training_plan largest(std::uint64_t least, std::uint64_t most) const {
        profile seen = draw(least);
        training_plan best = with(seen);
        while (fits(best) && seen.large < most) {
            double step = 2;
            while (step > 1.05 && !fits(with(scaled(seen, step)))) step = 1 + (step - 1) / 2;
            if (step <= 1.05) break;
            const auto next = static_cast<std::uint64_t>(static_cast<double>(seen.large) * step);
            const profile more = draw(std::min(std::max(next, seen.large + 1), most));
            training_plan larger = with(more);
            if (!fits(larger)) break;
            seen = more;
            best = std::move(larger);
        }
        return best;
    }
    [[nodiscard]] static profile scaled(profile of, double factor) {
        for (std::uint64_t* size : {&of.large, &of.nodes, &of.rows, &of.edges, &of.bytes})
            *size = static_cast<std::uint64_t>(std::ceil(static_cast<double>(*size) * factor));
        return of;
    }

    /// Draws the first macro-batch of epoch 0 with `large` training nodes, or none, and batches within it.
    [[nodiscard]] profile draw(std::uint64_t large) const {
        profile seen{.large = large};
        std::vector<gneiss::node_id> nodes(run_.train.begin(), run_.train.end());
        gneiss::mini_batch_arena scratch, arena, of_batch;
        gneiss::layer_stack layers;
        const auto see = [&](const gneiss::drawn_sample& sample) {
            seen.batch_nodes = std::max<std::uint64_t>(seen.batch_nodes, sample.nodes.size());
            seen.batch_edges = std::max(seen.batch_edges, sample.edges);
            seen.batch_bytes = std::max<std::uint64_t>(seen.batch_bytes, of_batch.reserved() + layers.memory_bytes());
            seen.encoder = std::max(seen.encoder, run_.net.encode.memory_of(layers, sample.nodes.size()));
        };
        std::vector<gneiss::node_id> seeds;
        const auto each_batch = [&](const auto& visit) {
            const gneiss::node_batches batches(nodes, *how_.batch, how_.seed, 0, 0);
            for (std::uint64_t k = 0; k < std::min<std::uint64_t>(batches.size(), 4); ++k) {
                trainers::throw_if_stopped(run_.stop);
                batches.choose(k, seeds);
                visit(gneiss::batch_key{0, {0, 0, k}});
            }
        };
        if (large == 0) {
            gneiss::any_sampler sampler = run_.lists.visit([&](const auto& graph) {
                return gneiss::make_sampler(graph, how_.sampling(), how_.neighbor_options(), how_.seed);
            });
            each_batch([&](const gneiss::batch_key& key) {
                see(sampler.read(sampler.sample(key, seeds, run_.executor, of_batch), layers, run_.executor));
            });
            return seen;
        }
        gneiss::large_batches(run_.train, large, how_.seed, 0).choose(0, nodes);
        const gneiss::batch_key key{0, {0, 0, ~std::uint64_t{0}}};
        gneiss::neighbor_sampler<> first(how_.first_hops(), how_.seed);
        run_.lists.visit([&](const auto& graph) {
            const auto drawn =
                first.sample(key, graph, std::span<const gneiss::node_id>(nodes), run_.executor, scratch);
            seen.nodes = seen.rows = drawn.nodes.size();
            seen.edges = drawn.edges();
            gneiss::macro_batch_builder builder;
            const gneiss::macro_batch macro(builder.build(drawn, how_.form(), run_.executor, arena));
            seen.bytes = macro.bytes();
            gneiss::second_stage_sampler second(how_.second_hops(), how_.seed);
            each_batch([&](const gneiss::batch_key& of) {
                see(gneiss::lay_out(second.sample(of, macro, seeds, run_.executor, of_batch), layers, run_.executor));
            });
        });
        return seen;
    }

    [[nodiscard]] bool fits(const training_plan& plan) const {
        return plan.common.fits() && (!on_cpu_tier() || plan.macro_bytes <= how_.device_memory->bytes) &&
            (!chosen_for_device() || in_half(plan));
    }
    /// True if macro-batches on the device have the size that fits in half of its memory.
    [[nodiscard]] bool chosen_for_device() const {
        return run_.device != nullptr && how_.stages_on_device() && how_.macro == "auto";
    }
    /// True if what the device keeps fits in half of its memory.
    [[nodiscard]] bool in_half(const training_plan& plan) const {
        return device_bytes(plan) <= run_.device->free_memory() / 2;
    }
    [[nodiscard]] static std::uint64_t device_bytes(const training_plan& plan) {
        std::uint64_t sum = 0;
        for (const gneiss::memory_need& need : plan.device_needs) sum += need.bytes;
        return sum;
    }
    [[nodiscard]] bool on_cpu_tier() const { return how_.device == "cpu" && how_.device_memory.has_value(); }
    /// Throws what the plan lacks: memory, or memory of the second tier.
    [[noreturn]] void refuse(const training_plan& plan, const std::string& help) const {
        if (plan.common.fits() && chosen_for_device())
            throw trainers::refused_plan(run_.device->free_memory() / 2, plan.device_needs,
                run_.border != nullptr ? "half of the device's memory holds two macro-batches, and histories; " + help
                                       : "half of the device's memory holds two macro-batches; " + help);
        if (plan.common.fits())
            throw trainers::refused_plan(how_.device_memory->bytes,
                std::vector<gneiss::memory_need>{{"macro-batches", plan.macro_bytes}},
                "--device-memory holds two macro-batches; " + help);
        throw trainers::refused_plan(plan.common.budget, plan.common.memory, help);
    }
    /// Returns the bytes that a plan lacks memory for: of all parts, or of macro-batches in the second tier.
    [[nodiscard]] std::uint64_t bytes_of(const training_plan& plan) const {
        return !plan.common.fits() ? plan.common.memory_bytes()
            : chosen_for_device()  ? device_bytes(plan)
                                   : plan.macro_bytes;
    }
    /// Returns what makes a plan fit that has the smallest macro-batches.
    [[nodiscard]] std::string remedies(const training_plan& plan) const {
        if (plan.common.fits())
            return trainers::what_helps(
                {}, {run_.border != nullptr ? "more, smaller partitions" : "a smaller --batch"}, "--device-memory");
        const std::vector<gneiss::memory_need>& parts = plan.common.memory.parts();
        const auto if_large = [&](const char* part, const char* flag) { return trainers::if_large(parts, part, flag); };
        return trainers::what_helps(parts,
            {if_large("neighbors", "--topology disk"),
                row_bytes() != 0 ? if_large("features", "--feature-cache none") : "",
                plan.past != history_place::disk ? if_large("histories", "--history-store disk") : "",
                plan.past != history_place::disk ? if_large("histories, pinned", "--history-store disk") : "",
                how_.history == "f32" ? if_large("histories", "--history f16") : "",
                run_.border != nullptr ? if_large("macro-batches", "more, smaller partitions") : ""},
            "--memory", how_.threads);
    }
    [[nodiscard]] training_plan fitting(training_plan plan) const {
        if (fits(plan)) return plan;
        refuse(plan, remedies(plan));
    }

    [[nodiscard]] training_plan with(const profile& seen) const {
        training_plan result;
        gneiss::training_plan& plan = result.common;
        plan.budget = how_.memory->bytes;
        plan.partitioning = buckets_.rows();
        plan.slots = plan.partitioning.partitions;
        plan.in_memory = *how_.topology == "memory" && *how_.feature_cache == "memory";
        const std::uint64_t nodes = std::min(graph_.nodes, trainers::some_more(seen.nodes)),
                            rows_held = std::min(graph_.nodes, trainers::some_more(seen.rows)),
                            batch_nodes = std::min(graph_.nodes, trainers::some_more(seen.batch_nodes));
        const std::size_t columns = run_.net.encode.inputs().dense;
        const std::uint64_t row = row_bytes();
        result.staging_bytes =
            std::clamp<std::uint64_t>(plan.budget / 64, std::uint64_t{4} << 20, gneiss::gather_options{}.staging_bytes);
        const std::uint64_t counted = run_.charged + how_.outside.value_or(programs::memory_use{}).anonymous,
                            code = std::uint64_t{20} << 20;
        plan.memory.reserve({"program", rss_ - std::min(rss_, counted) + code});
        plan.memory.reserve(trainers::label_need(graph_, !how_.no_eval));
        if (!how_.no_eval) plan.memory.reserve(trainers::node_metrics::need(graph_));
        plan.memory.reserve(run_.net.need());
        plan.memory.reserve({"features, pinned", how_.pinned_features(graph_)});
        for (const gneiss::memory_need& need : trainers::neighbor_store::needs(*how_.topology, run_.lists.files()))
            plan.memory.add(need);
        if (*how_.topology == "disk") plan.memory.add(gneiss::disk_csc::need(how_.reading(graph_)));
        if (*how_.feature_cache == "memory")
            plan.memory.add(trainers::whole_features::need(store_));
        else
            plan.memory.add({"row gather", result.staging_bytes + 28 * (seen.large == 0 ? batch_nodes : nodes)});
        if (seen.large != 0) {
            const double entries =
                store_.sparse() ? static_cast<double>(store_.nnz()) / static_cast<double>(graph_.nodes) : 0; // of a row
            const auto sparse = static_cast<std::uint64_t>(static_cast<double>(nodes) * (8 + 8 * 1.25 * entries));
            result.large = seen.large;
            result.macro_batches = {.form = how_.form(),
                .rows = how_.delta ? std::min(2 * rows_held, graph_.nodes) : 2 * rows_held,
                .bytes = trainers::some_more(seen.bytes) + seen.bytes / 8 + 4 * trainers::some_more(seen.nodes) +
                    (store_.sparse() ? sparse : 0) + 65536,
                .delta = how_.delta,
                .rows_on_device = how_.stages_on_device() && how_.feature_place == "device"};
            if (how_.stages_on_device()) {
                result.on_device = staged(seen, nodes, result.macro_batches);
                result.device_needs.push_back(result.on_device.need());
            }
            const gneiss::memory_need need = gneiss::macro_batch_buffer::need(result.macro_batches, row);
            result.macro_bytes = need.bytes;
            plan.memory.add(need);
            plan.memory.reserve(first_stage(seen));
            if (run_.border != nullptr) {
                plan.memory.reserve({"partitions", graph_.nodes * sizeof(std::uint16_t)});
                result.past = seen.past;
                if (run_.device != nullptr) {
                    result.past_on_device =
                        how_.histories_on_device(gneiss::hidden_rows_of(run_.net.encode), *run_.border);
                    result.past_on_device.pinned = seen.past == history_place::pinned;
                    if (seen.past == history_place::disk) {
                        result.past_on_device.most_inside = seen.inside;
                        result.past_on_device.most_halo = seen.halo;
                        plan.memory.add(histories(seen));
                    }
                    result.device_needs.push_back(result.past_on_device.need());
                    if (seen.past == history_place::pinned)
                        plan.memory.reserve({"histories, pinned", result.past_on_device.pinned_need().bytes});
                } else {
                    plan.memory.add(histories(seen));
                }
                result.most_inside = seen.inside;
                result.most_halo = seen.halo;
            }
            result.traffic = traffic(seen, row);
        }
        batches(result, seen, batch_nodes, columns);
        const std::vector<gneiss::hidden_rows> hidden = gneiss::hidden_rows_of(run_.net.encode);
        const std::uint64_t saved = run_.border == nullptr ? 0
            : seen.past == history_place::disk
            ? gneiss::history_window::file_bytes(graph_.nodes, hidden, how_.histories())
            : 3 * histories(seen).bytes;
        plan.disk_bytes = saved + 4 * run_.net.weights.size_bytes() + (std::uint64_t{1} << 20) +
            trainers::evaluation_files(how_, run_.net, run_.features, buckets_, plan.evaluation_bytes);
        return result;
    }
    /// Returns what the device keeps of macro-batches of at most `nodes`.
    [[nodiscard]] gneiss::device_macro_batches_setup staged(
        const profile& seen, std::uint64_t nodes, const gneiss::macro_batch_options& macro_batches) const {
        const std::size_t hops = how_.first_hops().fanout.size();
        return {.nodes = std::min(graph_.nodes, nodes + nodes / 8),
            .edges = trainers::some_more(seen.edges) + seen.edges / 8, // as the host's bound
            .lists = how_.sample_on == "cpu"                       ? 0U
                : macro_batches.form == gneiss::second_stage::hops ? static_cast<std::uint32_t>(hops)
                                                                   : 1U,
            .rows = macro_batches.rows_on_device ? macro_batches.rows : 0,
            .columns = run_.net.encode.inputs().dense,
            .type =
                *how_.feature_cache == "memory" ? gneiss::feature_type::f32 : how_.placed_type(run_.features.type()),
            .fused = how_.fusion};
    }
    [[nodiscard]] gneiss::memory_need histories(const profile& seen) const {
        const std::vector<gneiss::hidden_rows> layers = gneiss::hidden_rows_of(run_.net.encode);
        if (seen.past != history_place::disk) return gneiss::histories::need(layers, graph_.nodes, how_.histories());
        const gneiss::history_store store{
            .parts = run_.border->parts(), .most_inside = seen.inside, .most_halo = seen.halo};
        return run_.device == nullptr ? gneiss::histories::need(layers, store, how_.histories())
                                      : gneiss::history_window::need(store, layers, how_.histories());
    }
    /// Returns the scratch of the first stage.
    [[nodiscard]] gneiss::memory_need first_stage(const profile& seen) const {
        const std::uint64_t edges = trainers::some_more(seen.edges), nodes = trainers::some_more(seen.nodes);
        // numbers of nodes, each hop's lists, and for the union of hops its sample and lists of pairs
        const std::uint64_t numbering = 8 * 4 * std::bit_ceil(nodes + 1024) + 8 * nodes;
        const std::uint64_t united = how_.form() == gneiss::second_stage::lists ? seen.bytes + 8 * edges + 12 * nodes
            : how_.form() == gneiss::second_stage::drawn                        ? 2 * seen.bytes // growing arrays
                                                                                : 0;
        return {"first stage", numbering + 16 * edges + 12 * nodes + united + (std::uint64_t{1} << 20)};
    }
    /// Adds batches, samplers, encoder and evaluation.
    void batches(training_plan& to, const profile& seen, std::uint64_t batch_nodes, std::size_t columns) const {
        gneiss::training_plan& plan = to.common;
        const gneiss::gnn_memory bound = gneiss::bound_gnn_memory(how_.training_options(),
            {.nodes = batch_nodes,
                .edges = trainers::some_more(seen.batch_edges),
                .all_nodes = batch_nodes,
                .columns = run_.net.encode.inputs(),
                .sparse_entries = store_.sparse() ? store_.nnz() : 0,
                .targets = *how_.node_task == "classes" ? 0 : run_.net.encode.outputs()},
            trainers::layers_of(run_.net.encode));
        const std::uint64_t workers = std::max<std::uint64_t>(how_.pipeline_options().sample_workers, 1);
        const bool bounded = run_.net.encode.inputs().sparse == 0; // entries of sparse rows are known later
        to.encoder_bytes = bounded ? std::min(bound.encoder, trainers::some_more(seen.encoder)) : 0;
        to.room_nodes = batch_nodes;
        const gneiss::memory_need encoder = bound.encoders(to.encoder_bytes);
        const std::uint64_t sample = seen.batch_bytes * 9 / 8 + (std::uint64_t{1} << 20);
        const std::uint64_t samples = (how_.in_flight + workers) * sample;
        const std::uint64_t row =
            to.macro_batches.rows_on_device ? sizeof(gneiss::cache_slot) : columns * sizeof(float);
        const std::uint64_t rows = how_.in_flight * batch_nodes * row;
        const std::uint64_t freed = samples + rows + encoder.bytes + to.macro_bytes,
                            between = least_evaluation_ - std::min(least_evaluation_, freed);
        if (seen.large != 0 && rows != 0 && !to.macro_batches.rows_on_device) { // the loop charges the rows
            plan.memory.reserve({"samples", samples});
            plan.memory.add({"batches", rows});
        } else {
            plan.memory.reserve({"batches", samples + rows});
        }
        plan.memory.reserve(bound.samplers(workers));
        plan.memory.reserve(encoder);
        plan.memory.reserve({"evaluation", between});
        const gneiss::memory_need larger{"larger batches", (samples + rows + encoder.bytes) / 16}; // than those drawn
        plan.memory.reserve(larger);
        plan.evaluation_bytes = freed + between;
        to.spare_bytes = between + larger.bytes + plan.budget - std::min(plan.budget, plan.memory_bytes());
    }
    /// Returns what two stages move, by the model of the thesis: bytes for a macro-batch, and for its batches one by
    /// one.
    [[nodiscard]] std::string traffic(const profile& seen, std::uint64_t row) const {
        const double width = width_of(row);
        const bool parts = run_.border != nullptr;
        const double training = parts ? static_cast<double>(run_.train.size()) * static_cast<double>(seen.large) /
                static_cast<double>(run_.border->partitions())
                                      : static_cast<double>(seen.large);
        const double batches = std::ceil(training / static_cast<double>(*how_.batch));
        const gneiss::multistage_cost cost{
            .batch = static_cast<double>(seen.batch_nodes) * width + 4 * static_cast<double>(seen.batch_edges),
            .macro_batch = static_cast<double>(seen.rows) * width + static_cast<double>(seen.bytes),
            .batches_of_it = batches};
        return fmt::format(
            "a macro-batch of {} {}, {:.0f} batches: {}{} nodes and {}, {} of what its batches would move alone{}",
            seen.large, parts ? "partitions" : "nodes", batches, parts ? "at most " : "",
            programs::human_count(static_cast<double>(seen.nodes)),
            gneiss::format_bytes(static_cast<std::uint64_t>(cost.macro_batch)), programs::human_percent(cost.ratio()),
            cost.ratio() < 1 ? "" : ": nothing is gained");
    }

    /// Returns the bytes of a row of dense features; 0: they are sparse.
    [[nodiscard]] std::uint64_t row_bytes() const {
        return store_.sparse()                ? 0
            : *how_.feature_cache == "memory" ? run_.net.encode.inputs().dense * sizeof(float)
                                              : store_.row_bytes();
    }
    /// Returns the bytes of a row on average.
    [[nodiscard]] double width_of(std::uint64_t row) const {
        return row != 0 ? static_cast<double>(row)
                        : static_cast<double>(store_.nnz()) * 8 / static_cast<double>(graph_.nodes);
    }

    /// Traffic of a macro-batch of partitions. By node: bit 0, features of a node inside; bit 31, of one in the halo
    /// that the first layer would read; bit l, activations of hidden layer l; bit 16 + l, those that are pushed.
    struct marked {
        std::vector<std::uint32_t> bits;
        std::uint64_t edges = 0;
    };
    static constexpr std::uint32_t halo_row = std::uint32_t{1} << 31;
    /// Returns the halo's bits of the layers up to hidden layer `most`.
    [[nodiscard]] static std::uint32_t halo_bits(std::size_t most) {
        return halo_row | ((std::uint32_t{2} << most) - 2);
    }
    /// Calls visit(sample) for a hop of these nodes, some at a time.
    template <class G, class Visit>
    void expand(const G& graph, const std::vector<gneiss::node_id>& nodes, const gneiss::hop_fanout& hop,
        std::uint64_t number, const Visit& visit) const {
        gneiss::neighbor_options one = how_.neighbor_options();
        one.fanout = {hop};
        gneiss::neighbor_sampler<> sampler(one, how_.seed);
        gneiss::mini_batch_arena arena;
        constexpr std::size_t at_once = 4096;
        for (std::size_t first = 0; first < nodes.size(); first += at_once) {
            trainers::throw_if_stopped(run_.stop);
            const auto some = std::span(nodes).subspan(first, std::min(at_once, nodes.size() - first));
            visit(sampler.sample(gneiss::batch_key{0, {0, 0, number}}, graph, some, run_.executor, arena));
        }
    }
    /// Marks the nodes within `hops` of `from` that have all their neighbors, but not the halo's; each adds
    /// the activations of as many layers as `layers_of(hop)`.
    template <class G, class LayersOf>
    [[nodiscard]] marked reach(const G& graph, const gneiss::macro_batch_border& inside,
        std::vector<gneiss::node_id> from, std::size_t hops, const LayersOf& layers_of) const {
        const gneiss::hop_fanout all = all_of(how_.hops().front());
        marked result{.bits = std::vector<std::uint32_t>(graph_.nodes, 0)};
        for (const gneiss::node_id v : from) result.bits[v] = 1;
        for (std::size_t h = 0; h < hops; ++h) {
            std::vector<gneiss::node_id> next;
            expand(graph, from, all, h, [&](const gneiss::neighbor_sample<>& drawn) {
                result.edges += drawn.edges();
                for (const gneiss::node_id v : drawn.nodes) {
                    if (!inside[v])
                        result.bits[v] |= halo_bits(layers_of(h));
                    else if (std::exchange(result.bits[v], 1) == 0)
                        next.push_back(v);
                }
            });
            from = std::move(next);
        }
        return result;
    }
    /// Marks what the batches of these training nodes draw.
    template <class G>
    [[nodiscard]] marked draws(
        const G& graph, const gneiss::macro_batch_border& inside, const std::vector<gneiss::node_id>& training) const {
        const std::size_t layers = how_.hops().size();
        marked result{.bits = std::vector<std::uint32_t>(graph_.nodes, 0)};
        gneiss::neighbor_sampler<> sampler(how_.neighbor_options(), how_.seed);
        gneiss::mini_batch_arena arena;
        const gneiss::node_batches batches(training, *how_.batch, how_.seed, 0, 0);
        std::vector<gneiss::node_id> seeds;
        for (std::uint64_t k = 0; k < batches.size(); ++k) {
            trainers::throw_if_stopped(run_.stop);
            batches.choose(k, seeds);
            const auto drawn = sampler.sample(gneiss::batch_key{0, {0, 0, k}}, gneiss::bordered_graph(graph, inside),
                std::span<const gneiss::node_id>(seeds), run_.executor, arena);
            result.edges += drawn.edges();
            for (std::size_t hop = 0; hop < layers; ++hop) {
                const std::size_t reads = layers - 1 - hop; // hidden layer; 0: features
                for (std::size_t v = 0; v < drawn.node_counts[hop]; ++v)
                    if (const gneiss::node_id id = drawn.nodes[v]; inside[id])
                        result.bits[id] |= 1 | (hop != 0 ? std::uint32_t{2} << (16 + reads) : 0);
                for (std::size_t e = drawn.edge_counts[hop]; e < drawn.edge_counts[hop + 1]; ++e) {
                    const gneiss::node_id id = drawn.nodes[drawn.neighbors[e]];
                    result.bits[id] |= inside[id] ? 1 : reads == 0 ? halo_row : std::uint32_t{1} << reads;
                }
            }
        }
        return result;
    }
    /// Returns the bytes that are moved for the first macro-batch of epoch 0, and back, by each --ahead and --halo, and
    /// as a large batch of as many training nodes, and names the least; nothing if it trains no node. Rows that would
    /// stay (--delta) are counted. Memory: as for the sizes of partitions. O(edges of the macro-batch).
    [[nodiscard]] std::string least_traffic(std::uint32_t macro) const {
        const std::vector<gneiss::hidden_rows> hidden = gneiss::hidden_rows_of(run_.net.encode);
        gneiss::macro_batch_border inside = *run_.border;
        inside.enter(gneiss::macro_batches(inside.partitions(), 0, macro, how_.seed, 0).states[0].resident);
        std::vector<gneiss::node_id> training, all;
        std::ranges::copy_if(run_.train, std::back_inserter(training), [&](gneiss::node_id v) { return inside[v]; });
        for (std::uint64_t v = 0; v < graph_.nodes; ++v)
            if (inside[static_cast<std::size_t>(v)]) all.push_back(static_cast<gneiss::node_id>(v));
        std::ranges::sort(training);
        const std::size_t layers = how_.hops().size();
        if (training.empty() || hidden.size() + 1 != layers || layers > 15) return "";
        const double width = width_of(row_bytes());
        const bool keeps = how_.histories().most_age != 0;
        const auto activations = [&](std::uint32_t bits) {
            std::uint64_t bytes = 0;
            for (std::size_t l = 1; keeps && l < layers; ++l)
                if (((bits >> l) & 1U) != 0) bytes += gneiss::row_bytes(how_.histories().type, hidden[l - 1].columns);
            return bytes;
        };
        std::vector<std::pair<std::string, double>> found;
        run_.lists.visit([&](const auto& graph) {
            std::uint64_t pushed = 0;
            for (const char* const mode : {"exact", "reach", "off"}) {
                const std::string_view name = mode;
                const marked of = name == "exact" ? draws(graph, inside, training)
                    : name == "reach"
                    ? reach(graph, inside, training, layers, [&](std::size_t hop) { return layers - 1 - hop; })
                    : reach(graph, inside, all, 1, [&](std::size_t) { return layers - 1; });
                std::uint64_t rows = 0, halo = 0, read = 0;
                for (const std::uint32_t bits : of.bits) {
                    rows += bits & 1U;
                    halo += bits >> 31;
                    read += activations(bits & 0xffffU);
                    if (name == "exact") pushed += activations((bits & ~halo_row) >> 16);
                }
                for (const bool features : {false, true}) {
                    const auto moved = static_cast<double>(rows + (features ? halo : 0));
                    found.emplace_back(fmt::format("pbs, {}, {}", mode, features ? "feature" : "drop"),
                        moved * (width + 8) + static_cast<double>(4 * of.edges + read + pushed));
                }
            }
            std::vector<bool> seen(graph_.nodes, false);
            std::vector<gneiss::node_id> known;
            gneiss::large_batches(run_.train, training.size(), how_.seed, 0).choose(0, known);
            for (const gneiss::node_id v : known) seen[v] = true;
            std::uint64_t edges = 0;
            for (std::size_t h = 0; h < layers; ++h) {
                std::vector<gneiss::node_id> more;
                expand(graph, known, how_.hops()[h], h, [&](const gneiss::neighbor_sample<>& drawn) {
                    edges += drawn.edges();
                    for (const gneiss::node_id v : drawn.nodes)
                        if (!seen[v]) {
                            seen[v] = true;
                            more.push_back(v);
                        }
                });
                known.insert(known.end(), more.begin(), more.end());
            }
            found.emplace_back("lbs", static_cast<double>(known.size()) * (width + 8) + static_cast<double>(4 * edges));
        });
        const auto least = std::ranges::min_element(found, {}, &std::pair<std::string, double>::second);
        std::string text =
            fmt::format("; moved for the first one and back, if no row stays: least by {}", least->first);
        for (const auto& [name, bytes] : found)
            text += fmt::format("; {} {}", name, gneiss::format_bytes(static_cast<std::uint64_t>(bytes)));
        return text;
    }

    const planned_run& run_;
    const options& how_;
    const gneiss::dataset_manifest& graph_;
    gneiss::bucket_store buckets_;
    gneiss::feature_store store_;
    std::uint64_t least_evaluation_, rss_;
};

} // namespace

training_plan plan_training(const planned_run& run) { return planner(run).choose(); }

std::uint64_t bytes_in_memory(const options& how, const gneiss::dataset& data, const trainers::classifier& net) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const std::uint64_t sides = how.neighbors() == gneiss::neighbor_direction::both ? 2 : 1;
    return sides * (graph.train_edges * 4 + graph.nodes * 8) + data.features().bytes() + net.weights.size_bytes() +
        std::min(how.memory->bytes / 2, std::uint64_t{8} << 30);
}

} // namespace joestar
