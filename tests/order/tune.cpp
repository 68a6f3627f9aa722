#include <gneiss/order/tune.hpp>

#include <gneiss/order/comet.hpp>
#include <gneiss/order/cost.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <set>

#include "support/count_absent.hpp"

namespace test_order_tune {

using namespace gneiss;
using test::count_absent;

namespace {

tuning_input random_input(random_stream& draw) {
    tuning_input input;
    input.nodes = 1000 + draw.below(draw.below(2) == 0 ? 100'000 : 100'000'000);
    input.row_bytes = draw.below(8) == 0 ? 0 : 4 * (1 + draw.below(1000));
    input.edge_bytes = draw.below(8) == 0 && input.row_bytes != 0 ? 0 : input.nodes * (1 + draw.below(400));
    input.edge_files = static_cast<std::uint32_t>(1 + draw.below(2));
    input.other_bytes = draw.below(100 << 20);
    input.read_bytes = std::uint64_t{4096} << draw.below(8);
    input.prefetch = draw.below(2) == 0;
    const std::uint64_t all = input.nodes * input.row_bytes + input.edge_bytes;
    input.memory = input.other_bytes + all / (1 + draw.below(40)) + (1 << 20);
    return input;
}

/// Returns the memory of a COMET plan, counted on its states: slots, and blocks of states loaded together.
std::uint64_t memory_by_plan(const tuning_input& input, const tuned_partitions& t) {
    const std::uint64_t p = t.partitions,
                        slot = round_up(ceil_div(input.nodes, p) * input.row_bytes, std::uint64_t{4096});
    const epoch_plan states = comet_order(t.partitions, t.resident_partitions, 1)(0);
    std::uint64_t most_blocks = 0, most_rows = 0;
    for (std::size_t s = 0; s < states.size(); ++s) {
        std::set<std::uint64_t> blocks;
        std::set<partition_id> rows;
        for (std::size_t with = s; with < std::min(states.size(), s + (input.prefetch ? 2 : 1)); ++with)
            for (const partition_id i : states[with].resident) {
                rows.insert(i);
                for (const partition_id j : states[with].resident) blocks.insert(i * p + j);
            }
        most_blocks = std::max<std::uint64_t>(most_blocks, blocks.size());
        most_rows = std::max<std::uint64_t>(most_rows, rows.size());
    }
    return most_rows * slot + most_blocks * input.edge_bytes / (p * p);
}

} // namespace

TEST_CASE("the choice fits in memory, c is even, c/2 divides p, and no smaller l would fit") {
    std::size_t chosen = 0;
    for (std::uint64_t trial = 0; trial < 400; ++trial) {
        random_stream draw(random_key{trial, random_domain::user});
        const tuning_input input = random_input(draw);
        const tuned_partitions t = tune(input);
        CAPTURE(trial);
        REQUIRE(t.row_memory + t.edge_memory + input.other_bytes <= input.memory);
        REQUIRE(t.partitions % t.logical == 0);
        REQUIRE(t.reasons.size() == 4);
        if (t.logical == 1) {
            REQUIRE(t.resident_partitions == t.partitions);
            continue;
        }
        ++chosen;
        REQUIRE(t.resident_partitions % 2 == 0);
        REQUIRE(t.resident_partitions * t.logical == 2 * t.partitions);
        REQUIRE(comet_order(t.partitions, t.resident_partitions).logical_partitions() == t.logical);
        // A larger even buffer for this p does not fit, up to the rounding of slots to pages.
        for (std::uint32_t group = t.resident_partitions / 2 + 1; group <= t.partitions; ++group)
            if (t.partitions % group == 0 && t.partitions / group > 2) {
                const tuned_partitions more = detail::sized(input, t.partitions / group, group);
                const std::uint64_t rounding =
                    (more.resident_partitions + more.prefetch) * std::uint64_t{4096} * 2 + more.row_memory / 50;
                REQUIRE(more.row_memory + more.edge_memory + rounding + input.other_bytes > input.memory);
            }
    }
    CHECK(chosen > 200);
}

TEST_CASE("a requested number of logical partitions is kept, or refused if two do not fit") {
    for (std::uint64_t trial = 0; trial < 200; ++trial) {
        random_stream draw(random_key{trial, random_domain::user});
        tuning_input input = random_input(draw);
        tuned_partitions chosen;
        try {
            chosen = tune(input);
        } catch (const over_budget&) {
            continue;
        }
        if (chosen.logical == 1) continue;
        input.logical = chosen.logical + 1 + static_cast<std::uint32_t>(draw.below(4));
        const tuned_partitions more = tune(input);
        CHECK(more.logical == input.logical);
        CHECK(more.partitions % more.logical == 0);
        CHECK(more.resident_partitions == 2 * more.partitions / more.logical);
        if (chosen.logical == 3) continue; // the minimum
        input.logical = chosen.logical - 1;
        CHECK_THROWS_AS((void)tune(input), over_budget);
    }
}

TEST_CASE("reads are at least D if memory allows, and p is the largest that does") {
    for (std::uint64_t trial = 0; trial < 400; ++trial) {
        random_stream draw(random_key{trial, random_domain::user});
        const tuning_input input = random_input(draw);
        const tuned_partitions t = tune(input);
        const double full = std::sqrt(double(input.edge_bytes) / input.edge_files / double(input.read_bytes));
        const double limit = std::min(
            input.row_bytes == 0 ? 4096.0 : double(input.nodes) * double(input.row_bytes) / double(input.read_bytes),
            input.edge_bytes == 0 ? 4096.0 : std::max(full, std::min(4 * full, 64.0))); // with 64, smaller ones suffice
        const double wanted = std::clamp(std::floor(limit), 1.0, 4096.0);
        CAPTURE(trial);
        if (t.partitions <= wanted && limit >= 1) {
            const bool small = input.edge_bytes != 0 && t.partitions > full;
            CHECK(t.smallest_read >= (small ? input.read_bytes / 16 : input.read_bytes) - 1);
            CHECK((!small || t.partitions <= 64));
            CHECK(t.partitions + t.logical > wanted); // the next multiple of l is too many
        } else
            CHECK((t.resident_partitions == 2 || limit < 1));
    }
}

TEST_CASE("more memory never gives more logical partitions, fewer slots or more traffic") {
    for (std::uint64_t trial = 0; trial < 60; ++trial) {
        random_stream draw(random_key{trial, random_domain::user});
        tuning_input input = random_input(draw);
        tuned_partitions before = tune(input);
        for (int step = 0; step < 30; ++step) {
            input.memory += input.memory / 8;
            const tuned_partitions t = tune(input);
            REQUIRE(t.logical <= before.logical);
            REQUIRE((t.logical == 1 || t.resident_partitions >= before.resident_partitions));
            REQUIRE(t.read_bytes <= before.read_bytes);
            REQUIRE(t.states <= before.states);
            before = t;
        }
    }
}

TEST_CASE("memory, states and traffic equal those of COMET's plan") {
    for (const std::uint64_t memory : {30U, 60U, 100U, 200U, 300U}) {
        for (const bool prefetch : {false, true}) {
            // 960 = 2⁶·15 partitions divide the nodes for most choices; blocks of 64 KiB on average at p = 32
            const tuning_input input{.nodes = 960 * 1024,
                .row_bytes = 400,
                .edge_bytes = 128 << 20,
                .memory = memory << 20,
                .read_bytes = 64 << 10,
                .prefetch = prefetch};
            const tuned_partitions t = tune(input);
            CAPTURE(memory);
            REQUIRE(t.logical > 2);
            const epoch_plan states = comet_order(t.partitions, t.resident_partitions, 3)(0);
            CHECK(states.size() == t.states);
            const auto near = [](std::uint64_t a, std::uint64_t b) {
                return double(a) == doctest::Approx(double(b)).epsilon(.02);
            };
            CHECK(near(t.row_memory + t.edge_memory, memory_by_plan(input, t)));
            const row_partitioning rows{input.nodes, t.partitions};
            const plan_cost cost = cost_of(states, [&](partition_id p) { return rows.size(p) * input.row_bytes; });
            std::uint64_t blocks = 0;
            for (std::size_t s = 0; s < states.size(); ++s) {
                const std::uint64_t now = states[s].resident.size(),
                                    fresh = s == 0 ? now : count_absent(states[s].resident, states[s - 1].resident);
                blocks += now * now - (now - fresh) * (now - fresh);
            }
            CHECK(near(t.written_bytes, cost.written_bytes));
            CHECK(near(t.read_bytes, cost.read_bytes + blocks * input.edge_bytes / t.partitions / t.partitions));
        }
    }
}

TEST_CASE("a graph that fits stays resident") {
    const tuned_partitions t = tune({.nodes = 10000, .row_bytes = 400, .edge_bytes = 8 << 20, .memory = 64 << 20});
    CHECK(t.logical == 1);
    CHECK(t.resident_partitions == t.partitions);
    CHECK(t.states == 1);
    CHECK(t.read_bytes == 10000 * 400 + (8 << 20));
    CHECK(t.written_bytes == 10000 * 400);
    CHECK(
        tune({.nodes = 10000, .row_bytes = 400, .memory = 64 << 20, .access = row_use::read_only}).written_bytes == 0);
}

TEST_CASE("the reasons contain the numbers; an impossible budget is refused with its parts") {
    const tuned_partitions t = tune(
        {.nodes = 1 << 20, .row_bytes = 800, .edge_bytes = 512 << 20, .memory = 400 << 20, .other_bytes = 50 << 20});
    CHECK(t.reasons[0].starts_with("p = " + std::to_string(t.partitions) + ":"));
    CHECK(t.reasons[1].starts_with("c = " + std::to_string(t.resident_partitions) + ":"));
    CHECK(t.reasons[2].starts_with("l = " + std::to_string(t.logical) + " "));
    CHECK(t.reasons[3].find("reads") != std::string::npos);
    CHECK_THROWS_AS(
        (void)tune({.nodes = 1 << 20, .row_bytes = 800, .memory = 10 << 20, .other_bytes = 10 << 20}), over_budget);
    CHECK_THROWS_AS((void)tune({.nodes = 0, .row_bytes = 800, .memory = 10 << 20}), error);
    CHECK_THROWS_AS((void)tune({.nodes = 10, .memory = 10 << 20}), error);
}

} // namespace test_order_tune
