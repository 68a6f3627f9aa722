#include <benchmark/benchmark.h>

#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/top_k.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/transe.hpp>

namespace {

using namespace gneiss;

/// A table in memory, shown at once.
struct table {
    std::vector<float> values;
    std::size_t width;

    [[nodiscard]] std::uint64_t rows() const { return values.size() / width; }
    [[nodiscard]] std::size_t dim() const { return width; }
    [[nodiscard]] matrix_view<const float> view() const { return {values.data(), values.size() / width, width}; }
    void for_each_block(const embedding_block_visitor& visit) const { visit(0, view()); }
};

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
    std::vector<float> values(count);
    random_stream draw(random_key{seed, random_domain::user});
    for (float& value : values) value = to_unit_float(draw()) - 0.5F;
    return values;
}

std::vector<edge> random_edges(std::size_t count, std::uint64_t nodes, std::uint64_t relations) {
    std::vector<edge> edges(count);
    random_stream draw(random_key{3, random_domain::user});
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(relations)),
            static_cast<node_id>(draw.below(nodes))};
    return edges;
}

// Nodes, relations and known edges of FB15k-237, a tenth of its test edges. One thread.
constexpr std::size_t nodes = 14541, relations = 237, known_count = 310116, test_count = 2048;

void count_rates(benchmark::State& state, std::size_t queries, std::size_t dim) {
    using benchmark::Counter;
    const auto ranks = static_cast<double>(queries) * static_cast<double>(state.iterations());
    state.counters["ranks/s"] = Counter(ranks, Counter::kIsRate);
    state.counters["flop/s"] = Counter(ranks * 2 * static_cast<double>(nodes * dim), Counter::kIsRate);
}

template <class D>
void rank_all_nodes(benchmark::State& state, bool filtered) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    table rows{random_floats(nodes * dim, 1), dim};
    const auto relation_values = random_floats(relations * dim, 2);
    const link_scorer model(D{}, {relation_values.data(), relations, dim});
    const auto test = random_edges(test_count, nodes, relations);
    const auto known = random_edges(filtered ? known_count : 0, nodes, relations);
    const edge_scan scan = [&](const edge_visitor& visit) { visit(known); };
    for (auto _ : state)
        benchmark::DoNotOptimize(rank_edges(model, rows, test, filtered ? scan : edge_scan{}, serial_executor{}));
    count_rates(state, 2 * test_count, dim);
}

/// Computes the same scores with Eigen alone, in tiles whose output stays in cache.
void raw_eigen_product(benchmark::State& state) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const auto rows = random_floats(nodes * dim, 1), queries = random_floats(2 * test_count * dim, 2);
    const matrix_view<const float> x(rows.data(), nodes, dim), q(queries.data(), 2 * test_count, dim);
    std::vector<float> scores(128 * 512);
    const eigen_backend eigen;
    for (auto _ : state)
        for (std::size_t first = 0; first < nodes; first += 512)
            for (std::size_t i = 0; i < q.rows(); i += 128) {
                const std::size_t n = std::min<std::size_t>(512, nodes - first);
                eigen.multiply_nt(q.middle_rows(i, 128), x.middle_rows(first, n), {scores.data(), 128, n});
                benchmark::DoNotOptimize(scores.data());
            }
    count_rates(state, 2 * test_count, dim);
}

void best_ten(benchmark::State& state) {
    const std::size_t dim = 100;
    table rows{random_floats(nodes * dim, 1), dim};
    const auto relation_values = random_floats(relations * dim, 2);
    const link_scorer model(complex_decoder{}, {relation_values.data(), relations, dim});
    std::vector<link_query> queries;
    for (const edge& e : random_edges(static_cast<std::size_t>(state.range(0)), nodes, relations))
        queries.push_back(query_of(e, side::tail));
    for (auto _ : state) benchmark::DoNotOptimize(top_k(model, rows, queries, 10, {}, serial_executor{}));
    count_rates(state, queries.size(), dim);
}

void complex_raw(benchmark::State& state) { rank_all_nodes<complex_decoder>(state, false); }
void complex_filtered(benchmark::State& state) { rank_all_nodes<complex_decoder>(state, true); }
void transe_raw(benchmark::State& state) { rank_all_nodes<transe_decoder>(state, false); }

BENCHMARK(raw_eigen_product)->Name("eval/rank/raw_eigen_product/dim")->Arg(50)->Arg(100)->Arg(400);
BENCHMARK(complex_raw)->Name("eval/rank/complex_raw/dim")->Arg(50)->Arg(100)->Arg(400);
BENCHMARK(complex_filtered)->Name("eval/rank/complex_filtered/dim")->Arg(100);
BENCHMARK(transe_raw)->Name("eval/rank/transe_raw/dim")->Arg(100);
BENCHMARK(best_ten)->Name("eval/top_k/queries")->Arg(1)->Arg(1000);

} // namespace
