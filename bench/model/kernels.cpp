#include <gneiss/core/executor/serial.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/loss.hpp>
#include <gneiss/model/optimizer.hpp>

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <vector>

// Losses per score, compared with std::exp, and optimizer steps in bytes, compared with a copy of the same bytes.
namespace {

using namespace gneiss;

template <class Loss>
void loss(benchmark::State& state) {
    std::vector<float> scores(1000), gradient(1000);
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = std::sin(static_cast<float>(i));
    for (auto _ : state) {
        std::memcpy(gradient.data(), scores.data(), scores.size() * sizeof(float)); // in place, like a step
        benchmark::DoNotOptimize(Loss{}(1.0F, gradient, std::span(gradient)));
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
}
BENCHMARK(loss<softmax_loss>);
BENCHMARK(loss<marius_loss>);
BENCHMARK(loss<logistic_loss>);
BENCHMARK(loss<margin_loss>);

void loss_by_std_exp(benchmark::State& state) {
    std::vector<float> scores(1000);
    for (auto _ : state) {
        float sum = 0;
        for (std::size_t i = 0; i < scores.size(); ++i) sum += scores[i] = std::exp(-std::abs(scores[i]));
        for (float& x : scores) x /= sum;
        benchmark::DoNotOptimize(scores.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
}
BENCHMARK(loss_by_std_exp);

constexpr std::size_t rows = 100000, dim = 100; // beyond the second-level cache

void step_rows(benchmark::State& state, const char* name) {
    const any_row_optimizer optimizer = make_row_optimizer(name, 0.1F);
    const auto extra = static_cast<std::uint32_t>(optimizer.state_floats(dim));
    embedding_table table(rows, {dim, extra}), gradients(rows, {dim, 0});
    for (std::size_t i = 0; i < rows * dim; ++i) gradients.table().data()[i] = 1e-3F * static_cast<float>(i % 17);
    std::uint64_t t = 0;
    for (auto _ : state) optimizer.step_rows(table.table(), gradients.table(), ++t, serial_executor{});
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                            static_cast<std::int64_t>(2 * table.size_bytes() + gradients.size_bytes()));
}
BENCHMARK_CAPTURE(step_rows, sgd, "sgd");
BENCHMARK_CAPTURE(step_rows, adagrad, "adagrad");
BENCHMARK_CAPTURE(step_rows, adam, "adam");

void copy_rows(benchmark::State& state) {
    std::vector<float> from(2 * rows * dim, 1), to(from.size());
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
        benchmark::DoNotOptimize(to.data());
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(2 * from.size() * sizeof(float)));
}
BENCHMARK(copy_rows);

} // namespace
