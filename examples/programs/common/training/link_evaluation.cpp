#include "common/training/link_evaluation.hpp"

#include <span>
#include <utility>

#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/sampled_ranking.hpp>

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

programs::metric_values link_evaluation::operator()(const std::string& split, stoppable_rows rows) const {
    const gneiss::mapped_edges all = data.split(split);
    const auto edges = gneiss::choose_edges(all.edges(), how.eval_edges->of(all.edges().size()), seed);
    if (edges.empty()) return {};
    gneiss::link_metrics metrics;
    if (how.eval_negatives->all) {
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
