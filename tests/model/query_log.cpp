#include <gneiss/model/query_log.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/error_code.hpp"

namespace test_model_query_log {

using namespace gneiss;

namespace {

constexpr std::uint64_t nodes = 24;
constexpr std::uint32_t partitions = 6, relations = 3;
constexpr std::size_t dim = 6, edges_of_batch = 12;
const row_partitioning partitioning{nodes, partitions};

/// A batch of a state: edges and negatives among the nodes of its partitions.
struct state_batch {
    std::vector<edge> edges;
    mini_batch_arena arena;
    link_batch batch;

    state_batch(
        std::vector<partition_id> present, std::uint64_t number, bool correct = true, std::uint32_t chunks = 2) {
        std::vector<id_range> ranges;
        for (const partition_id p : present) ranges.push_back({partitioning.begin(p), partitioning.begin(p + 1)});
        const resident_nodes resident(ranges, partitions);
        random_stream draw(random_key(number, random_domain::user));
        edges.resize(edges_of_batch);
        for (edge& e : edges)
            e = {resident[draw.below(resident.size())], static_cast<relation_id>(draw.below(relations)),
                resident[draw.below(resident.size())]};
        batch = link_batch_builder(
            {.per_chunk = 7, .chunks = chunks, .log_q_correction = correct, .name_resident = true}, 1)
                    .build({0, {static_cast<std::uint32_t>(number), 0, number}}, edges, negative_pool(resident, edges),
                        arena);
    }
};

struct model_of {
    any_link_model model;
    std::vector<float> values, table;
    std::size_t rows_of_table;

    explicit model_of(const char* decoder, std::size_t task_rows = 1024, const char* loss = "softmax")
        : model(make_link_model(
              decoder, loss, dim, {.reciprocal = true, .tuning = {.tile_rows = 3, .task_rows = task_rows}})) {
        rows_of_table = model.relation_rows(relations);
        random_stream draw(random_key(5, random_domain::user));
        values.resize(nodes * dim);
        table.resize(rows_of_table * dim);
        for (float& x : values) x = .6F * to_normal(draw());
        for (float& x : table) x = .6F * to_normal(draw());
    }
    /// Returns the gradients of all nodes [nodes, dim].
    template <class E = serial_executor>
    std::vector<float> gradients(const link_batch& batch, query_log* log, const E& on = {}) {
        std::vector<float> rows, got(batch.nodes.size() * dim), all(nodes * dim);
        for (const node_id node : batch.nodes)
            rows.insert(rows.end(), values.begin() + node * dim, values.begin() + (node + 1) * dim);
        sparse_gradients of_relations;
        (void)model.forward_backward(batch, {rows.data(), batch.nodes.size(), dim},
            {table.data(), rows_of_table, model.relation_floats()}, {got.data(), batch.nodes.size(), dim}, of_relations,
            on, log);
        for (std::size_t u = 0; u < batch.nodes.size(); ++u)
            for (std::size_t k = 0; k < dim; ++k) all[batch.nodes[u] * dim + k] = got[u * dim + k];
        return all;
    }
    [[nodiscard]] std::span<const float> row(node_id node) const { return std::span(values).subspan(node * dim, dim); }
};

query_log_options keeping_all(std::uint64_t capacity = 1000) {
    return {.capacity = capacity, .per_list = 40, .epoch_queries = capacity, .seed = 3};
}

} // namespace

TEST_CASE("no query is kept and nothing changes while all nodes are resident") {
    const state_batch all({0, 1, 2, 3, 4, 5}, 1);
    CHECK(all.batch.resident.empty());
    model_of with("distmult");
    query_log log(keeping_all(), dim, partitioning);
    CHECK(with.gradients(all.batch, &log) == with.gradients(all.batch, nullptr));
    CHECK(log.size() == 0);
}

TEST_CASE("a log keeps its capacity of an epoch's queries, uniformly over the batch") {
    constexpr std::uint64_t batches = 4000, capacity = 20000;
    query_log log({.capacity = capacity, .per_list = 1, .epoch_queries = batches * 24, .seed = 9}, dim, partitioning);
    const state_batch some({0, 1}, 1);
    link_batch batch = some.batch;
    std::vector<float> query(dim);
    std::vector<std::uint64_t> kept(24);
    for (std::uint64_t b = 0; b < batches; ++b) {
        batch.key.number.index = b;
        log.begin(batch, 24);
        for (std::uint64_t row = 0; row < 24; ++row) {
            query[0] = static_cast<float>(row);
            log.keep(row, query, 0);
        }
        log.end();
        CHECK(log.size() == (b + 1) * 24 * capacity / (batches * 24));
    }
    CHECK(log.size() == capacity);
    for (std::uint64_t i = 0; i < capacity; ++i) ++kept[static_cast<std::size_t>(log.query(i)[0])];
    double chi = 0;
    for (const std::uint64_t k : kept)
        chi += (static_cast<double>(k) - capacity / 24.) * (static_cast<double>(k) - capacity / 24.) / (capacity / 24.);
    CHECK(chi < 49.7); // 23 degrees of freedom, p = 0.001
}

TEST_CASE("draws from the log are uniform: chi-square") {
    query_log log({.capacity = 48, .per_list = 24000, .epoch_queries = 48, .seed = 2}, dim, partitioning);
    model_of with("distmult");
    for (std::uint64_t b = 0; b < 2; ++b) (void)with.gradients(state_batch({0, 1}, b).batch, &log);
    REQUIRE(log.size() == 48);
    const state_batch next({2, 3}, 2);
    log.begin(next.batch, 24);
    for (const std::uint64_t list : {0U, 1U, 3U}) {
        std::vector<double> seen(48);
        for (std::uint64_t i = 0; i < 24000; ++i) ++seen[log.draw(list, i)];
        double chi = 0;
        for (const double n : seen) chi += (n - 500) * (n - 500) / 500;
        CHECK(chi < 82.7); // 47 degrees of freedom, p = 0.001
    }
}

TEST_CASE("negatives get the gradient of old queries that missed them, exactly: a naive model in double") {
    for (const char* decoder : {"distmult", "complex", "dot", "transe"})
        for (const char* loss : {"softmax", "marius"})
            for (const std::size_t task_rows : {2U, 1024U}) {
                CAPTURE(decoder);
                CAPTURE(loss);
                model_of with(decoder, task_rows, loss);
                query_log log(keeping_all(24), dim, partitioning); // all queries of the batch before
                const state_batch before({0, 1, 2}, 1), now({1, 2, 3}, 2);
                (void)with.gradients(before.batch, &log);
                REQUIRE(log.size() == 24);
                const link_batch& b = now.batch;
                const std::vector<float> plain = with.gradients(b, nullptr);
                log.begin(b, 24);
                // by hand: old queries of each list, against its nodes of partition 3
                std::vector<double> expected(nodes * dim);
                for (std::size_t list = 0; list < b.chunks * 2; ++list)
                    for (std::uint64_t i = 0; i < 40; ++i) {
                        const std::uint64_t at = log.draw(list, i);
                        const auto q = log.query(at);
                        for (const std::uint32_t column : b.list(list / 2, list % 2)) {
                            const node_id node = b.nodes[column];
                            if (partitioning.of(node) != 3) continue;
                            const auto x = with.row(node);
                            std::vector<float> score{with.model.score(q, x)}, p(1);
                            log.differentiate(at, {}, 1, score, p);
                            double distance = 0;
                            for (std::size_t k = 0; k < dim; ++k) distance += (q[k] - x[k]) * double{q[k] - x[k]};
                            for (std::size_t k = 0; k < dim; ++k)
                                expected[node * dim + k] += double{p[0]} * 6 / 40 *
                                    (decoder[0] == 't' ? (q[k] - x[k]) / std::sqrt(distance) : double{q[k]});
                        }
                    }
                query_log again(keeping_all(24), dim, partitioning);
                (void)with.gradients(before.batch, &again);
                const std::vector<float> got = with.gradients(b, &again);
                for (node_id node = 0; node < nodes; ++node)
                    for (std::size_t k = 0; k < dim; ++k) {
                        const auto ends_at = [&](const edge& e) { return e.source == node || e.destination == node; };
                        if (std::ranges::any_of(now.edges, ends_at)) continue; // it is more than a negative
                        CHECK(got[node * dim + k] ==
                            doctest::Approx(.5 * plain[node * dim + k] + expected[node * dim + k])
                                .epsilon(2e-3)
                                .scale(.5));
                    }
            }
}

TEST_CASE("the log-sum of a kept query is that of its loss") {
    model_of with("distmult");
    query_log log(keeping_all(24), dim, partitioning);
    const state_batch some({0, 2}, 1, false, 1); // without correction: log-sum over the positive and the list
    (void)with.gradients(some.batch, &log);
    const link_batch& b = some.batch;
    for (std::uint64_t at = 0; at < log.size(); ++at) {
        std::vector<float> score{1}, p(1);
        log.differentiate(at, {}, 1, score, p);
        bool found = false; // edges of one query differ in their answers
        for (std::size_t s = 0; s < 2; ++s)
            for (const edge& e : some.edges) {
                std::vector<float> q(dim);
                const node_id known = s == 0 ? e.source : e.destination, answer = s == 0 ? e.destination : e.source;
                for (std::size_t k = 0; k < dim; ++k)
                    q[k] = with.values[known * dim + k] * with.table[(e.relation + s * relations) * dim + k];
                if (!std::ranges::equal(q, log.query(at))) continue;
                double sum = std::exp(double{with.model.score(q, with.row(answer))});
                for (const std::uint32_t column : b.list(0, s))
                    sum += std::exp(double{with.model.score(q, with.row(b.nodes[column]))});
                found |= p[0] == doctest::Approx(std::exp(1.) / (std::exp(1.) + sum)).epsilon(1e-4);
            }
        CHECK(found);
    }
}

TEST_CASE("results have the same bits for any executor") {
    for (const char* decoder : {"complex", "transe"}) {
        std::vector<std::vector<float>> results;
        for (const std::size_t threads : {1U, 2U, 4U}) {
            model_of with(decoder, 2);
            query_log log(keeping_all(30), dim, partitioning);
            const tbb_executor on(threads);
            for (std::uint64_t b = 0; b < 3; ++b)
                (void)with.gradients(state_batch({static_cast<partition_id>(b), 5}, b).batch, &log, on);
            results.push_back(with.gradients(state_batch({1, 4}, 9).batch, &log, on));
            const auto bytes = log.save();
            for (const std::byte each : bytes) results.back().push_back(static_cast<float>(each));
        }
        CHECK(results[0] == results[1]);
        CHECK(results[0] == results[2]);
    }
}

TEST_CASE("a saved log continues to the same bits; one of another size is refused") {
    model_of with("complex");
    query_log log(keeping_all(30), dim, partitioning), copy(keeping_all(30), dim, partitioning);
    for (std::uint64_t b = 0; b < 3; ++b) {
        (void)with.gradients(state_batch({static_cast<partition_id>(b), 5}, b).batch, &log);
        copy.load(log.save());
        const state_batch next({1, 4}, 10 + b);
        query_log one = log;
        CHECK(with.gradients(next.batch, &one) == with.gradients(next.batch, &copy));
        CHECK(one.save() == copy.save());
    }
    auto bytes = log.save();
    bytes.pop_back();
    CHECK(gneiss::test::code_of([&] { copy.load(bytes); }) == errc::corrupt);
    CHECK(gneiss::test::code_of([&] { copy.load({}); }) == errc::corrupt);
}

TEST_CASE("options of zero are refused, and the memory is as planned") {
    for (const query_log_options& bad : {query_log_options{.capacity = 0, .epoch_queries = 1},
             query_log_options{.per_list = 0, .epoch_queries = 1}, query_log_options{}})
        CHECK(gneiss::test::code_of([&] { (void)query_log(bad, dim, partitioning); }) == errc::invalid_argument);
    CHECK(
        query_log::bytes_needed({.capacity = 1000, .epoch_queries = 1}, 50, 64) >= 1000 * (50 + 1 + 2) * sizeof(float));
    CHECK(query_log::bytes_needed({.capacity = 1000, .epoch_queries = 1}, 50, 64) <=
        1000 * (50 + 1 + 2 + 4) * sizeof(float) + 4096);
}

TEST_CASE("a log of other queries than the model's, or of fewer nodes, and a loss without a log-sum are refused") {
    model_of with("complex");
    query_log wide(keeping_all(30), dim + 100, partitioning), few(keeping_all(30), dim, {nodes / 2, partitions});
    const state_batch batch({1, 5}, 0);
    CHECK(gneiss::test::code_of([&] { (void)with.gradients(batch.batch, &wide); }) == errc::invalid_argument);
    CHECK(gneiss::test::code_of([&] { (void)with.gradients(batch.batch, &few); }) == errc::out_of_range);
    CHECK(make_link_model("dot", "softmax", dim).has_log_sum());
    CHECK_FALSE(make_link_model("dot", "logistic", dim).has_log_sum());
}

} // namespace test_model_query_log
