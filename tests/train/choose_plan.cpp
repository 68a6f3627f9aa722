// The choice of a plan within a memory, against every plan there is.
#include <gneiss/train/choose_plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/train_partitions_first.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>

namespace test_train_choose_plan {

using namespace gneiss;

namespace {

const row_partitioning stored{.nodes = 1'000'000, .partitions = 8};
constexpr row_layout layout{.dim = 16, .state = 16};

training_plan states_of(const plan_choice& choice) {
    training_plan plan(choice, stored);
    plan.layout = layout;
    plan.order = make_order(choice.order, choice.partitions, choice.slots, 1);
    return plan;
}

/// Rows in a buffer, tables that grow with the square of the partitions, and batches.
training_plan plan_of(const plan_choice& choice, std::uint64_t memory) {
    training_plan plan = states_of(choice);
    plan.budget = memory;
    plan.memory.add(plan.buffer_need());
    plan.memory.reserve({"tables", std::uint64_t{64} * choice.partitions * choice.partitions});
    plan.add_batches(4, false, batch_needs::bounded({.sample = 1 << 20, .rows = 2 << 20}), 0);
    return plan;
}

const plan_maker make{.states = states_of, .with = plan_of};

std::uint64_t reads_of(const training_plan& plan) { return plan.in_memory ? 0 : plan.traffic().read_bytes; }

} // namespace

TEST_CASE("a plan with everything in memory is preferred, and more memory never reads more") {
    const training_plan all = choose_plan({}, stored, {"beta"}, make);
    CHECK(all.in_memory);
    CHECK(reads_of(all) == 0);
    std::uint64_t before = ~std::uint64_t{0};
    for (std::uint64_t memory = 4 << 20; memory < all.memory_bytes() + (8 << 20); memory += 5 << 20) {
        CAPTURE(memory);
        const training_plan plan = choose_plan({.memory = memory}, stored, {"beta"}, make);
        CHECK(plan.budget == memory);
        if (!plan.fits()) {
            CHECK(before == ~std::uint64_t{0});
            continue;
        }
        CHECK(reads_of(plan) <= before);
        before = reads_of(plan);
        if (!plan.in_memory) CHECK(plan.in_memory_bytes > memory);
    }
    CHECK(before == 0);
}

TEST_CASE("no plan of one order that fits reads over a twentieth less than the chosen one") {
    for (const std::uint64_t memory : {24 << 20, 40 << 20, 64 << 20, 100 << 20}) {
        CAPTURE(memory);
        const training_plan chosen = choose_plan({.prefetch = "2", .memory = memory}, stored, {"beta"}, make);
        REQUIRE(chosen.fits());
        std::uint64_t fewest = reads_of(chosen);
        for (std::uint32_t p = 8; p <= 128; p *= 2)
            for (std::uint32_t slots = 2; slots < p; ++slots) {
                const plan_choice choice{
                    .partitions = p, .slots = slots, .in_memory = false, .order = "beta", .prefetch = "2"};
                if (plan_of(choice, memory).fits()) fewest = std::min(fewest, reads_of(states_of(choice)));
            }
        CHECK(reads_of(chosen) <= fewest + fewest / 20);
    }
}

TEST_CASE("what is given is kept") {
    const std::uint64_t memory = 64 << 20;
    const training_plan buffer =
        choose_plan({.in_memory = false, .buffer = 3, .prefetch = "1", .memory = memory}, stored, {"beta"}, make);
    CHECK(buffer.slots == 3);
    CHECK(buffer.prefetch == 1);
    const training_plan few = choose_plan({.more_partitions = false, .memory = memory}, stored, {"beta"}, make);
    CHECK(few.partitioning.partitions == 8);
    const training_plan order =
        choose_plan({.partitions = 16, .order = "beta", .memory = memory}, stored, {"comet"}, make);
    CHECK(order.choice.order == "beta");
    CHECK(order.partitioning.partitions == 16);
    const training_plan whole = choose_plan({.in_memory = true, .memory = memory}, stored, {"beta"}, make);
    CHECK(whole.in_memory);
    CHECK(!whole.fits());
    CHECK_THROWS_WITH_AS(training_plan({.partitions = 8, .slots = 2, .in_memory = false, .prefetch = "some"}, stored),
        doctest::Contains("prefetch: is not a number"), error);
}

TEST_CASE("the largest states that fit are those of all sizes, with a leading partition or without") {
    for (const std::uint32_t partitions : {1U, 2U, 7U, 16U, 300U})
        for (const std::uint32_t least : {1U, 2U})
            for (std::uint64_t memory = 0; memory < 320; memory += 13) {
                if (least > partitions) continue;
                CAPTURE(partitions);
                CAPTURE(least);
                CAPTURE(memory);
                const auto with = [&](std::uint32_t slots) {
                    training_plan plan;
                    plan.slots = slots;
                    plan.memory.reserve({"states", slots});
                    plan.memory.reserve({"rest", 5});
                    return plan;
                };
                std::uint32_t most = least;
                for (std::uint32_t slots = least; slots <= partitions; ++slots)
                    if (with(slots).memory_bytes() <= memory) most = slots;
                const training_plan chosen = choose_largest_states(partitions, least, memory, with);
                CHECK(chosen.slots == most);
                CHECK(chosen.in_memory_bytes == (most == partitions ? 0 : partitions + 5));
            }
}

TEST_CASE("of plans with several states of nodes, the one with the largest states, though it reads more edges") {
    const auto states = [](const plan_choice& choice) {
        training_plan plan(choice, stored);
        plan.order = [choice](std::uint64_t epoch) {
            return train_partitions_first(choice.partitions, choice.slots, choice.partitions, 1, epoch).states;
        };
        plan.further_reads = [p = choice.partitions](const epoch_plan& of) { // 64 MB of features, 64 MB of edges
            const std::uint64_t features = (64 << 20) / p, edges = features / p;
            std::uint64_t bytes = 0;
            for (const buffer_state& state : of) bytes += state.resident.size() * state.resident.size() * edges;
            return bytes + cost_of(of, features).read_bytes;
        };
        return plan;
    };
    const auto with = [&](const plan_choice& choice, std::uint64_t memory) {
        training_plan plan = states(choice);
        plan.budget = memory;
        plan.memory.reserve({"features", (std::uint64_t{64} << 20) * choice.slots / choice.partitions});
        return plan;
    };
    const auto chosen = [&](std::uint64_t memory) {
        return choose_plan(
            {.partitions = 16, .memory = memory}, stored, {"training-first"}, {.states = states, .with = with});
    };
    CHECK(chosen(9 << 20).slots == 2);
    const training_plan quarter = chosen(17 << 20), half = chosen(33 << 20);
    CHECK(quarter.slots == 4);
    CHECK(half.slots == 8);
    CHECK(quarter.traffic().read_bytes > chosen(9 << 20).traffic().read_bytes);
}

TEST_CASE("a plan prints rows, parts with their sum, traffic and bias") {
    const training_plan plan = choose_plan({.partitions = 8, .buffer = 2, .memory = 64 << 20}, stored, {"beta"}, make);
    const std::string text = to_string(plan);
    CAPTURE(text);
    for (const char* part : {"rows: 1000000 of 32 floats", "2 in the buffer", "partition buffer", "tables", "batches",
             "sum", "budget", "64.0 MiB", "no order needs fewer than", "bias: low"})
        CHECK(text.find(part) != std::string::npos);
    CHECK(plan.bias() == "low");
    CHECK(choose_plan({}, stored, {"beta"}, make).bias().empty());
}

} // namespace test_train_choose_plan
