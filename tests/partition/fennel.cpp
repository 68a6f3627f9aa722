#include <gneiss/partition/fennel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stop_token>
#include <vector>

#include "greedy_scan.hpp"
#include "support.hpp"

namespace test_partition_fennel {

using namespace gneiss;
using namespace partition_test;

namespace {

const serial_executor executor;

std::vector<partition_id16> run(const fennel_partitioner& fennel, const symmetric_csr& graph,
    const partition_request& request, std::size_t chunk = 7) {
    symmetric_stream stream(graph, chunk);
    return fennel(stream, request, executor);
}

} // namespace

TEST_CASE("FENNEL equals a scan of all parts, by nodes and by edges, in every pass and from any initial assignment") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 2U, 5U, 8U, 100U})
            for (const balance_by balance : {balance_by::nodes, balance_by::edges})
                for (const double imbalance : {0., .03, 1e9})
                    for (const double gamma : {1.5, 2.})
                        for (const std::uint32_t passes : {1U, 3U}) {
                            CAPTURE(name);
                            CAPTURE(k);
                            CAPTURE(imbalance);
                            const partition_request request{.parts = k, .imbalance = imbalance, .balance = balance};
                            const std::uint64_t total = total_weight(balance, graph.nodes(), graph.arcs());
                            const std::uint64_t cap = max_weight(total, k, imbalance);
                            const detail::fennel_rule rule(gamma, total, graph.arcs(), k, {});
                            const auto load_penalty = [&](std::size_t g, std::uint64_t s) {
                                return rule.load_penalty(g, s);
                            };
                            const auto score = [&](std::size_t g, std::uint32_t n, std::uint64_t s) {
                                return n - load_penalty(g, s);
                            };
                            std::vector<partition_id16> initial;
                            if (passes > 1) // everything in one part: caps are violated at first
                                initial.assign(graph.nodes(), static_cast<partition_id16>(k - 1));
                            const auto parts =
                                run({.gamma = gamma, .passes = passes, .initial = initial}, graph, request);
                            CHECK(parts ==
                                greedy_by_scan(graph, request, cap, false, initial, passes, score, load_penalty));
                        }
}

TEST_CASE("a node goes to a part of the highest score by the published formula") {
    const symmetric_csr graph = random_graph(300, 2000, 3);
    const std::uint32_t k = 6;
    const auto parts = run({.nu = 1.1}, graph, {.parts = k});
    const double n = 300, m = static_cast<double>(graph.arcs()) / 2, gamma = 1.5;
    const double alpha = m * std::pow(k, gamma - 1) / std::pow(n, gamma);
    std::vector<double> sizes(k);
    for (node_id v = 0; v < 300; ++v) {
        std::vector<double> score(k);
        for (std::uint32_t p = 0; p < k; ++p) score[p] = -alpha * gamma * std::pow(sizes[p], gamma - 1);
        for (const node_id u : graph.list(v))
            if (u < v) ++score[parts[u]];
        for (std::uint32_t p = 0; p < k; ++p)
            if (sizes[p] + 1 <= 1.1 * n / k) CHECK(score[p] <= score[parts[v]] + 1e-9);
        ++sizes[parts[v]];
    }
    CHECK(std::ranges::max(sizes) <= 55);
}

TEST_CASE("caps are kept exactly: of nodes always, of edges if no node weighs more than the slack") {
    const symmetric_csr graph = random_graph(1000, 6000, 4);
    for (const std::uint32_t k : {2U, 7U, 16U})
        for (const double imbalance : {0., .01, .1}) {
            const auto by_nodes = part_sizes(run({.passes = 2}, graph, {.parts = k, .imbalance = imbalance}), k);
            CHECK(std::ranges::max(by_nodes) <= max_weight(1000, k, imbalance));
        }
    std::uint32_t heaviest = 0;
    for (node_id v = 0; v < 1000; ++v) heaviest = std::max(heaviest, graph.degree(v) + 1);
    const std::uint64_t total = total_weight(balance_by::edges, 1000, graph.arcs());
    const double imbalance = 4. * (heaviest + 1) / static_cast<double>(total);
    symmetric_stream stream(graph);
    const auto parts = run({.passes = 2}, graph, {.parts = 4, .imbalance = imbalance, .balance = balance_by::edges});
    CHECK(std::ranges::max(part_weights(stream, parts, 4, balance_by::edges)) <= max_weight(total, 4, imbalance));
}

TEST_CASE("the result does not depend on chunks, and 4096 parts work like two") {
    const symmetric_csr graph = random_graph(3000, 9000, 5);
    for (const std::uint32_t k : {2U, 64U, 4096U, max_partition_count}) {
        const auto parts = run({.passes = 2}, graph, {.parts = k}, 1);
        CHECK_NOTHROW(check_assignment(parts, k, 3000));
        for (const std::size_t chunk : {2U, 100U, 5000U})
            CHECK(run({.passes = 2}, graph, {.parts = k}, chunk) == parts);
    }
}

TEST_CASE("passes cut fewer edges of a graph with communities") {
    random_stream draw(random_key(6, random_domain::user));
    std::vector<edge> edges;
    for (int e = 0; e < 20000; ++e) {
        const auto v = static_cast<node_id>(draw.below(2000));
        const std::uint64_t u = draw.below(10) < 8 ? v % 10 + 10 * draw.below(200) : draw.below(2000);
        edges.push_back({v, 0, static_cast<node_id>(u)});
    }
    const symmetric_csr graph = graph_of(2000, edges);
    const auto cut = [&](std::uint32_t passes) {
        const auto parts = run({.passes = passes}, graph, {.parts = 10});
        return std::ranges::count_if(edges, [&](const edge& e) { return parts[e.source] != parts[e.destination]; });
    };
    const auto one = static_cast<double>(cut(1)), five = static_cast<double>(cut(5));
    CHECK(one < 20000 * .85); // random: 0.9
    CHECK(five < one * .8);
}

TEST_CASE("a run interrupted after any pass gives the same bits") {
    const symmetric_csr graph = random_graph(500, 3000, 7);
    for (const balance_by balance : {balance_by::nodes, balance_by::edges}) {
        partition_request request{.parts = 9, .balance = balance};
        const auto expected = run({.passes = 4}, graph, request);
        for (std::uint32_t step = 1; step <= 4; ++step) {
            memory_journal journal;
            request.journal = &journal;
            journal.end_at = step;
            CHECK_THROWS_AS(run({.passes = 4}, graph, request), error);
            journal.end_at = 0;
            REQUIRE(journal.step() == step);
            CHECK(run({.passes = 4}, graph, request) == expected);
            CHECK(journal.step() == 4);
        }
    }
}

TEST_CASE("invalid options, labels, another run's journal and a stop are refused") {
    const symmetric_csr graph = random_graph(20, 40, 8);
    const auto code = [&](const fennel_partitioner& fennel, const partition_request& request) {
        try {
            (void)run(fennel, graph, request);
        } catch (const error& e) {
            return e.code();
        }
        return errc::io;
    };
    CHECK(code({.gamma = 1}, {}) == errc::invalid_argument);
    CHECK(code({.nu = .9}, {}) == errc::invalid_argument);
    CHECK(code({.passes = 0}, {}) == errc::invalid_argument);
    CHECK(code({}, {.parts = 0}) == errc::invalid_argument);
    const std::vector<class_id> labels(20);
    CHECK(code({}, {.labels = labels, .label_cap = 1.05}) == errc::unsupported);
    CHECK(code({}, {.labels = labels}) == errc::io);
    const std::vector<partition_id16> beyond(20, 2), few(19);
    CHECK(code({.initial = beyond}, {}) == errc::out_of_range);
    CHECK(code({.initial = few}, {}) == errc::invalid_argument);
    memory_journal journal;
    journal.save(1, std::as_bytes(std::span(few)));
    CHECK(code({.passes = 2}, {.journal = &journal}) == errc::config_mismatch);
    journal.save(3, std::as_bytes(std::span(beyond)));
    CHECK(code({.passes = 2}, {.journal = &journal}) == errc::config_mismatch);
    std::stop_source stop;
    stop.request_stop();
    CHECK(code({}, {.stop = stop.get_token()}) == errc::canceled);
}

} // namespace test_partition_fennel
