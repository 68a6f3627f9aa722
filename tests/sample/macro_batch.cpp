#include <gneiss/sample/macro_batch.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

namespace test_sample_macro_batch {

using namespace gneiss;

namespace {

constexpr std::uint64_t nodes = 300;

/// A random graph with hubs, parallel edges and isolated nodes; two relations.
csr_graph<> graph() {
    const random_key key{7, random_domain::user};
    std::vector<edge> edges;
    for (std::size_t i = 0; i < 4000; ++i) {
        const auto draw = [&](std::uint64_t k, std::uint64_t bound) { return below(key.with(i)[k], bound); };
        edges.push_back({.source = static_cast<node_id>(draw(0, nodes - 20)),
            .relation = static_cast<relation_id>(draw(3, 2)),
            .destination = static_cast<node_id>(draw(1, 1 + draw(2, nodes - 20)))});
    }
    return {csr<>::from_edges(nodes, neighbor_direction::in, {.relations = true},
                [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{}};
}

const batch_key large_key{3, {1, 0, ~std::uint64_t{0}}}, key{3, {1, 0, 4}};

std::vector<node_id> every(node_id step) {
    std::vector<node_id> result;
    for (node_id v = 0; v < nodes; v += step) result.push_back(v);
    return result;
}

/// Drawn lists of nodes, hop by hop, by id: of the sample of a large batch.
struct drawn_lists {
    std::vector<std::map<node_id, std::vector<std::pair<node_id, relation_id>>>> hops;

    explicit drawn_lists(const neighbor_sample<>& of) {
        std::size_t first = 0;
        for (std::size_t h = 0; h < of.hops(); ++h) {
            auto& lists = hops.emplace_back();
            for (std::size_t v = 0; v < of.node_counts[h]; ++v)
                for (std::uint32_t e = of.offsets[first + v]; e < of.offsets[first + v + 1]; ++e)
                    lists[of.nodes[v]].emplace_back(
                        of.nodes[of.neighbors[of.edge_counts[h] + e]], of.relations[of.edge_counts[h] + e]);
            first += of.node_counts[h] + std::size_t{1};
        }
    }
};

/// The sample of a batch as ids and relations, hop by hop, in order.
std::vector<std::vector<std::pair<node_id, relation_id>>> edges_of(const neighbor_sample<>& of) {
    std::vector<std::vector<std::pair<node_id, relation_id>>> result;
    for (std::size_t h = 0; h < of.hops(); ++h) {
        auto& edges = result.emplace_back();
        for (std::size_t e = of.edge_counts[h]; e < of.edge_counts[h + 1]; ++e)
            edges.emplace_back(of.nodes[of.neighbors[e]], of.relations.empty() ? 0 : of.relations[e]);
    }
    return result;
}

struct made {
    mini_batch_arena scratch{}, arena{};
    neighbor_sample<> drawn{};
    macro_batch macro{};

    template <executor E>
    made(const csr_graph<>& of, std::vector<hop_fanout> fanout, second_stage form, const E& on,
        std::span<const node_id> large) {
        neighbor_sampler<> first({.fanout = std::move(fanout), .relations = true}, 11);
        drawn = first.sample(large_key, of, large, on, scratch);
        macro_batch_builder builder;
        macro = macro_batch(builder.build(drawn, form, on, arena));
    }
};

} // namespace

TEST_CASE("a batch of a macro-batch with the lists of each hop is a brute-force slice of the first stage's sample") {
    const csr_graph<> of = graph();
    const auto large = every(3), seeds = every(12);
    const serial_executor on;
    made m(of, parse_fanout("5,4,2"), second_stage::hops, on, large);
    CHECK(std::ranges::equal(m.macro.large_batch(), large));
    const drawn_lists lists(m.drawn);
    second_stage_sampler second({.fanout = parse_fanout("1,1,1"), .relations = true}, 11);
    mini_batch_arena arena;
    const macro_batch_sample slice = second.sample(key, m.macro, seeds, on, arena);
    CHECK(slice.key == key);
    REQUIRE(slice.hops() == 3);
    std::vector<node_id> known = seeds;
    for (std::size_t h = 0; h < 3; ++h) {
        std::vector<std::pair<node_id, relation_id>> expected;
        for (const node_id v : std::vector(known)) {
            const auto found = lists.hops[h].find(v);
            if (found == lists.hops[h].end()) continue;
            expected.insert(expected.end(), found->second.begin(), found->second.end());
        }
        CHECK(edges_of(slice)[h] == expected);
        for (const auto& [id, relation] : expected)
            if (std::ranges::find(known, id) == known.end()) known.push_back(id);
        CHECK(slice.node_counts[h + 1] == known.size());
    }
    CHECK(std::ranges::equal(slice.nodes, known));
    REQUIRE(slice.numbers.size() == known.size());
    for (std::size_t v = 0; v < known.size(); ++v) CHECK(m.macro.id_of(slice.numbers[v]) == known[v]);
}

TEST_CASE("the only lists of a macro-batch are the union of those that the hops drew") {
    const csr_graph<> of = graph();
    const tbb_executor on(3);
    made m(of, parse_fanout("5,4,3"), second_stage::lists, on, every(2));
    const drawn_lists lists(m.drawn);
    std::uint64_t edges = 0;
    for (std::uint32_t v = 0; v < m.macro.nodes(); ++v) {
        std::map<std::pair<node_id, relation_id>, std::size_t> expected; // the most of any hop
        for (const auto& hop : lists.hops) {
            std::map<std::pair<node_id, relation_id>, std::size_t> counts;
            if (const auto found = hop.find(m.macro.ids()[v]); found != hop.end())
                for (const auto& to : found->second) ++counts[to];
            for (const auto& [to, count] : counts) expected[to] = std::max(expected[to], count);
        }
        std::vector<std::pair<node_id, relation_id>> all, found;
        for (const auto& [to, count] : expected) all.insert(all.end(), count, to);
        edges += all.size();
        if (v >= m.macro.listed(0)) {
            CHECK(all.empty());
            continue;
        }
        const macro_batch::list list = m.macro.of(0, v);
        for (std::size_t e = 0; e < list.neighbors.size(); ++e)
            found.emplace_back(m.macro.ids()[list.neighbors[e]], list.relations[e]);
        CHECK(found == all);
    }
    CHECK(m.macro.edges() == edges);
}

TEST_CASE("batches drawn from complete lists are the samples of the whole graph, whoever copied the macro-batch") {
    const csr_graph<> of = graph();
    const auto seeds = every(15);
    for (const std::size_t threads : {1U, 3U}) {
        const tbb_executor on(threads);
        made m(of, parse_fanout("all,all,all"), second_stage::lists, on, every(3));
        aligned_buffer<std::byte, mini_batch::alignment> elsewhere(m.macro.bytes());
        std::memcpy(elsewhere.data(), m.arena.reserve(m.arena.reserved()).data(), elsewhere.size());
        const macro_batch copy(mini_batch::attach(std::span<const std::byte>(elsewhere.data(), elsewhere.size())));
        mini_batch_arena arena, other;
        const neighbor_options hops{.fanout = parse_fanout("4,3,2"), .relations = true};
        second_stage_sampler second(hops, 23);
        neighbor_sampler<> whole(hops, 23);
        const auto found = second.sample(key, copy, seeds, on, arena);
        const auto expected = whole.sample(key, of, seeds, on, other);
        CHECK(edges_of(found) == edges_of(expected));
        CHECK(std::ranges::equal(found.nodes, expected.nodes));
        CHECK(std::ranges::equal(found.node_counts, expected.node_counts));
        CHECK(std::ranges::equal(found.offsets, expected.offsets));
        CHECK(std::ranges::equal(found.neighbors, expected.neighbors));
    }
}

TEST_CASE("the lists of one hop are drawn from, hop by hop, not sliced") {
    const csr_graph<> of = graph();
    made m(of, parse_fanout("all"), second_stage::lists, serial_executor{}, every(1));
    CHECK(!m.macro.sliced());
    mini_batch_arena arena, other;
    const neighbor_options hops{.fanout = parse_fanout("4,3"), .relations = true};
    second_stage_sampler second(hops, 23);
    neighbor_sampler<> whole(hops, 23);
    const auto found = second.sample(key, m.macro, every(15), serial_executor{}, arena);
    const auto expected = whole.sample(key, of, std::span<const node_id>(every(15)), serial_executor{}, other);
    CHECK(std::ranges::equal(found.nodes, expected.nodes));
    CHECK(std::ranges::equal(found.neighbors, expected.neighbors));
}

TEST_CASE("batches that were drawn ahead are the samples of the graph, whoever copied the macro-batch") {
    const csr_graph<> of = graph();
    const neighbor_options hops{.fanout = parse_fanout("4,3"), .relations = true};
    neighbor_sampler<> whole(hops, 23);
    mini_batch_arena arena, other;
    macro_batch_builder builder;
    builder.begin_drawn();
    const auto seeds_of = [](std::uint64_t k) { return every(static_cast<node_id>(20 + k)); };
    const auto key_of = [](std::uint64_t k) { return batch_key{3, {1, 0, k}}; };
    std::uint64_t edges = 0;
    for (std::uint64_t k = 0; k < 3; ++k) {
        const auto seeds = seeds_of(k);
        const auto drawn = whole.sample(key_of(k), of, std::span<const node_id>(seeds), tbb_executor(2), other);
        builder.add_drawn(drawn, tbb_executor(2));
        edges += drawn.edges();
    }
    const mini_batch block = builder.end_drawn(large_key, arena);
    aligned_buffer<std::byte, mini_batch::alignment> elsewhere(block.bytes().size());
    std::memcpy(elsewhere.data(), block.bytes().data(), elsewhere.size());
    const macro_batch macro(mini_batch::attach(std::span<const std::byte>(elsewhere.data(), elsewhere.size())));
    CHECK(macro.drawn() == 3);
    CHECK(macro.edges() == edges);
    CHECK(builder.in_last_hop().size() == macro.nodes());
    second_stage_sampler second(hops, 99);
    for (std::uint64_t k = 0; k < 3; ++k) {
        const auto seeds = seeds_of(k);
        const auto found = second.sample(key_of(k), macro, seeds, serial_executor{}, arena);
        const auto expected = whole.sample(key_of(k), of, std::span<const node_id>(seeds), serial_executor{}, other);
        CHECK(std::ranges::equal(found.nodes, expected.nodes));
        CHECK(std::ranges::equal(found.node_counts, expected.node_counts));
        CHECK(std::ranges::equal(found.offsets, expected.offsets));
        CHECK(std::ranges::equal(found.neighbors, expected.neighbors));
        CHECK(std::ranges::equal(found.relations, expected.relations));
        for (std::size_t v = 0; v < found.nodes.size(); ++v) CHECK(macro.ids()[found.numbers[v]] == found.nodes[v]);
    }
    CHECK_THROWS_WITH_AS((void)second.sample(key_of(3), macro, seeds_of(3), serial_executor{}, arena),
        doctest::Contains("batch 3 was not drawn ahead"), error);
    CHECK_THROWS_WITH_AS((void)second.sample(key_of(1), macro, seeds_of(2), serial_executor{}, arena),
        doctest::Contains("for other seeds"), error);
    std::vector<std::uint32_t> degrees(1);
    CHECK_THROWS_AS(macro.degrees(std::vector<node_id>{0}, neighbor_direction::in, degrees), error);
    builder.begin_drawn(); // a macro-batch that trains nothing
    CHECK(macro_batch(builder.end_drawn(large_key, arena)).nodes() == 0);
}

TEST_CASE("macro-batches do not depend on the executor") {
    const csr_graph<> of = graph();
    for (const second_stage form : {second_stage::hops, second_stage::lists}) {
        made one(of, parse_fanout("5,4"), form, serial_executor{}, every(2));
        made many(of, parse_fanout("5,4"), form, tbb_executor(4), every(2));
        CHECK(one.arena.reserved() == many.arena.reserved());
        CHECK(std::ranges::equal(one.macro.ids(), many.macro.ids()));
        for (std::size_t h = 0; h < (one.macro.sliced() ? 2 : 1); ++h)
            for (std::uint32_t v = 0; v < one.macro.listed(h); ++v)
                CHECK(std::ranges::equal(one.macro.of(h, v).neighbors, many.macro.of(h, v).neighbors));
    }
}

TEST_CASE("macro-batches: bad input") {
    const csr_graph<> of = graph();
    const serial_executor on;
    made sliced(of, parse_fanout("5,4"), second_stage::hops, on, every(3));
    made united(of, parse_fanout("5,4"), second_stage::lists, on, every(3));
    mini_batch_arena arena;
    second_stage_sampler second({.fanout = parse_fanout("2,2")}, 1);
    const auto sample = [&](const macro_batch& from, std::vector<node_id> seeds) {
        (void)second.sample(key, from, seeds, on, arena);
    };
    CHECK_THROWS_WITH_AS(sample(sliced.macro, {0, 4}), doctest::Contains("node 4 is not in the large batch"), error);
    CHECK_THROWS_WITH_AS(sample(united.macro, {3, 3}), doctest::Contains("is given twice"), error);
    CHECK_NOTHROW(sample(sliced.macro, {}));
    const std::vector<excluded_edge<>> excluded{{}};
    CHECK_THROWS_AS((void)second.sample(key, sliced.macro, every(3), on, arena, excluded), error);
    CHECK_THROWS_AS(second_stage_sampler({.fanout = {}}, 1), error);
    CHECK_THROWS_AS(second_stage_sampler({.edge_ids = true}, 1), error);
    std::vector<std::uint32_t> degrees(1);
    const std::vector<node_id> first{0};
    CHECK_THROWS_WITH_AS(sliced.macro.degrees(first, neighbor_direction::in, degrees),
        doctest::Contains("is sliced, not sampled"), error);
    CHECK_THROWS_AS(macro_batch(mini_batch::format(arena.reserve(8192), key)), error);
    // arrays that do not belong together
    mini_batch wrong = mini_batch::format(arena.reserve(8192), key);
    wrong.add<node_id>("sample_nodes", 3);
    for (const char* name : {"node_counts", "edge_counts"}) std::ranges::fill(wrong.add<std::uint32_t>(name, 2), 2U);
    wrong.add<std::uint32_t>("offsets", 3);
    wrong.add<std::uint32_t>("neighbors", 2);
    wrong.add<relation_id>("edge_relations", 0);
    CHECK_THROWS_WITH_AS(macro_batch{wrong}, doctest::Contains("are not a macro-batch"), error);
}

} // namespace test_sample_macro_batch
