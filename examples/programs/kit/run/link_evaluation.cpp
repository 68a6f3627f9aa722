// SPDX-License-Identifier: Apache-2.0
#include "kit/run/link_evaluation.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/eval/given_ranking.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/recommendation.hpp>
#include <gneiss/eval/sampled_ranking.hpp>

#include "kit/run/candidate_file.hpp"
#include "kit/run/candidates.hpp"
#include "kit/run/divergence.hpp"

namespace trainers {

void throw_if_stopped(const std::stop_token& stop) {
    if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
}

gneiss::edge_scan training_scan(const gneiss::bucket_store& buckets, std::stop_token stop) {
    return [&buckets, stop = std::move(stop)](const gneiss::edge_visitor& visit) {
        buckets.for_each_edge([&](std::span<const gneiss::edge> edges) {
            throw_if_stopped(stop);
            visit(edges);
        });
    };
}

gneiss::edge_scan known_edges(const gneiss::dataset& data, const gneiss::bucket_store& buckets, std::stop_token stop) {
    return [&data, training = training_scan(buckets, std::move(stop))](const gneiss::edge_visitor& visit) {
        training(visit);
        for (const char* split : {"valid", "test"}) visit(data.split(split).edges());
    };
}

namespace {

/// Returns the edges of a split that are ranked; ascending if their candidates are given.
std::vector<gneiss::edge> ranked_edges(const link_options& how, const programs::count_or_all& count, std::uint64_t seed,
    const gneiss::dataset& data, const std::string& split) {
    const gneiss::mapped_edges all = data.split(split);
    std::vector<gneiss::edge> edges = gneiss::choose_edges(all.edges(), count.of(all.edges().size()), seed);
    if (how.eval_candidates) std::ranges::sort(edges);
    return edges;
}

/// Returns one query for each end of each relation of `edges`.
std::vector<gneiss::link_query> ends_of(std::span<const gneiss::edge> edges) {
    std::vector<gneiss::relation_id> relations(edges.size());
    std::ranges::transform(edges, relations.begin(), &gneiss::edge::relation);
    std::ranges::sort(relations);
    relations.erase(std::unique(relations.begin(), relations.end()), relations.end());
    std::vector<gneiss::link_query> queries;
    for (const gneiss::relation_id r : relations)
        for (const gneiss::side end : {gneiss::side::head, gneiss::side::tail})
            queries.push_back({.relation = r, .target_side = end});
    return queries;
}

/// Appends recall@k and ndcg@k of the heads and relations of `ranked`, whose true answers are all of the split's. Edges
/// of training, and of "valid" for "test", are seen.
void add_recommendation(programs::metric_values& to, const link_evaluation& by, const std::string& split,
    std::span<const gneiss::edge> ranked, stoppable_rows rows, const gneiss::candidate_sets& among,
    std::uint64_t memory) {
    std::vector<gneiss::link_query> queries(ranked.size());
    const auto tails_of = [](const gneiss::edge& e) { return gneiss::query_of(e, gneiss::side::tail); };
    std::ranges::transform(ranked, queries.begin(), tails_of);
    std::ranges::sort(queries);
    const gneiss::mapped_edges all = by.data.split(split);
    std::vector<gneiss::edge> truth;
    std::ranges::copy_if(all.edges(), std::back_inserter(truth),
        [&](const gneiss::edge& e) { return std::ranges::binary_search(queries, tails_of(e)); });
    const gneiss::edge_scan seen = [&, training = training_scan(by.buckets, by.stop)](
                                       const gneiss::edge_visitor& visit) {
        training(visit);
        if (split == "test") visit(by.data.split("valid").edges());
    };
    const gneiss::recommendation_metrics found = with_names(by.data, [&] {
        return gneiss::evaluate_recommendations(by.scorer, rows, truth, seen, {by.cutoffs.begin(), by.cutoffs.end()},
            by.on, memory, {.own_node = false, .among = &among});
    });
    if (found.count() == 0) return; // all true answers are seen
    for (std::size_t c = 0; c < by.cutoffs.size(); ++c) {
        to.emplace_back(fmt::format("recall@{}", by.cutoffs[c]), found.recall(c));
        to.emplace_back(fmt::format("ndcg@{}", by.cutoffs[c]), found.ndcg(c));
    }
}

} // namespace

void check_candidates(const link_options& how, std::uint64_t seed, const gneiss::dataset& data, std::uint64_t memory,
    const std::stop_token& stop) {
    for (const char* split : {"valid", "test"}) {
        if (!how.eval_candidates && how.candidates == "all") return;
        const auto edges = ranked_edges(how, *how.eval_edges, seed, data, split);
        if (edges.empty()) continue;
        if (!how.eval_candidates) {
            (void)candidates_for(how.candidates, data, data.buckets(), ends_of(edges), memory, stop);
            continue;
        }
        const candidate_file listed(data, candidates_of(*how.eval_candidates, split), edges, memory);
        listed.read(0, edges.size(),
            [&](std::size_t, gneiss::side, std::span<const gneiss::node_id>) { throw_if_stopped(stop); });
    }
}

programs::metric_values link_evaluation::operator()(const std::string& split, stoppable_rows rows) const {
    const auto ranked = ranked_edges(how, edges.value_or(*how.eval_edges), seed, data, split);
    if (ranked.empty()) return {};
    const gneiss::candidate_sets among = candidates_for(how.candidates, data, buckets, ends_of(ranked), memory, stop);
    const std::uint64_t left = memory - std::min(memory, among.bytes());
    const gneiss::link_metrics metrics = with_names(data, [&] {
        if (how.eval_candidates) {
            const candidate_file listed(data, candidates_of(*how.eval_candidates, split), ranked, left);
            const gneiss::link_metrics found =
                gneiss::rank_edges_given(scorer, rows, std::span(ranked), listed, on, left - listed.bytes());
            if (found.both().count() == 0)
                throw gneiss::error(gneiss::errc::not_found, "lists no candidates",
                    {.path = candidates_of(*how.eval_candidates, split)});
            return found;
        }
        if (how.eval_negatives->all)
            return gneiss::rank_edges(scorer, rows, std::span(ranked), known_edges(data, buckets, stop), on, left, {},
                gneiss::fixed_order_kernel{}, among);
        const gneiss::candidate_sampling sampling{
            .count = programs::narrow<std::uint32_t>(how.eval_negatives->count, "eval-negatives"),
            .by_degree = how.eval_negatives_by_degree,
            .seed = seed};
        const gneiss::training_edges training{buckets.edges(), training_scan(buckets, stop)};
        return gneiss::rank_edges_sampled(scorer, rows, std::span(ranked), sampling, training, on, memory);
    });
    const gneiss::rank_metrics both = metrics.both();
    programs::metric_values values{{"mrr", both.mrr()}, {"hits@1", both.hits_at_1()}, {"hits@3", both.hits_at_3()},
        {"hits@10", both.hits_at_10()}};
    if (cutoffs.empty()) return values;
    const gneiss::candidate_sets range =
        as_predicted && !among ? candidates_of_bipartite(data, buckets, left, stop) : gneiss::candidate_sets{};
    add_recommendation(values, *this, split, ranked, rows, range ? range : among, left - std::min(left, range.bytes()));
    return values;
}

std::string link_evaluation::scope(const std::string& split) const {
    return how.scope(data.manifest(), split, edges.value_or(*how.eval_edges));
}

} // namespace trainers
