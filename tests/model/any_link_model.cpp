#include <gneiss/model/any_link_model.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <string>
#include <vector>

#include "support/error_code.hpp"

namespace test_model_any_link_model {

using namespace gneiss;

namespace {

constexpr std::size_t dim = 8, relations = 3, nodes = 20;

/// DistMult times a factor that is state of the object; four floats at a time.
struct scaled_distmult {
    float factor = 1;
    static constexpr similarity compare = similarity::inner_product;
    static constexpr std::size_t relation_floats(std::size_t floats) { return floats; }
    static constexpr bool accepts(std::size_t floats) { return floats % 4 == 0; }
    void query(side, std::span<const float> known, std::span<const float> relation, std::span<float> q) const {
        for (std::size_t i = 0; i < q.size(); ++i) q[i] = factor * (known[i] * relation[i]);
    }
    void query_backward(side, std::span<const float> known, std::span<const float> relation,
        std::span<const float> grad_q, std::span<float> grad_known, std::span<float> grad_relation) const {
        for (std::size_t i = 0; i < grad_q.size(); ++i) {
            grad_known[i] += factor * (grad_q[i] * relation[i]);
            grad_relation[i] += factor * (grad_q[i] * known[i]);
        }
    }
};
static_assert(decoder<scaled_distmult>);

/// The library's softmax, reimplemented as a custom loss.
struct own_softmax {
    loss_and_gradient<float> operator()(
        float positive, std::span<const float> negatives, std::span<float> gradient) const {
        return softmax_loss{}(positive, negatives, gradient);
    }
};
static_assert(ranking_loss<own_softmax>);

std::vector<float> values(std::size_t count, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user));
    std::vector<float> result(count);
    for (float& x : result) x = static_cast<float>(to_unit(draw()) - .5);
    return result;
}

struct outcome {
    double loss = 0;
    std::vector<float> rows, relation_rows;
    friend bool operator==(const outcome&, const outcome&) = default;
};

outcome run(any_link_model& model) {
    const std::vector<edge> edges{{0, 0, 1}, {2, 1, 3}, {4, 2, 5}, {1, 0, 7}};
    const id_range all{0, nodes};
    mini_batch_arena arena;
    link_batch_builder builder({.filtered = true, .all = true}, 1);
    const link_batch batch = builder.build({}, edges, {resident_nodes({&all, 1}), edges}, arena);
    const auto rows = values(nodes * dim, 1), table = values(2 * relations * dim, 2);
    outcome result{.rows = std::vector<float>(nodes * dim), .relation_rows = {}};
    sparse_gradients gradients;
    result.loss =
        model
            .forward_backward(batch, {rows.data(), nodes, dim}, {table.data(), model.relation_rows(relations), dim},
                {result.rows.data(), nodes, dim}, gradients, serial_executor{})
            .loss;
    for (std::size_t i = 0; i < gradients.ids().size(); ++i)
        result.relation_rows.insert(result.relation_rows.end(), gradients.rows()[i].begin(), gradients.rows()[i].end());
    return result;
}

} // namespace

TEST_CASE("a custom decoder and loss make a model, as objects or by name, and the object's state counts") {
    for (const bool reciprocal : {false, true}) {
        const link_model_options options{.reciprocal = reciprocal};
        any_link_model named = make_link_model("distmult", "softmax", dim, options);
        any_link_model own_decoder = make_link_model(scaled_distmult{}, "softmax", dim, options);
        any_link_model own_loss = make_link_model("distmult", own_softmax{}, dim, options);
        any_link_model own = make_link_model(scaled_distmult{}, own_softmax{}, dim, options);
        const outcome expected = run(named);
        CHECK(run(own_decoder) == expected);
        CHECK(run(own_loss) == expected);
        CHECK(run(own) == expected);
        any_link_model doubled = make_link_model(scaled_distmult{2}, std::string("softmax"), dim, options);
        CHECK(run(doubled).loss != expected.loss);
    }
    CHECK_THROWS_WITH_AS(
        (void)make_link_model(scaled_distmult{}, "hinge", dim), doctest::Contains("no loss \"hinge\""), error);
    CHECK_THROWS_WITH_AS(
        (void)make_link_model("simple", own_softmax{}, dim), doctest::Contains("no decoder \"simple\""), error);
}

TEST_CASE("a decoder restricts its dimensions") {
    CHECK_NOTHROW((void)make_link_model(scaled_distmult{}, "softmax", 12));
    CHECK_THROWS_WITH_AS((void)make_link_model(scaled_distmult{}, "softmax", 10),
        "the decoder does not accept rows of 10 floats", error);
    CHECK_THROWS_WITH_AS((void)make_link_model("complex", "softmax", 7),
        "the decoder does not accept rows of 7 floats: as complex numbers they are even", error);
    for (const char* decoder : {"dot", "distmult", "complex", "transe"}) {
        CHECK_THROWS_WITH_AS(
            (void)make_link_model(decoder, "softmax", 0), "the decoder does not accept rows of 0 floats", error);
        CHECK_NOTHROW((void)make_link_model(decoder, "softmax", 6));
    }
}

TEST_CASE("a model's scorer uses its decoder, and reciprocal relations if the model was trained with them") {
    for (const bool reciprocal : {false, true}) {
        const link_model_options options{.reciprocal = reciprocal};
        std::vector<any_link_model> models;
        for (const char* decoder : {"dot", "distmult", "complex", "transe"})
            models.push_back(make_link_model(decoder, "softmax", dim, options));
        models.push_back(make_link_model(scaled_distmult{3}, "softmax", dim, options));
        for (const any_link_model& model : models) {
            const std::size_t floats = model.relation_floats(), rows = model.relation_rows(relations);
            const auto table = values(rows * floats, 4), known = values(dim, 5);
            const matrix_view<const float> view(table.data(), rows, floats);
            const link_scorer scorer = model.scorer(view);
            for (const side end : {side::head, side::tail})
                for (relation_id r = 0; r < relations; ++r) {
                    std::vector<float> expected(dim), found(dim);
                    model.queries(end, {known.data(), 1, dim}, {&r, 1}, view, {expected.data(), 1, dim});
                    scorer.query({0, r, end}, known, found);
                    CHECK(found == expected);
                }
            CHECK(scorer.knows(0, relations - 1, 1, dim));
            CHECK(scorer.knows(0, relations, 1, dim) == (floats == 0));
        }
    }
}

TEST_CASE("a scorer refuses a table of relations that does not match the model") {
    const any_link_model model = make_link_model("distmult", "softmax", dim, {.reciprocal = true});
    const auto table = values(6 * dim, 1);
    CHECK_NOTHROW((void)model.scorer({table.data(), 6, dim}));
    CHECK(test::code_of([&] { (void)model.scorer(); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { (void)model.scorer({table.data(), 6, dim / 2}); }) == errc::invalid_argument);
    CHECK_THROWS_WITH_AS(
        (void)model.scorer({table.data(), 5, dim}), doctest::Contains("two rows a relation of 8 floats"), error);
    CHECK_NOTHROW((void)make_link_model("distmult", "softmax", dim).scorer({table.data(), 5, dim}));
    CHECK_NOTHROW((void)make_link_model("dot", "softmax", dim).scorer());
}

} // namespace test_model_any_link_model
