#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/layer/missing_neighbors.hpp>
#include <gneiss/sample/layer_view.hpp>

#include <benchmark/benchmark.h>

#include <Eigen/Core>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

// GNN layers and their kernels on one thread. Products in FLOP/s, compared with Eigen's product of the same shape. Sums
// of segments in bytes/s of rows read and written (a row per edge, one per target), compared with a raw loop, a memcpy
// of the same number of contiguous bytes, and memcpys of the rows of the same number of edges. 10,000 targets, 10 edges
// each, 60,000 sources drawn at random, beyond the second-level cache. All memory is in huge pages, as for batches.
namespace {

using namespace gneiss;

constexpr std::size_t targets = 10000, sources = 60000, fanout = 10, edges = targets * fanout;

struct random_layer {
    std::vector<std::uint32_t> offset, neighbor;

    random_layer() : neighbor(edges) {
        const random_key key(1, random_domain::user);
        for (std::size_t t = 0; t <= targets; ++t) offset.push_back(static_cast<std::uint32_t>(t * fanout));
        for (std::size_t e = 0; e < edges; ++e) neighbor[e] = static_cast<std::uint32_t>(below(key[e], sources));
    }
    [[nodiscard]] static std::size_t layers() { return 1; }
    template <class... Memory>
    [[nodiscard]] layer_view layer(std::size_t, Memory&...) const {
        return {.targets = targets,
            .sources = sources,
            .offsets = offset,
            .neighbors = neighbor,
            .first_target = sources - targets};
    }
};

aligned_buffer<float, 64> some(std::size_t size) {
    aligned_buffer<float, 64> x(size);
    advise_huge_pages(x.data(), x.size_bytes());
    for (std::size_t i = 0; i < size; ++i) x[i] = 1e-2F * static_cast<float>(i % 29) - 0.1F;
    return x;
}

void set_rate(benchmark::State& state, const char* name, double each) {
    state.counters[name] =
        benchmark::Counter(static_cast<double>(state.iterations()) * each, benchmark::Counter::kIsRate);
}

void run_layer(benchmark::State& state, const char* text, bool backward, bool input_needs_gradient) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const serial_executor executor;
    const random_layer sample;
    layer_stack views;
    views.assign(sample, executor);
    dense_parameters<> weights;
    encoder<float, eigen_backend> encode(weights, parse_layers(text), {.dense = dim});
    weights.allocate(1);
    const auto rows = some(sources * dim);
    auto grad_in = some(sources * dim);
    const input_rows<float> input{matrix_view<const float>(rows.data(), sources, dim)};
    (void)encode.forward(weights, views, input, {}, executor);
    for (auto _ : state) {
        if (!backward) {
            benchmark::DoNotOptimize(encode.forward(weights, views, input, {}, executor).data());
            continue;
        }
        state.PauseTiming();
        const auto out = encode.forward(weights, views, input, {}, executor);
        state.ResumeTiming();
        encode.backward(weights, out,
            input_needs_gradient ? matrix_view<float>(grad_in.data(), sources, dim) : matrix_view<float>(), executor);
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(edges));
}
#define GNEISS_BENCH_LAYER(name, text)                                                                                 \
    BENCHMARK_CAPTURE(run_layer, name##_forward, text, false, true)->Arg(128)->Unit(benchmark::kMillisecond);          \
    BENCHMARK_CAPTURE(run_layer, name##_backward, text, true, true)->Arg(128)->Unit(benchmark::kMillisecond);          \
    BENCHMARK_CAPTURE(run_layer, name##_backward_weights_only, text, true, false)                                      \
        ->Arg(128)                                                                                                     \
        ->Unit(benchmark::kMillisecond)
GNEISS_BENCH_LAYER(sage_mean, "sage:128:relu");
GNEISS_BENCH_LAYER(sage_max, "sage:128:max:relu");
GNEISS_BENCH_LAYER(gcn, "gcn:128:relu");
GNEISS_BENCH_LAYER(gat_8_heads, "gat:16x8:elu");
GNEISS_BENCH_LAYER(gat_4_heads, "gat:32x4:elu"); // the cheaper order is to multiply sums, since targets are few
GNEISS_BENCH_LAYER(gat_4_heads_product_first, "gat:32x4:elu:product=first");

constexpr std::size_t rows_moved = edges + targets;

/// Imputes missing neighbors in rows [targets, dim]; and a raw loop that sums their columns, then scales and shifts
/// each row.
void impute_missing(benchmark::State& state, bool raw) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const random_layer sample;
    const layer_view view{
        .targets = targets, .sources = sources, .offsets = sample.offset, .neighbors = sample.neighbor};
    const std::vector<float> coverage(targets, 0.25F);
    auto rows = some(targets * dim);
    std::vector<float> sum(dim);
    missing_neighbors<float> missing;
    for (auto _ : state) {
        if (!raw) {
            missing.assign(view, coverage);
            missing.forward(eigen_backend{}, {rows.data(), targets, dim}, serial_executor{});
        } else {
            std::ranges::fill(sum, 0.0F);
            for (std::size_t t = 0; t < targets; ++t)
                for (std::size_t c = 0; c < dim; ++c) sum[c] += rows.data()[t * dim + c] / float{targets};
            for (std::size_t t = 0; t < targets; ++t)
                for (std::size_t c = 0; c < dim; ++c)
                    rows.data()[t * dim + c] = 0.25F * rows.data()[t * dim + c] + 0.75F * sum[c];
        }
        benchmark::DoNotOptimize(rows.data());
    }
    set_rate(state, "bytes/s", static_cast<double>(3 * targets * dim * sizeof(float)));
}
BENCHMARK_CAPTURE(impute_missing, library, false)->Arg(64)->Arg(256);
BENCHMARK_CAPTURE(impute_missing, raw_loop, true)->Arg(64)->Arg(256);

void segment_sum(benchmark::State& state, bool mean) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const random_layer sample;
    const edge_segments s{sample.offset, sample.neighbor};
    const auto in = some(sources * dim);
    auto shares = some(edges), out = some(targets * dim);
    for (auto _ : state) {
        if (mean) eigen_backend{}.segment_shares(s, shares.span(), serial_executor{});
        eigen_backend{}.segment_sum(s, mean ? shares.span() : std::span<const float>{}, 1, {in.data(), sources, dim},
            {out.data(), targets, dim}, serial_executor{});
        benchmark::DoNotOptimize(out.data());
    }
    set_rate(state, "bytes/s", static_cast<double>(rows_moved * dim * sizeof(float)));
}
BENCHMARK_CAPTURE(segment_sum, plain, false)->Arg(32)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(segment_sum, mean, true)->Arg(32)->Arg(128)->Arg(256);

void segment_sum_by_raw_loop(benchmark::State& state) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const random_layer sample;
    const auto in = some(sources * dim);
    auto out = some(targets * dim);
    for (auto _ : state) {
        for (std::size_t t = 0; t < targets; ++t) {
            float* const to = out.data() + t * dim;
            std::memset(to, 0, dim * sizeof(float));
            for (std::size_t e = sample.offset[t]; e < sample.offset[t + 1]; ++e) {
                const float* const from = in.data() + sample.neighbor[e] * dim;
                for (std::size_t c = 0; c < dim; ++c) to[c] += from[c];
            }
        }
        benchmark::DoNotOptimize(out.data());
    }
    set_rate(state, "bytes/s", static_cast<double>(rows_moved * dim * sizeof(float)));
}
BENCHMARK(segment_sum_by_raw_loop)->Arg(32)->Arg(128)->Arg(256);

/// Adds an edge block between two partitions of 80,000 nodes, as layer-wise inference does: lists of 1 or 2 edges.
/// Bytes of the rows read, and of the sums read and written.
enum class block_work : std::uint8_t { sum, sum_raw, maximum, maximum_raw, attention };
void add_block(benchmark::State& state, block_work work) {
    constexpr std::size_t rows = 80000;
    const auto dim = static_cast<std::size_t>(state.range(0));
    std::vector<std::uint32_t> target, offset{0}, source;
    const random_key lengths(1, random_domain::user), ends = lengths.with(1);
    for (std::uint32_t v = 0; v < rows; ++v) {
        const std::uint64_t draw = below(lengths[v], 8);
        if (draw >= 3) continue; // of 8 nodes two have a list of one edge, and one a list of two
        target.push_back(v);
        for (std::uint64_t e = 0; e < (draw == 0 ? 2 : 1); ++e)
            source.push_back(static_cast<std::uint32_t>(below(ends[2 * std::uint64_t{v} + e], rows)));
        offset.push_back(static_cast<std::uint32_t>(source.size()));
    }
    const edge_part part{{offset, source}, target};
    const std::size_t heads = work == block_work::attention ? 4 : 0, columns = dim + heads, sums = dim + 3 * heads;
    const auto in = some(rows * columns);
    auto out = some(rows * sums);
    const std::vector<std::uint32_t> seen(rows, 1);
    const matrix_view<const float> from(in.data(), rows, columns);
    const matrix_view<float> to(out.data(), rows, sums);
    const auto raw = [&](auto each) {
        for (std::size_t t = 0; t < target.size(); ++t)
            for (std::size_t e = offset[t]; e < offset[t + 1]; ++e)
                for (std::size_t c = 0; c < dim; ++c) each(to(target[t], c), from(source[e], c));
    };
    for (auto _ : state) {
        switch (work) {
        case block_work::sum: eigen_backend{}.add_segments(part, from, to, serial_executor{}); break;
        case block_work::sum_raw: raw([](float& sum, float x) { sum += x; }); break;
        case block_work::maximum: eigen_backend{}.raise_segments(part, seen, from, to, serial_executor{}); break;
        case block_work::maximum_raw: raw([](float& best, float x) { best = x > best ? x : best; }); break;
        case block_work::attention:
            eigen_backend{}.attend_segments(part, heads, 0.2F, from, to, serial_executor{});
            break;
        }
        benchmark::DoNotOptimize(out.data());
    }
    set_rate(
        state, "bytes/s", static_cast<double>((source.size() * columns + 2 * target.size() * sums) * sizeof(float)));
}
BENCHMARK_CAPTURE(add_block, library, block_work::sum)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(add_block, raw_loop, block_work::sum_raw)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(add_block, maximum, block_work::maximum)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(add_block, maximum_raw_loop, block_work::maximum_raw)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(add_block, attention, block_work::attention)->Arg(64)->Arg(128);

void segment_bytes_by_memcpy(benchmark::State& state, bool gathered) { // half of them read, half written
    const auto dim = static_cast<std::size_t>(state.range(0));
    const random_layer sample;
    const auto from = some(std::max(sources, rows_moved / 2) * dim);
    auto to = some(rows_moved / 2 * dim);
    for (auto _ : state) {
        if (!gathered)
            std::memcpy(to.data(), from.data(), to.size_bytes());
        else
            for (std::size_t e = 0; e < rows_moved / 2; ++e)
                std::memcpy(to.data() + e * dim, from.data() + sample.neighbor[e] * dim, dim * sizeof(float));
        benchmark::DoNotOptimize(to.data());
    }
    set_rate(state, "bytes/s", static_cast<double>(rows_moved * dim * sizeof(float)));
}
BENCHMARK_CAPTURE(segment_bytes_by_memcpy, in_a_row, false)->Arg(32)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(segment_bytes_by_memcpy, gathered, true)->Arg(32)->Arg(128)->Arg(256);

void product(benchmark::State& state, int which) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const auto a = some(targets * dim), w = some(dim * dim), bias = some(dim);
    auto out = some(targets * dim), grad = some(dim * dim);
    const serial_executor executor;
    const matrix_view<const float> rows(a.data(), targets, dim), weights(w.data(), dim, dim);
    for (auto _ : state) {
        if (which == 0)
            eigen_backend{}.multiply(
                rows, weights, {out.data(), targets, dim}, {false, bias.span(), activation::relu}, executor);
        if (which == 1) eigen_backend{}.multiply_nt(rows, weights, {out.data(), targets, dim}, false, executor);
        if (which == 2) eigen_backend{}.add_tn(rows, rows, {grad.data(), dim, dim}, executor);
        benchmark::DoNotOptimize(out.data());
        benchmark::DoNotOptimize(grad.data());
    }
    set_rate(state, "FLOP/s", 2 * static_cast<double>(targets * dim * dim));
}
BENCHMARK_CAPTURE(product, with_bias_and_relu, 0)->Arg(50)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(product, of_the_transpose, 1)->Arg(50)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(product, of_the_weight_gradient, 2)->Arg(50)->Arg(128)->Arg(256);

void product_by_eigen(benchmark::State& state, int which) { // without the epilogue
    using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const auto dim = static_cast<Eigen::Index>(state.range(0));
    const matrix a = matrix::Random(targets, dim), w = matrix::Random(dim, dim);
    matrix out(targets, dim), grad = matrix::Zero(dim, dim);
    for (auto _ : state) {
        if (which == 0) out.noalias() = a * w;
        if (which == 1) out.noalias() = a * w.transpose();
        if (which == 2) grad.noalias() += a.transpose() * a;
        benchmark::DoNotOptimize(out.data());
        benchmark::DoNotOptimize(grad.data());
    }
    set_rate(state, "FLOP/s", 2 * static_cast<double>(targets) * static_cast<double>(dim * dim));
}
BENCHMARK_CAPTURE(product_by_eigen, plain, 0)->Arg(50)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(product_by_eigen, of_the_transpose, 1)->Arg(50)->Arg(128)->Arg(256);
BENCHMARK_CAPTURE(product_by_eigen, of_the_weight_gradient, 2)->Arg(50)->Arg(128)->Arg(256);

void product_of_words(benchmark::State& state, bool gradient) { // 33 words per row out of 8,415
    constexpr std::size_t rows = 10000, words = 8415, each = 33, dim = 128;
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::uint32_t> indices;
    const random_key key(2, random_domain::user);
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t k = 0; k < each; ++k)
            indices.push_back(static_cast<std::uint32_t>(below(key[i * each + k], words)));
        offsets.push_back(indices.size());
    }
    const auto w = some(words * dim), g = some(rows * dim);
    std::vector<float> out(rows * dim), grad(words * dim);
    const sparse_rows<float> x{words, offsets, indices, {}};
    for (auto _ : state) {
        if (gradient)
            eigen_backend{}.sparse_add_tn(x, {g.data(), rows, dim}, {grad.data(), words, dim}, serial_executor{});
        else
            eigen_backend{}.sparse_multiply(x, {w.data(), words, dim}, {out.data(), rows, dim}, {}, serial_executor{});
        benchmark::DoNotOptimize(out.data());
        benchmark::DoNotOptimize(grad.data());
    }
    set_rate(state, "FLOP/s", 2.0 * rows * each * dim);
    set_rate(state, "bytes/s", 4.0 * (rows * each + rows) * dim);
}
BENCHMARK_CAPTURE(product_of_words, forward, false);
BENCHMARK_CAPTURE(product_of_words, weight_gradient, true);

/// Scalars per edge, 8 heads: scores and their softmax; or the gradient of the softmax alone, in place of a fresh one
/// of its output.
void attention_step(benchmark::State& state, bool backward) {
    constexpr std::size_t heads = 8;
    const random_layer sample;
    const auto a = some(targets * heads), b = some(sources * heads), fresh = some(edges * heads);
    std::vector<float> shares(edges * heads), g(edges * heads);
    const edge_segments s{sample.offset, sample.neighbor};
    const eigen_backend by;
    const serial_executor executor;
    const auto forward = [&] {
        by.edge_scores(s, heads, {a.data(), targets, heads}, {b.data(), sources, heads}, 0.2F, shares, executor);
        by.segment_softmax(s, heads, shares, executor);
    };
    forward();
    for (auto _ : state) {
        if (!backward) {
            forward();
            benchmark::DoNotOptimize(shares.data());
            continue;
        }
        state.PauseTiming();
        std::ranges::copy(fresh, g.begin());
        state.ResumeTiming();
        by.segment_softmax_backward(s, heads, shares, g, executor);
        benchmark::DoNotOptimize(g.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(edges * heads));
}
BENCHMARK_CAPTURE(attention_step, forward, false);
BENCHMARK_CAPTURE(attention_step, backward, true);

} // namespace
