#include <gneiss/eval/ranking.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <doctest/doctest.h>

#include <limits>

#include "eval/oracle.hpp"

namespace test_eval_ranking {

using namespace gneiss;
using gneiss::test::problem;

namespace {

struct ranks {
    std::vector<rank_counts> head, tail;
    link_metrics metrics;

    friend bool operator==(const ranks&, const ranks&) = default;
};

template <class P, class E = serial_executor>
ranks rank_all(P& p, bool filtered, std::uint64_t memory = std::uint64_t{1} << 30, const E& executor = {}) {
    ranks found;
    found.metrics = rank_edges(p.model, p.rows, p.test, filtered ? p.known() : edge_scan{}, executor, memory,
        [&](std::size_t position, const rank_counts& head, const rank_counts& tail) {
            CHECK(position == found.head.size());
            found.head.push_back(head);
            found.tail.push_back(tail);
        });
    return found;
}

std::uint64_t memory_of_blocks(std::size_t edges, std::size_t dim, std::uint64_t answers) {
    const auto whole = plan_ranking({edges, dim, true, 1}, std::uint64_t{1} << 40);
    return whole.parts[0].bytes + whole.parts[1].bytes + answers * sizeof(node_id);
}

} // namespace

TEST_CASE_TEMPLATE("ranks equal those of a double loop over all nodes", D, dot_decoder, distmult_decoder,
    complex_decoder, transe_decoder) {
    for (std::uint64_t seed = 0; seed < 8; ++seed)
        for (const bool filtered : {false, true})
            for (const bool reciprocal : {false, true}) {
                CAPTURE(seed);
                problem<D> p(seed, 20 + seed * 9, 2 + 2 * seed, 3, 150, 40, reciprocal);
                const ranks found = rank_all(p, filtered);
                REQUIRE(found.head.size() == p.test.size());
                link_metrics metrics;
                for (std::size_t i = 0; i < p.test.size(); ++i) {
                    CHECK(found.head[i] == p.rank(p.test[i], side::head, filtered));
                    CHECK(found.tail[i] == p.rank(p.test[i], side::tail, filtered));
                    metrics.head.add(found.head[i]);
                    metrics.tail.add(found.tail[i]);
                }
                CHECK(found.metrics == metrics);
            }
}

TEST_CASE("a table of many tiles ranks like the double loop") {
    problem<distmult_decoder> p(3, 2 * detail::tile_shape::superblock_rows + 700, 6, 2, 20000, 150);
    const ranks found = rank_all(p, true);
    for (std::size_t i = 0; i < p.test.size(); i += 37) {
        CHECK(found.head[i] == p.rank(p.test[i], side::head, true));
        CHECK(found.tail[i] == p.rank(p.test[i], side::tail, true));
    }
}

TEST_CASE_TEMPLATE(
    "blocks of the table, blocks of queries and threads do not change a bit", D, complex_decoder, transe_decoder) {
    problem<D> p(11, 1500, 10, 2, 4000, 333);
    // Values of all magnitudes: a different order of rounding would show.
    random_stream draw(random_key{1, random_domain::user});
    for (float& value : p.rows.values) value *= 1 + to_unit_float(draw());
    const ranks once = rank_all(p, true);
    CHECK(p.rows.passes == 2);
    for (const std::size_t block : {1U, 13U, 512U, 1000U}) {
        p.rows.block = block;
        CHECK(rank_all(p, true) == once);
    }
    for (const std::size_t edges : {1U, 10U, 100U}) {
        p.rows.passes = 0;
        CHECK(rank_all(p, true, memory_of_blocks(edges, 10, 100)) == once);
        CHECK(p.rows.passes >= 2 * 333 / edges);
    }
    for (const std::size_t threads : {1U, 2U}) CHECK(rank_all(p, true, 1U << 30, tbb_executor(threads)) == once);
    const ranks raw = rank_all(p, false);
    CHECK(raw != once);
    CHECK(rank_all(p, false, memory_of_blocks(7, 10, 0)) == raw);
}

TEST_CASE("equal rows tie wherever they are") {
    problem<distmult_decoder> p(5, 1100, 17, 1, 0, 64);
    random_stream draw(random_key{2, random_domain::user});
    for (float& value : p.rows.values) value = to_unit_float(draw()) - 0.5F;
    for (std::size_t i = 1; i < 1100; ++i) std::copy_n(p.rows.values.data(), 17, p.rows.values.data() + i * 17);
    for (const std::size_t block : {1U, 5U, 1100U}) {
        p.rows.block = block;
        const ranks found = rank_all(p, false);
        for (const rank_counts& counts : found.tail) CHECK(counts == rank_counts{0, 1099});
        CHECK(found.metrics.both().mean_rank() == 550.5);
    }
}

TEST_CASE("nothing to rank gives empty metrics") {
    problem<distmult_decoder> p(1, 10, 4, 1, 10, 0);
    CHECK(rank_all(p, true).metrics == link_metrics{});
    CHECK(link_metrics{}.both().mrr() == 0);
    CHECK(p.rows.passes == 0);
}

TEST_CASE("self edges and nodes that occur only in the test set are ranked like others") {
    problem<transe_decoder> p(9, 30, 4, 2, 60, 2);
    std::erase_if(p.train, [](const edge& e) { return e.source == 7 || e.destination == 7; });
    p.test = {{7, 0, 7}, {3, 1, 3}, {7, 1, 2}};
    const ranks found = rank_all(p, true);
    for (std::size_t i = 0; i < p.test.size(); ++i) {
        CHECK(found.head[i] == p.rank(p.test[i], side::head, true));
        CHECK(found.tail[i] == p.rank(p.test[i], side::tail, true));
    }
}

TEST_CASE("a NaN score is an error that names the edge") {
    for (const bool of_an_end : {false, true}) {
        problem<distmult_decoder> p(4, 1000, 4, 2, 100, 50);
        for (edge& e : p.test) e = {e.source % 900, 0, e.destination % 900};
        p.test[20] = {5, 1, 990};
        if (of_an_end)
            p.rows.values[990 * 4 + 2] = std::numeric_limits<float>::quiet_NaN();
        else
            p.relation_values[1 * 4 + 3] = std::numeric_limits<float>::quiet_NaN();
        // A NaN row affects every query; a NaN relation affects its own edges.
        const std::string first = of_an_end ? "edge 0 (" : "edge 20 (5, 1, 990)";
        for (const std::size_t threads : {1U, 2U}) try {
                rank_all(p, true, 1U << 30, tbb_executor(threads));
                FAIL("ranked a NaN");
            } catch (const error& e) {
                CHECK(e.code() == errc::not_finite);
                CHECK_MESSAGE(std::string(e.what()).find(first) != std::string::npos, e.what());
            }
    }
}

TEST_CASE("an edge with an unknown row or relation is refused before anything is ranked") {
    for (const edge bad : {edge{10, 0, 1}, edge{1, 0, 10}, edge{1, 2, 1}}) {
        problem<distmult_decoder> p(4, 10, 4, 4, 10, 3, true);
        p.model =
            link_scorer::reciprocal(distmult_decoder{}, {p.relation_values.data(), 4, 4}); // 0, 1 and their inverses
        p.test = {{1, 1, 2}, bad};
        CHECK_THROWS_AS(rank_all(p, false), error);
        CHECK(p.rows.passes == 0);
    }
}

TEST_CASE("a budget that holds no edge is refused with the requested bytes") {
    problem<distmult_decoder> p(4, 100, 4, 1, 1000, 10);
    CHECK_THROWS_AS(rank_all(p, true, 1000), over_budget);
    CHECK_THROWS_AS(rank_all(p, true, memory_of_blocks(1, 4, 1)), over_budget); // the answers do not fit
    CHECK_NOTHROW(rank_all(p, true, memory_of_blocks(1, 4, 200)));
    const auto plan = plan_ranking({1000, 100, true, 2}, 64U << 20);
    std::uint64_t sum = 0;
    for (const memory_need& part : plan.parts) sum += part.bytes;
    CHECK(sum <= 64U << 20);
}

} // namespace test_eval_ranking
