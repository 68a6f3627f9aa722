#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/link_model.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include <model/oracle.hpp>

namespace test_model_link_model {

using namespace gneiss;

namespace {

constexpr std::size_t nodes = 11, relations = 3, dim = 6;

std::vector<edge> some_edges(std::size_t count, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user));
    std::vector<edge> edges(count);
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(relations)),
            static_cast<node_id>(draw.below(nodes))};
    edges[count - 1] = edges[0];                            // a repeated edge
    edges[count - 2].destination = edges[count - 2].source; // a loop
    return edges;
}

struct problem {
    std::vector<edge> edges;
    mini_batch_arena arena;
    link_batch batch;

    problem(std::size_t count, const negative_options& options, std::uint64_t seed) : edges(some_edges(count, seed)) {
        const id_range all{0, nodes};
        batch = link_batch_builder(options, seed)
                    .build({2, {1, 0, seed}}, edges, {resident_nodes({&all, 1}), edges}, arena);
    }
};

struct outcome {
    link_statistics statistics;
    std::vector<float> nodes;
    sparse_gradients relations;

    friend bool operator==(const outcome& a, const outcome& b) {
        return a.statistics.loss == b.statistics.loss && a.statistics.penalty == b.statistics.penalty &&
            a.nodes == b.nodes && std::ranges::equal(a.relations.ids(), b.relations.ids()) &&
            std::equal(a.relations.rows().data(),
                a.relations.rows().data() + a.relations.rows().rows() * a.relations.rows().columns(),
                b.relations.rows().data());
    }
};

/// Runs a model with rows and relations inside wider tables, as with optimizer state.
template <class Model, class E>
outcome run(Model& model, const link_batch& batch, const oracle::table& values, const oracle::table& relation_values,
    const E& executor) {
    const std::size_t d = values.dim, wide = d + 3, r = relation_values.dim;
    std::vector<float> rows(batch.nodes.size() * wide, 1e9F), table(relation_values.rows() * (r + 2), 1e9F);
    for (std::size_t u = 0; u < batch.nodes.size(); ++u)
        for (std::size_t k = 0; k < d; ++k) rows[u * wide + k] = static_cast<float>(values[batch.nodes[u]][k]);
    for (std::size_t i = 0; i < relation_values.rows(); ++i)
        for (std::size_t k = 0; k < r; ++k) table[i * (r + 2) + k] = static_cast<float>(relation_values[i][k]);
    outcome result;
    result.nodes.assign(batch.nodes.size() * d, 7e9F);
    result.statistics =
        model.forward_backward(batch, matrix_view<const float>(rows.data(), batch.nodes.size(), d, wide),
            matrix_view<const float>(table.data(), relation_values.rows(), r, r + 2),
            matrix_view<float>(result.nodes.data(), batch.nodes.size(), d), result.relations, executor);
    return result;
}

void check_close(double got, double expected, double scale) {
    CHECK(std::abs(got - expected) <= 2e-4 * (scale + std::abs(expected)));
}

template <class Decoder, class Loss>
void check_gradients(const char* decoder, const char* loss, Loss of, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user).with(99));
    link_model_options options;
    options.reduce = draw.below(2) == 0 ? reduction::sum : reduction::mean;
    options.reciprocal = draw.below(2) == 0;
    options.penalty = {static_cast<norm_penalty>(draw.below(3)), 0.05};
    if (draw.below(2) == 0) // many tiles and several tasks per list
        options.tuning = {.tile_rows = 1 + draw.below(3), .task_rows = 2, .nodes_per_task = 2};
    const negative_options sampling{.per_chunk = static_cast<std::uint32_t>(1 + draw.below(7)),
        .chunks = static_cast<std::uint32_t>(1 + draw.below(3)),
        .degree_fraction = .5,
        .filtered = draw.below(2) == 0,
        .all = draw.below(4) == 0,
        .sides = static_cast<corrupted_sides>(draw.below(3))};
    CAPTURE(decoder);
    CAPTURE(loss);
    CAPTURE(seed);

    problem p(4 + draw.below(6), sampling, seed);
    any_link_model model = make_link_model(decoder, loss, dim, options, 0.7F);
    oracle::table values(nodes, dim, seed + 1000);
    oracle::table relation_values(model.relation_rows(relations), model.relation_floats(), seed + 2000);
    const outcome got = run(model, p.batch, values, relation_values, serial_executor{});
    const auto total = [&] { return oracle::total(p.batch, values, relation_values, options, Decoder{}, of); };
    const bool mean = options.reduce == reduction::mean;
    check_close((mean ? got.statistics.mean_loss() : got.statistics.loss) + got.statistics.penalty, total(), 1);
    CHECK(got.statistics.query_count == p.batch.sides.size() * p.edges.size());
    CHECK(got.statistics.masked <= got.statistics.negatives);
    for (std::size_t u = 0; u < p.batch.nodes.size(); ++u)
        for (std::size_t k = 0; k < dim; ++k)
            check_close(got.nodes[u * dim + k], oracle::slope(values.values[p.batch.nodes[u] * dim + k], total), 1);
    std::set<std::size_t> touched;
    for (std::size_t i = 0; i < got.relations.ids().size(); ++i) {
        const std::size_t id = got.relations.ids()[i];
        touched.insert(id);
        if (i > 0) CHECK(got.relations.ids()[i - 1] < id);
        for (std::size_t k = 0; k < relation_values.dim; ++k)
            check_close(got.relations.rows()(i, k),
                oracle::slope(relation_values.values[id * relation_values.dim + k], total), 1);
    }
    for (std::size_t id = 0; id < relation_values.rows(); ++id)
        if (!touched.contains(id)) CHECK(oracle::slope(relation_values.values[id * relation_values.dim], total) == 0);
}

template <class Decoder>
void check_losses(const char* decoder, std::uint64_t seed) {
    check_gradients<Decoder>(decoder, "softmax", softmax_loss{}, seed);
    check_gradients<Decoder>(decoder, "marius", marius_loss{}, seed + 1);
    check_gradients<Decoder>(decoder, "logistic", logistic_loss{}, seed + 2);
    check_gradients<Decoder>(decoder, "margin", margin_loss{0.7F}, seed + 3);
}

} // namespace

TEST_CASE("loss and all gradients equal a naive model in double and its finite differences, under every option") {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        check_losses<dot_decoder>("dot", 100 * seed);
        check_losses<distmult_decoder>("distmult", 100 * seed + 10);
        check_losses<complex_decoder>("complex", 100 * seed + 20);
        check_losses<transe_decoder>("transe", 100 * seed + 30);
    }
}

TEST_CASE("results have the same bits for any executor and number of threads") {
    for (const char* decoder : {"complex", "transe"})
        for (const std::size_t task_rows : {std::size_t{3}, std::size_t{1000}}) {
            problem p(57, {.per_chunk = 13, .chunks = 4, .degree_fraction = .5, .filtered = true}, 3);
            const link_model_options options{.penalty = {norm_penalty::n3, 0.1},
                .reciprocal = true,
                .tuning = {.tile_rows = 5, .task_rows = task_rows, .nodes_per_task = 2}};
            any_link_model model = make_link_model(decoder, "softmax", dim, options);
            const oracle::table values(nodes, dim, 1), relation_values(2 * relations, dim, 2);
            const outcome once = run(model, p.batch, values, relation_values, serial_executor{});
            for (const std::size_t threads : {1U, 2U, 5U})
                for (int repeat = 0; repeat < 3; ++repeat)
                    CHECK(run(model, p.batch, values, relation_values, tbb_executor(threads)) == once);
        }
}

TEST_CASE("equal rows give equal scores, finite gradients and the loss of a random guess") {
    problem p(9, {.per_chunk = 6, .chunks = 1, .degree_fraction = .5}, 4);
    oracle::table values(nodes, dim, 1), zeros(relations, dim, 1, 0);
    for (std::size_t i = 0; i < values.values.size(); ++i) values.values[i] = values.values[i % dim];
    for (const char* decoder : {"dot", "transe"}) {
        any_link_model model = make_link_model(decoder, "softmax", dim);
        const outcome got =
            run(model, p.batch, values, decoder[0] == 'd' ? oracle::table(0, 0, 1) : zeros, serial_executor{});
        CHECK(got.statistics.loss == doctest::Approx(18 * std::log(7.0)).epsilon(1e-3));
        for (const float g : got.nodes) CHECK(std::isfinite(g));
        if (decoder[0] == 't')
            for (const float g : got.nodes) CHECK(g == 0);
    }
}

TEST_CASE("scores of queries equal the naive scores on both sides") {
    for (const char* decoder : {"distmult", "complex", "transe"})
        for (const bool reciprocal : {false, true}) {
            any_link_model model = make_link_model(decoder, "softmax", dim, {.reciprocal = reciprocal});
            const oracle::table values(nodes, dim, 1), relation_values(model.relation_rows(relations), dim, 2);
            const auto rows = values.floats(), table = relation_values.floats();
            const matrix_view<const float> all(rows.data(), nodes, dim);
            const std::vector<relation_id> ids = {2, 0, 1, 1};
            for (const side missing : {side::head, side::tail}) {
                std::vector<float> q(4 * dim), scores(4 * nodes);
                model.queries(missing, all.middle_rows(3, 4), ids, {table.data(), relation_values.rows(), dim},
                    {q.data(), 4, dim});
                model.scores({q.data(), 4, dim}, all, {scores.data(), 4, nodes});
                for (std::size_t i = 0; i < 4; ++i)
                    for (std::size_t x = 0; x < nodes; ++x) {
                        std::vector<double> exact(dim);
                        const std::size_t shift = reciprocal && missing == side::head ? relations : 0;
                        const auto ask = [&](auto decode) {
                            decode.query(reciprocal ? side::tail : missing, values[3 + i],
                                relation_values[ids[i] + shift], std::span(exact));
                            return oracle::compare(decltype(decode)::compare, exact, values[x]);
                        };
                        const double expected = decoder[0] == 'd' ? ask(distmult_decoder{})
                            : decoder[0] == 'c'                   ? ask(complex_decoder{})
                                                                  : ask(transe_decoder{});
                        CHECK(scores[i * nodes + x] == doctest::Approx(expected).epsilon(1e-3));
                        CHECK(
                            model.score({q.data() + i * dim, dim}, all[x]) == doctest::Approx(expected).epsilon(1e-4));
                    }
            }
        }
}

TEST_CASE("a NaN loss is a typed error that names the batch") {
    problem p(9, {.per_chunk = 6, .chunks = 2, .degree_fraction = .5}, 4);
    for (const char* loss : {"softmax", "marius", "logistic", "margin"})
        for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
            oracle::table values(nodes, dim, 1);
            for (std::size_t k = 0; k < dim; ++k) values.values[p.edges[4].source * dim + k] = bad;
            any_link_model model = make_link_model("dot", loss, dim);
            try {
                (void)run(model, p.batch, values, oracle::table(0, 0, 1), serial_executor{});
                FAIL("no error for " << loss);
            } catch (const error& e) {
                CHECK(e.code() == errc::not_finite);
                CHECK(std::string(e.what()).find("epoch 2, state 1, pass 0, batch 4") != std::string::npos);
            }
        }
}

TEST_CASE("unknown names and inconsistent shapes are refused") {
    CHECK_THROWS_AS((void)make_link_model("rescal", "softmax", 4), error);
    CHECK_THROWS_AS((void)make_link_model("dot", "hinge", 4), error);
    CHECK_THROWS_AS((void)make_link_model("complex", "softmax", 5), error);
    CHECK_THROWS_AS((void)make_link_model("dot", "softmax", 0), error);
    problem p(9, {.per_chunk = 6, .chunks = 2, .degree_fraction = .5}, 4);
    any_link_model model = make_link_model("distmult", "softmax", dim, {.reciprocal = true});
    const oracle::table values(nodes, dim, 1);
    CHECK_THROWS_AS((void)run(model, p.batch, values, oracle::table(relations, dim, 1), serial_executor{}), error);
    CHECK_THROWS_AS(
        (void)run(model, p.batch, oracle::table(nodes, 8, 1), oracle::table(2 * relations, dim, 1), serial_executor{}),
        error);
}

TEST_CASE("the correction for resident partitions gives the loss and gradient of a weighted softmax") {
    // Nodes 0–3, 4–6 and 9–10 are three of five partitions; the edges run within and between them.
    const std::vector<id_range> ranges{{0, 4}, {4, 7}, {9, 11}};
    const std::vector<edge> edges{{0, 0, 1}, {2, 1, 5}, {5, 2, 4}, {9, 0, 3}, {10, 1, 10}};
    const negative_options options{.per_chunk = 7, .chunks = 2, .degree_fraction = 0.3, .log_q_correction = true};
    mini_batch_arena arena;
    const link_batch batch =
        link_batch_builder(options, 3).build({0, {}}, edges, {resident_nodes(ranges, 5), edges}, arena);
    REQUIRE(batch.corrections.size() == 2 * edges.size());

    random_stream draw(random_key(8, random_domain::user));
    std::vector<float> rows(batch.nodes.size() * dim), relation_rows(relations * dim);
    for (auto* values : {&rows, &relation_rows})
        for (float& x : *values) x = static_cast<float>(to_unit(draw()) - 0.5);
    const auto partition = [&](node_id v) { return v < 4 ? 0 : v < 7 ? 1 : 2; };
    const auto loss_of = [&](const std::vector<float>& at) {
        const auto score = [&](std::uint32_t head, std::uint32_t tail, relation_id r) {
            double sum = 0;
            for (std::size_t k = 0; k < dim; ++k)
                sum += double{at[head * dim + k]} * double{relation_rows[r * dim + k]} * double{at[tail * dim + k]};
            return sum;
        };
        double loss = 0;
        for (std::size_t s = 0; s < 2; ++s)
            for (std::size_t c = 0; c < batch.chunks; ++c)
                for (std::size_t i = batch.chunk_begin(c); i < batch.chunk_begin(c + 1); ++i) {
                    const bool tail = batch.side_at(s) == side::tail;
                    const int head_in = partition(edges[i].source), tail_in = partition(edges[i].destination);
                    const std::size_t own = head_in == tail_in ? 1 : 2;
                    const double with_others = 3.0 / 5 * static_cast<double>(5 - own) / static_cast<double>(3 - own);
                    const double positive = score(batch.heads[i], batch.tails[i], edges[i].relation);
                    double sum = std::exp(positive);
                    for (const std::uint32_t n : batch.list(c, s)) {
                        const int in = partition(batch.nodes[n]);
                        const double weight = in == head_in || in == tail_in ? 3.0 / 5 : with_others;
                        sum += weight *
                            std::exp(tail ? score(batch.heads[i], n, edges[i].relation)
                                          : score(n, batch.tails[i], edges[i].relation));
                    }
                    loss += std::log(sum) - positive;
                }
        return loss;
    };
    link_model<distmult_decoder, softmax_loss, eigen_backend> model(dim);
    std::vector<float> gradient(rows.size());
    sparse_gradients relation_gradients;
    const link_statistics got =
        model.forward_backward(batch, {rows.data(), batch.nodes.size(), dim}, {relation_rows.data(), relations, dim},
            {gradient.data(), batch.nodes.size(), dim}, relation_gradients, serial_executor{});
    CHECK(got.loss == doctest::Approx(loss_of(rows)).epsilon(1e-5));
    for (std::size_t k = 0; k < rows.size(); ++k) {
        constexpr float step = 1.0F / 256;
        auto more = rows, less = rows;
        more[k] += step, less[k] -= step;
        CHECK(double{gradient[k]} == doctest::Approx((loss_of(more) - loss_of(less)) / double{2 * step}).epsilon(1e-3));
    }
}

} // namespace test_model_link_model
