#include <gneiss/eval/accuracy.hpp>
#include <gneiss/eval/multilabel.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>

// Metrics of node classification, 20,000 nodes, 40 classes, one thread: nodes/s of counts of one class per node, else
// scores/s. Counts are compared with loops that only count, areas under curves with sorting the scores of each class.
namespace {

using namespace gneiss;

constexpr std::size_t nodes = 20'000, classes = 40;

/// Scores and targets [nodes, classes], and the label and the prediction of each node.
struct predictions {
    std::vector<float> scores, targets;
    std::vector<class_id> labels, predicted;

    predictions() : scores(nodes * classes), targets(scores.size()), labels(nodes), predicted(nodes) {
        random_stream draw(random_key(1, random_domain::user));
        for (float& x : scores) x = to_normal(draw());
        for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = draw.below(8) == 0 ? 1.0F : 0.0F;
        for (std::size_t v = 0; v < nodes; ++v) {
            const auto row = std::span(scores).subspan(v * classes, classes);
            labels[v] = static_cast<class_id>(draw.below(classes));
            predicted[v] = static_cast<class_id>(std::ranges::max_element(row) - row.begin());
        }
    }
    [[nodiscard]] matrix_view<const float> score_rows() const { return {scores.data(), nodes, classes}; }
    [[nodiscard]] matrix_view<const float> target_rows() const { return {targets.data(), nodes, classes}; }
};

void count(benchmark::State& state, std::size_t items) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(items));
}

void one_class(benchmark::State& state) {
    const predictions of;
    for (auto _ : state) {
        classification_metrics metrics(classes);
        for (std::size_t v = 0; v < nodes; ++v) metrics.add(of.labels[v], of.predicted[v]);
        benchmark::DoNotOptimize(metrics.macro_f1());
    }
    count(state, nodes);
}

void one_class_by_hand(benchmark::State& state) {
    const predictions of;
    for (auto _ : state) {
        std::vector<std::uint64_t> labeled(classes), predicted(classes), right(classes);
        for (std::size_t v = 0; v < nodes; ++v) {
            ++labeled[of.labels[v]];
            ++predicted[of.predicted[v]];
            right[of.labels[v]] += of.labels[v] == of.predicted[v];
        }
        benchmark::DoNotOptimize(labeled.data());
        benchmark::DoNotOptimize(predicted.data());
        benchmark::DoNotOptimize(right.data());
    }
    count(state, nodes);
}

void several_classes(benchmark::State& state) {
    const predictions of;
    for (auto _ : state) {
        multilabel_metrics metrics(classes);
        for (std::size_t v = 0; v < nodes; ++v) metrics.add(of.score_rows()[v], of.target_rows()[v]);
        benchmark::DoNotOptimize(metrics.macro_f1());
    }
    count(state, nodes * classes);
}

void several_classes_by_hand(benchmark::State& state) {
    const predictions of;
    for (auto _ : state) {
        std::vector<std::uint64_t> labeled(classes), predicted(classes), right(classes);
        for (std::size_t v = 0; v < nodes; ++v)
            for (std::size_t c = 0; c < classes; ++c) {
                const bool label = of.targets[v * classes + c] > 0.5F, positive = of.scores[v * classes + c] > 0;
                labeled[c] += label;
                predicted[c] += positive;
                right[c] += label && positive;
            }
        benchmark::DoNotOptimize(labeled.data());
        benchmark::DoNotOptimize(predicted.data());
        benchmark::DoNotOptimize(right.data());
    }
    count(state, nodes * classes);
}

void one_class_roc_auc(benchmark::State& state) {
    const predictions of;
    for (auto _ : state) benchmark::DoNotOptimize(macro_roc_auc(of.score_rows(), of.labels));
    count(state, nodes * classes);
}

void several_classes_ranking(benchmark::State& state) { // both areas
    const predictions of;
    for (auto _ : state) benchmark::DoNotOptimize(multilabel_ranking::of(of.score_rows(), of.target_rows()));
    count(state, nodes * classes);
}

/// Limit of an area under a curve: one sort of each class.
void raw_sort(benchmark::State& state) {
    const predictions of;
    std::vector<std::pair<float, bool>> column(nodes);
    for (auto _ : state)
        for (std::size_t c = 0; c < classes; ++c) {
            for (std::size_t v = 0; v < nodes; ++v)
                column[v] = {of.scores[v * classes + c], of.targets[v * classes + c] > 0.5F};
            std::ranges::sort(column);
            benchmark::DoNotOptimize(column.data());
        }
    count(state, nodes * classes);
}

BENCHMARK(one_class)->Name("eval/accuracy/one_class");
BENCHMARK(one_class_by_hand)->Name("eval/accuracy/one_class_raw_loop");
BENCHMARK(several_classes)->Name("eval/accuracy/several_classes");
BENCHMARK(several_classes_by_hand)->Name("eval/accuracy/several_classes_raw_loop");
BENCHMARK(one_class_roc_auc)->Name("eval/accuracy/one_class_roc_auc")->Unit(benchmark::kMillisecond);
BENCHMARK(several_classes_ranking)->Name("eval/accuracy/several_classes_ranking")->Unit(benchmark::kMillisecond);
BENCHMARK(raw_sort)->Name("eval/accuracy/raw_sort")->Unit(benchmark::kMillisecond);

} // namespace
