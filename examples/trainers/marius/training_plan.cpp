#include "training_plan.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <gneiss/order/any_order.hpp>
#include <gneiss/order/from_buckets.hpp>
#include <gneiss/order/parse.hpp>
#include <gneiss/storage/bucket_reader.hpp>
#include <gneiss/storage/edge_buffer.hpp>
#include <gneiss/storage/partition_buffer.hpp>

#include "common/machine.hpp"
#include "common/run_directory.hpp"
#include "common/terminal.hpp"

namespace marius {

namespace {

using gneiss::memory_part;

bool is_file(const std::string& order) {
    return std::ranges::find(gneiss::order_names, order) == gneiss::order_names.end();
}

std::function<gneiss::plan(std::uint64_t)> make_order(const options& o, std::uint32_t partitions, std::uint32_t slots) {
    const std::string& name = *o.order;
    if (!is_file(name)) return gneiss::make_order(name, partitions, slots, o.seed);
    const auto buckets = gneiss::parse_buckets(programs::read_file(name), partitions, name);
    return [plan = gneiss::plan_from_buckets(buckets, partitions, slots)](std::uint64_t) { return plan; };
}

/// What the model and its threads hold between batches.
std::uint64_t model_bytes(const options& o, const gneiss::any_link_model& model, std::uint64_t nodes) {
    const std::uint64_t dim = model.dim(), questions = 2 * *o.batch;
    const std::uint64_t list = o.negatives->all ? nodes : o.negatives->count;
    const std::uint64_t lists = o.negatives->all ? 2 : std::uint64_t{2} * *o.chunks;
    const gneiss::link_model_tuning tuning;
    const std::uint64_t rows = 2 * questions * dim + questions * model.relation_floats();
    const std::uint64_t partial = std::max<std::uint64_t>(lists * list * dim * sizeof(float), tuning.partial_bytes / 16);
    const std::uint64_t scratch = o.threads * (list * dim + tuning.tile_rows * (2 * dim + list));
    return (rows + scratch) * sizeof(float) * 9 / 8 + partial * 9 / 8;
}

std::optional<std::uint32_t> prefetch_of(const std::string& text) {
    if (text == "auto") return std::nullopt;
    if (text == "off") return 0;
    return static_cast<std::uint32_t>(programs::parse_count(text));
}

} // namespace

std::uint64_t training_plan::slot_bytes() const { return gneiss::row_file::slot_bytes_of(partitioning, layout); }

std::uint64_t training_plan::memory_bytes() const {
    std::uint64_t sum = 0;
    for (const memory_part& part : parts) sum += part.bytes;
    return sum;
}

programs::plan_record training_plan::record(const gneiss::bucket_store& buckets, std::uint64_t epoch) const {
    programs::plan_record made;
    made.budget_bytes = budget;
    for (const memory_part& part : parts) made.parts.emplace_back(part.name, part.bytes);
    const gneiss::plan states = order(epoch);
    const auto cost = gneiss::cost_of(states, [&](gneiss::partition_id p) {
        return gneiss::round_up(partitioning.size(p) * layout.bytes(), std::uint64_t{gneiss::page_alignment});
    });
    made.states = states.size();
    made.swaps = cost.swaps;
    made.swap_bound = gneiss::swap_lower_bound(partitioning.partitions, slots);
    if (!in_memory) {
        std::uint64_t edge_bytes_read = 0;
        buckets.for_each_bucket([&](gneiss::edge_bucket b) { edge_bytes_read += buckets.extent(b).out.length; });
        made.read_bytes = cost.read_bytes + edge_bytes_read;
        made.write_bytes = cost.written_bytes;
    } else {
        made.read_bytes = made.write_bytes = 0;
    }
    return made;
}

training_plan plan_training(options& o, const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets,
    const gneiss::any_link_model& model, std::size_t state_floats) {
    training_plan made;
    made.layout = {static_cast<std::uint32_t>(model.dim()), static_cast<std::uint32_t>(state_floats)};
    made.budget = o.memory ? o.memory->bytes : programs::available_memory() * 9 / 10;
    if (!o.memory) o.memory = programs::byte_size{made.budget};
    const gneiss::link_training_options training = o.training_options();
    const std::uint64_t relation_rows = model.relation_rows(std::max<std::uint64_t>(graph.relations, 1));
    const std::uint64_t batches = gneiss::link_training::in_flight(training);
    const auto wanted_prefetch = prefetch_of(o.prefetch);

    // The plan for one choice; what it holds is in `parts`, whether it fits or not.
    const auto with = [&](std::uint32_t partitions, std::uint32_t slots, bool in_memory) {
        training_plan plan = made;
        plan.partitioning = {graph.nodes, partitions};
        plan.in_memory = in_memory;
        plan.slots = slots;
        plan.prefetch = in_memory || slots >= partitions ? 0 : wanted_prefetch.value_or(2);
        plan.order = make_order(o, partitions, slots);
        const std::uint64_t memory_slots = in_memory || slots >= partitions ? partitions : slots + plan.prefetch;
        if (in_memory || slots >= partitions) {
            plan.edge_bytes = graph.train_edges * sizeof(gneiss::edge);
        } else if (partitions == buckets.rows().partitions) {
            const gneiss::bucket_source sizes{
                .size = [&](gneiss::edge_bucket b) { return buckets.extent(b).edges; }, .load = {}};
            for (std::uint64_t e = 0; e < std::min<std::uint64_t>(*o.epochs, 16); ++e)
                plan.edge_bytes = std::max(plan.edge_bytes, gneiss::edge_buffer::bytes_needed(plan.order(e), sizes));
            plan.edge_bytes += plan.edge_bytes / 16;
        } else { // the first state has slots² buckets of average size; later ones fewer
            const double share = static_cast<double>(slots) / partitions;
            plan.edge_bytes = static_cast<std::uint64_t>(
                1.5 * share * share * static_cast<double>(graph.train_edges * sizeof(gneiss::edge))) + (1U << 20);
        }
        plan.batch_bytes = batches * gneiss::link_training::batch_bytes(training, plan.layout, graph.nodes);
        const std::uint64_t relations = relation_rows * (model.relation_floats() + state_floats) * sizeof(float);
        plan.parts = {{"program", programs::current_rss() + (std::uint64_t{12} << 20)},
            {"partition buffer", memory_slots * plan.slot_bytes()}, {"edges", plan.edge_bytes},
            {"bucket blocks", gneiss::bucket_reader::bytes_needed(buckets)}, {"batches", plan.batch_bytes},
            {"model", model_bytes(o, model, graph.nodes)}, {"relations", 2 * relations + 4096}};
        const std::uint64_t used = plan.memory_bytes();
        constexpr std::uint64_t least = std::uint64_t{8} << 20, most = std::uint64_t{1} << 30;
        plan.evaluation_bytes = std::clamp(used < plan.budget ? (plan.budget - used) / 2 : 0, least, most);
        plan.parts.push_back({"evaluation", plan.evaluation_bytes});
        return plan;
    };
    const auto fits = [](const training_plan& plan) { return plan.memory_bytes() <= plan.budget; };
    const auto refuse = [](const training_plan& plan) -> void { throw gneiss::over_budget(plan.budget, plan.parts); };

    /// The plan with the largest buffer that fits; empty when none does.
    const auto largest_buffer = [&](std::uint32_t p) {
        std::optional<training_plan> found;
        for (std::uint32_t c = o.buffer ? std::min(*o.buffer, p) : std::min(2U, p); c <= p; ++c) {
            training_plan more = with(p, c, false);
            if (!fits(more)) break;
            found = std::move(more);
            if (o.buffer || c + 1 >= p) break;
        }
        return found;
    };
    const auto traffic = [](const training_plan& plan) {
        return gneiss::cost_of(plan.order(0), plan.slot_bytes()).read_bytes;
    };

    const std::uint32_t given = o.partitions.value_or(buckets.rows().partitions);
    const bool order_needs_slots = o.order && *o.order != "memory";
    std::optional<training_plan> best;
    if (o.store.value_or("memory") == "memory" && (o.store || !o.buffer)) {
        if (!o.order) o.order = o.buffer && *o.buffer < given ? "beta-spread" : "memory";
        const std::uint32_t slots = o.buffer.value_or(order_needs_slots ? std::max(2U, given / 4) : given);
        training_plan plan = with(given, std::min(slots, given), true);
        if (fits(plan))
            best = std::move(plan);
        else if (o.store)
            refuse(plan);
        else if (!order_needs_slots)
            o.order.reset();
    }
    if (!best) {
        if (!o.order || *o.order == "memory") o.order = "beta-spread";
        // Traffic depends on the share of partitions in the buffer, which more of them round up better. But a state then
        // trains fewer nodes' edges in a row, which costs accuracy: the fewest partitions within a third of the best.
        std::optional<training_plan> least;
        std::vector<training_plan> fitting;
        for (std::uint32_t p = given; p <= 4096; p *= 2) {
            if (!fitting.empty() && p > std::max(given, 128U)) break;
            if (auto found = largest_buffer(p))
                fitting.push_back(std::move(*found));
            else
                least = with(p, o.buffer ? std::min(*o.buffer, p) : std::min(2U, p), false);
            if (o.partitions || is_file(*o.order) || p >= graph.nodes) break;
        }
        if (fitting.empty()) refuse(*least);
        const std::uint64_t fewest = traffic(*std::ranges::min_element(fitting, {}, traffic));
        best = *std::ranges::find_if(fitting, [&](const training_plan& plan) { return traffic(plan) <= fewest / 3 * 4; });
    }
    o.store = best->in_memory ? "memory" : "disk";
    o.partitions = best->partitioning.partitions;
    o.buffer = best->slots;

    // Disk: as many spare slots as partitions never force a commit; where the disk is small, a quarter.
    const std::uint32_t p = best->partitioning.partitions;
    const std::uint64_t free = programs::free_disk(o.out.value_or("."));
    const std::uint32_t memory_slots = best->in_memory ? p : best->slots + best->prefetch;
    best->spare = o.spare_slots.value_or(
        2 * std::uint64_t{p} * best->slot_bytes() < free / 3 ? p : std::min(p, memory_slots + 1 + p / 4));
    best->spare = std::min(std::max(best->spare, std::min(p, memory_slots + 1)), p);
    best->disk_bytes = (std::uint64_t{p} + best->spare) * best->slot_bytes();
    if (p != buckets.rows().partitions) best->disk_bytes += 3 * graph.train_edges * sizeof(gneiss::edge);
    return std::move(*best);
}

std::string describe(const training_plan& plan, const programs::plan_record& record) {
    std::string text = fmt::format("rows: {} of {} floats, {} ({} partitions{})\n", plan.partitioning.nodes,
        plan.layout.floats(), gneiss::format_bytes(plan.embedding_bytes()), plan.partitioning.partitions,
        plan.in_memory ? ", in memory"
                       : fmt::format(", {} in the buffer + {} to load ahead and write behind", plan.slots, plan.prefetch));
    programs::table parts({{"memory", programs::align::left}, {"bytes"}});
    for (const memory_part& part : plan.parts) parts.add({part.name, gneiss::format_bytes(part.bytes)});
    parts.add({"sum", gneiss::format_bytes(plan.memory_bytes())});
    parts.add({"budget", gneiss::format_bytes(plan.budget)});
    text += parts.str();
    if (!plan.in_memory)
        text += fmt::format("an epoch: {} states, {} swaps (no order needs fewer than {}), reads {}, writes {}\n",
            *record.states, *record.swaps, *record.swap_bound, gneiss::format_bytes(*record.read_bytes),
            gneiss::format_bytes(*record.write_bytes));
    if (!plan.in_memory && plan.embedding_bytes() > plan.budget)
        text += fmt::format("the embeddings ({}) are larger than the memory budget ({}): they stay on disk\n",
            gneiss::format_bytes(plan.embedding_bytes()), gneiss::format_bytes(plan.budget));
    text += fmt::format("disk: at most {}\n", gneiss::format_bytes(plan.disk_bytes));
    return text;
}

} // namespace marius
