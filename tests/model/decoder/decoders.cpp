#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <vector>

#include <model/oracle.hpp>

namespace test_model_decoder_decoders {

using namespace gneiss;

namespace {

constexpr std::size_t dim = 6;

template <class Decoder>
std::vector<double> ask(side missing, std::span<const double> known, std::span<const double> relation) {
    std::vector<double> q(dim);
    Decoder{}.query(missing, known, relation, std::span(q));
    return q;
}

template <class Decoder>
double score(side missing, const oracle::table& x) {
    const auto head = x[0], relation = x[1].first(Decoder::relation_floats(dim)), tail = x[2];
    return missing == side::tail ? oracle::compare(Decoder::compare, ask<Decoder>(missing, head, relation), tail)
                                 : oracle::compare(Decoder::compare, ask<Decoder>(missing, tail, relation), head);
}

template <class Decoder, class Formula>
void check(Formula&& formula) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        oracle::table x(4, dim, seed);
        const double expected = formula(x[0], x[1], x[2]);
        CHECK(score<Decoder>(side::tail, x) == doctest::Approx(expected));
        CHECK(score<Decoder>(side::head, x) == doctest::Approx(expected));
        const std::size_t relation_size = Decoder::relation_floats(dim);
        for (const side missing : {side::tail, side::head}) { // the gradients of ⟨w, query⟩, accumulated
            std::vector<double> known(dim, 1), relation(relation_size, 2);
            Decoder{}.query_backward(
                missing, x[0], x[1].first(relation_size), x[3], std::span(known), std::span(relation));
            const auto weighed = [&] {
                return oracle::compare(
                    similarity::inner_product, x[3], ask<Decoder>(missing, x[0], x[1].first(relation_size)));
            };
            for (std::size_t k = 0; k < dim; ++k)
                CHECK(known[k] == doctest::Approx(1 + oracle::slope(x.values[k], weighed)).epsilon(1e-6));
            for (std::size_t k = 0; k < relation_size; ++k)
                CHECK(relation[k] == doctest::Approx(2 + oracle::slope(x.values[dim + k], weighed)).epsilon(1e-6));
        }
    }
}

} // namespace

TEST_CASE("decoders score by their formula from both sides, and their gradients equal finite differences") {
    using row = std::span<const double>;
    check<dot_decoder>([](row h, row, row t) {
        double sum = 0;
        for (std::size_t k = 0; k < dim; ++k) sum += h[k] * t[k];
        return sum;
    });
    check<distmult_decoder>([](row h, row r, row t) {
        double sum = 0;
        for (std::size_t k = 0; k < dim; ++k) sum += h[k] * r[k] * t[k];
        return sum;
    });
    check<complex_decoder>([](row h, row r, row t) {
        std::complex<double> sum = 0;
        const auto at = [](row x, std::size_t k) { return std::complex<double>(x[k], x[dim / 2 + k]); };
        for (std::size_t k = 0; k < dim / 2; ++k) sum += at(h, k) * at(r, k) * std::conj(at(t, k));
        return sum.real();
    });
    check<transe_decoder>([](row h, row r, row t) {
        double sum = 0;
        for (std::size_t k = 0; k < dim; ++k) sum += (h[k] + r[k] - t[k]) * (h[k] + r[k] - t[k]);
        return -std::sqrt(sum);
    });
}

} // namespace test_model_decoder_decoders
