// SPDX-License-Identifier: Apache-2.0
#include "training_plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/integer_file.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include "kit/cli/machine.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/gnn/node_metrics.hpp"
#include "kit/run/refused_plan.hpp"
#include "preprocessing.hpp"

namespace hanoi {

using gneiss::training_plan;

gneiss::node_plan epoch_of(const options& settings, const gneiss::dataset& data, std::uint64_t epoch) {
    return gneiss::macro_batches(
        data.manifest().partitions, settings.pinned(data), *settings.macro, settings.seed, epoch);
}

gneiss::epoch_plan with_next(const options& settings, const gneiss::dataset& data, std::uint64_t epoch) {
    gneiss::epoch_plan states = epoch_of(settings, data, epoch).states;
    if (epoch + 1 < *settings.epochs) states.push_back(epoch_of(settings, data, epoch + 1).states.front());
    return states;
}

namespace {

/// Input of a plan: existing partitions, or those to be made.
struct planned_graph {
    gneiss::row_partitioning rows{};
    std::uint32_t pinned = 0; ///< leading partitions, which stay resident
    std::function<std::uint64_t(const gneiss::epoch_plan&)> graph_bytes{}, feature_bytes{}; ///< needed by the buffers
    std::function<gneiss::gnn_shape(std::uint32_t slots)> shape{};
    std::function<std::uint64_t(const gneiss::epoch_plan&)> reads{}; ///< per epoch, by its states
};

/// Returns existing partitions.
planned_graph measured(const options& settings, const gneiss::dataset& data, const gneiss::node_features& features) {
    const auto buckets = std::make_shared<const gneiss::bucket_store>(data.buckets());
    const auto store = std::make_shared<const gneiss::feature_store>(features.files(), buckets->rows());
    const auto sizes = std::make_shared<const gneiss::state_sizes>(*buckets, &*store);
    const gneiss::neighbor_direction keeps = settings.neighbors();
    return {.rows = buckets->rows(),
        .pinned = settings.pinned(data),
        .graph_bytes =
            [=](const gneiss::epoch_plan& states) {
                return gneiss::graph_buffer::need(states, *buckets, keeps, macro_graph).bytes;
            },
        .feature_bytes =
            [=](const gneiss::epoch_plan& states) { return gneiss::feature_buffer::need(states, *store).bytes; },
        .shape = [=](std::uint32_t slots) { return sizes->of(slots); },
        .reads =
            [=](const gneiss::epoch_plan& states) {
                return gneiss::reads_of(states, buckets->rows().partitions, keeps, *buckets, &*store);
            }};
}

/// Returns the maximum number of nodes that the flags pin.
std::uint64_t most_hubs(const options& settings, const gneiss::dataset& from, std::uint64_t budget) {
    const auto choice = settings.choice_of_hubs();
    if (choice.file) return gneiss::integer_file(*choice.file).size();
    if (!choice.count) return from.rows().begin(settings.pinned(from));
    const std::uint64_t asked = choice.count->of(from.manifest().nodes),
                        each = std::max<std::uint64_t>(bytes_of_hubs(settings, from).node, 1);
    return settings.hubs_by_default() ? std::min(asked, hub_share(budget) / each) : asked;
}

/// Returns an upper bound for partitions of these sizes, with hubs; every node has its share of edges and features.
planned_graph at_most(const options& settings, const gneiss::dataset& from, const gneiss::node_features& features,
    std::vector<std::uint64_t> sizes, std::uint64_t hubs) {
    if (hubs != 0) sizes.insert(sizes.begin(), hubs);
    const gneiss::dataset_manifest& graph = from.manifest();
    const gneiss::feature_store store(features.files(), from.rows());
    const double nodes = static_cast<double>(std::max<std::uint64_t>(graph.nodes, 1)),
                 row = static_cast<double>(features.bytes()) / nodes,
                 entries = store.sparse() ? static_cast<double>(store.first_entry(from.rows().partitions)) / nodes : 0,
                 edges = static_cast<double>(graph.train_edges) / nodes,
                 sides = settings.neighbors() == gneiss::neighbor_direction::both ? 2 : 1;
    planned_graph result{.rows = gneiss::row_partitioning::of_sizes(sizes), .pinned = hubs != 0 ? 1U : 0U};
    result.rows.nodes = graph.nodes;
    const auto nodes_of = [=, rows = result.rows](const std::vector<gneiss::partition_id>& resident,
                              const std::vector<gneiss::partition_id>& except) {
        std::uint64_t sum = 0;
        for (const gneiss::partition_id p : resident)
            if (!std::ranges::binary_search(except, p)) sum += rows.size(p);
        return std::min(static_cast<double>(sum), nodes);
    };
    const auto most_of_two = [=](const gneiss::epoch_plan& states, double a_node) {
        double most = 0;
        for (std::size_t s = 0; s < states.size(); ++s)
            most = std::max(most,
                nodes_of(states[s].resident, {}) + (s == 0 ? 0 : nodes_of(states[s - 1].resident, states[s].resident)));
        return static_cast<std::uint64_t>(most * a_node);
    };
    // A list takes 8 bytes in addition to 4 per neighbor: one per node when merged, at most one per neighbor in blocks
    // on disk. The blocks of two partitions are in memory while they are merged.
    const double graph_node = sides * (4 * edges + 8), in_blocks = sides * 12 * edges, on_disk = in_blocks + row;
    const auto merging = static_cast<std::uint64_t>(2 * static_cast<double>(result.rows.capacity()) * in_blocks);
    result.graph_bytes = [=](const gneiss::epoch_plan& states) { return most_of_two(states, graph_node) + merging; };
    result.feature_bytes = [=](const gneiss::epoch_plan& states) { return most_of_two(states, row); };
    result.shape = [=, rows = result.rows](std::uint32_t slots) {
        const double some = std::min(static_cast<double>(rows.largest(slots)), nodes);
        return gneiss::gnn_shape{.nodes = static_cast<std::uint64_t>(some),
            .edges = static_cast<std::uint64_t>(some * edges),
            .all_nodes = static_cast<std::uint64_t>(nodes),
            .sparse_entries = static_cast<std::uint64_t>(some * entries)};
    };
    result.reads = [=](const gneiss::epoch_plan& states) {
        double sum = 0;
        for (std::size_t s = 0; s < states.size(); ++s)
            sum += nodes_of(states[s].resident, s == 0 ? std::vector<gneiss::partition_id>{} : states[s - 1].resident);
        return static_cast<std::uint64_t>(sum * on_disk);
    };
    return result;
}

/// Returns upper bounds of partition sizes, given by a partitioner's caps; those of the default imbalance if it is
/// unlimited or bounds something else than nodes.
std::vector<std::uint64_t> capped_sizes(const options& settings, std::uint64_t nodes, std::uint32_t partitions) {
    double imbalance = gneiss::partition_request{}.imbalance;
    if (const programs::partition_job job = settings.partition_job();
        job.balance == gneiss::balance_by::nodes && job.imbalance && std::isfinite(*job.imbalance))
        imbalance = *job.imbalance;
    return std::vector<std::uint64_t>(partitions, gneiss::max_weight(nodes, partitions, imbalance));
}

/// Makes plans by the number of partitions in a macro-batch.
class planner {
public:
    /// \param data  the run's dataset, in the partitions of `of` or others; outlives this, like all arguments by
    /// reference
    /// \param seen  batches of a first macro-batch; none: upper bounds
    planner(const options& settings, const gneiss::dataset& data, planned_graph of,
        const gneiss::node_features& features, const trainers::classifier& net, std::uint64_t budget,
        const gneiss::seen_batches& seen = {})
        : options_(settings),
          of_(std::move(of)),
          net_(net),
          seen_(seen),
          graph_(data.manifest()),
          training_(settings.training_options()),
          layers_(trainers::layers_of(net.encode)),
          budget_(budget),
          evaluation_(trainers::least_evaluation(settings, net, features, data.buckets())),
          others_(of_.rows.partitions - of_.pinned) {}

    [[nodiscard]] std::uint32_t others() const noexcept { return std::max(others_, 1U); }
    [[nodiscard]] std::uint64_t hubs() const { return of_.rows.begin(of_.pinned); }

    [[nodiscard]] training_plan with(std::uint32_t macro) const {
        const auto epoch_states = [rows = of_.rows.partitions, pinned = of_.pinned, macro, seed = options_.seed](
                                      std::uint64_t epoch) {
            return gneiss::macro_batches(rows, pinned, macro, seed, epoch).states;
        };
        training_plan plan;
        plan.partitioning = of_.rows;
        plan.slots = of_.pinned + macro;
        plan.in_memory = macro >= others_;
        plan.budget = budget_;
        plan.order = epoch_states;
        for (std::uint64_t e = 0; e < std::min<std::uint64_t>(*options_.epochs, 64); ++e) {
            gneiss::epoch_plan states = epoch_states(e);
            if (e + 1 < *options_.epochs) states.push_back(epoch_states(e + 1).front());
            plan.graph_bytes = std::max(plan.graph_bytes, of_.graph_bytes(states));
            if (!options_.places_features())
                plan.feature_bytes = std::max(plan.feature_bytes, of_.feature_bytes(states));
        }
        if (!plan.in_memory) // later epochs draw other macro-batches
            for (std::uint64_t* bytes : {&plan.graph_bytes, &plan.feature_bytes}) *bytes += *bytes / 16;
        gneiss::gnn_shape shape = of_.shape(plan.slots);
        shape.columns = net_.encode.inputs();
        if (graph_.node_attributes.target != gneiss::node_target_kind::classes) shape.targets = net_.encode.outputs();
        const gneiss::gnn_memory bound = gneiss::bound_gnn_memory(training_, shape, layers_);
        plan.memory.reserve(program_);
        plan.memory.add(gneiss::feature_buffer::need(plan.feature_bytes));
        plan.memory.add(gneiss::graph_buffer::need(plan.graph_bytes));
        plan.memory.reserve(trainers::label_need(graph_, !options_.no_eval));
        plan.memory.reserve({"features, pinned", options_.pinned_features(graph_)});
        plan.memory.reserve({"homes of hubs", sizeof(gneiss::partition_id) * hubs()});
        if (!options_.no_eval) plan.memory.reserve(trainers::node_metrics::need(graph_));
        plan.memory.add(bound.samplers(training_.pipeline.sample_workers));
        plan.memory.reserve(net_.need());
        const trainers::gnn_needs needs = trainers::needs_of(bound, seen_, shape.columns.dense * sizeof(float));
        trainers::add_batches_and_evaluation(plan, training_.in_flight(), options_.deterministic, needs,
            trainers::evaluation_part(evaluation_, plan.borrowable_bytes()));
        plan.further_reads = of_.reads;
        return plan;
    }
    /// Returns the plan with the most partitions that fits, if any.
    [[nodiscard]] std::optional<training_plan> largest() const {
        training_plan found = gneiss::choose_largest_states(of_.pinned + others(), of_.pinned + 1, budget_,
            [this](std::uint32_t slots) { return with(slots - of_.pinned); });
        return found.fits() ? std::optional(std::move(found)) : std::nullopt;
    }
    /// Returns the number of partitions of its macro-batches.
    [[nodiscard]] std::uint32_t macro_of(const training_plan& plan) const noexcept { return plan.slots - of_.pinned; }

    /// Returns the plan for --macro, or the largest one. `hub`: bytes of a hub's features.
    [[nodiscard]] macro_plan choose(std::uint64_t hub) const {
        if (options_.macro) {
            const std::uint32_t macro = std::min(*options_.macro, others());
            training_plan asked = with(macro);
            if (asked.fits()) return {std::move(asked), macro};
            const auto best = largest();
            throw trainers::refused_plan(budget_, asked.memory,
                best ? fmt::format("--macro {} fits, {} does not", macro_of(*best), macro)
                     : fmt::format(
                           "no --macro fits: one partition takes {}", gneiss::format_bytes(with(1).memory_bytes())));
        }
        if (auto found = largest()) {
            const std::uint32_t macro = macro_of(*found);
            return {std::move(*found), macro};
        }
        const training_plan least = with(1);
        std::string fewer;
        if (hubs() != 0) {
            const std::uint64_t too_many =
                gneiss::ceil_div(least.memory_bytes() - budget_, std::max<std::uint64_t>(hub, 1));
            fewer = fmt::format("fewer --hubs (now {} nodes{})", hubs(),
                too_many < hubs() ? fmt::format("; about {} fit", hubs() - too_many) : "");
        }
        throw trainers::refused_plan(budget_, least.memory,
            trainers::what_helps(least.memory.parts(), {"more --partitions", fewer}, "--memory", options_.threads));
    }

private:
    const options& options_;
    planned_graph of_;
    const trainers::classifier& net_;
    gneiss::seen_batches seen_;
    const gneiss::dataset_manifest& graph_;
    gneiss::gnn_options training_;
    std::vector<gneiss::layer_options> layers_;
    std::uint64_t budget_, evaluation_;
    gneiss::memory_need program_ = options_.program_need(); ///< once, so that plans can be compared
    std::uint32_t others_;
};

} // namespace

std::vector<std::uint64_t> sizes_in_assignment(const std::filesystem::path& file, const gneiss::dataset& data) {
    const std::uint64_t nodes = data.manifest().nodes, most = std::min<std::uint64_t>(16383, nodes / 2);
    gneiss::check_assignment_file(file);
    gneiss::integer_file in(file);
    gneiss::need_entries(in, nodes, "an assignment has one");
    std::vector<std::uint64_t> sizes;
    std::vector<std::uint32_t> some(std::size_t{1} << 14);
    std::uint64_t read = 0;
    while (const std::size_t got = in.read(some)) {
        for (std::size_t i = 0; i < got; ++i) {
            if (some[i] >= most)
                throw gneiss::error(gneiss::errc::out_of_range,
                    fmt::format("is {}: partitions of these {} nodes are below {}", some[i], nodes, most),
                    {.path = file, .field = fmt::format("entry {}", read + i)});
            if (some[i] >= sizes.size()) sizes.resize(some[i] + std::size_t{1});
            ++sizes[some[i]];
        }
        read += got;
    }
    return sizes;
}

partitions_choice choose_partitions(const options& given, const gneiss::dataset& from,
    const gneiss::node_features& features, const trainers::classifier& net) {
    const std::uint64_t budget = given.memory->bytes, nodes = from.manifest().nodes;
    partitions_choice chosen{given};
    options& o = chosen.flags;
    if (!o.partitioner) {
        o.partitioner = "given";
        const planner all(o, from, measured(o, from, features), features, net, budget);
        if (all.with(all.others()).fits()) {
            chosen.reason = "the graph fits in memory: one macro-batch, without partitioning";
            return chosen;
        }
        o.partitioner = "gap";
        o.hubs = hubs_with(o, *o.partitioner, from.manifest());
    }
    if (!o.makes_parts() || o.partitions) return chosen;
    const auto most = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(nodes / 64, std::min<std::uint64_t>(2, std::max<std::uint64_t>(nodes / 2, 1)), 1024));
    const planner all(o, from, at_most(o, from, features, capped_sizes(o, nodes, most), most_hubs(o, from, budget)),
        features, net, budget);
    const auto found = all.largest();
    constexpr std::uint32_t together = 16;
    // A share of m / most of the partitions fits, for any number of partitions.
    const std::uint32_t m = found ? all.macro_of(*found) : 1, asked = o.macro.value_or(0);
    const auto for_so_many = [&](std::uint64_t in_macro) {
        return std::bit_ceil(gneiss::ceil_div(in_macro * most, std::uint64_t{m}));
    };
    o.partitions = static_cast<std::uint32_t>(std::min<std::uint64_t>(most,
        std::max({std::uint64_t{together}, for_so_many(asked == 0 ? together : asked), 4 * std::uint64_t{asked}})));
    chosen.reason =
        fmt::format("{} partitions: two macro-batches of about {} fit in memory, so they differ in every epoch",
            *o.partitions, std::max<std::uint64_t>(1, std::uint64_t{m} * *o.partitions / most));
    return chosen;
}

namespace {

/// Draws batches of a macro-batch of a plan. None if the run needs bounds, or nothing trains.
gneiss::seen_batches profile_of(const options& settings, const gneiss::dataset& data, const trainers::classifier& net,
    const training_plan& plan, std::uint32_t macro, const trainers::batch_drawing& by) {
    if (settings.deterministic || net.encode.inputs().sparse != 0) return std::nullopt;
    const gneiss::bucket_store buckets = data.buckets();
    const gneiss::node_plan epoch =
        gneiss::macro_batches(plan.partitioning.partitions, settings.pinned(data), macro, settings.seed, 0);
    const gneiss::epoch_plan first{epoch.states.front()};
    const trainers::node_classification classes(data);
    gneiss::memory_budget budget;
    gneiss::graph_buffer graph(buckets, by.engines, settings.neighbors(),
        gneiss::graph_buffer::need(first, buckets, settings.neighbors(), macro_graph).bytes, budget, macro_graph);
    gneiss::mapped_array<gneiss::partition_id> homes;
    if (settings.pinned(data) != 0) homes = data.hub_partitions();
    const gneiss::gnn_task task = classes.truth.task(
        [&](std::uint32_t state, std::vector<gneiss::node_id>& out) {
            gneiss::append_training_nodes(epoch, state, plan.partitioning, classes.train, out, homes.values());
        },
        settings.class_weights, data, classes.train);
    const auto seen = gneiss::profile_gnn(settings.training_options(), task, net.encode, graph, epoch.states,
        gneiss::profiled_batches, gneiss::tbb_executor(settings.threads), by.stop);
    return seen.batches == 0 ? std::nullopt : std::optional(seen);
}

/// Returns the plan with its disk space.
macro_plan with_files(macro_plan chosen, const options& settings, const gneiss::dataset& data,
    const gneiss::node_features& features, const trainers::classifier& net) {
    training_plan& plan = chosen.plan;
    plan.disk_bytes = run_files(settings, data, features, net, plan.evaluation_bytes + plan.borrowable_bytes());
    return chosen;
}

} // namespace

std::uint64_t run_files(const options& settings, const gneiss::dataset& data, const gneiss::node_features& features,
    const trainers::classifier& net, std::uint64_t memory) {
    return 4 * net.weights.size_bytes() + (std::uint64_t{1} << 20) +
        trainers::evaluation_files(settings, net, features, data.buckets(), memory);
}

macro_plan plan_training(const options& settings, const gneiss::dataset& data, const gneiss::node_features& features,
    const trainers::classifier& net, const std::optional<trainers::batch_drawing>& draws) {
    const planned_graph graph = measured(settings, data, features);
    const auto with = [&](const gneiss::seen_batches& seen) {
        return planner(settings, data, graph, features, net, settings.memory->bytes, seen);
    };
    const std::uint64_t hub = bytes_of_hubs(settings, data).node;
    if (!draws) return with_files(with({}).choose(hub), settings, data, features, net);
    const auto macro_of = [&](const training_plan& plan) { return plan.slots - graph.pinned; };
    training_plan plan =
        trainers::choose_by_profile([&](const gneiss::seen_batches& seen) { return with(seen).choose(hub).plan; },
            [&](const training_plan& before, const gneiss::seen_batches& seen) {
                training_plan exact = with(seen).with(macro_of(before));
                exact.in_memory_bytes = before.in_memory_bytes;
                return exact;
            },
            [&](const training_plan& of) { return profile_of(settings, data, net, of, macro_of(of), *draws); });
    const std::uint32_t macro = macro_of(plan);
    return with_files({std::move(plan), macro}, settings, data, features, net);
}

macro_plan plan_by_sizes(const options& settings, const gneiss::dataset& from, const gneiss::node_features& features,
    const trainers::classifier& net) {
    const std::uint64_t budget = settings.memory->bytes, hubs = most_hubs(settings, from, budget);
    std::vector<std::uint64_t> sizes;
    if (settings.makes_parts())
        sizes = capped_sizes(settings, from.manifest().nodes, *settings.partitions);
    else if (settings.assignment)
        sizes = sizes_in_assignment(*settings.assignment, from);
    else
        for (gneiss::partition_id p = 0; p < from.rows().partitions; ++p) sizes.push_back(from.rows().size(p));
    const planner with(
        settings, from, at_most(settings, from, features, std::move(sizes), hubs), features, net, budget);
    return with_files(with.choose(bytes_of_hubs(settings, from).node), settings, from, features, net);
}

} // namespace hanoi
