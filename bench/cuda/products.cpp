// Products of rows and weights, as in a linear layer: forward, with bias and ReLU fused, and both gradients.
#include <type_traits>

#include <cuda/harness.hpp>
#include <cuda/oracle.hpp>
#include <gneiss/cuda/model/device/linear.cuh>

namespace gpu_bench {

namespace {

/// Bytes: each operand and the result once.
template <class T>
void linear_layer(bench& executor, const oracle& by, std::uint32_t rows, std::uint32_t k, std::uint32_t n) {
    const auto count = executor.one(rows);
    const auto x = executor.random<T>(std::size_t{rows} * k), g = executor.random<T>(std::size_t{rows} * n),
               narrow = executor.random<T>(std::size_t{k} * n);
    const auto w = executor.random<float>(std::size_t{k} * n), bias = executor.random<float>(n);
    const auto narrow_bias = executor.random<T>(n);
    auto out = executor.random<T>(std::size_t{rows} * n), grad_x = executor.random<T>(std::size_t{rows} * k);
    auto grad_w = executor.random<float>(std::size_t{k} * n),
         scratch = executor.random<float>(cuda::partial_slices(rows).floats(std::size_t{k} * n));
    const auto view = [](auto& of, std::uint32_t width) { return cuda::rows_view(of.data(), width, width); };
    const cuda::row_range all{count.data(), rows};
    const double operations = 2.0 * rows * k * n;
    const double of_x = static_cast<double>(x.bytes()), of_g = static_cast<double>(g.bytes()),
                 of_w = static_cast<double>(w.bytes());
    const auto report = [&](const char* what, double bytes, double ours, std::optional<double> theirs) {
        executor.report(record("linear")
                            .add("what", what)
                            .add("type", std::is_same_v<T, float> ? "f32" : "bf16")
                            .add("rows", rows)
                            .add("k", k)
                            .add("n", n),
            {bytes, operations, 0, 0, std::is_same_v<T, bfloat16>}, ours, theirs, "cuBLASLt");
    };
    const auto library = [&](auto&&... shape) -> std::optional<double> {
        if (by.products() == nullptr) return {};
        const cublaslt::product product(*by.products(), shape...);
        return executor.milliseconds([&](cudaStream_t stream) { product(stream); });
    };
    const cuda::rows_view<const T> rows_x = view(x, k), rows_g = view(g, n), weights = view(narrow, n);
    report("forward", of_x + of_g + of_w, executor.milliseconds([&](cudaStream_t stream) {
        cuda::linear<T>(stream, all, rows_x, view(w, n), view(out, n));
    }),
        library(rows, n, k, rows_x, false, weights, false, view(out, n)));
    report("forward, bias and ReLU", of_x + of_g + of_w, executor.milliseconds([&](cudaStream_t stream) {
        cuda::linear<T>(stream, all, rows_x, view(w, n), view(out, n), {.bias = bias.data(), .then = activation::relu});
    }),
        library(rows, n, k, rows_x, false, weights, false, view(out, n), narrow_bias.data(), true));
    report("gradient of x", of_x + of_g + of_w, executor.milliseconds([&](cudaStream_t stream) {
        cuda::linear_input_gradient<T>(stream, all, rows_g, view(w, n), view(grad_x, k));
    }),
        library(rows, k, n, rows_g, false, weights, true, view(grad_x, k)));
    report("gradient of w", of_x + of_g + of_w, executor.milliseconds([&](cudaStream_t stream) {
        cuda::linear_weight_gradient<T>(stream, all, rows_x, rows_g, view(grad_w, n), scratch.data());
    }),
        library(k, n, rows, rows_x, true, rows_g, false, view(grad_w, n)));
}

} // namespace

void products(bench& executor, const oracle& by) {
    const std::uint32_t rows = bench::size(100'000, 40);
    for (const std::uint32_t n : {64U, 128U, 256U}) {
        if (!executor.wanted("linear " + std::to_string(n))) continue;
        const std::uint32_t k = bench::size(n, 24), width = bench::size(n, n / 8);
        linear_layer<float>(executor, by, rows, k, width);
        linear_layer<bfloat16>(executor, by, rows, k, width);
    }
}

} // namespace gpu_bench
