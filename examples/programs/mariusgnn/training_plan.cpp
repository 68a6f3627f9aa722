// SPDX-License-Identifier: Apache-2.0
#include "training_plan.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <gneiss/io/reorder_rows.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/node_plan.hpp>
#include <gneiss/order/tune.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/adjacency/neighbor_coverage.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include "inference.hpp"
#include "kit/cli/machine.hpp"
#include "kit/gnn/classifier.hpp"

namespace mariusgnn {

std::uint64_t copy_bytes(const gneiss::dataset_manifest& graph) {
    std::uint64_t bytes = 0;
    for (const gneiss::dataset_array& a : graph.arrays) bytes += a.bytes + a.bytes / 64 + 2 * gneiss::page_alignment;
    return bytes;
}

namespace {

using gneiss::edge_direction;
using gneiss::training_plan;

/// Returns the maximum of a function over the states of an epoch, with those read ahead and those of an evaluation:
/// over all epochs if that is cheap, else over the first ones, with a margin for later epochs, and for those of a
/// longer run.
template <class Bytes>
std::uint64_t most_of_epochs(const options& o, const training_plan& plan, Bytes&& bytes) {
    std::uint64_t most = 0;
    const std::uint64_t work = std::max<std::uint64_t>(plan.order(0).size() * plan.slots * plan.slots, 1);
    for (std::uint64_t e = 0; e < std::min(*o.epochs, std::max<std::uint64_t>(16, (std::uint64_t{1} << 19) / work));
        ++e) {
        gneiss::epoch_plan states = plan.order(e);
        if (plan.loads_next_epoch) states.push_back(plan.order(e + 1).front());
        most = std::max(most, bytes(states));
        if (o.eval_graph == "resident") most = std::max(most, bytes(evaluation_states(o, plan, e)));
    }
    return plan.slots >= plan.partitioning.partitions ? most : most + most / 16;
}

/// Returns the memory of the graph of two consecutive states.
std::uint64_t gnn_memory(const options& o, const training_plan& plan, const gneiss::bucket_store& buckets) {
    const gneiss::neighbor_direction keeps = o.neighbors();
    const gneiss::graph_buffer_options form = graph_form_of(o, plan);
    if (plan.partitioning.partitions == buckets.rows().partitions)
        return most_of_epochs(o, plan, [&](const gneiss::epoch_plan& states) {
            return gneiss::graph_buffer::need(states, buckets, keeps, form).bytes;
        });
    // Re-bucketed later: assumes evenly spread edges, with a margin.
    std::uint64_t bytes = 0, sides = 0; // size of all blocks
    for_each_side(keeps, [&](edge_direction d) {
        ++sides;
        buckets.for_each_bucket([&](gneiss::edge_bucket b) { bytes += buckets.extent(b).range(d).length; });
    });
    const double share = static_cast<double>(plan.slots) / plan.partitioning.partitions;
    if (form.form == gneiss::graph_form::csr) { // the blocks of two partitions in addition to the lists
        const auto edges = static_cast<std::uint64_t>(share * share * static_cast<double>(buckets.edges()));
        const std::uint64_t states = plan.keeps_all() ? 1 : 2, nodes = plan.slots * plan.partitioning.capacity();
        const std::uint64_t lists = states * sides * gneiss::resident_csr::bytes_needed(nodes, edges, form.columns);
        return lists + lists / 8 +
            static_cast<std::uint64_t>(2 * share / plan.partitioning.partitions * static_cast<double>(bytes)) +
            (1U << 20);
    }
    const double blocks = plan.slots * plan.slots;
    const double ranks = blocks *
        static_cast<double>(
            gneiss::resident_block::memory_of_ranks(plan.partitioning.capacity()) + 2 * gneiss::page_alignment);
    return static_cast<std::uint64_t>(2 * (share * share * static_cast<double>(bytes) + 2 * ranks)) + (1U << 20);
}

/// Returns the minimum memory of an evaluation.
std::uint64_t least_evaluation(const options& o, const planning& of, const gneiss::row_partitioning& partitioning,
    const gneiss::gnn_shape& shape, std::span<const gneiss::layer_options> layers) {
    constexpr std::uint64_t ranking = std::uint64_t{8} << 20;
    if (o.no_eval) return 0;
    if (o.eval_graph == "resident") {
        const gneiss::gnn_memory bound = gneiss::bound_gnn_memory(resident_sampling(o), shape, layers);
        return ranking + bound.batch.bytes() + bound.sampler + bound.encoder +
            (o.links() ? 2 * gneiss::scratch_rows::file_memory_bytes(partitioning, of.net.encode.outputs()) : 0);
    }
    return trainers::least_evaluation(of.net.encode,
        input_shape(o, of.net.encode.inputs(), of.graph.features(), partitioning), of.graph.buckets(),
        trainers::inference_options(o), partitioning);
}

/// Returns the maximum sizes of a state of the plan; edges and nonzeros are estimates if they are to be re-bucketed.
gneiss::gnn_shape shape_of_states(const planning& of, const gneiss::state_sizes& sizes, const training_plan& plan) {
    const std::uint32_t stored = of.graph.buckets().rows().partitions, partitions = plan.partitioning.partitions;
    if (stored == partitions) return sizes.of(plan.slots);
    gneiss::gnn_shape shape = sizes.of(stored);
    const double share = std::min(1.0, 2.0 * plan.slots / partitions);
    shape.nodes = std::min(shape.nodes, plan.slots * plan.partitioning.capacity());
    for (std::uint64_t* count : {&shape.edges, &shape.sparse_entries})
        *count = static_cast<std::uint64_t>(share * static_cast<double>(*count));
    return shape;
}

/// Adds disk space for a graph with training nodes first, and for sorting on the way.
void add_placement(const options& o, training_plan& plan, const gneiss::dataset_manifest& graph) {
    if (o.training_first.value_or(false))
        plan.disk_bytes += 2 * copy_bytes(graph) + 12 * graph.train_edges + 8 * graph.nodes;
}

/// Returns the minimum memory of a reshuffle beyond that of the buffers, which are freed for it.
std::uint64_t least_reshuffle(const options& o, const training_plan& plan) {
    if (!plan.choice.moves) return 0;
    constexpr std::uint64_t buffers = std::uint64_t{4} << 20;
    const std::uint64_t least =
        (buffers + (o.uses_rows() ? gneiss::reorder_rows_memory(plan.partitioning, plan.layout) : 0)) / 3 * 4;
    return least - std::min(least, plan.buffer_need().bytes + plan.graph_bytes + plan.feature_bytes + plan.edge_bytes);
}

/// Adds disk space of a reshuffle: a slot for every partition's new version; a new graph next to its source and that of
/// the best state, with space for sorting on the way.
void add_reshuffle(const options& o, training_plan& plan, const gneiss::dataset_manifest& graph) {
    if (!plan.choice.moves) return;
    const std::uint64_t times = (*o.epochs - 1) / o.reshuffle.value_or(1),
                        at_once = o.keeps_best(graph.valid_edges != 0) ? 3 : 2;
    plan.disk_bytes += (plan.partitioning.partitions - plan.spare) * plan.slot_bytes();
    plan.spare = plan.partitioning.partitions;
    std::uint64_t features = 0;
    for (const gneiss::dataset_array& a : graph.arrays)
        if (a.name.starts_with("features")) features += a.bytes;
    const std::uint64_t data = copy_bytes(graph);
    if (times != 0)
        plan.disk_bytes += std::min(times, at_once) * data + features + 12 * graph.train_edges + 8 * graph.nodes +
            graph.nodes * (plan.layout.bytes() + 12);
}

/// Adds disk space of evaluations, for rows that exceed memory; and of the best state: the former one and a new one,
/// while it is written.
void add_evaluation(const options& o, const planning& of, training_plan& plan) {
    if (o.no_eval) return;
    const gneiss::dataset_manifest& graph = of.graph.data().manifest();
    const gneiss::row_partitioning& rows = plan.partitioning;
    if (o.eval_graph != "resident")
        plan.disk_bytes += trainers::evaluation_files(of.net.encode,
            input_shape(o, of.net.encode.inputs(), of.graph.features(), rows), of.graph.buckets(),
            trainers::inference_options(o), rows, plan.evaluation_bytes + plan.borrowable_bytes());
    else if (o.links())
        plan.disk_bytes += gneiss::scratch_rows::memory_bytes(rows, of.net.encode.outputs());
    const bool validates = (o.links() ? graph.valid_edges : graph.node_attributes.valid) != 0;
    if (o.keeps_best(validates)) plan.disk_bytes += 2 * rows.partitions * plan.best_bytes();
}

/// True if nodes are placed by locality, so that moving them would lose neighbors. Measured: at a relative cut of 0.04
/// that they keep their partitions gains, at 0.58 it loses (docs/results/mariusgnn.md).
bool local(const run_graph& graph) { return trainers::places_neighbors_together(graph.buckets()); }

/// Takes the order of states, and their reads.
void take_states(const options& settings, training_plan& plan, const run_graph& graph);
/// Takes the bytes of the buffers of a plan's states, which never decrease.
void size_buffers(const options& settings, training_plan& plan, const run_graph& graph);

/// Makes plans of a run by choice.
class planner {
public:
    /// \param seen  batches of a first state; none: upper bounds
    planner(const options& settings, const planning& of, const gneiss::seen_batches& seen)
        : o_(settings),
          of_(of),
          seen_(seen),
          training_(settings.training_options()),
          layers_(trainers::layers_of(of.net.encode)),
          moves_(settings.reshuffle ? std::vector{settings.reshuffles() != 0} : std::vector{true, false}) {
        if (const auto* features = of.graph.gathered_features(settings))
            stored_.emplace(features->files(), of.graph.buckets().rows());
        sizes_.emplace(of.graph.buckets(), stored_ ? &*stored_ : nullptr);
    }

    /// Node classification: an epoch has few states, often one, so it pays to load its first one ahead. If the buffer
    /// is not given, memory for more neighbors is worth more. After a reshuffle the graph differs.
    [[nodiscard]] training_plan with(const gneiss::plan_choice& choice, std::uint64_t memory) const {
        const bool some = !choice.in_memory && choice.slots < choice.partitions && !o_.links() && !choice.moves;
        if (some && choice.prefetch != "off" && (choice.prefetch != "auto" || o_.buffer)) {
            training_plan ahead = of_one_kind(choice, memory, true);
            if (choice.prefetch != "auto" || ahead.memory_bytes() <= ahead.budget) return ahead;
        }
        return of_one_kind(choice, memory, false);
    }

    /// Returns the layout, the order and the reads of a choice's plan.
    [[nodiscard]] training_plan states(const gneiss::plan_choice& choice) const {
        training_plan plan(choice, of_.graph.buckets().rows());
        if (o_.uses_rows())
            plan.layout = {*o_.dim, static_cast<std::uint32_t>(o_.any_row_optimizer(0).state_floats(*o_.dim))};
        plan.frozen = o_.freezes("nodes");
        plan.edges_read = edges_read_;
        take_states(o_, plan, of_.graph);
        return plan;
    }

    /// Returns the choices of MariusGNN's formulas for COMET, if no flag sets its partitions.
    [[nodiscard]] std::vector<gneiss::plan_choice> tuned(std::uint64_t memory) const;
    /// Returns the input of these formulas.
    [[nodiscard]] gneiss::tuning_input tuning(std::uint64_t memory) const;

    /// Returns the maker of plans, which refers to this.
    [[nodiscard]] gneiss::plan_maker maker() const {
        const gneiss::bucket_store& buckets = of_.graph.buckets();
        return {.states = [this](const gneiss::plan_choice& choice) { return states(choice); },
            .with = [this](const gneiss::plan_choice& choice, std::uint64_t bytes) { return with(choice, bytes); },
            .tuned = [this] { return tuned(o_.memory->bytes); },
            .moves = moves_,
            .local_partitions = moves_.size() == 1 || !local(of_.graph) ? 0 : buckets.rows().partitions};
    }

private:
    [[nodiscard]] training_plan of_one_kind(
        const gneiss::plan_choice& choice, std::uint64_t memory, bool loads_next_epoch) const {
        const gneiss::bucket_store& buckets = of_.graph.buckets();
        const gneiss::dataset_manifest& graph = of_.graph.data().manifest();
        training_plan plan = states(choice);
        plan.budget = memory;
        plan.loads_next_epoch = loads_next_epoch;
        size_buffers(o_, plan, of_.graph);
        gneiss::gnn_shape shape = shape_of_states(of_, *sizes_, plan);
        shape.links = o_.links();
        shape.columns = of_.net.encode.inputs();
        shape.learned = plan.layout.dim;
        if (!o_.links() && graph.node_attributes.target != gneiss::node_target_kind::classes)
            shape.targets = of_.net.encode.outputs();
        if (choice.moves) { // other partitions have other sizes
            for (std::uint64_t* bytes : {&plan.graph_bytes, &plan.feature_bytes, &plan.edge_bytes})
                *bytes += *bytes / 8;
            shape.edges = std::min(shape.edges + shape.edges / 8, graph.train_edges);
            shape.sparse_entries += shape.sparse_entries / 8;
        }
        const gneiss::gnn_memory bound = gneiss::bound_gnn_memory(training_, shape, layers_);
        const gneiss::memory_need tables = trainers::table_need(plan, buckets, o_.links());
        plan.memory.reserve(program_);
        plan.memory.add(plan.buffer_need());
        plan.memory.add(gneiss::feature_buffer::need(plan.feature_bytes));
        plan.memory.add(gneiss::graph_buffer::need(plan.graph_bytes));
        plan.memory.reserve(tables);
        plan.memory.reserve({"features, pinned", o_.pinned_features(graph)});
        if (o_.links()) {
            plan.memory.add(gneiss::edge_buffer::need({.bytes = plan.edge_bytes}));
            plan.memory.add(gneiss::bucket_reader::need(buckets));
            plan.memory.reserve(trainers::decoder_need(o_, *o_.batch, o_.threads, *of_.net.links, graph.nodes));
        } else {
            plan.memory.reserve(trainers::label_need(graph, !o_.no_eval));
            if (!o_.no_eval) plan.memory.reserve(node_metrics::need(graph));
        }
        plan.memory.add(bound.samplers(training_.pipeline.sample_workers));
        plan.memory.reserve(of_.net.need());
        plan.memory.reserve(of_.candidates);
        const std::uint64_t evaluation = o_.no_eval
            ? 0
            : trainers::evaluation_part(least_evaluation(o_, of_, plan.partitioning, shape, layers_),
                  o_.eval_graph == "resident" ? 0 : plan.borrowable_bytes());
        const std::uint64_t row = shape.columns.dense * sizeof(float) * (shape.learned != 0 ? 2 : 1);
        const std::uint64_t scratch =
            shape.links ? gneiss::bound_link_batch(training_.negatives, training_.batch, shape.nodes).bytes : 0;
        trainers::add_batches_and_evaluation(plan, training_.in_flight(), o_.deterministic,
            trainers::needs_of(bound, seen_, row, scratch),
            std::max({evaluation, least_reshuffle(o_, plan),
                o_.uses_rows() && o_.keeps_best(true) ? plan.best_bytes() : 0}));
        return plan;
    }

    const options& o_;
    const planning& of_;
    gneiss::seen_batches seen_;
    gneiss::gnn_options training_;
    std::vector<gneiss::layer_options> layers_;
    std::optional<gneiss::feature_store> stored_;
    std::optional<gneiss::state_sizes> sizes_;
    std::vector<bool> moves_;
    std::uint64_t edges_read_ = of_.graph.buckets().bytes(edge_direction::out);
    gneiss::memory_need program_ = o_.program_need(); ///< once, so that plans can be compared
};

gneiss::tuning_input planner::tuning(std::uint64_t memory) const {
    const gneiss::dataset_manifest& graph = of_.graph.data().manifest();
    const training_plan some = with({.partitions = std::max(graph.partitions, 4U),
                                        .slots = 2,
                                        .in_memory = false,
                                        .order = o_.order.value_or("comet"),
                                        .prefetch = o_.prefetch},
        0);
    gneiss::tuning_input input{.nodes = graph.nodes, .memory = memory};
    input.other_bytes =
        some.memory_bytes() - some.buffer_need().bytes - some.graph_bytes - some.feature_bytes - some.edge_bytes;
    input.row_bytes = some.layout.bytes();
    if (const auto* features = of_.graph.gathered_features(o_))
        input.row_bytes += features->bytes() / std::max<std::uint64_t>(graph.nodes, 1);
    input.access = o_.uses_rows() ? gneiss::row_use::updated : gneiss::row_use::read_only;
    input.edge_files = 0;
    of_.graph.buckets().for_each_bucket([&](gneiss::edge_bucket b) {
        for_each_side(o_.neighbors(),
            [&](edge_direction d) { input.edge_bytes += of_.graph.buckets().extent(b).range(d).length; });
    });
    for_each_side(o_.neighbors(), [&](edge_direction) { ++input.edge_files; });
    input.edge_bytes += graph.train_edges * sizeof(gneiss::edge); // decoded, for training
    if (of_.read_size) input.read_bytes = of_.read_size();
    return input;
}

std::vector<gneiss::plan_choice> planner::tuned(std::uint64_t memory) const {
    const bool comet = !o_.order || *o_.order == "comet" || *o_.order == "comet-balanced";
    if (!o_.links() || !comet || o_.partitions || o_.buffer || o_.store.value_or("disk") != "disk") return {};
    const gneiss::tuning_input input = tuning(memory);
    std::uint32_t first = o_.logical.value_or(3), last = first;
    if (!o_.logical) { // a few around the fewest that fit by the formulas
        try {
            first = std::max(gneiss::tune(input).logical, 4U) - 1;
        } catch (const gneiss::over_budget&) {
            return {};
        }
        last = first + first / 4 + 3;
    }
    std::vector<gneiss::plan_choice> choices;
    for (std::uint32_t l = first; l <= std::min<std::uint64_t>(last, input.nodes); ++l) {
        const gneiss::tuned_partitions found = gneiss::tune_for(input, l);
        choices.push_back({.partitions = found.partitions,
            .slots = found.resident_partitions,
            .in_memory = false,
            .order = o_.order.value_or("comet"),
            .prefetch = o_.prefetch == "auto" ? std::to_string(found.prefetch) : o_.prefetch,
            .tuned = true});
    }
    return choices;
}

} // namespace

gneiss::graph_buffer_options graph_form_of(const options& settings, const training_plan& plan) {
    bool lists = !settings.links() || plan.slots >= plan.partitioning.partitions;
    if (!lists) {
        const gneiss::epoch_plan states = plan.order(0);
        const std::uint64_t swaps = gneiss::cost_of(states, std::uint64_t{0}).swaps;
        lists = 2 * swaps >= plan.slots * (states.size() - 1);
    }
    return {.form = lists ? gneiss::graph_form::csr : gneiss::graph_form::blocks,
        .columns = {.edge_ids = lists && settings.exclude_target_edges.value_or(false)}};
}

gneiss::epoch_plan evaluation_states(const options& settings, const training_plan& plan, std::uint64_t epoch) {
    if (settings.links()) return plan.order(epoch);
    const std::uint32_t all = plan.partitioning.partitions;
    return gneiss::train_partitions_first(all, plan.slots, all, settings.seed, epoch).states;
}

std::function<gneiss::node_plan(std::uint64_t)> node_epochs(const options& settings,
    const gneiss::row_partitioning& partitioning, std::uint32_t slots, const run_graph& graph) {
    const std::uint32_t k = graph.leading(settings, partitioning);
    return [p = partitioning.partitions, slots, k, seed = settings.seed](
               std::uint64_t epoch) { return gneiss::train_partitions_first(p, slots, k, seed, epoch); };
}

void take_order(const options& settings, training_plan& plan, const run_graph& graph) {
    take_states(settings, plan, graph);
    size_buffers(settings, plan, graph);
}

namespace {

void take_states(const options& settings, training_plan& plan, const run_graph& graph) {
    std::shared_ptr<const gneiss::feature_store> store;
    if (const auto* features = graph.gathered_features(settings))
        store = std::make_shared<const gneiss::feature_store>(features->files(), plan.partitioning);
    if (settings.links())
        plan.order = trainers::make_order(plan.choice, settings.seed);
    else
        plan.order = [epochs = node_epochs(settings, plan.partitioning, plan.slots, graph)](
                         std::uint64_t e) { return epochs(e).states; };
    plan.further_reads = [store, keeps = settings.neighbors(), &buckets = graph.buckets(),
                             p = plan.partitioning.partitions](const gneiss::epoch_plan& states) {
        return gneiss::reads_of(states, p, keeps, buckets, store.get());
    };
}

void size_buffers(const options& settings, training_plan& plan, const run_graph& graph) {
    const gneiss::bucket_store& buckets = graph.buckets();
    const auto at_least = [](std::uint64_t& bytes, std::uint64_t needed) { bytes = std::max(bytes, needed); };
    at_least(plan.graph_bytes, gnn_memory(settings, plan, buckets));
    if (const auto* features = graph.gathered_features(settings)) {
        const gneiss::feature_store store(features->files(), plan.partitioning);
        at_least(plan.feature_bytes, most_of_epochs(settings, plan, [&](const gneiss::epoch_plan& states) {
            return gneiss::feature_buffer::need(states, store).bytes;
        }));
    }
    if (settings.links())
        at_least(plan.edge_bytes, trainers::edge_memory(settings, plan, graph.data().manifest(), buckets));
}

/// Draws batches of a plan's first state; if its partitions are still to be made, of a state with the same share of the
/// stored ones. None if the run needs bounds, or nothing trains in that state.
gneiss::seen_batches profile_of(const options& o, const planning& of, const training_plan& chosen) {
    if (!of.draws || o.deterministic || of.net.encode.inputs().sparse != 0) return std::nullopt;
    const gneiss::bucket_store& buckets = of.graph.buckets();
    training_plan plan(gneiss::stored_choice(chosen, buckets.rows().partitions), buckets.rows());
    if (o.links() && trainers::is_order_file(plan.choice.order) && plan.choice.partitions != chosen.choice.partitions)
        return std::nullopt;
    plan.order = o.links() ? trainers::make_order(plan.choice, o.seed)
                           : [epochs = node_epochs(o, plan.partitioning, plan.slots, of.graph)](
                                 std::uint64_t e) { return epochs(e).states; };
    const gneiss::epoch_plan states = plan.order(0);
    if (states.empty()) return std::nullopt;
    const gneiss::epoch_plan first{states.front()};
    gneiss::memory_budget budget;
    const gneiss::tbb_executor executor(o.threads);
    const gneiss::graph_buffer_options form = graph_form_of(o, plan);
    gneiss::graph_buffer graph(buckets, of.draws->engines, o.neighbors(),
        gneiss::graph_buffer::need(first, buckets, o.neighbors(), form).bytes, budget, form);
    const auto draw = [&](const gneiss::gnn_task& task) {
        return gneiss::profile_gnn(o.training_options(), task, of.net.encode, graph, states, gneiss::profiled_batches,
            executor, of.draws->stop);
    };
    gneiss::batch_profile seen;
    if (o.links()) {
        const gneiss::edge_loader sizes{
            .size = [&](gneiss::edge_bucket b) { return buckets.extent(b).edges; }, .load = {}};
        gneiss::bucket_reader reader(buckets, of.draws->engines);
        gneiss::edge_buffer edges(reader.source(),
            gneiss::edge_buffer_options{.bytes = gneiss::edge_buffer::need(first, sizes).bytes}, budget);
        network drawn(o, of.graph.data().manifest()); // batches are drawn without it
        seen = draw(gneiss::predicted_links{*drawn.links, drawn.relations, edges});
    } else {
        const gneiss::node_plan epoch = node_epochs(o, plan.partitioning, plan.slots, of.graph)(0);
        seen = draw(of.graph.truth().task(
            [&](std::uint32_t state, std::vector<gneiss::node_id>& out) {
                gneiss::append_training_nodes(epoch, state, plan.partitioning, of.graph.training_nodes(), out);
            },
            o.class_weights, of.graph.data(), of.graph.training_nodes()));
    }
    return seen.batches == 0 ? std::nullopt : std::optional(seen);
}

} // namespace

tuned_plan plan_training(const options& given, const planning& of) {
    tuned_plan found;
    const std::uint64_t memory = given.memory->bytes;
    found.plan = trainers::choose_by_profile(
        [&](const gneiss::seen_batches& seen) {
            const planner with(given, of, seen);
            return trainers::choose_plan(given, of.graph.data().manifest(), of.graph.buckets(),
                {given.links() ? "comet" : training_first}, with.maker());
        },
        [&](const training_plan& plan, const gneiss::seen_batches& seen) {
            const planner with(given, of, seen);
            return gneiss::same_plan(plan, with.maker());
        },
        [&](const training_plan& plan) { return profile_of(given, of, plan); });
    if (const gneiss::plan_choice& choice = found.plan.choice; choice.tuned)
        found.reasons = gneiss::tune_for(
            planner(given, of, {}).tuning(memory), 2 * gneiss::ceil_div(choice.partitions, choice.slots))
                            .reasons;
    const std::uint32_t partitions = found.plan.partitioning.partitions;
    if (!given.reshuffle && found.plan.slots < partitions && !found.plan.choice.moves) {
        const bool few = partitions <= of.graph.buckets().rows().partitions && local(of.graph);
        found.reasons.emplace_back(few ? "nodes keep their partitions, which have few edges between them"
                                       : "nodes keep their partitions: --reshuffle 1 needs more memory");
    }
    add_reshuffle(given, found.plan, of.graph.data().manifest());
    add_placement(given, found.plan, of.graph.data().manifest());
    add_evaluation(given, of, found.plan);
    return found;
}

training_plan plan_again(const options& given, const planning& of, const training_plan& before) {
    const planner with(given, of, profile_of(given, of, before));
    return trainers::choose_again(given, before, with.maker());
}

} // namespace mariusgnn
