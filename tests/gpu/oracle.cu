// Compares products and sums of training size, which would take minutes on the CPU, with cuBLASLt and cuSPARSE. If a
// library is missing, that is reported and its test passes.
#include <cuda/oracle.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/model/device/aggregate.cuh>
#include <gneiss/cuda/model/device/linear.cuh>

#include <doctest/doctest.h>
#include <simt/model/support.hpp>

using namespace simt_model;

namespace {

/// Compares outputs in float or bfloat16: each may differ by its rounding and by `relative` of the largest value.
template <class T>
void check_alike(const std::string& what, const rows<T>& got, const rows<T>& want, double relative) {
    const double rounding = std::is_same_v<T, bfloat16> ? 0x1p-7 : 0x1p-22;
    double largest = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
        for (std::size_t c = 0; c < want.columns(); ++c) largest = std::max(largest, std::abs(want(i, c)));
    CHECK(largest > 0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
        for (std::size_t c = 0; c < want.columns(); ++c)
            wrong += std::abs(got(i, c) - want(i, c)) > rounding * std::abs(want(i, c)) + relative * largest ? 1 : 0;
    INFO(what);
    CHECK(wrong == 0);
}

} // namespace

TEST_CASE_TEMPLATE("gpu.oracle: products of many rows equal those of cuBLASLt", T, float, bfloat16) {
    const gpu_bench::oracle by;
    if (by.products() == nullptr) {
        MESSAGE("left out: " << by.missing().front());
        return;
    }
    constexpr std::uint32_t count = 20'000;
    for (const auto [k, n] : {std::pair{128U, 64U}, {256U, 256U}, {100U, 48U}}) {
        const rows<T> x(count, k, layout::aligned, 1), g(count, n, layout::aligned, 2),
            narrow(k, n, layout::aligned, 3), bias(1, n, layout::aligned, 4);
        rows<float> w(k, n, layout::aligned), wide_bias(1, n, layout::aligned);
        for (std::size_t c = 0; c < n; ++c) {
            for (std::size_t i = 0; i < k; ++i) w(i, c) = static_cast<float>(narrow(i, c));
            wide_bias(0, c) = static_cast<float>(bias(0, c));
        }
        const cuda::row_range all{&count, count};
        rows<T> got(count, n, layout::aligned), want = got, got_x(count, k, layout::aligned), want_x = got_x;
        rows<float> got_w(k, n, layout::aligned), want_w = got_w;
        for (std::size_t i = 0; i < k; ++i)
            for (std::size_t c = 0; c < n; ++c) got_w(i, c) = 0;
        std::vector<float> scratch(cuda::partial_slices(count).floats(std::size_t{k} * n));
        cuda::linear<T>(nullptr, all, x.view(), std::as_const(w).view(), got.view(),
            {.bias = wide_bias.begin(), .then = activation::relu});
        cuda::linear_input_gradient<T>(nullptr, all, g.view(), std::as_const(w).view(), got_x.view());
        cuda::linear_weight_gradient<T>(nullptr, all, x.view(), g.view(), got_w.view(), scratch.data());
        using product = gpu_bench::cublaslt::product;
        product(*by.products(), count, n, k, x.view(), false, narrow.view(), false, want.view(), bias.begin(), true)(
            nullptr);
        product(*by.products(), count, k, n, g.view(), false, narrow.view(), true, want_x.view())(nullptr);
        product(*by.products(), k, n, count, x.view(), true, g.view(), false, want_w.view())(nullptr);
        cuda::synchronize_device();
        check_alike<T>("forward", got, want, 1e-5);
        check_alike<T>("gradient of x", got_x, want_x, 1e-5);
        check_alike<float>("gradient of w", got_w, want_w, 1e-4);
    }
}

TEST_CASE_TEMPLATE("gpu.oracle: sums of many neighbors equal those of cuSPARSE", T, float, bfloat16) {
    const gpu_bench::oracle by;
    if (by.sums() == nullptr) {
        MESSAGE("left out: " << by.missing().back());
        return;
    }
    const random_layer layer(20'000, 30'000, 5'000, 1);
    const gneiss::layer_view& view = layer.host();
    const std::vector<T> ones(view.edges(), rows<T>::stored(1));
    const auto edges = static_cast<std::uint32_t>(view.edges());
    for (const std::size_t columns : {32U, 128U, 256U}) {
        const rows<T> in(layer.sources(), columns, layout::aligned, 2);
        rows<T> got(layer.targets(), columns, layout::aligned), want = got;
        cuda::aggregate<T>(nullptr, cuda::incoming(layer.device()), cuda::edge_weight::one, in.view(), got.view());
        gpu_bench::cusparse::product product(*by.sums(),
            gpu_bench::sparse_rows<T>{
                layer.targets(), layer.sources(), edges, view.offsets.data(), view.neighbors.data(), ones.data()},
            in.view(), want.view());
        product(nullptr);
        cuda::synchronize_device();
        check_alike<T>("sums", got, want, 1e-4);
    }
}
