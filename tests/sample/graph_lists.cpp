#include <gneiss/sample/graph_lists.hpp>

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <sample/graphs.hpp>

namespace test_sample_graph_lists {

using namespace gneiss;

namespace {

/// A graph of which only some partitions have lists.
struct partly_resident {
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 64;
    const csr_graph<>& all;
    std::vector<partition_id> there{1, 3};

    [[nodiscard]] std::uint64_t nodes() const { return all.nodes(); }
    [[nodiscard]] static std::uint64_t id_of(node_id v) { return v; }
    [[nodiscard]] std::span<const partition_id> resident() const { return there; }
    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        all.degrees(ids, d, to);
    }
    void neighbors_at(const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        all.neighbors_at(request, answer);
    }
};

} // namespace

TEST_CASE("lists without the type of their graph give the same samples, and its partitions") {
    const auto graph = test::whole_graph(500, test::hub_edges(500, 5000, 1));
    const graph_lists lists(graph);
    CHECK(lists.nodes() == 500);
    CHECK(lists.resident().empty());
    const auto seeds = test::some_nodes(500, 40, 1);
    for (const neighbor_direction d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
        neighbor_sampler<> sampler({parse_fanout("3,4", d)}, 1);
        mini_batch_arena of_graph, of_lists;
        (void)sampler.sample({}, graph, std::span<const node_id>(seeds), serial_executor(), of_graph);
        (void)sampler.sample({}, lists, std::span<const node_id>(seeds), serial_executor(), of_lists);
        CHECK((test::contents(of_graph) == test::contents(of_lists)));
    }
    const partly_resident some{graph};
    const graph_lists of_some(some);
    CHECK(std::vector(of_some.resident().begin(), of_some.resident().end()) == some.there);
}

} // namespace test_sample_graph_lists
