#include "common/training/link_evaluation.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/eval/given_ranking.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/sampled_ranking.hpp>

#include "common/training/candidate_file.hpp"

namespace trainers {

void throw_if_stopped(const std::stop_token& stop) {
    if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
}

gneiss::edge_scan known_edges(
    const gneiss::dataset& data, const gneiss::bucket_store& buckets, std::stop_token stop) {
    return [&data, &buckets, stop = std::move(stop)](const gneiss::edge_visitor& visit) {
        buckets.for_each_edge([&](std::span<const gneiss::edge> edges) {
            throw_if_stopped(stop);
            visit(edges);
        });
        for (const char* split : {"valid", "test"}) visit(data.split(split).edges());
    };
}

namespace {

/// Returns the edges of a split that are ranked; ascending if their candidates are given.
std::vector<gneiss::edge> ranked_edges(const link_options& how, std::uint64_t seed, const gneiss::dataset& data, const std::string& split) {
    const gneiss::mapped_edges all = data.split(split);
    std::vector<gneiss::edge> edges = gneiss::choose_edges(all.edges(), how.eval_edges->of(all.edges().size()), seed);
    if (how.eval_candidates) std::ranges::sort(edges);
    return edges;
}

} // namespace

void check_candidates(const link_options& how, std::uint64_t seed, const gneiss::dataset& data, std::uint64_t memory, const std::stop_token& stop) {
    if (!how.eval_candidates) return;
    for (const char* split : {"valid", "test"}) {
        const auto edges = ranked_edges(how, seed, data, split);
        if (edges.empty()) continue;
        const candidate_file listed(data, candidates_of(*how.eval_candidates, split), edges);
        if (listed.bytes() > memory) throw gneiss::over_budget(memory, {{"edges of the candidates", listed.bytes()}});
        listed.read(0, edges.size(), [&](std::size_t, gneiss::side, std::span<const gneiss::node_id>) { throw_if_stopped(stop); });
    }
}

programs::metric_values link_evaluation::operator()(const std::string& split, stoppable_rows rows) const {
    const auto edges = ranked_edges(how, seed, data, split);
    if (edges.empty()) return {};
    gneiss::link_metrics metrics;
    if (how.eval_candidates) {
        const candidate_file listed(data, candidates_of(*how.eval_candidates, split), edges);
        metrics = gneiss::rank_edges_given(scorer, rows, std::span(edges), listed, on, memory - std::min(memory, listed.bytes()));
    } else if (how.eval_negatives->all) {
        metrics = gneiss::rank_edges(scorer, rows, std::span(edges), known_edges(data, buckets, stop), on, memory);
    } else {
        const gneiss::candidate_sampling sampling{.count = static_cast<std::uint32_t>(how.eval_negatives->count),
            .by_degree = how.eval_negatives_by_degree,
            .seed = seed};
        const gneiss::training_edges training{buckets.edges(),
            [this](const gneiss::edge_visitor& visit) {
                buckets.for_each_edge([&](std::span<const gneiss::edge> some) {
                    throw_if_stopped(stop);
                    visit(some);
                });
            }};
        metrics = gneiss::rank_edges_sampled(scorer, rows, std::span(edges), sampling, training, on, memory);
    }
    const gneiss::rank_metrics both = metrics.both();
    return {{"mrr", both.mrr()}, {"hits@1", both.hits_at_1()}, {"hits@3", both.hits_at_3()}, {"hits@10", both.hits_at_10()}};
}

} // namespace trainers
