#include <gneiss/storage/adjacency/graph_buffer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <storage/support.hpp>
#include <support/cut_into.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace test_storage_adjacency_graph_buffer {

using namespace gneiss;

namespace {

engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// Both forms, with all optional arrays.
const graph_buffer_options both_forms[] = {
    {graph_form::blocks, {}}, {graph_form::csr, {.relations = true, .edge_ids = true}}};

/// A dataset on disk, and the same edges in stored order, whose positions are the edge ids.
struct stored {
    test::temporary_directory directory{};
    bucket_layout layout;
    bucket_store store;
    std::vector<edge> edges{};

    stored(std::uint64_t nodes, std::uint32_t partitions, std::uint64_t relations, std::size_t count)
        : stored({nodes, partitions}, relations, count) {}
    stored(const row_partitioning& rows, std::uint64_t relations, std::size_t count)
        : layout{rows, relations},
          store(test::build(directory.path(), layout, drawn(rows.nodes, relations, count))) {
        store.for_each_edge([&](std::span<const edge> some) { edges.insert(edges.end(), some.begin(), some.end()); });
    }
    static std::vector<edge> drawn(std::uint64_t nodes, std::uint64_t relations, std::size_t count) {
        auto edges = test::hub_edges(nodes, count, nodes);
        for (edge& e : edges) e.relation = relations > 1 ? e.relation % static_cast<relation_id>(relations) : 0;
        shuffle(edges, random_key(nodes, random_domain::user)); // ids stay: hubs spread them over all partitions
        return edges;
    }
    /// Returns the CSR of the edges among some partitions, with the edge ids of the whole.
    [[nodiscard]] csr_graph<> among(const std::vector<partition_id>& resident) const {
        const auto there = [&](node_id v) { return std::ranges::binary_search(resident, layout.rows.of(v)); };
        std::vector<edge> some;
        std::vector<edge_index> ids;
        for (std::size_t e = 0; e < edges.size(); ++e)
            if (there(edges[e].source) && there(edges[e].destination)) {
                some.push_back(edges[e]);
                ids.push_back(e);
            }
        const auto one = [&](neighbor_direction d) {
            const auto numbered = csr<>::from_edges(layout.rows.nodes, d, {.relations = true, .edge_ids = true},
                [&](auto&& sink) { sink(std::span<const edge>(some)); });
            std::vector<edge_index> whole;
            for (const edge_index e : numbered.edge_ids()) whole.push_back(ids[static_cast<std::size_t>(e)]);
            const auto copy = [](auto of) { return std::vector(of.begin(), of.end()); };
            return csr<>(copy(numbered.offsets()), copy(numbered.neighbors()), copy(numbered.relations()), whole);
        };
        return {one(neighbor_direction::in), one(neighbor_direction::out)};
    }
};

/// True if two graphs have the same lists for all nodes, in every direction.
template <class A, class B>
void check_equal(const A& a, const B& b) {
    REQUIRE(a.nodes() == b.nodes());
    CHECK(a.edges() == b.edges());
    const auto ids = test::some_nodes(a.nodes(), static_cast<std::size_t>(a.nodes()), 1);
    for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
        std::vector<std::uint32_t> degrees(ids.size()), same(ids.size()), offsets{0}, positions;
        a.degrees(ids, d, degrees);
        b.degrees(ids, d, same);
        REQUIRE(degrees == same);
        for (const std::uint32_t degree : degrees) {
            for (std::uint32_t p = degree; p-- > 0;) positions.push_back(p);
            offsets.push_back(static_cast<std::uint32_t>(positions.size()));
        }
        const auto ask = [&](const auto& graph) {
            std::vector<node_id> neighbors(positions.size());
            std::vector<relation_id> relations(positions.size());
            std::vector<edge_index> edges(positions.size());
            graph.neighbors_at({ids, d, offsets, positions}, {neighbors, relations, edges});
            return std::tuple(neighbors, relations, edges);
        };
        CHECK((ask(a) == ask(b)));
    }
}

} // namespace

TEST_CASE("the graph of a state equals the CSR of the edges among its partitions, position by position") {
    for (const auto& [relations, rows] : {std::pair<std::uint64_t, row_partitioning>{1U, {211, 7}}, {3U, {211, 7}},
             {3U, test::cut_into({5, 100, 0, 20, 16, 1, 69})}}) {
        const stored data(rows, relations, 3000);
        const epoch_plan states{{{0, 1, 2}, {}}, {{1, 2, 6}, {}}, {{1, 2, 6}, {}}, {{1, 3, 4, 6}, {}}, {{5}, {}},
            {{}, {}}, {{0, 1, 2, 3, 4, 5, 6}, {}}, {{0, 1, 2, 4, 5, 6}, {}}};
        for (const graph_buffer_options& form : both_forms)
            for (const bool short_of_memory : {false, true}) { // then shared blocks are read again
                memory_budget budget;
                std::uint64_t bytes = 1 << 20;
                if (short_of_memory) {
                    bytes = 0;
                    for (const buffer_state& s : states)
                        bytes =
                            std::max(bytes, graph_buffer::need({s}, data.store, neighbor_direction::both, form).bytes);
                }
                graph_buffer buffer(data.store, threads(), neighbor_direction::both, bytes, budget, form);
                buffer.begin_epoch(states);
                for (std::uint32_t s = 0; s < states.size(); ++s)
                    check_equal(*buffer.acquire(s), data.among(states[s].resident));
            }
    }
}

TEST_CASE("owned lists: the nodes of some partitions have the lists of the whole state, and all others have none") {
    const stored data(300, 6, 2, 4000);
    const auto state = [](std::vector<partition_id> own, std::vector<partition_id> resident) {
        buffer_state result{.resident = std::move(resident)};
        for (const partition_id i : own)
            for (const partition_id j : result.resident) result.edge_buckets.emplace_back(i, j);
        return result;
    };
    const std::vector<std::vector<partition_id>> own{{1}, {1, 4}, {4}, {}, {0, 1, 2, 3, 4, 5}};
    const epoch_plan states{state(own[0], {0, 1, 3}), state(own[1], {1, 2, 3, 4}), state(own[2], {0, 4, 5}),
        state(own[3], {2, 3}), state(own[4], {0, 1, 2, 3, 4, 5})};
    const graph_buffer_options options{.owned_lists = true};
    memory_budget budget;
    std::uint64_t all_read = 0;
    for (const auto keeps : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
        const auto need = [&](const epoch_plan& of, const graph_buffer_options& with) {
            return graph_buffer::need(of, data.store, keeps, with).bytes;
        };
        CHECK(need({states[0]}, options) < need({states[0]}, {}));
        CHECK(need({states[4]}, options) == need({states[4]}, {}));
        graph_buffer buffer(data.store, threads(), keeps, need(states, options), budget, options);
        buffer.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s) {
            const auto graph = buffer.acquire(s);
            const csr_graph<> whole = data.among(states[s].resident);
            for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
                if (keeps != neighbor_direction::both && d != keeps) continue;
                for (node_id v = 0; v < 300; ++v) {
                    const bool mine = std::ranges::binary_search(own[s], data.layout.rows.of(v));
                    std::uint32_t found = 0, degree = 0;
                    graph->degrees({&v, 1}, d, {&found, 1});
                    whole.degrees({&v, 1}, d, {&degree, 1});
                    REQUIRE(found == (mine ? degree : 0));
                    const std::vector<std::uint32_t> offsets{0, found};
                    std::vector<std::uint32_t> positions(found);
                    for (std::uint32_t k = 0; k < found; ++k) positions[k] = k;
                    const auto list = [&](const auto& of) {
                        std::vector<node_id> neighbors(found);
                        std::vector<edge_index> ids(found);
                        of.neighbors_at({{&v, 1}, d, offsets, positions}, {neighbors, {}, ids});
                        return std::pair(neighbors, ids);
                    };
                    CHECK(list(*graph) == list(whole));
                }
            }
        }
        const std::uint64_t read = buffer.statistics().read_bytes;
        all_read += read;
        graph_buffer everything(data.store, threads(), keeps, 1 << 20, budget);
        everything.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s) (void)everything.acquire(s);
        if (keeps != neighbor_direction::both) CHECK(read < everything.statistics().read_bytes);
    }
    CHECK(all_read != 0);
}

TEST_CASE("resident blocks, merged or not, and a CSR give the same samples, bit for bit, on one thread and several") {
    const stored data(2000, 5, 3, 30000);
    const tbb_executor two(2);
    const epoch_plan states{{{0, 1, 2, 3, 4}, {}}, {{1, 3}, {}}};
    for (std::uint32_t i = 0; i < 2 * states.size(); ++i) {
        const std::uint32_t s = i / 2;
        memory_budget budget;
        graph_buffer buffer(data.store, threads(), neighbor_direction::both, 1 << 24, budget, both_forms[i % 2]);
        buffer.begin_epoch(states, s);
        const auto resident = buffer.acquire(s);
        const csr_graph<> whole = data.among(states[s].resident);
        const auto seeds = test::some_nodes(2000, 100, 1);
        std::vector<excluded_edge<>> excluded;
        for (edge_index e = 0; e < 2000; e += 7) {
            const edge& of = data.edges[static_cast<std::size_t>(e)];
            excluded.push_back({of.source, of.destination, e});
        }
        for (const char* fanout : {"10,10,10", "5+5,3+all"}) {
            const neighbor_options options{parse_fanout(fanout, neighbor_direction::both), false, true, true};
            mini_batch_arena one, other;
            dense_sampler<> dense(options, 1);
            CHECK(dense.sample({}, whole, seeds, serial_executor{}, one, excluded).edges() > 100);
            (void)dense.sample({}, *resident, seeds, two, other, excluded);
            CHECK((test::contents(one) == test::contents(other)));
            neighbor_sampler<> layered(options, 1);
            (void)layered.sample({}, whole, seeds, serial_executor{}, one, excluded);
            (void)layered.sample({}, *resident, seeds, two, other, excluded);
            CHECK((test::contents(one) == test::contents(other)));
        }
    }
}

TEST_CASE("a swap reads the new blocks only, batches of two states overlap, and an epoch in memory reads once") {
    const stored data(300, 8, 1, 5000);
    for (const auto keeps : {neighbor_direction::in, neighbor_direction::both}) {
        const epoch_plan states = beta_order(8, 3, 3)(0);
        memory_budget budget;
        const std::uint64_t bytes = graph_buffer::need(states, data.store, keeps).bytes;
        graph_buffer buffer(data.store, threads(), keeps, bytes, budget);
        CHECK(budget.used() == bytes);
        buffer.begin_epoch(states);
        std::shared_ptr<const resident_graph> before;
        std::set<edge_bucket> held;
        std::uint64_t expected = 0;
        for (std::uint32_t s = 0; s < states.size(); ++s) {
            auto now = buffer.acquire(s); // while the previous one is still sampled
            std::set<edge_bucket> wanted;
            for (const partition_id i : states[s].resident)
                for (const partition_id j : states[s].resident) wanted.insert({i, j});
            for (const edge_bucket& b : wanted)
                if (!held.contains(b))
                    expected += (keeps == neighbor_direction::both ? data.store.extent(b).out.length : 0) +
                        data.store.extent(b).in.length;
            held = wanted;
            if (before) CHECK(std::ranges::equal(before->resident(), states[s - 1].resident));
            CHECK(std::ranges::equal(now->resident(), states[s].resident));
            before = std::move(now);
        }
        before.reset();
        // Direct reads are rounded to the device's alignment, by less than two pages per block.
        const io_stats read = buffer.statistics();
        CHECK(read.read_bytes >= expected);
        CHECK(read.read_bytes <= expected + 2 * page_alignment * read.reads);
    }
    memory_budget budget;
    const epoch_plan states = in_memory_order(8)(0);
    graph_buffer buffer(data.store, threads(), neighbor_direction::out,
        graph_buffer::need(states, data.store, neighbor_direction::out).bytes, budget);
    for (std::uint64_t epoch = 0, first = 0; epoch < 3; ++epoch) {
        buffer.begin_epoch(states);
        CHECK(buffer.acquire(0)->edges() == 5000);
        if (epoch == 0) first = buffer.statistics().read_bytes;
        CHECK(buffer.statistics().read_bytes == first);
    }
}

TEST_CASE("macro-batches merge new blocks and copy pinned ones; an unchanged state is neither read nor merged") {
    const stored data(test::cut_into({20, 60, 70, 50, 60, 40}), 1, 5000);
    const epoch_plan states{{{0, 1, 2}, {}}, {{0, 3, 4}, {}}, {{0, 1, 5}, {}}};
    const graph_buffer_options merged{graph_form::csr, {}};
    for (const auto keeps : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
        const std::uint64_t bytes = graph_buffer::need(states, data.store, keeps, merged).bytes;
        CHECK(bytes < graph_buffer::need(states, data.store, keeps, both_forms[1]).bytes);
        memory_budget budget;
        graph_buffer buffer(data.store, threads(), keeps, bytes, budget, merged);
        CHECK(budget.used() == bytes);
        std::uint64_t expected = 0;
        epoch_plan with_next = states;
        with_next.push_back(states[0]); // the next epoch's, after the last
        buffer.begin_epoch(with_next);
        for (std::uint32_t s = 0; s < with_next.size(); ++s) {
            const auto now = buffer.acquire(s);
            for (const partition_id i : with_next[s].resident)
                for (const partition_id j : with_next[s].resident) {
                    const bool there = s > 0 && std::ranges::binary_search(with_next[s - 1].resident, i) &&
                        std::ranges::binary_search(with_next[s - 1].resident, j);
                    if (!there)
                        expected += (keeps != neighbor_direction::in ? data.store.extent({i, j}).out.length : 0) +
                            (keeps != neighbor_direction::out ? data.store.extent({i, j}).in.length : 0);
                }
        }
        const io_stats before = buffer.statistics();
        CHECK(before.read_bytes >= expected);
        CHECK(before.read_bytes <= expected + 2 * page_alignment * before.reads);
        buffer.begin_epoch({states[0]});
        CHECK(buffer.acquire(0)->edges() == data.among(states[0].resident).edges());
        CHECK(buffer.statistics().read_bytes == before.read_bytes);
    }
}

TEST_CASE("a direction that is not stored, a budget that is too small and a damaged block are errors") {
    stored data(100, 3, 1, 1000);
    const epoch_plan states = in_memory_order(3)(0);
    const std::uint64_t bytes = graph_buffer::need(states, data.store, neighbor_direction::in).bytes;
    CHECK(bytes < graph_buffer::need(states, data.store, neighbor_direction::both).bytes);
    memory_budget small(bytes - 1), budget;
    CHECK_THROWS_AS(graph_buffer(data.store, threads(), neighbor_direction::in, bytes, small), over_budget);
    {
        graph_buffer understated(data.store, threads(), neighbor_direction::in, 7, small);
        CHECK_THROWS_WITH_AS(understated.begin_epoch(states), doctest::Contains("graph"), over_budget);
        CHECK(small.used() == 7);
        memory_budget enough(bytes);
        graph_buffer charged(data.store, threads(), neighbor_direction::in, 7, enough);
        charged.begin_epoch(states);
        CHECK(enough.used() == bytes);
        CHECK(charged.acquire(0) != nullptr);
    }
    {
        graph_buffer buffer(data.store, threads(), neighbor_direction::in, bytes, budget);
        buffer.begin_epoch(states);
        const auto graph = buffer.acquire(0);
        std::vector<std::uint32_t> degree(1);
        const std::vector<node_id> ids{0};
        CHECK_THROWS_AS(graph->degrees(ids, neighbor_direction::out, degree), error);
        CHECK_THROWS_AS(graph->degrees(ids, neighbor_direction::both, degree), error);
    }
    {
        const graph_buffer_options merged{graph_form::csr, {}};
        graph_buffer buffer(data.store, threads(), neighbor_direction::in, 1 << 20, budget, merged);
        buffer.begin_epoch(states);
        const auto graph = buffer.acquire(0);
        std::vector<std::uint32_t> degree(1);
        const std::vector<node_id> ids{data.edges[0].destination};
        CHECK_THROWS_AS(graph->degrees(ids, neighbor_direction::both, degree), error);
        const std::vector<std::uint32_t> offsets{0, 1}, positions{0};
        std::vector<node_id> neighbor(1);
        std::vector<relation_id> relation(1);
        std::vector<edge_index> id(1);
        graph->neighbors_at({ids, neighbor_direction::in, offsets, positions}, {neighbor, {}, {}});
        CHECK_THROWS_AS(
            graph->neighbors_at({ids, neighbor_direction::in, offsets, positions}, {neighbor, relation, {}}), error);
        CHECK_THROWS_AS(
            graph->neighbors_at({ids, neighbor_direction::in, offsets, positions}, {neighbor, {}, id}), error);
    }
    std::fstream file(data.store.path(edge_direction::in), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(data.store.extent({1, 1}).in.offset + 8));
    file.put('\x7f');
    file.close();
    for (const graph_buffer_options& form : both_forms) {
        graph_buffer buffer(data.store, threads(), neighbor_direction::in, 1 << 20, budget, form);
        buffer.begin_epoch(states);
        CHECK_THROWS_AS((void)buffer.acquire(0), error);
    }
}

TEST_CASE("a released graph is read again, as blocks or merged") {
    const stored data(300, 8, 1, 5000);
    const epoch_plan states = beta_order(8, 3, 3)(0);
    for (const graph_form form : {graph_form::blocks, graph_form::csr}) {
        memory_budget budget;
        const graph_buffer_options options{.form = form};
        graph_buffer buffer(data.store, threads(), neighbor_direction::in,
            graph_buffer::need(states, data.store, neighbor_direction::in, options).bytes, budget, options);
        buffer.release(); // no epoch has begun
        const epoch_plan one{states[0]};
        std::uint64_t first = 0;
        for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
            buffer.begin_epoch(one);
            const edge_index edges = buffer.acquire(0)->edges();
            buffer.release();
            if (epoch == 1) first = buffer.statistics().read_bytes;
            CHECK(edges != 0);
            CHECK(buffer.statistics().read_bytes == epoch * first); // everything each time
        }
        buffer.begin_epoch(states);
        (void)buffer.acquire(0); // the next one is being made, or done
        buffer.release();
        buffer.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s)
            CHECK(std::ranges::equal(buffer.acquire(s)->resident(), states[s].resident));
    }
}

TEST_CASE("a wait for a graph can be stopped, and a plan can be abandoned") {
    const stored data(100, 3, 1, 1000);
    memory_budget budget;
    graph_buffer buffer(data.store, threads(), neighbor_direction::in, 1 << 20, budget);
    const epoch_plan states{{{0, 1}, {}}, {{1, 2}, {}}, {{0, 2}, {}}};
    buffer.begin_epoch(states);
    {
        const auto first = buffer.acquire(0), second = buffer.acquire(1);
        std::stop_source stop;
        stop.request_stop();
        CHECK_THROWS_AS((void)buffer.acquire(2, stop.get_token()), error); // two are held
    }
    buffer.begin_epoch(states, 1);
    CHECK(std::ranges::equal(buffer.acquire(1)->resident(), std::vector<partition_id>{1, 2}));
}

} // namespace test_storage_adjacency_graph_buffer
