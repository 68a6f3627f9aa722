#include <gneiss/eval/known_edges.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <map>
#include <set>

namespace test_eval_known_edges {

using namespace gneiss;

namespace {

std::vector<edge> random_edges(std::uint64_t seed, std::size_t count, std::uint64_t nodes, std::uint64_t relations) {
    random_stream draw(random_key{seed, random_domain::user});
    std::vector<edge> edges(count);
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(relations)),
            static_cast<node_id>(draw.below(nodes))};
    return edges;
}

std::vector<link_query> random_queries(std::uint64_t seed, std::size_t count, std::uint64_t nodes) {
    random_stream draw(random_key{seed, random_domain::user});
    std::vector<link_query> queries(count);
    for (link_query& q : queries)
        q = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(4)),
            draw.below(2) == 0 ? side::head : side::tail};
    return queries;
}

constexpr std::uint64_t plenty = 1U << 30;

} // namespace

TEST_CASE("known answers equal those of a map of all edges") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const auto edges = random_edges(seed, 3000, 40, 4);
        const auto queries = random_queries(seed + 100, 50, 60);
        std::map<link_query, std::set<node_id>> expected;
        for (const edge& e : edges)
            for (const side missing : {side::head, side::tail})
                expected[query_of(e, missing)].insert(answer_of(e, missing));
        const edge_scan scan = [&](const edge_visitor& visit) {
            visit(std::span(edges).first(1));
            visit(std::span(edges).subspan(1));
        };
        const known_answers found(queries, scan, tbb_executor(2), plenty);
        REQUIRE(found.covered() == queries.size());
        for (std::size_t i = 0; i < queries.size(); ++i) {
            const auto answers = found.of(i);
            const auto& wanted = expected[queries[i]];
            CHECK(std::vector<node_id>(answers.begin(), answers.end()) ==
                std::vector<node_id>(wanted.begin(), wanted.end()));
        }
    }
}

TEST_CASE("a limit covers the first queries that fit") {
    const auto edges = random_edges(1, 2000, 20, 4);
    const auto queries = random_queries(2, 60, 20);
    const edge_scan scan = [&](const edge_visitor& visit) { visit(edges); };
    const known_answers all(queries, scan, serial_executor{}, plenty);
    std::size_t before = 0;
    for (std::uint64_t limit = 0; limit < 20000; limit += 400) {
        const known_answers some(queries, scan, serial_executor{}, limit);
        CHECK(some.covered() >= before);
        before = some.covered();
        std::set<link_query> distinct;
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < some.covered(); ++i) {
            CHECK(std::ranges::equal(some.of(i), all.of(i)));
            if (distinct.insert(queries[i]).second) bytes += some.of(i).size_bytes();
        }
        CHECK(bytes <= limit);
    }
    CHECK(before == queries.size());
}

TEST_CASE("chunks of any size and any number of threads collect the same answers") {
    const auto edges = random_edges(3, 200000, 50, 2);
    const auto queries = random_queries(4, 30, 50);
    const known_answers once(queries, [&](const edge_visitor& visit) { visit(edges); }, serial_executor{}, plenty);
    for (const std::size_t chunk : {1000U, 50000U})
        for (const std::size_t threads : {1U, 2U}) {
            const known_answers again(
                queries,
                [&](const edge_visitor& visit) {
                    for (std::size_t i = 0; i < edges.size(); i += chunk)
                        visit(std::span(edges).subspan(i, std::min(chunk, edges.size() - i)));
                },
                tbb_executor(threads), plenty);
            for (std::size_t i = 0; i < queries.size(); ++i) CHECK(std::ranges::equal(again.of(i), once.of(i)));
        }
}

TEST_CASE("an empty set of queries or edges is valid") {
    const known_answers no_queries({}, [](const edge_visitor&) {}, serial_executor{}, 0);
    CHECK(no_queries.covered() == 0);
    const std::vector<link_query> queries{{1, 2, side::head}};
    const known_answers nothing(queries, [](const edge_visitor&) {}, serial_executor{}, 0);
    CHECK(nothing.covered() == 1);
    CHECK(nothing.of(0).empty());
}

} // namespace test_eval_known_edges
