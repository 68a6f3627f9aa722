// SPDX-License-Identifier: Apache-2.0
#include "kit/run/plan.hpp"

#include <algorithm>
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

namespace trainers {

using gneiss::memory_need;

namespace {

/// Returns the number of slots to load ahead and write behind.
std::uint32_t prefetch_slots(const std::string& word) {
    return word == "auto" ? 2
        : word == "off"   ? 0
                          : programs::narrow<std::uint32_t>(programs::parse_count(word), "prefetch");
}

} // namespace

training_plan::training_plan(const plan_choice& by, const gneiss::row_partitioning& stored)
    : choice(by),
      partitioning(stored.in(by.partitions)),
      in_memory(by.in_memory),
      slots(by.slots) {
    prefetch = keeps_all() ? 0 : prefetch_slots(by.prefetch);
}

std::function<gneiss::epoch_plan(std::uint64_t)> make_order(const plan_choice& choice, std::uint64_t seed) {
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

std::uint64_t training_plan::slot_bytes() const {
    return layout.floats() == 0 ? 0 : gneiss::embedding_file::slot_bytes_of(partitioning, layout);
}

memory_need training_plan::buffer_need() const {
    return layout.floats() == 0 ? memory_need{}
                                : gneiss::partition_buffer::need(partitioning, layout, buffer_options());
}

std::uint64_t training_plan::best_bytes() const {
    return layout.floats() == 0 ? 0 : gneiss::embedding_file::slot_bytes_of(partitioning, {layout.dim, 0});
}

gnn_needs needs_of(const gneiss::gnn_memory& bound, const std::optional<gneiss::batch_profile>& seen, std::uint64_t row,
    std::uint64_t scratch) {
    gnn_needs result{batch_needs::bounded(bound.batch), bound.encoder};
    if (!seen) return result;
    const gneiss::batch_memory drawn{.sample = std::min(bound.batch.sample, seen->with_margin(seen->sample) + scratch),
        .rows = std::min(bound.batch.rows, seen->nodes_with_margin() * row)};
    result.encoder = std::min(bound.encoder, seen->with_margin(seen->compute));
    result.batches.largest = result.batches.usual = drawn;
    result.batches.alone = bound.encoder - result.encoder + bound.sampler; // it is drawn again by another sampler
    return result;
}

void training_plan::add_evaluation(std::uint64_t least, double share, std::uint64_t most) {
    const std::uint64_t used = memory_bytes(), left = used < budget ? budget - used : 0;
    const auto more = std::min(static_cast<std::uint64_t>(share * static_cast<double>(left)), most);
    const std::uint64_t part = least == 0 ? 0 : std::max(least - std::min(least, freed_bytes()), more);
    memory.reserve({"evaluation", part});
    if (alone_bytes > part) memory.reserve({"a batch alone", alone_bytes - part});
    evaluation_bytes = freed_bytes() + std::max(part, alone_bytes);
}

void training_plan::add_batches(std::size_t in_flight, bool fixed, const batch_needs& of, std::uint64_t between) {
    const std::uint64_t with_rows = gneiss::batches_with_rows(in_flight);
    const auto least = [](std::uint64_t a, std::uint64_t b) { return std::min(a, b); };
    if (fixed) { // none can run alone
        batches = in_flight;
        row_bytes = with_rows * of.bound.rows;
        sample_bytes = of.bound.sample;
    } else {
        // Gather, compute and update each have a batch with rows, and one may wait between them; others are only
        // sampled ahead.
        const std::uint64_t floor = std::max(of.largest.rows, choice.sparing ? 0 : least(2, with_rows) * of.usual.rows);
        sample_bytes = of.largest.sample;
        const auto beyond = [&](std::uint64_t rows) {
            return of.bound.sample - sample_bytes + of.bound.rows - least(of.bound.rows, rows) + of.alone;
        };
        // Work between epochs has the memory of two batches, at least.
        const std::uint64_t freed = floor + least(2, in_flight) * sample_bytes + encoder_bytes;
        const std::uint64_t used = memory_bytes() + std::max(between - least(between, freed), beyond(floor)),
                            left = used < budget ? budget - used : 0;
        const std::uint64_t sampled = least(left, least(5, in_flight) * sample_bytes);
        row_bytes = std::clamp(left - sampled, floor, std::max(floor, least(4, with_rows) * of.usual.rows));
        batches = static_cast<std::size_t>(
            std::clamp<std::uint64_t>((left - least(left, row_bytes)) / sample_bytes, least(2, in_flight), in_flight));
        alone_bytes = beyond(row_bytes);
    }
    memory.add(
        gneiss::train_loop_options{.batches_in_flight = batches, .batch_bytes = sample_bytes, .row_bytes = row_bytes}
            .need());
}

void training_plan::add_batches_and_evaluation(
    std::size_t in_flight, bool fixed, const gnn_needs& of, std::uint64_t least) {
    encoder_bytes = of.encoder;
    memory.add(gneiss::gnn_memory{.encoder = of.encoder}.encoders());
    add_batches(in_flight, fixed, of.batches, least);
    add_evaluation(least, .75, std::uint64_t{8} << 30);
}

namespace {

bool trains_edges(const gneiss::epoch_plan& states) {
    return std::ranges::any_of(states, [](const gneiss::buffer_state& s) { return !s.edge_buckets.empty(); });
}

/// Returns the cost of swapping the rows of an epoch.
gneiss::plan_cost row_cost(const training_plan& plan, const gneiss::epoch_plan& states) {
    return gneiss::cost_of(
        states,
        [&](gneiss::partition_id p) {
            return gneiss::round_up(
                plan.partitioning.size(p) * plan.layout.bytes(), std::uint64_t{gneiss::page_alignment});
        },
        plan.frozen ? gneiss::row_use::read_only : gneiss::row_use::updated);
}

} // namespace

std::uint64_t training_plan::reads(const gneiss::bucket_store& buckets, const gneiss::epoch_plan& states) const {
    std::uint64_t bytes = 0;
    if (!in_memory) {
        bytes = row_cost(*this, states).read_bytes;
        if (trains_edges(states))
            buckets.for_each_bucket([&](gneiss::edge_bucket b) { bytes += buckets.extent(b).out.length; });
    }
    if (further_reads && slots < partitioning.partitions) bytes += further_reads(states);
    return bytes;
}

programs::plan_record training_plan::record(const gneiss::bucket_store& buckets, std::uint64_t epoch) const {
    programs::plan_record result;
    result.budget_bytes = budget;
    for (const memory_need& part : memory.parts()) result.parts.emplace_back(part.name, part.bytes);
    if (!order) return result;
    const gneiss::epoch_plan states = order(epoch);
    const auto cost = row_cost(*this, states);
    if (runner_up)
        result.runner_up = {.partitions = runner_up->choice.partitions,
            .buffer = runner_up->choice.slots,
            .prefetch = prefetch_slots(runner_up->choice.prefetch),
            .swaps = runner_up->swaps,
            .read_bytes = runner_up->read_bytes};
    result.states = states.size();
    result.swaps = cost.swaps;
    if (trains_edges(states)) result.swap_bound = gneiss::swap_lower_bound(partitioning.partitions, slots);
    result.read_bytes = reads(buckets, states);
    result.write_bytes = in_memory ? 0 : cost.written_bytes;
    return result;
}

std::uint64_t reads_of(const gneiss::epoch_plan& states, std::uint32_t partitions, gneiss::neighbor_direction keeps,
    const gneiss::bucket_store& buckets, const gneiss::feature_store* features) {
    const bool stored = partitions == buckets.rows().partitions;
    std::uint64_t bytes = 0, pairs = 0;
    std::span<const gneiss::partition_id> before;
    for (const gneiss::buffer_state& s : states) {
        std::uint64_t kept = 0;
        for (const gneiss::partition_id i : s.resident) {
            const bool fresh = !std::ranges::binary_search(before, i);
            kept += fresh ? 0 : 1;
            if (features != nullptr && fresh)
                for (const auto part :
                    {gneiss::feature_part::values, gneiss::feature_part::offsets, gneiss::feature_part::indices})
                    bytes += features->blocks(i, part).length;
            if (!stored) continue;
            for (const gneiss::partition_id j : s.resident)
                if (fresh || !std::ranges::binary_search(before, j))
                    for_each_side(
                        keeps, [&](gneiss::edge_direction d) { bytes += buckets.extent({i, j}).range(d).length; });
        }
        pairs += s.resident.size() * s.resident.size() - kept * kept;
        before = s.resident;
    }
    if (stored) return bytes;
    std::uint64_t all = 0; // evenly spread
    buckets.for_each_bucket([&](gneiss::edge_bucket b) {
        for_each_side(keeps, [&](gneiss::edge_direction d) { all += buckets.extent(b).range(d).length; });
    });
    return bytes +
        static_cast<std::uint64_t>(static_cast<double>(all) * static_cast<double>(pairs) / partitions / partitions);
}

namespace {

/// Returns the largest number of partitions that a state of the plan loads.
std::uint32_t largest_swap(const gneiss::epoch_plan& states) {
    std::uint64_t most = 0;
    for (std::size_t s = 1; s < states.size(); ++s)
        most = std::max(most, gneiss::cost_of(std::span(states).subspan(s - 1, 2), std::uint64_t{0}).swaps);
    return static_cast<std::uint32_t>(most);
}

} // namespace

namespace {

bool fits(const training_plan& plan) { return plan.memory_bytes() <= plan.budget; }

/// Returns what a search compares, see `choose_plan`.
std::uint64_t searched_reads(const training_plan& plan, const gneiss::bucket_store& buckets) {
    const gneiss::epoch_plan states = plan.order(0);
    const std::uint64_t reads = plan.reads(buckets, states);
    if (states.empty() || trains_edges(states)) return reads;
    gneiss::epoch_plan whole{{.resident = {}, .edge_buckets = {}}};
    for (gneiss::partition_id p = 0; p < plan.partitioning.partitions; ++p) whole.front().resident.push_back(p);
    const std::uint64_t all = plan.reads(buckets, whole);
    if (states.size() == 1) return all + all - std::min(all, reads);
    return 2 * all + 16 * (reads - plan.reads(buckets, {states.front()}));
}

} // namespace

training_plan choose_plan(const run_options& o, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets, const std::vector<std::string>& default_orders, const plan_maker& make) {
    const std::uint64_t memory = o.memory->bytes;
    const auto refuse = [&o](const training_plan& plan) -> void {
        throw gneiss::error(gneiss::errc::over_budget,
            fmt::format("{}; what helps: a larger --memory, {}{}a smaller --batch or --dim, fewer --negatives",
                gneiss::over_budget(plan.budget, plan.memory.parts()).what(), plan.in_memory ? "--store disk, " : "",
                o.buffer ? "a smaller --buffer, " : ""));
    };
    const bool wants_memory = o.store == "memory" || o.store == "device"; // embeddings on a device are in memory, too
    const std::uint32_t given = o.partitions.value_or(buckets.rows().partitions);
    const bool order_needs_slots = o.order && *o.order != "memory";
    std::optional<training_plan> best;
    std::uint64_t in_memory_bytes = 0;
    if (wants_memory || (!o.store && !o.buffer && !o.logical)) {
        const std::uint32_t slots =
            std::min(o.buffer.value_or(order_needs_slots ? std::max(2U, given / 4) : given), given);
        const std::vector<std::string> orders = o.order ? std::vector{*o.order}
            : slots < given                             ? default_orders
                                                        : std::vector<std::string>{"memory"};
        plan_choice choice{.partitions = given, .slots = slots, .in_memory = true, .prefetch = o.prefetch};
        std::uint64_t fewest = ~std::uint64_t{0};
        for (const std::string& order : orders) { // an order is as good as one that swaps up to an eighth less
            plan_choice of = choice;
            of.order = order;
            const std::uint64_t swaps = gneiss::cost_of(make.states(of).order(0), std::uint64_t{0}).swaps;
            if (fewest <= swaps + swaps / 8) continue;
            fewest = swaps;
            choice = of;
        }
        for (const bool sparing : {false, true})
            for (const bool moves : make.moves) {
                const bool open = make.moves.size() != 1;
                if (best || (open && moves && (slots == given || given <= make.local_partitions))) continue;
                choice.sparing = sparing;
                choice.moves = moves;
                training_plan plan = make.with(choice, memory);
                in_memory_bytes = plan.memory_bytes();
                if (fits(plan))
                    best = std::move(plan);
                else if (wants_memory && sparing && moves == make.moves.back())
                    refuse(plan);
            }
    }
    if (!best) {
        gneiss::plan_request request{.partitions = given,
            .more_partitions = !o.partitions &&
                (!o.order || !is_order_file(*o.order) ||
                    std::ranges::find(default_orders, *o.order) != default_orders.end()),
            .nodes = graph.nodes,
            .buffer = o.buffer,
            .logical = o.logical,
            .orders = order_needs_slots ? std::vector{*o.order} : default_orders,
            .prefetch = {o.prefetch},
            .tuned = make.tuned ? make.tuned() : std::vector<plan_choice>{},
            .moves = make.moves,
            .local_partitions = make.local_partitions,
            .memory = memory};
        // Other orders save nothing if an eighth of the nodes in the most accurate one reads no longer than an epoch
        // computes. That does not depend on the memory, so that more memory never reads more.
        plan_choice eighth{.partitions = 64, .slots = 8, .in_memory = false, .order = request.orders.front()};
        if (!order_needs_slots && request.orders.size() > 1 && graph.nodes >= eighth.partitions &&
            searched_reads(make.states(eighth), buckets) <= make.hidden_bytes)
            request.orders.resize(1);
        plan_choice small{.partitions = given, .slots = std::min(2U, given), .in_memory = false};
        small.order = request.orders.front();
        const training_plan first = make.states(small);
        // Swapped rows are read and written, so a slot that does both saves some.
        if (o.prefetch == "auto" && !o.buffer && first.layout.floats() != 0 && trains_edges(first.order(0)))
            request.prefetch.emplace_back("1");
        const gneiss::found_plan found = gneiss::search_plan(request,
            {[&](const plan_choice& choice) { return searched_reads(make.states(choice), buckets); },
                [&](const plan_choice& choice) { return make.with(choice, 0).memory_bytes(); }});
        best = make.with(found.best.choice, memory);
        if (found.runner_up) {
            const training_plan other = make.states(found.runner_up->choice);
            const gneiss::epoch_plan states = other.order(0);
            best->runner_up = training_plan::alternative{
                found.runner_up->choice, row_cost(other, states).swaps, other.reads(buckets, states)};
        }
    }
    if (!fits(*best)) refuse(*best);
    // All swaps of a given buffer are loaded while a state trains, if memory allows.
    if (o.buffer && o.prefetch == "auto" && !best->keeps_all() && best->layout.floats() != 0) {
        if (const std::uint32_t swap = largest_swap(best->order(0)); swap > best->prefetch) {
            plan_choice ahead = best->choice;
            ahead.prefetch = std::to_string(swap);
            if (training_plan more = make.with(ahead, memory); fits(more)) best = std::move(more);
        }
    }

    best->in_memory_bytes = in_memory_bytes;
    // Disk: one spare slot per partition never forces a commit; a quarter if the disk is small.
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

namespace {

/// Copies what `choose_plan` decided beyond the choice.
void keep_decisions(training_plan& plan, const training_plan& before) {
    plan.spare = before.spare;
    plan.disk_bytes = before.disk_bytes;
    plan.runner_up = before.runner_up;
    plan.in_memory_bytes = before.in_memory_bytes;
}

} // namespace

training_plan choose_again(const run_options& given, const training_plan& before, const plan_maker& make) {
    const auto with = [&](const plan_choice& choice) { return make.with(choice, given.memory->bytes); };
    programs::trim_memory(); // sorting edges again and drawing batches left some
    plan_choice choice = before.choice;
    training_plan plan = with(choice);
    // If buckets are larger than estimated, fewer are resident, down to the rows of one batch.
    for (; !fits(plan) && !given.buffer && !given.logical && choice.slots > 2; plan = with(choice)) --choice.slots;
    if (!fits(plan) && !choice.sparing) {
        choice.sparing = true;
        plan = with(choice);
    }
    if (!fits(plan)) throw gneiss::over_budget(plan.budget, plan.memory.parts());
    keep_decisions(plan, before);
    return plan;
}

training_plan same_plan(const training_plan& before, const plan_maker& make) {
    training_plan plan = make.with(before.choice, before.budget);
    keep_decisions(plan, before);
    return plan;
}

training_plan choose_by_profile(const std::function<training_plan(const seen_batches&)>& choose,
    const std::function<training_plan(const training_plan&, const seen_batches&)>& again,
    const std::function<seen_batches(const training_plan&)>& profile) {
    const auto draw = [&](const training_plan& plan) {
        seen_batches seen = profile(plan);
        programs::trim_memory();
        return seen;
    };
    const training_plan most = choose(gneiss::batch_profile{});
    const seen_batches seen = draw(most);
    training_plan found = choose(seen);
    if (!seen || (found.partitioning.partitions == most.partitioning.partitions && found.slots == most.slots))
        return found;
    if (const seen_batches own = draw(found)) {
        training_plan exact = again(found, own);
        if (fits(exact)) return exact;
    }
    return found;
}

plan_choice stored_choice(const training_plan& plan, std::uint32_t stored) {
    plan_choice choice = plan.choice;
    if (choice.partitions == stored) return choice;
    const std::uint64_t share = (std::uint64_t{plan.slots} * stored + choice.partitions - 1) / choice.partitions;
    choice.partitions = stored;
    choice.slots = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max<std::uint64_t>(share, 2), stored));
    if (choice.slots == stored) choice.order = "memory";
    return choice;
}

bool places_neighbors_together(const gneiss::bucket_store& buckets) {
    return buckets.rows().partitions > 1 && gneiss::relative_cut(buckets) <= .25;
}

namespace {

/// True for an epoch of edges whose states hold some of the nodes.
bool splits_edges(const training_plan& plan) { return !plan.keeps_all() && plan.order && trains_edges(plan.order(0)); }

} // namespace

std::string doubt_buffer(const training_plan& plan, const gneiss::bucket_store& buckets) {
    const std::uint32_t partitions = plan.partitioning.partitions;
    if (8 * plan.slots >= partitions || !splits_edges(plan) || places_neighbors_together(buckets)) return {};
    return fmt::format("the buffer holds {} of {} partitions, and most edges cross them, which costs accuracy: "
                       "place neighbors together (gneiss-data reorder), or give more --memory",
        plan.slots, partitions);
}

namespace {

/// Returns how much the states of an epoch of edges bias training, and the flag that lowers that; empty: not at all.
std::string bias_of(const training_plan& plan) {
    if (!splits_edges(plan)) return {};
    const double share = static_cast<double>(plan.slots) / plan.partitioning.partitions;
    return fmt::format("bias: {} (states of {} of the nodes: more --memory, or a larger --buffer, lowers it)\n",
        share >= .25        ? "low"
            : share >= .125 ? "moderate"
                            : "high",
        programs::human_percent(share));
}

} // namespace

std::string describe(const training_plan& plan, const programs::plan_record& record) {
    std::string text;
    const std::string where = plan.in_memory
        ? ", in memory"
        : fmt::format(", {} in the buffer + {} to load ahead and write behind", plan.slots, plan.prefetch);
    if (plan.layout.floats() != 0)
        text += fmt::format("rows: {} of {} floats, {} ({} partitions{})\n", plan.partitioning.nodes,
            plan.layout.floats(), gneiss::format_bytes(plan.embedding_bytes()), plan.partitioning.partitions, where);
    else if (plan.order)
        text +=
            fmt::format("nodes: {} ({} partitions{})\n", plan.partitioning.nodes, plan.partitioning.partitions, where);
    else
        text += fmt::format("nodes: {}{}\n", plan.partitioning.nodes, plan.in_memory ? ", in memory" : "");
    programs::table parts({{"memory", programs::align::left}, {"bytes"}});
    for (const memory_need& part : plan.memory.parts()) parts.add({part.name, gneiss::format_bytes(part.bytes)});
    parts.add({"sum", gneiss::format_bytes(plan.memory_bytes())});
    parts.add({"budget", gneiss::format_bytes(plan.budget)});
    text += parts.str();
    if (plan.batches > 1)
        text +=
            fmt::format("batches: {} in flight; a batch misses at most {} updates\n", plan.batches, plan.batches - 1);
    if (!plan.in_memory && plan.order)
        text += fmt::format("an epoch: {} states, {} swaps{}, reads {}, writes {}\n", *record.states, *record.swaps,
            record.swap_bound ? fmt::format(" (no order needs fewer than {})", *record.swap_bound) : "",
            gneiss::format_bytes(*record.read_bytes), gneiss::format_bytes(*record.write_bytes));
    if (const auto& other = record.runner_up)
        text += fmt::format("the runner-up: {} partitions, {} in the buffer + {}: {} swaps, reads {} of rows{}\n",
            other->partitions, other->buffer, other->prefetch, other->swaps, gneiss::format_bytes(other->read_bytes),
            plan.further_reads ? ", features and graph" : "");
    text += bias_of(plan);
    if (!plan.in_memory && plan.in_memory_bytes > plan.budget)
        text += fmt::format("the plan in memory needs {}, more than the budget: partitions stay on disk\n",
            gneiss::format_bytes(plan.in_memory_bytes));
    text += fmt::format("disk: at most {}\n", gneiss::format_bytes(plan.disk_bytes));
    return text;
}

} // namespace trainers
