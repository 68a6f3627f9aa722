#include <gneiss/core/executor/serial.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <benchmark/benchmark.h>

#include <Eigen/Core>

#include <vector>

// Edges (two queries each) per second of a whole step (scores, losses, gradients, sums per node), compared with its
// three mandatory products, and scores alone compared with the one product, at the same shapes, on one thread.
namespace {

using namespace gneiss;

constexpr std::size_t chunk = 1000, per_chunk = 1000, chunks = 4;

void count(benchmark::State& state, std::size_t dim, std::size_t query_count) {
    const double asked = static_cast<double>(state.iterations()) * static_cast<double>(query_count);
    state.counters["questions/s"] = benchmark::Counter(asked, benchmark::Counter::kIsRate);
    state.counters["edges/s"] = benchmark::Counter(asked / 2, benchmark::Counter::kIsRate);
    state.counters["FLOP/s"] =
        benchmark::Counter(asked * 6 * static_cast<double>(per_chunk * dim), benchmark::Counter::kIsRate);
}

void link_model_step(benchmark::State& state, const char* decoder, const char* loss) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const serial_executor executor;
    const id_range all{0, 100000};
    const resident_nodes resident({&all, 1}, 1);
    std::vector<edge> edges(chunk * chunks);
    const random_key key(1, random_domain::user);
    for (std::size_t i = 0; i < edges.size(); ++i)
        edges[i] = {static_cast<node_id>(below(key[3 * i], all.end)),
            static_cast<relation_id>(below(key[3 * i + 1], 100)), static_cast<node_id>(below(key[3 * i + 2], all.end))};
    mini_batch_arena arena;
    link_batch_builder builder({.per_chunk = per_chunk, .chunks = chunks, .degree_fraction = .5}, 1);
    const link_batch batch = builder.build({}, edges, {resident, edges}, arena);
    any_link_model model = make_link_model(decoder, loss, dim);
    const std::size_t relation_size = model.relation_floats();
    embedding_table rows(batch.nodes.size(), {static_cast<std::uint32_t>(dim), 0});
    embedding_table relations(100, {static_cast<std::uint32_t>(relation_size), 0});
    initialize_rows(initializer::normal(0, 0.1F), 0, 1, embedding_kind::nodes, 0, dim, rows.table(), executor);
    initialize_rows(
        initializer::normal(0, 0.1F), 0, 1, embedding_kind::relations, 0, relation_size, relations.table(), executor);
    embedding_table gradients(batch.nodes.size(), {static_cast<std::uint32_t>(dim), 0});
    sparse_gradients relation_gradients;
    for (auto _ : state)
        benchmark::DoNotOptimize(model.forward_backward(
            batch, rows.values(), relations.values(), gradients.table(), relation_gradients, executor));
    count(state, dim, 2 * edges.size());
}
void dims(benchmark::internal::Benchmark* b) { b->ArgName("dim")->Arg(50)->Arg(100)->Arg(400); }
BENCHMARK_CAPTURE(link_model_step, dot_softmax, "dot", "softmax")->Apply(dims);
BENCHMARK_CAPTURE(link_model_step, distmult_softmax, "distmult", "softmax")->Apply(dims);
BENCHMARK_CAPTURE(link_model_step, complex_softmax, "complex", "softmax")->Apply(dims);
BENCHMARK_CAPTURE(link_model_step, transe_softmax, "transe", "softmax")->Apply(dims);
BENCHMARK_CAPTURE(link_model_step, complex_marius, "complex", "marius")->Arg(100);
BENCHMARK_CAPTURE(link_model_step, complex_logistic, "complex", "logistic")->Arg(100);
BENCHMARK_CAPTURE(link_model_step, transe_margin, "transe", "margin")->Arg(100);

void eigen_three_products(benchmark::State& state) {
    using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const auto dim = static_cast<Eigen::Index>(state.range(0));
    const matrix q = matrix::Random(chunk, dim), n = matrix::Random(per_chunk, dim);
    matrix s(chunk, per_chunk), dq(chunk, dim), dn = matrix::Zero(per_chunk, dim);
    for (auto _ : state) {
        s.noalias() = q * n.transpose();
        dq.noalias() = s * n;
        dn.noalias() += s.transpose() * q;
        benchmark::DoNotOptimize(dn.data());
        benchmark::DoNotOptimize(dq.data());
        benchmark::ClobberMemory();
    }
    count(state, static_cast<std::size_t>(dim), chunk);
}
BENCHMARK(eigen_three_products)->Apply(dims);

void count_scores(benchmark::State& state) {
    const double scores = static_cast<double>(state.iterations()) * static_cast<double>(chunk * per_chunk);
    state.counters["scores/s"] = benchmark::Counter(scores, benchmark::Counter::kIsRate);
    state.counters["FLOP/s"] =
        benchmark::Counter(scores * 2 * static_cast<double>(state.range(0)), benchmark::Counter::kIsRate);
}

void negative_scores(benchmark::State& state, const char* decoder) {
    const auto dim = static_cast<std::size_t>(state.range(0));
    const any_link_model model = make_link_model(decoder, "softmax", dim);
    embedding_table rows(chunk + per_chunk, {static_cast<std::uint32_t>(dim), 0});
    initialize_rows(initializer::normal(0, 0.1F), 0, 1, embedding_kind::nodes, 0, dim, rows.table(), serial_executor{});
    std::vector<float> out(chunk * per_chunk);
    for (auto _ : state) {
        model.scores(rows.values().middle_rows(0, chunk), rows.values().middle_rows(chunk, per_chunk),
            {out.data(), chunk, per_chunk});
        benchmark::ClobberMemory();
    }
    count_scores(state);
}
BENCHMARK_CAPTURE(negative_scores, inner_product, "dot")->Apply(dims); // also represents complex and distmult
BENCHMARK_CAPTURE(negative_scores, distance, "transe")->Apply(dims);

void eigen_one_product(benchmark::State& state) {
    using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const auto dim = static_cast<Eigen::Index>(state.range(0));
    const matrix q = matrix::Random(chunk, dim), n = matrix::Random(per_chunk, dim);
    matrix s(chunk, per_chunk);
    for (auto _ : state) {
        s.noalias() = q * n.transpose();
        benchmark::DoNotOptimize(s.data());
        benchmark::ClobberMemory();
    }
    count_scores(state);
}
BENCHMARK(eigen_one_product)->Apply(dims);

} // namespace
