#include <gneiss/superbatch/superbatch_sampler.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <storage/csc.hpp>
#include <storage/read_faults.hpp>
#include <storage/support.hpp>

namespace test_sampling_superbatch_sampler {

using namespace gneiss;
using test::stored_lists;

namespace {

constexpr std::uint64_t nodes = 3000, per_batch = 30, seed = 6;

engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}
neighbor_options hops() { return {parse_fanout("6,5", neighbor_direction::in), false, false, false}; }

node_batches batches_of(std::uint64_t count) {
    return {test::some_nodes(nodes, static_cast<std::size_t>(count * per_batch), 2), per_batch, seed, 0, 0};
}

template <class Sampler>
std::vector<std::string> in_memory(const stored_lists& data, const node_batches& batches) {
    std::vector<std::string> all;
    Sampler sampler(hops(), seed);
    mini_batch_arena arena;
    std::vector<node_id> seeds;
    for (std::uint64_t k = 0; k < batches.size(); ++k) {
        batches.choose(k, seeds);
        (void)sampler.sample({0, {0, 0, k}}, data.graph, std::span<const node_id>(seeds), serial_executor{}, arena);
        all.push_back(test::contents(arena));
    }
    return all;
}

/// Returns all samples by a `superbatch_sampler`, in superbatches of `superbatch` batches.
std::vector<std::string> ahead(superbatch_sampler& sampler, const node_batches& batches, std::uint64_t superbatch) {
    std::vector<std::string> all;
    mini_batch_arena arena;
    std::vector<node_id> seeds;
    for (std::uint64_t first = 0; first < batches.size(); first += superbatch) {
        const std::uint64_t end = std::min(batches.size(), first + superbatch);
        for (std::uint64_t k = first; k < end; ++k) {
            const bool read = sampler.holds(0, k) || sampler.read(0, batches, k, end, {}); // may throw
            REQUIRE(read);
            REQUIRE(sampler.holds(0, k));
            batches.choose(k, seeds);
            (void)sampler.sample(k, seeds, arena);
            all.push_back(test::contents(arena));
        }
        sampler.finish();
        CHECK_FALSE(sampler.holds(0, end - 1));
    }
    return all;
}

template <class Sampler = neighbor_sampler<>>
std::unique_ptr<superbatch_sampler> sampler_on(
    const disk_csc& graph, const superbatch_sampler_options& options, executor_ref on, memory_budget& budget) {
    return std::make_unique<superbatch_sampler>(graph, 2, [] { return Sampler(hops(), seed); }, options, on, budget);
}

template <class Sampler>
void check_all(const stored_lists& data) {
    const node_batches batches = batches_of(20);
    const auto expected = in_memory<Sampler>(data, batches);
    const serial_executor one;
    const tbb_executor three(3);
    for (const auto& [name, engines] : storage_test::all_engines()) {
        if (name == "memory") continue; // the lists are in the file system
        memory_budget all;
        const disk_csc graph({data.files.in, {}}, engines, all);
        for (const std::uint64_t memory : {100U, 3000U, 12000U, 40000U, 4000000U})
            for (const gather_way way : {gather_way::scan, gather_way::automatic})
                for (const std::uint64_t superbatch : {1U, 7U, 20U}) {
                    CAPTURE(name);
                    CAPTURE(memory);
                    CAPTURE(superbatch);
                    memory_budget budget(memory);
                    const executor_ref on = superbatch == 7 ? executor_ref(three) : executor_ref(one);
                    const auto sampler = sampler_on<Sampler>(graph, {.way = way, .memory = memory}, on, budget);
                    CHECK((ahead(*sampler, batches, superbatch) == expected));
                    CHECK(budget.used() == 0);
                }
    }
}

} // namespace

TEST_CASE("samples of superbatches equal those in memory, for any memory, way, engine and number of threads") {
    const stored_lists data(nodes, 5, test::lists_edges(nodes, 60000));
    check_all<neighbor_sampler<>>(data);
    check_all<dense_sampler<>>(data);
}

TEST_CASE("passes read what they cost by the model, and so do batches alone") {
    const stored_lists data(nodes, 5, test::lists_edges(nodes, 60000));
    const node_batches batches = batches_of(12);
    const serial_executor on;
    memory_budget budget;
    const disk_csc graph({data.files.in, {}}, threads(), budget), alone({data.files.in, {}}, threads(), budget);
    std::vector<neighbor_choice> choices;
    const superbatch_sampler_options options{.chosen = [&](const neighbor_choice& c) { choices.push_back(c); }};
    const auto sampler = sampler_on(graph, options, on, budget);
    CHECK((ahead(*sampler, batches, 12) == in_memory<neighbor_sampler<>>(data, batches)));
    REQUIRE(choices.size() == 1);
    const neighbor_choice& choice = choices.front();
    CHECK(choice.groups == 1);
    CHECK(choice.batches == 12);
    CHECK(choice.scanned);
    CHECK(choice.scan.requests == graph.statistics().io.reads);
    CHECK(choice.scan.bytes == graph.statistics().io.read_bytes);
    CHECK(sampler->scanned().read_bytes == choice.scan.bytes);
    CHECK(choice.scan.bytes <= 2 * 60000 * sizeof(node_id));
    neighbor_sampler<> one(hops(), seed);
    mini_batch_arena arena;
    std::vector<node_id> seeds;
    for (std::uint64_t k = 0; k < 12; ++k) {
        batches.choose(k, seeds);
        (void)one.sample({0, {0, 0, k}}, alone, std::span<const node_id>(seeds), on, arena);
    }
    CHECK(choice.random.requests == alone.statistics().io.reads);
    CHECK(choice.random.bytes == alone.statistics().io.read_bytes);
    CHECK(choice.random.bytes > 3 * choice.scan.bytes);
    CHECK(choice.scan_seconds < choice.random_seconds);
    CHECK(graph.statistics().neighbors == alone.statistics().neighbors);
}

TEST_CASE("the rest of a superbatch is read at random once passes save nothing, unless they are asked for") {
    const stored_lists data(nodes, 5, test::lists_edges(nodes, 60000));
    const node_batches batches = batches_of(20);
    const auto expected = in_memory<neighbor_sampler<>>(data, batches);
    const serial_executor on;
    memory_budget budget;
    const disk_csc graph({data.files.in, {}}, threads(), budget,
        {.coalesce_bytes = 16 << 10, .request_bytes = 256 << 10, .requests = 32});
    for (const gather_way way : {gather_way::scan, gather_way::automatic}) {
        std::vector<neighbor_choice> choices;
        // Memory for one batch: a pass reads for it alone.
        const superbatch_sampler_options options{
            .way = way, .memory = 8000, .batch_bytes = 8000, .chosen = [&](const neighbor_choice& c) {
                choices.push_back(c);
            }};
        const auto sampler = sampler_on(graph, options, on, budget);
        CHECK((ahead(*sampler, batches, 10) == expected));
        REQUIRE(choices.size() == 2);
        for (const neighbor_choice& c : choices) {
            CHECK(c.scanned == (way == gather_way::scan));
            CHECK(c.batches == (way == gather_way::scan ? 10 : 1));
        }
    }
}

TEST_CASE("too little memory means reads at random, and an error if passes are asked for") {
    const stored_lists data(nodes, 5, test::lists_edges(nodes, 60000));
    const node_batches batches = batches_of(5);
    const serial_executor on;
    memory_budget all, tight(1000);
    const disk_csc graph({data.files.in, {}}, threads(), all);
    const auto chosen = sampler_on(graph, {.memory = 100000}, on, tight);
    CHECK((ahead(*chosen, batches, 5) == in_memory<neighbor_sampler<>>(data, batches)));
    CHECK(chosen->scanned().read_bytes == 0);
    const auto scan = sampler_on(graph, {.way = gather_way::scan, .memory = 100000}, on, tight);
    CHECK_THROWS_AS((void)scan->read(0, batches, 0, 5, {}), over_budget);
}

TEST_CASE("after a failed read the error is typed, after one that is repeated samples are right, and so is the next "
          "superbatch") {
    const stored_lists data(nodes, 5, test::lists_edges(nodes, 60000));
    const node_batches batches = batches_of(6);
    const auto expected = in_memory<neighbor_sampler<>>(data, batches);
    const serial_executor on;
    const std::uint64_t struck =
        storage_test::sweep_read_faults(4, [&](const engine_factory& engines, bool sticky, const auto& attempt) {
            memory_budget budget;
            const disk_csc graph(
                {data.files.in, {}}, engines, budget, {.coalesce_bytes = 0, .request_bytes = 8192, .requests = 3});
            const auto sampler = sampler_on(graph, {.way = gather_way::scan, .memory = 30000}, on, budget);
            const bool met = attempt([&] {
                const auto samples = ahead(*sampler, batches, 6);
                CHECK((samples == expected));
            });
            if (!met) return;
            sampler->finish();
            if (!sticky) CHECK((ahead(*sampler, batches, 6) == expected));
        });
    CHECK(struck > 40);
}

TEST_CASE("a flipped bit is found before its neighbor is in a sample") {
    const stored_lists data(nodes, 5, test::lists_edges(nodes, 60000));
    const node_batches batches = batches_of(12);
    const auto expected = in_memory<neighbor_sampler<>>(data, batches);
    const serial_executor on;
    const auto path = data.files.in / "neighbours.npy";
    std::string whole;
    {
        std::ifstream from(path, std::ios::binary);
        whole.assign(std::istreambuf_iterator<char>(from), {});
    }
    std::uint64_t found = 0;
    for (std::size_t at = 4096 + 5; at < whole.size(); at += whole.size() / 12 + 1) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ 4);
        std::ofstream(path, std::ios::binary) << flipped;
        memory_budget budget;
        const disk_csc graph({data.files.in, {}}, threads(), budget);
        const auto sampler = sampler_on(graph, {.way = gather_way::scan}, on, budget);
        try {
            const auto samples = ahead(*sampler, batches, 12);
            CHECK((samples == expected)); // in a block that no pass reads
        } catch (const error& e) {
            CHECK(e.code() == errc::corrupt);
            ++found;
        }
    }
    CHECK(found > 8);
}

TEST_CASE("a stop ends the reading, and the sampler starts again after it") {
    const stored_lists data(nodes, 5, test::lists_edges(nodes, 60000));
    const node_batches batches = batches_of(6);
    const serial_executor on;
    memory_budget budget;
    const disk_csc graph({data.files.in, {}}, threads(), budget);
    const auto sampler = sampler_on(graph, {.way = gather_way::scan}, on, budget);
    std::stop_source stop;
    stop.request_stop();
    CHECK_FALSE(sampler->read(0, batches, 0, 6, stop.get_token()));
    CHECK_FALSE(sampler->holds(0, 0));
    CHECK((ahead(*sampler, batches, 6) == in_memory<neighbor_sampler<>>(data, batches)));
}

} // namespace test_sampling_superbatch_sampler
