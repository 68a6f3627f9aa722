#include <gneiss/model/backend/segment_kernels.hpp>

#include "../gnn.hpp"

#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace test_model_backend_segment_kernels {

using namespace gneiss;
using kernels = segment_kernels<float>;

// The layers' tests check each kernel within its layer. These tests use shapes that layers do not have.

TEST_CASE("rows are gathered by id, in any order and repeatedly, into strided rows") {
    const gnn::matrix<float> in(9, 5, 1);
    gnn::matrix<float> out(700, 8, 2);
    const std::vector<float> before = out.memory;
    std::vector<std::uint32_t> ids(700);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i * 7 % 9);
    kernels::gather_rows(in.view, ids, out.view.middle_columns(2, 5), tbb_executor(2));
    for (std::size_t i = 0; i < 700; ++i)
        for (std::size_t c = 0; c < 8; ++c)
            CHECK(out.view(i, c) == (c >= 2 && c < 7 ? in.view(ids[i], c - 2) : before[i * 8 + c]));
}

TEST_CASE("sums of segments equal naive ones for all lengths, heads and directions, with and without weights") {
    std::vector<std::uint32_t> offsets{0}, rows, edges;
    const random_key key(1, random_domain::user);
    for (std::uint32_t length = 0; length < 20; ++length) {
        for (std::uint32_t k = 0; k < length; ++k)
            rows.push_back(static_cast<std::uint32_t>(below(key[rows.size()], 11)));
        offsets.push_back(static_cast<std::uint32_t>(rows.size()));
    }
    for (std::uint32_t e = 0; e < rows.size(); ++e) edges.push_back(e);
    shuffle(edges, key);
    const gnn::matrix<float> in(11, 24, 3);
    for (const bool turned : {false, true})
        for (const std::size_t heads : {1U, 2U, 8U})
            for (const bool weighted : {false, true}) {
                const edge_segments s{
                    offsets, rows, turned ? std::span<const std::uint32_t>(edges) : std::span<const std::uint32_t>{}};
                const gnn::matrix<float> weights(rows.size(), heads, 4);
                gnn::matrix<float> out(20, 24, 5), total(20, heads, 6);
                kernels::segment_sum(s, weighted ? std::span<const float>(weights.memory) : std::span<const float>{},
                    heads, in.view, out.view, serial_executor{});
                kernels::segment_total(s, heads, weights.memory, total.view, serial_executor{});
                for (std::size_t i = 0; i < 20; ++i) {
                    for (std::size_t c = 0; c < 24; ++c) {
                        double sum = 0;
                        for (std::size_t j = offsets[i]; j < offsets[i + 1]; ++j) {
                            const std::size_t e = turned ? edges[j] : j;
                            sum += static_cast<double>(in.view(rows[e], c)) *
                                (weighted ? static_cast<double>(weights.view(e, c / (24 / heads))) : 1);
                        }
                        CHECK(std::abs(static_cast<double>(out.view(i, c)) - sum) < 1e-5);
                    }
                    for (std::size_t h = 0; h < heads; ++h) {
                        double sum = 0;
                        for (std::size_t j = offsets[i]; j < offsets[i + 1]; ++j)
                            sum += static_cast<double>(weights.view(turned ? edges[j] : j, h));
                        CHECK(std::abs(static_cast<double>(total.view(i, h)) - sum) < 1e-5);
                    }
                }
            }
}

TEST_CASE("sums of long segments of wide rows equal naive ones, and accumulate on request") {
    constexpr std::size_t columns = 307; // slices of every width, in float and in double
    const std::vector<std::uint32_t> offsets{0, 3, 300, 300, 365};
    std::vector<std::uint32_t> rows(365);
    const random_key key(2, random_domain::user);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(below(key[i], 40));
    const std::vector<std::uint32_t> targets{3, 0, 4, 1};
    const gnn::matrix<double> in(40, columns, 3), start(5, columns, 4);
    const gnn::matrix<float> in32(40, columns, 3);
    gnn::matrix<float> added32(5, columns, 4);
    gnn::matrix<double> summed(4, columns, 5), added(5, columns, 4);
    segment_kernels<double>::segment_sum({offsets, rows}, {}, 1, in.view, summed.view, tbb_executor(2));
    segment_kernels<double>::add_segments({{offsets, rows}, targets}, in.view, added.view, tbb_executor(2));
    kernels::add_segments({{offsets, rows}, targets}, in32.view, added32.view, tbb_executor(2));
    for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t c = 0; c < columns; ++c) {
            const auto segment = static_cast<std::size_t>(std::ranges::find(targets, i) - targets.begin());
            double sum = 0;
            for (std::size_t j = segment == 4 ? 0 : offsets[segment]; segment != 4 && j < offsets[segment + 1]; ++j)
                sum += in.view(rows[j], c);
            if (segment != 4) CHECK(std::abs(summed.view(segment, c) - sum) < 1e-11);
            CHECK(std::abs(added.view(i, c) - start.view(i, c) - sum) < 1e-11);
            CHECK(std::abs(static_cast<double>(added32.view(i, c)) - start.view(i, c) - sum) < 1e-3);
        }
}

TEST_CASE("a softmax of large scores neither overflows nor loses its sum, and the first of equal maxima wins") {
    const std::vector<std::uint32_t> offsets{0, 3, 3, 4}, rows{0, 1, 0, 2};
    const edge_segments s{offsets, rows};
    std::vector<float> scores{1e30F, 1e30F, -1e30F, -5e30F};
    kernels::segment_softmax(s, 1, scores, serial_executor{});
    CHECK(scores == std::vector<float>{0.5F, 0.5F, 0, 1});
    gnn::matrix<float> in(3, 1), out(3, 1);
    in.memory = {-2, -2, -7};
    std::vector<std::uint32_t> won(3);
    kernels::segment_max({offsets, rows}, {in.memory.data(), 3, 1}, out.view, {won.data(), 3, 1}, serial_executor{});
    CHECK(out.memory == std::vector<float>{-2, 0, -7});
    CHECK(won == std::vector<std::uint32_t>{0, kernels::no_winner, 3});
}

TEST_CASE("activations in float equal those of the standard library, also far from 0") {
    for (const float x : {-200.0F, -30.0F, -3.0F, -1e-3F, 0.0F, 1e-3F, 2.0F, 15.0F, 60.0F, 1e30F}) {
        const auto of = [x](activation act) {
            float y = x;
            kernels::finish({.then = act}, {&y, 1, 1});
            return static_cast<double>(y);
        };
        const double v = static_cast<double>(x);
        CHECK(of(activation::relu) == std::max(v, 0.0));
        CHECK(of(activation::leaky_relu) == doctest::Approx(v > 0 ? v : v * .01));
        CHECK(std::abs(of(activation::elu) - (v > 0 ? v : std::expm1(v))) < 1e-6);
        CHECK(std::abs(of(activation::tanh) - std::tanh(v)) < 1e-6);
        CHECK(std::abs(of(activation::sigmoid) - 1 / (1 + std::exp(-v))) < 1e-6);
    }
}

} // namespace test_model_backend_segment_kernels
