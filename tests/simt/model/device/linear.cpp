#include <gneiss/cuda/model/device/linear.cuh>

#include <cmath>
#include <limits>
#include <vector>

#include <simt/model/support.hpp>

namespace test_simt_model_device_linear {

using namespace simt_model;

namespace {

struct shape {
    std::uint32_t rows;
    std::size_t k, n;
    layout how = layout::aligned;
    std::uint32_t first = 0; ///< row of x that belongs to row 0 of the result
};

/// Returns a · b in double, with weights rounded to bfloat16 for bfloat16 rows.
template <class T>
double weight(double w) {
    return std::is_same_v<T, bfloat16> ? static_cast<double>(to_float(to_bfloat16(static_cast<float>(w)))) : w;
}

template <class T>
class one_shape {
public:
    explicit one_shape(const shape& of)
        : of_(of),
          x_(of.first + of.rows + 3, of.k, of.how, 1),
          g_(of.rows + 3, of.n, of.how, 2),
          w_(of.k, of.n, of.how, 3) {}

    void check_forward(activation then, double rate, bool accumulate, bool with_bias) {
        const random_key key = random_key(4, random_domain::dropout).with(9);
        const std::vector<node_id> ids(of_.rows, 17);
        const std::uint32_t named = of_.rows / 2; // half of the rows have ids
        std::vector<float> bias(of_.n);
        for (std::size_t c = 0; c < of_.n; ++c) bias[c] = with_bias ? static_cast<float>(c % 7) / 8 - .3F : 0;
        const rows<T> before(of_.rows + 3, of_.n, of_.how, 5);
        doubles want(of_.rows, of_.n), sizes(of_.rows, of_.n);
        for (std::size_t i = 0; i < of_.rows; ++i)
            for (std::size_t j = 0; j < of_.n; ++j) {
                want.view(i, j) = accumulate ? before(i, j) : 0;
                sizes.view(i, j) = 1; // bias and previous contents
                for (std::size_t k = 0; k < of_.k; ++k) {
                    const double product = std::as_const(x_)(i + of_.first, k) * weight<T>(std::as_const(w_)(k, j));
                    want.view(i, j) += product;
                    sizes.view(i, j) += std::abs(product);
                }
            }
        const std::vector<double> bias_values(bias.begin(), bias.end());
        oracle::bias_activate(bias_values, then, want.view, serial);
        const gneiss::dropout_mask mask(key, rate, {std::span(ids).first(named), 0});
        oracle::dropout(mask, want.view, want.view, serial);
        const std::uint32_t count = of_.rows, first = of_.first;
        cuda::epilogue epilogue{.accumulate = accumulate, .bias = with_bias ? bias.data() : nullptr, .then = then};
        if (rate > 0) epilogue.dropout = {.rate = dropout_rate(rate), .key = &key, .ids = ids.data(), .size = &named};
        simt::for_each_seed(2, [&] {
            rows<T> out = accumulate ? before : rows<T>(of_.rows + 3, of_.n, of_.how);
            cuda::linear<T>(nullptr, {&count, count + 3, &first}, std::as_const(x_).view(), std::as_const(w_).view(),
                out.view(), epilogue);
            check_rows<T>("linear", out, of_.rows, want.view, sizes.view, tolerance, accumulate ? &before : nullptr);
        });
    }

    void check_backward(bool accumulate) {
        const rows<T> before(of_.first + of_.rows + 3, of_.k, of_.how, 6);
        doubles want_x(of_.rows, of_.k), sizes_x(of_.rows, of_.k), want_w(of_.k, of_.n), sizes_w(of_.k, of_.n);
        for (std::size_t i = 0; i < of_.rows; ++i)
            for (std::size_t k = 0; k < of_.k; ++k) {
                want_x.view(i, k) = accumulate ? before(i + of_.first, k) : 0;
                sizes_x.view(i, k) = 1;
                for (std::size_t j = 0; j < of_.n; ++j) {
                    const double g = std::as_const(g_)(i, j), product = g * weight<T>(std::as_const(w_)(k, j));
                    want_x.view(i, k) += product;
                    sizes_x.view(i, k) += std::abs(product);
                    want_w.view(k, j) += g * std::as_const(x_)(i + of_.first, k);
                    sizes_w.view(k, j) += std::abs(g * std::as_const(x_)(i + of_.first, k));
                }
            }
        const rows<float> before_w(of_.k, of_.n, of_.how, 7);
        for (std::size_t k = 0; k < of_.k; ++k)
            for (std::size_t j = 0; j < of_.n; ++j) {
                want_w.view(k, j) += before_w(k, j);
                sizes_w.view(k, j) += 1;
            }
        const std::uint32_t count = of_.rows, capacity = count + 3, first = of_.first;
        const cuda::row_range range{&count, capacity, &first};
        std::vector<float> scratch(cuda::partial_slices(capacity).floats(of_.k * of_.n), 1e9F), bits;
        simt::for_each_seed(2, [&] {
            rows<T> grad_x = before;
            cuda::linear_input_gradient<T>(
                nullptr, range, std::as_const(g_).view(), std::as_const(w_).view(), grad_x.view(), accumulate);
            for (std::size_t i = 0; i < grad_x.size(); ++i) // other rows are unchanged
                for (std::size_t k = 0; k < of_.k; ++k) {
                    const bool mine = i >= first && i < first + count;
                    const double want = mine ? want_x.view(i - first, k) : before(i, k);
                    const double allowed =
                        mine ? tolerance * sizes_x.view(i - first, k) + rounding * std::abs(want) : 0;
                    REQUIRE(std::abs(std::as_const(grad_x)(i, k) - want) <= allowed);
                }
            rows<float> grad_w = before_w;
            cuda::linear_weight_gradient<T>(
                nullptr, range, std::as_const(x_).view(), std::as_const(g_).view(), grad_w.view(), scratch.data());
            check_rows<float>("gradient of weights", grad_w, of_.k, want_w.view, sizes_w.view, tolerance);
            if (bits.empty()) bits = grad_w.bits();
            CHECK(bits == grad_w.bits());
        });
    }

private:
    /// Sums of up to a few hundred products in float.
    static constexpr double tolerance = 1e-5, rounding = std::is_same_v<T, bfloat16> ? 0x1p-8 : 0;

    shape of_;
    rows<T> x_, g_;
    rows<float> w_;
};

} // namespace

TEST_CASE_TEMPLATE(
    "simt.model.linear: products of any size, forward and backward, equal plain loops", T, float, bfloat16) {
    for (const shape& of : {shape{1, 1, 1}, shape{5, 7, 3, layout::odd, 2}, shape{130, 33, 65, layout::aligned, 4},
             shape{64, 64, 64}, shape{20, 100, 8}, shape{17, 130, 70, layout::odd}, shape{0, 4, 4}}) {
        one_shape<T> test(of);
        test.check_forward(activation::none, 0, false, false);
        test.check_backward(false);
        test.check_backward(true);
    }
}

TEST_CASE_TEMPLATE("simt.model.linear: bias, function, dropout and accumulation are fused", T, float, bfloat16) {
    one_shape<T> test({40, 16, 10, layout::aligned, 1});
    for (const activation then : {activation::none, activation::relu, activation::leaky_relu, activation::elu,
             activation::tanh, activation::sigmoid})
        for (const double rate : {0.0, 0.4}) test.check_forward(then, rate, then == activation::elu, true);
}

TEST_CASE("simt.model.linear: an infinity among floats gives infinities, as on the CPU, and no NaN") {
    constexpr std::uint32_t count = 3, k = 40, n = 6;
    constexpr float inf = std::numeric_limits<float>::infinity();
    std::vector<float> x(count * k, .5F), w(k * n), out(count * n);
    for (std::size_t i = 0; i < w.size(); ++i)
        w[i] = i % 3 == 0 ? -1.0F : i % 3 == 1 ? .1F : 2.0F; // some split exactly
    x[5] = inf;
    x[2 * k + 7] = std::numeric_limits<float>::quiet_NaN();
    w[9 * n + 4] = -inf; // for every row; meets .5
    w[5 * n + 3] = 0;    // inf · 0
    cuda::linear<float>(nullptr, {&count, count, nullptr}, cuda::rows_view<const float>(x.data(), k, k),
        cuda::rows_view<const float>(w.data(), n, n), cuda::rows_view<float>(out.data(), n, n));
    for (std::uint32_t i = 0; i < count; ++i)
        for (std::uint32_t j = 0; j < n; ++j) {
            CAPTURE(i);
            CAPTURE(j);
            double want = 0;
            for (std::uint32_t c = 0; c < k; ++c)
                want += static_cast<double>(x[i * k + c]) * static_cast<double>(w[c * n + j]);
            const auto got = static_cast<double>(out[i * n + j]);
            if (std::isfinite(want))
                CHECK(std::abs(got - want) < 1e-4);
            else
                CHECK((std::isnan(want) ? std::isnan(got) : got == want));
        }
}

TEST_CASE_TEMPLATE(
    "simt.model.linear: rows of a table at ids, of floats or of half the size, give the bits of the same "
    "rows in order, in floats",
    In, float, float16, bfloat16) {
    constexpr std::uint32_t count = 150, table_rows = 40, first = 3;
    for (const layout how : {layout::aligned, layout::odd}) {
        const std::size_t k = 37, n = 21;
        const rows<In> table(table_rows, k, how, 1);
        const rows<float> g(count, n, how, 2), w(k, n, how, 3);
        std::vector<std::uint32_t> ids(first + count); // repeated
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i * 7 % table_rows);
        const rows<float> in_order = floats_of(table, std::span(ids).subspan(first), k, how);
        std::vector<float> scratch(cuda::partial_slices(count).floats(k * n));
        rows<float> out(count, n, how), out_by_id(count, n, how), grad(k, n, how), grad_by_id(k, n, how);
        const cuda::row_range all{&count, count}, by_id{&count, count, &first, ids.data()};
        cuda::linear<float>(nullptr, all, in_order.view(), w.view(), out.view());
        cuda::linear<float, In>(nullptr, by_id, table.view(), w.view(), out_by_id.view());
        cuda::linear_weight_gradient<float>(nullptr, all, in_order.view(), g.view(), grad.view(), scratch.data());
        cuda::linear_weight_gradient<float, In>(
            nullptr, by_id, table.view(), g.view(), grad_by_id.view(), scratch.data());
        CHECK(out.bits() == out_by_id.bits());
        CHECK(grad.bits() == grad_by_id.bits());
    }
}

TEST_CASE("simt.model.linear: rows of several slices add up to one weight gradient") {
    one_shape<float>({1500, 6, 5, layout::aligned, 2}).check_backward(false);
}

TEST_CASE("simt.model.linear: weight gradients have the same bits for any capacity") {
    constexpr std::size_t k = 6, n = 5;
    for (const std::uint32_t count : {0U, 40U, 513U, 1500U}) {
        const rows<float> x(count, k, layout::odd, 1), g(count, n, layout::odd, 2);
        std::vector<float> want;
        for (const std::uint32_t capacity : {count, count + 30, 2 * count + 600, 5000U}) {
            std::vector<float> scratch(cuda::partial_slices(capacity).floats(k * n), 1e9F), got(k * n, .5F);
            cuda::linear_weight_gradient<float>(nullptr, {&count, capacity}, x.view(), g.view(),
                cuda::rows_view<float>(got.data(), n, n), scratch.data());
            if (want.empty()) want = got;
            CHECK(got == want);
        }
    }
}

} // namespace test_simt_model_device_linear
