#include <gneiss/model/link_scorer.hpp>

#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace test_model_link_scorer {

using namespace gneiss;

namespace {

std::vector<float> asked(const link_scorer& score, const link_query& q) {
    const float known[] = {1, 2, 3, 4};
    std::vector<float> out(4);
    score.query(q, known, out);
    return out;
}

} // namespace

TEST_CASE("a scorer forms queries like its decoder") {
    const float relations[] = {1, 0, 2, 1, /**/ 5, 6, 7, 8};
    const float known[] = {1, 2, 3, 4};
    const complex_decoder decode;
    const link_scorer score(decode, {relations, 2, 4});
    CHECK(score.compare() == similarity::inner_product);
    for (const side missing : {side::head, side::tail})
        for (relation_id r = 0; r < 2; ++r) {
            std::vector<float> expected(4);
            decode.query(missing, known, std::span(relations).subspan(r * 4, 4), std::span(expected));
            CHECK(asked(score, {0, r, missing}) == expected);
        }
}

TEST_CASE("with reciprocal relations a head query is a tail query of the inverse relation") {
    const float relations[] = {1, 0, 0, 0, /**/ 0, 10, 0, 0};
    const link_scorer score = link_scorer::reciprocal(transe_decoder{}, {relations, 2, 4});
    CHECK(asked(score, {0, 0, side::tail}) == std::vector<float>{2, 2, 3, 4});
    CHECK(asked(score, {0, 0, side::head}) == std::vector<float>{1, 12, 3, 4});
    CHECK(score.knows(9, 0, 10, 4));
    CHECK_FALSE(score.knows(9, 1, 10, 4));
    CHECK_FALSE(score.knows(10, 0, 10, 4));
}

TEST_CASE("a decoder without relations accepts edges of any relation") {
    const link_scorer score(dot_decoder{});
    CHECK(score.knows(9, 1000000, 10, 4));
    CHECK(asked(score, {0, 77, side::head}) == std::vector<float>{1, 2, 3, 4});
}

} // namespace test_model_link_scorer
