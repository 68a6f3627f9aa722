#include <gneiss/io/split_overlap.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "import/support.hpp"
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>

namespace test_io_split_overlap {

using namespace gneiss;

TEST_CASE("pairs in two splits are counted like a brute force, whatever the memory") {
    for (const bool undirected : {false, true})
        for (const std::uint64_t edges :
            {std::uint64_t{60}, std::uint64_t{300'000}}) { // 300,000: several tables of 1 MiB
            const test::temporary_directory at;
            random_stream draw(random_key{edges + undirected, random_domain::user});
            const std::uint64_t nodes = edges / 20 + 5;
            using triple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
            std::map<triple, std::set<std::size_t>> splits;
            import_options options;
            const std::array names{"train.tsv", "valid.tsv", "test.tsv"};
            for (std::size_t split = 0; split < 3; ++split) {
                std::ofstream out(at.path() / names[split]);
                for (std::uint64_t i = 0; i < edges / 3; ++i) {
                    std::uint64_t u = draw.below(nodes), r = draw.below(3), v = draw.below(nodes);
                    out << u << '\t' << r << '\t' << v << '\n';
                    if (undirected && u > v) std::swap(u, v);
                    splits[{u, r, v}].insert(split);
                }
                out.close();
                options.sources.push_back({.path = at.path() / names[split], .split = static_cast<edge_split>(split)});
            }
            options.out = at.path() / "out";
            options.ids = id_kind::integer;
            options.partitions = 2;
            options.undirected = undirected;
            import_dataset(options, serial_executor{});
            const auto expected =
                std::ranges::count_if(splits, [](const auto& each) { return each.second.size() > 1; });
            for (const std::uint64_t memory : {std::uint64_t{1} << 20, std::uint64_t{1} << 26}) {
                const split_overlap found = find_split_overlap(dataset(options.out), memory);
                CHECK(found.undirected == undirected);
                CHECK(found.pairs == static_cast<std::uint64_t>(expected));
            }
            CHECK(expected > 0);
        }
}

TEST_CASE("a graph whose directions are in different splits is recognized as undirected") {
    const test::temporary_directory at;
    std::ofstream(at.path() / "train.tsv") << "0\t1\n1\t2\n2\t1\n";
    std::ofstream(at.path() / "test.tsv") << "1\t0\n";
    import_options options;
    options.sources = {{.path = at.path() / "train.tsv"}, {.path = at.path() / "test.tsv", .split = edge_split::test}};
    options.out = at.path() / "out";
    import_dataset(options, serial_executor{});
    const split_overlap found = find_split_overlap(dataset(options.out), 1 << 20);
    CHECK(found.undirected);
    CHECK(found.pairs == 1);
}

} // namespace test_io_split_overlap
