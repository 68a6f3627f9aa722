#include <gneiss/graph/generate/bipartite.hpp>
#include <gneiss/graph/generate/kronecker.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/generate/rmat.hpp>

#include <benchmark/benchmark.h>

#include <gneiss/core/executor/tbb.hpp>

#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace gneiss;

constexpr std::size_t chunk = 1 << 16;

template <class Generator>
void generate(benchmark::State& state, const Generator& generator) {
    std::vector<edge> out(chunk);
    edge_index first = 0;
    for (auto _ : state) {
        generator.fill(first, out);
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
        first += chunk;
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(chunk));
}

void rmat_edges(benchmark::State& state) {
    generate(state, rmat<>({.nodes = 1ULL << state.range(0), .edges = ~edge_index{0}}));
}
BENCHMARK(rmat_edges)->Name("generate/rmat")->Arg(16)->Arg(20)->Arg(24);

void rmat_all_threads(benchmark::State& state) {
    const rmat<> generator({.nodes = 1 << 20, .edges = ~edge_index{0}});
    const tbb_executor executor;
    std::vector<edge> out(chunk);
    edge_index first = 0;
    for (auto _ : state) {
        generate_edges(generator, first, std::span(out), executor);
        benchmark::DoNotOptimize(out.data());
        first += chunk;
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(chunk));
}
BENCHMARK(rmat_all_threads)->Name("generate/rmat_all_threads")->UseRealTime();

// Limit: a plain loop with a sequential generator, one draw per level.
void raw_rmat(benchmark::State& state) {
    std::mt19937_64 draw(1);
    std::uniform_real_distribution<double> unit;
    std::vector<edge> out(chunk);
    for (auto _ : state) {
        for (edge& e : out) {
            e = {};
            for (std::int64_t level = 0; level < state.range(0); ++level) {
                const double u = unit(draw);
                e.source = e.source * 2 + (u >= .76);
                e.destination = e.destination * 2 + ((u >= .57 && u < .76) || u >= .95);
            }
        }
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(chunk));
}
BENCHMARK(raw_rmat)->Name("generate/raw_rmat_loop")->Arg(16)->Arg(20)->Arg(24);

void planted_edges(benchmark::State& state) {
    generate(state, planted_partition<>({.nodes = 1 << 20, .edges = ~edge_index{0}, .communities = 64}));
}
BENCHMARK(planted_edges)->Name("generate/planted_partition");

void bipartite_edges(benchmark::State& state) {
    generate(state, bipartite<>({.users = 1 << 20, .items = 1 << 17, .edges = ~edge_index{0}}));
}
BENCHMARK(bipartite_edges)->Name("generate/bipartite");

// Limit: a plain loop with a sequential generator over the same shares, without permutations of the nodes.
void raw_bipartite(benchmark::State& state) {
    constexpr std::uint64_t users = 1 << 20, items = 1 << 17, clusters = 20;
    std::mt19937_64 draw(1);
    std::uniform_real_distribution<double> unit;
    std::vector<edge> out(chunk);
    for (auto _ : state) {
        for (edge& e : out) {
            const std::uint64_t cluster = draw() % clusters, other = unit(draw) < .2 ? draw() % clusters : cluster;
            const double user = std::pow(1 + unit(draw) * (std::sqrt(users / clusters + 1.) - 1), 2) - 1;
            const double item = std::pow(items / clusters + 1., unit(draw)) - 1;
            e = {static_cast<node_id>(static_cast<std::uint64_t>(user) * clusters + cluster), 0,
                static_cast<node_id>(users + static_cast<std::uint64_t>(item) * clusters + other)};
        }
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(chunk));
}
BENCHMARK(raw_bipartite)->Name("generate/raw_bipartite_loop");

// Edges of A in memory, so that only the product is measured.
struct listed_edges {
    using edge_type = edge;
    std::span<const edge> list;

    [[nodiscard]] std::uint64_t nodes() const noexcept { return 1 << 20; }
    [[nodiscard]] edge_index edges() const noexcept { return ~edge_index{0} / 4096; }
    edge operator()(edge_index i) const noexcept { return list[i % list.size()]; }
    void fill(edge_index first, std::span<edge> out) const noexcept {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*this)(first + i);
    }
};

void kronecker_edges(benchmark::State& state) {
    std::vector<edge> list(1 << 16);
    rmat<>({.nodes = 1 << 20, .edges = list.size()}).fill(0, list);
    const auto factor = static_cast<std::uint64_t>(state.range(0));
    generate(state, kronecker_product(listed_edges{list}, random_seed_graph(factor, default_seed_edges(factor), 1)));
}
BENCHMARK(kronecker_edges)->Name("generate/kronecker")->Arg(4)->Arg(8)->Arg(90);

// Limit: two plain loops.
void raw_kronecker(benchmark::State& state) {
    std::vector<edge> list(1 << 16), out(chunk);
    rmat<>({.nodes = 1 << 20, .edges = list.size()}).fill(0, list);
    const auto factor = static_cast<std::uint64_t>(state.range(0));
    const seed_graph by = random_seed_graph(factor, default_seed_edges(factor), 1);
    std::size_t from = 0;
    for (auto _ : state) {
        std::size_t at = 0;
        while (at + by.edges.size() <= out.size()) {
            const edge e = list[from++ % list.size()];
            for (const edge& f : by.edges)
                out[at++] = {e.source * by.nodes + f.source, e.relation, e.destination * by.nodes + f.destination};
        }
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(chunk / by.edges.size() * by.edges.size()));
}
BENCHMARK(raw_kronecker)->Name("generate/raw_kronecker_loop")->Arg(4)->Arg(8)->Arg(90);

void planted_features(benchmark::State& state) {
    const planted_partition<> generator({.nodes = 1 << 20});
    std::vector<float> row(128);
    std::uint64_t node = 0;
    for (auto _ : state) {
        generator.features(node++ & 0xfffff, row);
        benchmark::DoNotOptimize(row.data());
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(row.size() * sizeof(float)));
}
BENCHMARK(planted_features)->Name("generate/planted_features_128");

} // namespace
