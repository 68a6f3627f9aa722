#include <gneiss/core/executor/serial.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/loss.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/targets.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

// Losses per score, compared with std::exp, and optimizer steps in bytes, compared with a copy.
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

constexpr std::size_t nodes = 1000, columns = 40; // of a batch of rows of targets

std::vector<float> batch_of(float step) {
    std::vector<float> values(nodes * columns);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(step * static_cast<float>(i));
    return values;
}

template <bool Sigmoid>
void targets(benchmark::State& state) {
    const std::vector<float> outputs = batch_of(1);
    std::vector<float> wanted = batch_of(2), gradients = outputs;
    for (float& t : wanted) t = t > 0.5F ? 1.0F : 0.0F;
    for (auto _ : state) {
        std::memcpy(gradients.data(), outputs.data(), outputs.size() * sizeof(float)); // in place, like a step
        const matrix_view<float> view(gradients.data(), nodes, columns);
        const matrix_view<const float> rows_of(wanted.data(), nodes, columns);
        benchmark::DoNotOptimize(Sigmoid ? sigmoid_cross_entropy(view, rows_of, serial_executor{})
                                         : squared_error(view, rows_of, serial_executor{}));
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(outputs.size()));
}
BENCHMARK(targets<true>)->Name("sigmoid_cross_entropy");
BENCHMARK(targets<false>)->Name("squared_error");

void sigmoid_by_loop(benchmark::State& state) {
    const std::vector<float> outputs = batch_of(1), wanted = batch_of(2);
    std::vector<float> gradients(outputs.size());
    for (auto _ : state) {
        double loss = 0;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const float t = wanted[i] > 0.5F ? 1.0F : 0.0F, small = std::exp(-std::abs(outputs[i]));
            gradients[i] = (outputs[i] > 0 ? 1 / (1 + small) : small / (1 + small)) - t;
            loss += static_cast<double>(std::log1p(small) + std::max(outputs[i], 0.0F) - t * outputs[i]);
        }
        benchmark::DoNotOptimize(loss);
        benchmark::DoNotOptimize(gradients.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(outputs.size()));
}
BENCHMARK(sigmoid_by_loop);

std::vector<class_id> labels_of() {
    std::vector<class_id> labels(nodes);
    for (std::size_t i = 0; i < nodes; ++i) labels[i] = static_cast<class_id>(7 * i % columns);
    return labels;
}

void classify(benchmark::State& state) {
    const std::vector<float> outputs = batch_of(1);
    const std::vector<class_id> labels = labels_of();
    std::vector<float> gradients(outputs.size());
    for (auto _ : state) {
        std::memcpy(gradients.data(), outputs.data(), outputs.size() * sizeof(float)); // in place, like a step
        const matrix_view<float> view(gradients.data(), nodes, columns);
        benchmark::DoNotOptimize(softmax_cross_entropy(view, labels, serial_executor{}).loss);
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(outputs.size()));
}
BENCHMARK(classify)->Name("softmax_cross_entropy");

void softmax_by_loop(benchmark::State& state) {
    const std::vector<float> outputs = batch_of(1);
    const std::vector<class_id> labels = labels_of();
    std::vector<float> gradients(outputs.size());
    for (auto _ : state) {
        double loss = 0;
        for (std::size_t i = 0; i < nodes; ++i) {
            const float* const from = outputs.data() + i * columns;
            float* const to = gradients.data() + i * columns;
            const float top = *std::max_element(from, from + columns);
            float sum = 0;
            for (std::size_t c = 0; c < columns; ++c) sum += to[c] = std::exp(from[c] - top);
            loss += std::log(static_cast<double>(sum)) - static_cast<double>(from[labels[i]] - top);
            for (std::size_t c = 0; c < columns; ++c) to[c] /= sum * float{nodes};
            to[labels[i]] -= 1 / float{nodes};
        }
        benchmark::DoNotOptimize(loss);
        benchmark::DoNotOptimize(gradients.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(outputs.size()));
}
BENCHMARK(softmax_by_loop);

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

/// A step of 4 M values in one array that decays. Values, gradients and states are read and written.
void step_dense(benchmark::State& state, const char* name, double weight_decay) {
    const serial_executor executor;
    const dense_optimizer optimizer = make_dense_optimizer(name, 0.1F, {.weight_decay = weight_decay});
    dense_parameters<> weights;
    weights.add("w", 2048, 2048, initializer::glorot(2048, 2048));
    weights.allocate(1);
    optimizer.allocate_state(weights);
    std::uint64_t t = 0;
    for (auto _ : state) {
        state.PauseTiming();
        for (std::size_t i = 0; i < weights.size(); ++i)
            weights.gradients()[i] = 1e-3F * static_cast<float>(i % 17); // a step zeroes them
        state.ResumeTiming();
        benchmark::DoNotOptimize(optimizer.step(weights, ++t, 1, executor));
    }
    state.SetBytesProcessed(
        static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(2 * weights.size_bytes()));
}
BENCHMARK_CAPTURE(step_dense, sgd, "sgd", 0.0)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_dense, adagrad, "adagrad", 0.0)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_dense, adam, "adam", 0.0)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_dense, adam_with_decay, "adam", 5e-4)->Unit(benchmark::kMillisecond);

/// Limit of both kinds of steps.
void copy_rows(benchmark::State& state) {
    std::vector<float> from(2 * rows * dim, 1), to(from.size());
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
        benchmark::DoNotOptimize(to.data());
    }
    state.SetBytesProcessed(
        static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(2 * from.size() * sizeof(float)));
}
BENCHMARK(copy_rows);

} // namespace
