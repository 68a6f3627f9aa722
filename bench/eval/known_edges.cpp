#include <gneiss/eval/known_edges.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>

// Known answers to both queries of 2048 edges, among 310,116 edges of 14,541 nodes with hubs and 20 relations; one
// thread. Collected: edges/s of the scan. Found: answers/s. Compared with a hash map by hand from a query to its
// answers.
namespace {

using namespace gneiss;

constexpr std::size_t nodes = 14541, relations = 20, known_count = 310'116, test_count = 2048;

/// Low ids are more frequent.
const std::vector<edge>& known() {
    static const std::vector<edge> result = [] {
        std::vector<edge> edges(known_count);
        random_stream draw(random_key(3, random_domain::user));
        const auto node = [&] { return static_cast<node_id>(draw.below(1 + draw.below(nodes))); };
        for (edge& e : edges) {
            e.source = node();
            e.relation = static_cast<relation_id>(draw.below(relations));
            e.destination = node();
        }
        return edges;
    }();
    return result;
}

std::vector<link_query> queries() {
    std::vector<link_query> result;
    for (const edge& e : std::span(known()).first(test_count)) {
        result.push_back(query_of(e, side::tail));
        result.push_back(query_of(e, side::head));
    }
    return result;
}

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

void collect(benchmark::State& state) {
    const std::vector<link_query> asked = queries();
    const edge_scan scan = [](const edge_visitor& visit) { visit(known()); };
    for (auto _ : state) {
        const known_answers answers(asked, scan, serial_executor{}, no_limit);
        benchmark::DoNotOptimize(answers.covered());
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(known_count));
}

/// One word per query: a side, a relation, a node.
std::uint64_t word_of(const link_query& q) {
    return (q.target_side == side::tail ? std::uint64_t{0} : std::uint64_t{1} << 63) | std::uint64_t{q.relation} << 32 |
        q.known;
}

using answer_map = std::unordered_map<std::uint64_t, std::vector<node_id>>;

answer_map map_of(std::span<const link_query> asked, std::span<const edge> edges) {
    answer_map answers;
    for (const link_query& q : asked) answers.try_emplace(word_of(q));
    for (const edge& e : edges)
        for (const side target : {side::tail, side::head})
            if (const auto at = answers.find(word_of(query_of(e, target))); at != answers.end())
                at->second.push_back(answer_of(e, target));
    for (auto& [word, list] : answers) {
        std::ranges::sort(list);
        const auto repeated = std::ranges::unique(list);
        list.erase(repeated.begin(), repeated.end());
    }
    return answers;
}

void collect_by_hand(benchmark::State& state) {
    const std::vector<link_query> asked = queries();
    const std::span<const edge> edges = known();
    for (auto _ : state) benchmark::DoNotOptimize(map_of(asked, edges).size());
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(known_count));
}

/// Sums all answers to each query; answers(i) returns those to query i.
template <class Answers>
void find_all(benchmark::State& state, Answers&& answers) {
    std::int64_t found = 0;
    for (auto _ : state) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < 2 * test_count; ++i) {
            const std::span<const node_id> list = answers(i);
            for (const node_id v : list) sum += v;
            found += std::ssize(list);
        }
        benchmark::DoNotOptimize(sum);
    }
    state.SetItemsProcessed(found);
}

void find(benchmark::State& state) {
    const known_answers answers(
        queries(), [](const edge_visitor& visit) { visit(known()); }, serial_executor{}, no_limit);
    find_all(state, [&](std::size_t i) { return answers.of(i); });
}

void find_by_hand(benchmark::State& state) {
    const std::vector<link_query> asked = queries();
    const answer_map answers = map_of(asked, known());
    find_all(state, [&](std::size_t i) { return std::span<const node_id>(answers.find(word_of(asked[i]))->second); });
}

BENCHMARK(collect)->Name("eval/known/collect")->Unit(benchmark::kMillisecond);
BENCHMARK(collect_by_hand)->Name("eval/known/collect_raw_hash_map")->Unit(benchmark::kMillisecond);
BENCHMARK(find)->Name("eval/known/find");
BENCHMARK(find_by_hand)->Name("eval/known/find_raw_hash_map");

} // namespace
