// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/train/train_loop.hpp>
#include <gneiss/train/training_plan.hpp>

namespace gneiss {

namespace detail {

/// Returns the number of slots to load ahead and write behind.
[[nodiscard]] inline std::uint32_t prefetch_slots(std::string_view word) {
    if (word == "auto") return 2;
    if (word == "off") return 0;
    std::uint32_t count = 0;
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (failed != std::errc{} || end != word.data() + word.size())
        throw error(errc::invalid_argument, "is not a number of slots, auto or off", {.field = "prefetch"});
    return count;
}

[[nodiscard]] inline bool trains_edges(const epoch_plan& states) {
    return std::ranges::any_of(states, [](const buffer_state& s) { return !s.edge_buckets.empty(); });
}

/// Returns the cost of swapping the rows of an epoch.
[[nodiscard]] inline plan_cost row_cost(const training_plan& plan, const epoch_plan& states) {
    return cost_of(
        states,
        [&](partition_id p) {
            return round_up(plan.partitioning.size(p) * plan.layout.bytes(), std::uint64_t{page_alignment});
        },
        plan.frozen ? row_use::read_only : row_use::updated);
}

/// Returns the parts of memory as a table with their sum and the budget.
[[nodiscard]] inline std::string table_of_parts(const training_plan& plan) {
    std::vector<std::pair<std::string, std::string>> rows{{"memory", "bytes"}, {"", ""}};
    for (const memory_need& part : plan.memory.parts()) rows.emplace_back(part.name, format_bytes(part.bytes));
    rows.emplace_back("sum", format_bytes(plan.memory_bytes()));
    rows.emplace_back("budget", format_bytes(plan.budget));
    std::size_t names = 0, sizes = 0;
    for (const auto& [name, size] : rows) {
        names = std::max(names, name.size());
        sizes = std::max(sizes, size.size());
    }
    rows[1] = {std::string(names, '-'), std::string(sizes, '-')};
    std::string text;
    for (const auto& [name, size] : rows)
        text += name + std::string(names - name.size() + 2 + sizes - size.size(), ' ') + size + "\n";
    return text;
}

} // namespace detail

GNEISS_INLINE training_plan::training_plan(const plan_choice& by, const row_partitioning& stored)
    : choice(by),
      partitioning(stored.in(by.partitions)),
      in_memory(by.in_memory),
      slots(by.slots) {
    prefetch = keeps_all() ? 0 : detail::prefetch_slots(by.prefetch);
}

GNEISS_INLINE std::uint64_t training_plan::slot_bytes() const {
    return layout.floats() == 0 ? 0 : embedding_file::slot_bytes_of(partitioning, layout);
}

GNEISS_INLINE partition_buffer_options training_plan::buffer_options() const {
    return {.resident_partitions = in_memory ? partitioning.partitions : slots, .prefetch = prefetch};
}

GNEISS_INLINE memory_need training_plan::buffer_need() const {
    return layout.floats() == 0 ? memory_need{} : partition_buffer::need(partitioning, layout, buffer_options());
}

GNEISS_INLINE std::uint64_t training_plan::best_bytes() const {
    return layout.floats() == 0 ? 0 : embedding_file::slot_bytes_of(partitioning, {layout.dim, 0});
}

GNEISS_INLINE std::uint64_t training_plan::state_nodes() const noexcept {
    return keeps_all() ? partitioning.nodes : std::min(partitioning.nodes, slots * partitioning.capacity());
}

GNEISS_INLINE void training_plan::add_evaluation(std::uint64_t least, double share, std::uint64_t most) {
    const std::uint64_t used = memory_bytes(), left = used < budget ? budget - used : 0;
    const auto more = std::min(static_cast<std::uint64_t>(share * static_cast<double>(left)), most);
    const std::uint64_t part = least == 0 ? 0 : std::max(least - std::min(least, freed_bytes()), more);
    memory.reserve({"evaluation", part});
    if (alone_bytes > part) memory.reserve({"a batch alone", alone_bytes - part});
    evaluation_bytes = freed_bytes() + std::max(part, alone_bytes);
}

GNEISS_INLINE void training_plan::add_batches(
    std::size_t in_flight, bool fixed, const batch_needs& of, std::uint64_t between) {
    const std::uint64_t with_rows = batches_with_rows(in_flight);
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
        train_loop_options{.batches_in_flight = batches, .batch_bytes = sample_bytes, .row_bytes = row_bytes}.need());
}

GNEISS_INLINE bool training_plan::splits_edges() const {
    return !keeps_all() && order && detail::trains_edges(order(0));
}

GNEISS_INLINE std::string training_plan::bias() const {
    if (!splits_edges()) return {};
    return 4 * slots >= partitioning.partitions ? "low" : 8 * slots >= partitioning.partitions ? "moderate" : "high";
}

GNEISS_INLINE std::uint64_t training_plan::reads(const epoch_plan& states) const {
    std::uint64_t bytes = 0;
    if (!in_memory) {
        bytes = detail::row_cost(*this, states).read_bytes;
        if (detail::trains_edges(states)) bytes += edges_read;
    }
    if (further_reads && slots < partitioning.partitions) bytes += further_reads(states);
    return bytes;
}

GNEISS_INLINE plan_traffic training_plan::traffic(std::uint64_t epoch) const {
    const epoch_plan states = order(epoch);
    const plan_cost cost = detail::row_cost(*this, states);
    plan_traffic result{.states = states.size(), .swaps = cost.swaps, .read_bytes = reads(states)};
    if (detail::trains_edges(states)) result.swap_bound = swap_lower_bound(partitioning.partitions, slots);
    result.written_bytes = in_memory ? 0 : cost.written_bytes;
    return result;
}

GNEISS_INLINE std::string to_string(const training_plan& plan) {
    const auto number = [](auto value) { return std::to_string(value); };
    std::string text = "nodes: " + number(plan.partitioning.nodes);
    if (plan.layout.floats() != 0)
        text = "rows: " + number(plan.partitioning.nodes) + " of " + number(plan.layout.floats()) + " floats, " +
            format_bytes(plan.embedding_bytes());
    if (plan.layout.floats() != 0 || plan.order)
        text += " (" + number(plan.partitioning.partitions) + " partitions" +
            (plan.in_memory ? ", in memory)"
                            : ", " + number(plan.slots) + " in the buffer + " + number(plan.prefetch) +
                        " to load ahead and write behind)");
    else if (plan.in_memory)
        text += ", in memory";
    text += "\n" + detail::table_of_parts(plan);
    if (plan.batches > 1)
        text += "batches: " + number(plan.batches) + " in flight; a batch misses at most " + number(plan.batches - 1) +
            " updates\n";
    if (!plan.in_memory && plan.order) {
        const plan_traffic of = plan.traffic();
        text += "an epoch: " + number(of.states) + " states, " + number(of.swaps) + " swaps" +
            (of.swap_bound ? " (no order needs fewer than " + number(*of.swap_bound) + ")" : "") + ", reads " +
            format_bytes(of.read_bytes) + ", writes " + format_bytes(of.written_bytes) + "\n";
    }
    if (plan.runner_up && plan.order) {
        const plan_choice& other = plan.runner_up->choice;
        text += "the runner-up: " + number(other.partitions) + " partitions, " + number(other.slots) +
            " in the buffer + " + number(detail::prefetch_slots(other.prefetch)) + ": " +
            number(plan.runner_up->swaps) + " swaps, reads " + format_bytes(plan.runner_up->read_bytes) + " of rows" +
            (plan.further_reads ? ", features and graph" : "") + "\n";
    }
    if (const std::string bias = plan.bias(); !bias.empty())
        text += "bias: " + bias + " (a state holds " + number(plan.slots) + " of " +
            number(plan.partitioning.partitions) + " partitions)\n";
    if (!plan.in_memory && plan.in_memory_bytes > plan.budget)
        text += "the plan in memory needs " + format_bytes(plan.in_memory_bytes) +
            ", more than the budget: partitions stay on disk\n";
    if (plan.disk_bytes != 0) text += "disk: at most " + format_bytes(plan.disk_bytes) + "\n";
    return text;
}

} // namespace gneiss
