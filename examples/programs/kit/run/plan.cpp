// SPDX-License-Identifier: Apache-2.0
#include "kit/run/plan.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/order/any_order.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/from_buckets.hpp>
#include <gneiss/order/parse.hpp>
#include <gneiss/storage/adjacency/neighbor_coverage.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/train/train_loop.hpp>

#include "kit/cli/machine.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/refused_plan.hpp"

namespace trainers {

using gneiss::memory_need;

std::function<gneiss::epoch_plan(std::uint64_t)> make_order(const gneiss::plan_choice& choice, std::uint64_t seed) {
    const std::string& name = choice.order;
    const std::uint32_t partitions = choice.partitions, slots = choice.slots;
    if (!is_order_file(name)) return gneiss::make_order(name, partitions, slots, seed);
    if (!std::filesystem::exists(name)) {
        const std::vector<std::string> names(gneiss::order_names.begin(), gneiss::order_names.end());
        const std::string nearest = programs::nearest_name(name, names);
        throw programs::usage_error(fmt::format("--order: '{}' is neither an order nor a file{}", name,
            nearest.empty() ? fmt::format("; orders are {}", fmt::join(names, ", "))
                            : fmt::format("; did you mean {}?", nearest)));
    }
    const auto buckets = gneiss::parse_buckets(programs::read_file(name), partitions, name);
    return [plan = gneiss::plan_from_buckets(buckets, partitions, slots)](std::uint64_t) { return plan; };
}

std::uint64_t edge_memory(const run_options& options, const training_plan& plan, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets) {
    if (plan.keeps_all()) return graph.train_edges * sizeof(gneiss::edge);
    if (plan.partitioning.partitions == buckets.rows().partitions) {
        const gneiss::edge_loader sizes{
            .size = [&](gneiss::edge_bucket b) { return buckets.extent(b).edges; }, .load = {}};
        std::uint64_t most = 0;
        for (std::uint64_t e = 0; e < std::min<std::uint64_t>(*options.epochs, 16); ++e)
            most = std::max(most, gneiss::edge_buffer::need(plan.order(e), sizes).bytes);
        return most + most / 16;
    }
    // The first state has slots² buckets of average size; later ones fewer.
    const double share = static_cast<double>(plan.slots) / plan.partitioning.partitions;
    return static_cast<std::uint64_t>(
               1.5 * share * share * static_cast<double>(graph.train_edges * sizeof(gneiss::edge))) +
        (1U << 20);
}

state_edges edges_of_states(const run_options& options, const training_plan& plan,
    const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets, const gneiss::state_sizes& sizes) {
    if (plan.keeps_all()) return {graph.train_edges, graph.train_edges};
    const std::uint64_t p = plan.partitioning.partitions, s2 = std::uint64_t{plan.slots} * plan.slots;
    const bool stored = p == buckets.rows().partitions;
    const double mean = static_cast<double>(graph.train_edges) / static_cast<double>(p * p);
    state_edges result{.most = stored ? sizes.of(plan.slots).edges
                                      : static_cast<std::uint64_t>(1.25 * mean * static_cast<double>(s2)) + 1};
    std::vector<std::uint64_t> each;
    const bool counts_all = stored && *options.epochs <= (std::uint64_t{1} << 20) / (p * p);
    std::uint64_t counted = 0;
    for (std::uint64_t e = 0; e < (counts_all      ? *options.epochs
                                          : stored ? std::min<std::uint64_t>(*options.epochs, 4)
                                                   : 1);
        ++e) {
        each.clear();
        for (const gneiss::buffer_state& s : plan.order(e)) {
            auto edges = static_cast<std::uint64_t>(mean * static_cast<double>(s.edge_buckets.size()));
            if (stored) {
                edges = 0;
                for (const gneiss::edge_bucket& b : s.edge_buckets) edges += buckets.extent(b).edges;
            }
            each.push_back(edges);
            counted = std::max(counted, edges);
        }
        if (each.empty()) continue;
        const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
        std::ranges::nth_element(each, middle);
        result.median = std::max(result.median, *middle);
    }
    if (counts_all) result.most = std::min(result.most, counted);
    result.median += result.median / 4 + 1; // most states have somewhat more
    return result;
}

memory_need table_need(const training_plan& plan, const gneiss::bucket_store& buckets, bool links) {
    constexpr std::uint64_t copies = 4, allocation = 32,
                            bucket = sizeof(gneiss::bucket_row) + 2 * sizeof(gneiss::checked_block);
    const std::uint64_t p = plan.partitioning.partitions;
    const std::uint64_t result = p == buckets.rows().partitions ? 0 : 2 * bucket * p * p;
    if (plan.keeps_all()) return {"tables", result};
    const std::uint64_t states =
        links && plan.slots >= 2 ? gneiss::swap_lower_bound(plan.partitioning.partitions, plan.slots) + 1 : p;
    const std::uint64_t state =
        sizeof(gneiss::buffer_state) + plan.slots * sizeof(gneiss::partition_id) + 2 * allocation;
    return {"tables", result + copies * (states * state + (links ? p * p * sizeof(gneiss::edge_bucket) : 0))};
}

memory_need label_need(const gneiss::dataset_manifest& graph, bool evaluates) {
    const gneiss::dataset_node_attributes& of = graph.node_attributes;
    return {"node labels",
        graph.nodes * (of.label_bytes() + 1) + (of.train * 2 + (evaluates ? of.valid + of.test : 0)) * 4};
}

memory_need decoder_need(const link_options& options, std::uint64_t batch, std::uint64_t threads,
    const gneiss::any_link_model& model, std::uint64_t nodes) {
    const std::uint64_t dim = model.dim(), query_count = 2 * batch;
    const std::uint64_t list = options.negatives->all ? nodes : options.negatives->count;
    const std::uint64_t lists = options.negatives->all ? 2 : std::uint64_t{2} * *options.chunks;
    const gneiss::link_model_tuning tuning;
    const std::uint64_t rows = 2 * query_count * dim + query_count * model.relation_floats();
    const std::uint64_t partial =
        std::max<std::uint64_t>(lists * list * dim * sizeof(float), tuning.partial_bytes / 16);
    const std::uint64_t scratch = threads * (list * dim + tuning.tile_rows * (2 * dim + list));
    return {"decoder", (rows + scratch) * sizeof(float) * 9 / 8 + partial * 9 / 8};
}

gnn_needs needs_of(const gneiss::gnn_memory& bound, const std::optional<gneiss::batch_profile>& seen, std::uint64_t row,
    std::uint64_t scratch) {
    gnn_needs result{gneiss::batch_needs::bounded(bound.batch), bound.encoder};
    if (!seen) return result;
    const gneiss::batch_memory drawn{.sample = std::min(bound.batch.sample, seen->with_margin(seen->sample) + scratch),
        .rows = std::min(bound.batch.rows, seen->nodes_with_margin() * row)};
    result.encoder = std::min(bound.encoder, seen->with_margin(seen->compute));
    result.batches.largest = result.batches.usual = drawn;
    result.batches.alone = bound.encoder - result.encoder + bound.sampler; // it is drawn again by another sampler
    return result;
}

std::uint64_t some_more(std::uint64_t drawn) {
    return drawn + static_cast<std::uint64_t>(8 * std::sqrt(static_cast<double>(drawn))) + 16;
}

void add_batches_and_evaluation(
    training_plan& plan, std::size_t in_flight, bool fixed, const gnn_needs& of, std::uint64_t least) {
    plan.encoder_bytes = of.encoder;
    plan.memory.add(gneiss::gnn_memory{.encoder = of.encoder}.encoders());
    plan.add_batches(in_flight, fixed, of.batches, least);
    plan.add_evaluation(least, .75, std::uint64_t{8} << 30);
}

programs::plan_record record_of(const training_plan& plan) {
    programs::plan_record result;
    result.budget_bytes = plan.budget;
    for (const memory_need& part : plan.memory.parts()) result.parts.emplace_back(part.name, part.bytes);
    if (!plan.order) return result;
    if (const auto& other = plan.runner_up)
        result.runner_up = {.partitions = other->choice.partitions,
            .buffer = other->choice.slots,
            .prefetch = training_plan(other->choice, plan.partitioning).prefetch,
            .swaps = other->swaps,
            .read_bytes = other->read_bytes};
    const gneiss::plan_traffic traffic = plan.traffic();
    result.states = traffic.states;
    result.swaps = traffic.swaps;
    result.swap_bound = traffic.swap_bound;
    result.read_bytes = traffic.read_bytes;
    result.write_bytes = traffic.written_bytes;
    return result;
}

namespace {

/// Returns what the flags give of a plan.
gneiss::given_plan given_by(const run_options& o, const std::vector<std::string>& default_orders) {
    gneiss::given_plan given{.partitions = o.partitions,
        .more_partitions =
            !o.order || !is_order_file(*o.order) || std::ranges::find(default_orders, *o.order) != default_orders.end(),
        .buffer = o.buffer,
        .logical = o.logical,
        .order = o.order,
        .prefetch = o.prefetch,
        .memory = o.memory->bytes};
    if (o.prefetch != "auto" && o.prefetch != "off")
        given.prefetch = std::to_string(programs::narrow<std::uint32_t>(programs::parse_count(o.prefetch), "prefetch"));
    if (o.store) given.in_memory = o.store != "disk"; // embeddings on a device are in memory, too
    return given;
}

} // namespace

training_plan choose_plan(const run_options& o, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets, const std::vector<std::string>& default_orders,
    const gneiss::plan_maker& make) {
    training_plan best = gneiss::choose_plan(given_by(o, default_orders), buckets.rows(), default_orders, make);
    if (!best.fits())
        throw refused_plan(best.budget, best.memory,
            what_helps(best.memory.parts(),
                {best.in_memory ? "--store disk" : "", o.buffer ? "a smaller --buffer" : ""}, "--memory", o.threads));
    // Disk: one spare slot per partition never forces a commit; a quarter if the disk is small.
    const std::uint32_t p = best.partitioning.partitions;
    const std::uint64_t free = programs::free_disk(o.out.value_or("."));
    const std::uint32_t memory_slots = best.in_memory ? p : best.slots + best.prefetch;
    best.spare = o.spare_slots.value_or(
        2 * std::uint64_t{p} * best.slot_bytes() < free / 3 ? p : std::min(p, memory_slots + 1 + p / 4));
    best.spare = std::min(std::max(best.spare, std::min(p, memory_slots + 1)), p);
    best.disk_bytes = (std::uint64_t{p} + best.spare) * best.slot_bytes();
    if (p != buckets.rows().partitions) best.disk_bytes += 3 * graph.train_edges * sizeof(gneiss::edge);
    return best;
}

training_plan choose_again(const run_options& given, const training_plan& before, const gneiss::plan_maker& make) {
    programs::trim_memory(); // sorting edges again and drawing batches left some
    return gneiss::choose_again(given_by(given, {}), before, make);
}

training_plan choose_by_profile(const std::function<training_plan(const gneiss::seen_batches&)>& choose,
    const std::function<training_plan(const training_plan&, const gneiss::seen_batches&)>& again,
    const std::function<gneiss::seen_batches(const training_plan&)>& profile) {
    return gneiss::choose_by_profile(choose, again, [&](const training_plan& plan) {
        gneiss::seen_batches seen = profile(plan);
        programs::trim_memory();
        return seen;
    });
}

bool places_neighbors_together(const gneiss::bucket_store& buckets) {
    return buckets.rows().partitions > 1 && gneiss::relative_cut(buckets) <= .25;
}

std::string doubt_buffer(const training_plan& plan, const gneiss::bucket_store& buckets) {
    const std::uint32_t partitions = plan.partitioning.partitions;
    if (8 * plan.slots >= partitions || !plan.splits_edges() || places_neighbors_together(buckets)) return {};
    return fmt::format("the buffer holds {} of {} partitions, and most edges cross them, which costs accuracy: "
                       "place neighbors together (gneiss-data reorder), or give more --memory",
        plan.slots, partitions);
}

std::string summarize(const training_plan& plan) {
    constexpr std::size_t shown = 3;
    std::vector<memory_need> parts = plan.memory.parts();
    std::ranges::stable_sort(parts, std::ranges::greater{}, &memory_need::bytes);
    parts.resize(std::min(parts.size(), shown));
    std::string largest;
    for (const memory_need& part : parts)
        largest += (largest.empty() ? "" : ", ") + part.name + " " + gneiss::format_bytes(part.bytes);
    const std::string place = plan.in_memory ? "in memory"
        : plan.order ? fmt::format("{} of {} partitions in memory", plan.slots, plan.partitioning.partitions)
                     : "on disk";
    std::string text = fmt::format("plan: {}; {} of {}: {}, …", place, gneiss::format_bytes(plan.memory_bytes()),
        gneiss::format_bytes(plan.budget), largest);
    if (plan.in_memory || !plan.order) return text;
    const gneiss::plan_traffic of = plan.traffic();
    text += fmt::format("\nan epoch: {} states, reads {}, writes {}", of.states, gneiss::format_bytes(of.read_bytes),
        gneiss::format_bytes(of.written_bytes));
    if (const std::string bias = plan.bias(); !bias.empty())
        text += fmt::format("; bias {}: more --memory, or a larger --buffer, lowers it", bias);
    return text;
}

std::optional<double> epoch_seconds(programs::epoch_work work, const programs::plan_record& plan,
    const programs::machine_rates& rates, std::uint64_t threads) {
    work.read_bytes += static_cast<double>(plan.read_bytes.value_or(0));
    work.write_bytes += static_cast<double>(plan.write_bytes.value_or(0));
    return programs::seconds_of(work, rates, static_cast<unsigned>(threads));
}

std::string describe(const training_plan& plan) {
    return gneiss::to_string(plan) +
        (plan.bias().empty() ? "" : "more --memory, or a larger --buffer, lowers the bias\n");
}

} // namespace trainers
