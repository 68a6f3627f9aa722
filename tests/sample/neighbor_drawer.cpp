#include <gneiss/sample/neighbor_drawer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <sample/graphs.hpp>
#include <support/error_code.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace test_sample_neighbor_drawer {

using namespace gneiss;

namespace {

const serial_executor serial;
constexpr batch_key key{4, {2, 1, 7}};

/// Lists of the nodes of one owner alone, out of those of a graph.
struct owned_lists {
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 16;

    const csr_graph<>& all;
    std::uint32_t owners, mine;

    [[nodiscard]] std::uint64_t nodes() const { return all.nodes(); }
    [[nodiscard]] std::uint64_t id_of(node_id v) const { return v; }
    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        for (const node_id v : ids) REQUIRE(v % owners == mine);
        all.degrees(ids, d, to);
    }
    void neighbors_at(const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        all.neighbors_at(request, answer);
    }
};
static_assert(neighbor_source<owned_lists>);

/// Samples a batch hop by hop: each owner draws for its nodes among those of the hop.
template <class Writer>
void put_together(Writer& writer, const csr_graph<>& graph, std::uint32_t owners, std::span<const node_id> seeds,
    neighbor_drawer<>& drawer) {
    writer.begin(graph.nodes(), seeds);
    for (std::size_t hop = 0; hop < drawer.options().fanout.size(); ++hop) {
        const std::vector<node_id> nodes(writer.nodes().begin(), writer.nodes().end());
        std::vector<std::vector<node_id>> neighbors(nodes.size());
        std::vector<std::vector<relation_id>> relations(nodes.size());
        std::vector<std::vector<edge_index>> edge_ids(nodes.size());
        for (std::uint32_t owner = 0; owner < owners; ++owner) {
            std::vector<node_id> mine;
            std::vector<std::size_t> places;
            for (std::size_t i = nodes.size(); i-- > 0;) // in another order than that of the sample
                if (nodes[i] % owners == owner) {
                    mine.push_back(nodes[i]);
                    places.push_back(i);
                }
            drawer.draw(key, hop, owned_lists{graph, owners, owner}, mine, serial);
            for (std::size_t k = 0; k < mine.size(); ++k)
                for (std::size_t e = drawer.offsets()[k]; e < drawer.offsets()[k + 1]; ++e) {
                    neighbors[places[k]].push_back(drawer.neighbors()[e]);
                    if (drawer.options().relations) relations[places[k]].push_back(drawer.relations()[e]);
                    if (drawer.options().edge_ids) edge_ids[places[k]].push_back(drawer.edge_ids()[e]);
                }
        }
        std::vector<std::uint32_t> offsets{0};
        for (const auto& list : neighbors) offsets.push_back(offsets.back() + static_cast<std::uint32_t>(list.size()));
        const auto joined = [](const auto& lists) {
            auto all = typename std::remove_cvref_t<decltype(lists)>::value_type();
            for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
            return all;
        };
        writer.add_hop(offsets, joined(neighbors), joined(relations), joined(edge_ids));
    }
}

} // namespace

TEST_CASE("draws of several owners, put together, are the samples of one process, array by array") {
    neighbor_sample_writer<> layered;
    dense_sample_writer<> dense;
    for (const std::uint64_t nodes : {1U, 10U, 300U}) {
        const csr_graph<> graph = test::whole_graph(nodes, test::hub_edges(nodes, nodes * 6, nodes));
        for (const char* fanout : {"3", "2,4,1", "all,2", "2+3,0+1", "40,all+1"})
            for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both})
                for (const bool flag : {false, true})
                    for (const std::uint32_t owners : {1U, 2U, 5U}) {
                        CAPTURE(fanout);
                        CAPTURE(owners);
                        const neighbor_options options{parse_fanout(fanout, d), flag, flag, flag};
                        neighbor_drawer<> drawer(options, 3);
                        const auto seeds = test::some_nodes(nodes, static_cast<std::size_t>(nodes + 2) / 3, owners);
                        mini_batch_arena theirs, ours;
                        (void)neighbor_sampler<>(options, 3).sample(key, graph, std::span(seeds), serial, theirs);
                        put_together(layered, graph, owners, seeds, drawer);
                        (void)layered.write(key, ours);
                        CHECK((test::contents(ours) == test::contents(theirs)));
                        (void)dense_sampler<>(options, 3).sample(key, graph, std::span(seeds), serial, theirs);
                        put_together(dense, graph, owners, seeds, drawer);
                        (void)dense.write(key, ours);
                        CHECK((test::contents(ours) == test::contents(theirs)));
                    }
    }
}

TEST_CASE("a drawer refuses hops beyond the fan-out and nodes beyond the graph") {
    const csr_graph<> graph = test::whole_graph(10, test::hub_edges(10, 60, 1));
    neighbor_drawer<> drawer({.fanout = parse_fanout("2,2")}, 1);
    const std::vector<node_id> good{9}, bad{3, 10};
    CHECK_NOTHROW(drawer.draw(key, 1, graph, good, serial));
    CHECK_THROWS_WITH_AS(drawer.draw(key, 2, graph, good, serial), "hop 2 of a fan-out of 2 hops", error);
    CHECK_THROWS_WITH_AS(drawer.draw(key, 1, graph, bad, serial), "node 10 of a graph of 10 nodes", error);
    CHECK(test::code_of([] { (void)neighbor_drawer<>({.fanout = {}}, 1); }) == errc::invalid_argument);
}

} // namespace test_sample_neighbor_drawer
