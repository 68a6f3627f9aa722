#include <gneiss/storage/adjacency/mapped_csc.hpp>

#include <doctest/doctest.h>

#include <fstream>

#include <gneiss/core/executor/tbb.hpp>
#include <storage/csc.hpp>

namespace test_storage_adjacency_mapped_csc {

using namespace gneiss;
using test::stored_lists;

TEST_CASE("mapped lists and those loaded whole give the same samples as a graph in memory, bit for bit") {
    for (const auto& [nodes, partitions, edges] :
        {std::tuple(std::uint64_t{3000}, 5U, std::size_t{60000}), {1, 1, 40}, {10, 4, 0}}) {
        const stored_lists data(nodes, partitions, edges == 0 ? std::vector<edge>{} : test::lists_edges(nodes, edges));
        memory_budget budget;
        const mapped_csc mapped(data.files, budget);
        const memory_csc whole(data.files, budget);
        test::check_equal_lists(data.graph, mapped);
        test::check_equal_lists(data.graph, whole);
        const auto expected = test::samples_of(data.graph);
        CHECK((test::samples_of(mapped, tbb_executor(2)) == expected));
        CHECK((test::samples_of(whole, tbb_executor(2)) == expected));
        mapped.verify();
    }
}

TEST_CASE("a flipped bit is found by loading and by verify, and a neighbor out of range is an error") {
    const stored_lists data(300, 3, test::lists_edges(300, 4000));
    memory_budget budget;
    std::fstream file(data.files.in / "neighbours.npy", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 4 * 2000 + 3);
    file.put('\x10');
    file.close();
    CHECK_THROWS_AS(memory_csc(data.files, budget), error);
    const mapped_csc mapped(data.files, budget);
    CHECK_THROWS_AS(mapped.verify(), error);
    CHECK_THROWS_AS(test::check_equal_lists(data.graph, mapped), error);
    CHECK(budget.used() < 10000); // failed loads release their charges
}

} // namespace test_storage_adjacency_mapped_csc
