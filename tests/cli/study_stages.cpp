// Covers bench/study/stages.hpp.
#include "study/stages.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>

namespace test_cli_study_stages {

using namespace gneiss;
using study::ahead;
using study::traffic;

namespace {

constexpr node_id nodes = 240;
constexpr std::size_t hops = 3;
constexpr std::uint64_t seed = 6, batch = 7;

/// In-neighbors of each node of a sparse random graph.
std::vector<std::vector<node_id>> lists() {
    random_stream draw(random_key{17, random_domain::user});
    std::vector<std::vector<node_id>> result(nodes);
    for (int i = 0; i < 300; ++i) {
        const auto from = static_cast<node_id>(draw.below(nodes)), to = static_cast<node_id>(draw.below(nodes));
        result[to].push_back(from);
    }
    return result;
}
csr_graph<> graph_of(const std::vector<std::vector<node_id>>& lists) {
    std::vector<edge> edges;
    for (node_id v = 0; v < nodes; ++v)
        for (const node_id u : lists[v]) edges.push_back({u, 0, v});
    return {
        csr<>::from_edges(nodes, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{}};
}
std::vector<node_id> training() {
    std::vector<node_id> result;
    for (node_id v = 1; v < nodes; v += 4) result.push_back(v);
    return result;
}

using node_set = std::set<node_id>;

/// Nodes known after each hop of all neighbors, and the edges drawn.
struct walk {
    std::vector<node_set> known;
    std::uint64_t edges = 0, last_edges = 0;

    walk(const std::vector<std::vector<node_id>>& lists, std::span<const node_id> from, auto&& expands) {
        known.emplace_back(from.begin(), from.end());
        for (std::size_t h = 0; h < hops; ++h) {
            node_set next = known.back();
            last_edges = 0;
            for (const node_id v : known.back())
                if (expands(v)) {
                    next.insert(lists[v].begin(), lists[v].end());
                    last_edges += lists[v].size();
                }
            edges += last_edges;
            known.push_back(std::move(next));
        }
    }
};
constexpr auto everywhere = [](node_id) { return true; };

/// The rows of a load, and its nodes with histories alone.
struct load {
    node_set rows;
    std::size_t others = 0;
};

void add(traffic& to, load& before, load now, std::uint64_t edges) {
    std::vector<node_id> fresh;
    std::ranges::set_difference(now.rows, before.rows, std::back_inserter(fresh));
    const std::size_t held = before.rows.size() + before.others + now.others;
    ++to.loads;
    to.rows += now.rows.size() + now.others;
    to.features += now.rows.size();
    to.fresh += fresh.size();
    to.edges += edges;
    to.held = std::max<std::uint64_t>(to.held, held + now.rows.size());
    to.held_fresh = std::max<std::uint64_t>(to.held_fresh, held + fresh.size());
    before = std::move(now);
}

} // namespace

TEST_CASE(
    "batches and large batches of all neighbors have the rows of a breadth-first search; shared rows count once") {
    const auto all = lists();
    const csr_graph<> graph = graph_of(all);
    const serial_executor serial;
    study::stage_counter counter(graph, parse_fanout("all,all,all"), batch, seed, serial);
    traffic expected;
    load before;
    const node_batches batches(training(), batch, seed, 2, 0);
    std::vector<node_id> chosen;
    for (std::uint64_t b = 0; b < batches.size(); ++b) {
        batches.choose(b, chosen);
        const walk w(all, chosen, everywhere);
        add(expected, before, {w.known.back()}, w.edges);
    }
    std::uint64_t visited = 0;
    CHECK(counter.single(training(), 2, [&](std::span<const node_id> rows) { visited += rows.size(); }) == expected);
    CHECK(visited == expected.rows);

    const std::uint64_t single = expected.rows;
    expected = {};
    before = {};
    const std::vector<node_id> trains = training();
    const large_batches cut(trains, 20, seed, 2);
    for (std::uint64_t m = 0; m < cut.size(); ++m) {
        cut.choose(m, chosen);
        const walk w(all, chosen, everywhere);
        add(expected, before, {w.known.back()}, w.edges);
    }
    CHECK(expected.loads == 3);
    CHECK(counter.large(training(), 20, 2) == expected);
    CHECK(expected.fresh < expected.rows);
    // an epoch after another finds the rows of that one's last macro-batch
    const large_batches epoch_before(trains, 20, seed, 1);
    epoch_before.choose(epoch_before.size() - 1, chosen);
    const traffic alone = expected;
    traffic last;
    load held;
    add(last, held, {walk(all, chosen, everywhere).known.back()}, 0);
    expected = {};
    for (std::uint64_t m = 0; m < cut.size(); ++m) {
        cut.choose(m, chosen);
        const walk w(all, chosen, everywhere);
        add(expected, held, {w.known.back()}, w.edges);
    }
    CHECK(counter.large(training(), 20, 2, true) == expected);
    CHECK(expected.fresh < alone.fresh);
    CHECK(expected.rows == alone.rows);
    CHECK(expected.rows < single);
}

TEST_CASE("partitions send what hops of all neighbors reach inside, and histories of the halo by layer") {
    const auto all = lists();
    const csr_graph<> graph = graph_of(all);
    const serial_executor serial;
    study::stage_counter counter(graph, parse_fanout("all,all,all"), batch, seed, serial);
    std::vector<partition_id16> of(nodes);
    for (node_id v = 0; v < nodes; ++v) of[v] = static_cast<partition_id16>(v * 7919U % 6);
    std::uint64_t arcs = 0, across = 0;
    for (node_id v = 0; v < nodes; ++v)
        for (const node_id u : all[v]) ++arcs, across += of[u] != of[v];
    CHECK(counter.cut(of) == doctest::Approx(static_cast<double>(across) / static_cast<double>(arcs)));

    for (const bool features : {false, true})
        for (const ahead mode : {ahead::off, ahead::reach, ahead::exact}) {
            CAPTURE(features);
            CAPTURE(static_cast<int>(mode));
            traffic expected;
            load before;
            const node_plan plan = macro_batches(6, 0, 2, seed, 1);
            for (std::uint32_t s = 0; s < plan.states.size(); ++s) {
                const auto inside = [&](node_id v) { return std::ranges::count(plan.states[s].resident, of[v]) != 0; };
                std::vector<node_id> seeds, chosen;
                for (const node_id v : training())
                    if (inside(v)) seeds.push_back(v);
                node_set rows;
                std::set<std::pair<node_id, std::size_t>> histories, pushes;
                std::uint64_t edges = 0;
                const auto reach = [&](std::span<const node_id> from, bool pushed) {
                    const walk w(all, from, inside);
                    for (std::size_t h = 0; h < hops; ++h)
                        for (const node_id v : w.known[h])
                            if (inside(v)) {
                                rows.insert(v);
                                if (h != 0 && pushed) pushes.emplace(v, hops - h);
                                for (const node_id u : all[v]) {
                                    if (inside(u) || (h + 1 == hops && features))
                                        rows.insert(u);
                                    else if (h + 1 < hops)
                                        histories.emplace(u, hops - 1 - h);
                                }
                            }
                    return w;
                };
                const node_batches batches(seeds, batch, seed, 1, s);
                for (std::uint64_t b = 0; b < batches.size(); ++b) {
                    batches.choose(b, chosen);
                    edges += reach(chosen, true).edges;
                }
                if (mode == ahead::reach) edges = reach(seeds, false).last_edges;
                if (mode == ahead::off) {
                    edges = 0;
                    for (node_id v = 0; v < nodes; ++v)
                        if (inside(v)) {
                            rows.insert(v);
                            edges += all[v].size();
                            for (const node_id u : all[v])
                                if (!inside(u)) {
                                    if (features) rows.insert(u);
                                    for (std::size_t l = 1; l < hops; ++l) histories.emplace(u, l);
                                }
                        }
                }
                node_set others;
                for (const auto& [v, layer] : histories)
                    if (!rows.contains(v)) others.insert(v);
                add(expected, before, {rows, others.size()}, edges);
                expected.histories += histories.size();
                expected.pushes += pushes.size();
            }
            CHECK(counter.partitions(training(), of, 6, 2, mode, features, 1) == expected);
            CHECK(expected.histories > 0);
        }

    // One macro-batch of all partitions has no halo.
    const traffic whole = counter.partitions(training(), of, 6, 6, ahead::exact, false, 1);
    CHECK(whole.histories == 0);
    CHECK(whole.features == counter.large(training(), training().size(), 1).features);
}

TEST_CASE("draws of fewer neighbors send no more than their reach") {
    const auto all = lists();
    const csr_graph<> graph = graph_of(all);
    const serial_executor serial;
    study::stage_counter counter(graph, parse_fanout("2,1,1"), batch, seed, serial);
    std::vector<partition_id16> of(nodes);
    for (node_id v = 0; v < nodes; ++v) of[v] = static_cast<partition_id16>(v % 4);
    const auto rows = [&](ahead mode) { return counter.partitions(training(), of, 4, 2, mode, true, 0).rows; };
    CHECK(rows(ahead::exact) < rows(ahead::reach));
    CHECK(rows(ahead::reach) < rows(ahead::off));
}

} // namespace test_cli_study_stages
