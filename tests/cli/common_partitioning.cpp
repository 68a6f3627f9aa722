// Covers what tests/programs/partition.cpp does not reach of the work on whole graphs that programs share.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>

#include "kit/graph/node_file.hpp"
#include "kit/graph/partitioning.hpp"
#include "support/program.hpp"

namespace test_cli_common_partitioning {

TEST_CASE("the first hubs that fit are taken, together with the edges among them") {
    const gneiss::test::workshop shop("gneiss-data");
    REQUIRE(shop.run("generate planted --nodes 300 --edges 6000 --classes 3 --num-features 2 --train-fraction .5 --out "
                     "a --quiet")
                .code == 0);
    const gneiss::dataset data(shop / "a");
    gneiss::memory_budget budget;
    const gneiss::tbb_executor executor(1);
    programs::graph_work with{
        budget, executor, [](std::string_view, std::uint64_t, std::uint64_t) {}, [](const std::string&) {}};
    const auto whole = programs::choose_hubs(data, {.count = 40, .out = shop / "all.npy"}, with);
    CHECK(whole.hubs == 40);
    CHECK(whole.memory_bytes >= 8 * 300);
    const std::vector<gneiss::node_id> ranked = programs::rows_in(shop / "all.npy", data, 1 << 20);
    const auto bytes_of = [&](std::size_t count) { // by definition
        const auto first = std::span(ranked).first(count);
        const auto among = [&](gneiss::node_id v) { return std::ranges::find(first, v) != first.end(); };
        std::uint64_t edges = 0;
        data.buckets().for_each_edge([&](std::span<const gneiss::edge> some) {
            for (const gneiss::edge& e : some)
                edges += e.source != e.destination && among(e.source) && among(e.destination);
        });
        return 100 * count + 8 * edges;
    };
    CHECK(bytes_of(40) > 40 * 100 + 8 * 40); // there are edges among them
    double share = 0;
    for (const std::uint64_t most : {std::uint64_t{99}, std::uint64_t{100}, std::uint64_t{1000}, bytes_of(20),
             bytes_of(31) - 1, std::uint64_t{1} << 30}) {
        CAPTURE(most);
        const auto some = programs::choose_hubs(data,
            {.count = 40, .out = shop / "some.npy", .most_bytes = most, .node_bytes = 100, .edge_bytes = 8}, with);
        std::size_t fit = 0;
        while (fit < 40 && bytes_of(fit + 1) <= most) ++fit;
        CHECK(some.hubs == fit);
        CHECK(programs::rows_in(shop / "some.npy", data, 1 << 20) ==
            std::vector(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(fit)));
        CHECK(some.influence_share >= share);
        share = some.influence_share;
    }
    CHECK(share == doctest::Approx(whole.influence_share));
    CHECK(budget.used() == 0);
}

} // namespace test_cli_common_partitioning
