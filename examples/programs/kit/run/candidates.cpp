// SPDX-License-Identifier: Apache-2.0
#include "kit/run/candidates.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gneiss/sample/candidate_negatives.hpp>

#include "kit/run/link_evaluation.hpp"
#include "kit/run/name_lines.hpp"

namespace trainers {

namespace {

/// Returns a query for each end of each relation.
std::vector<gneiss::link_query> ends_of_relations(const gneiss::dataset& data) {
    std::vector<gneiss::link_query> ends;
    for (gneiss::relation_id r = 0; r < std::max<std::uint64_t>(data.manifest().relations, 1); ++r)
        for (const gneiss::side end : {gneiss::side::head, gneiss::side::tail})
            ends.push_back({.relation = r, .target_side = end});
    return ends;
}

} // namespace

gneiss::candidate_sets candidates_for(const std::string& which, const gneiss::dataset& data,
    const gneiss::bucket_store& buckets, std::span<const gneiss::link_query> queries, std::uint64_t limit,
    const std::stop_token& stop) {
    if (which == "all") return {};
    const std::uint64_t nodes = data.manifest().nodes;
    if (which == "range") return gneiss::candidate_sets::seen_in(training_scan(buckets, stop), nodes, queries, limit);
    gneiss::node_set listed(nodes);
    for_each_name(data, which, [&](gneiss::node_id node) {
        listed.insert(node);
        if (listed.bytes() > limit)
            throw gneiss::over_budget(limit, {{"nodes of " + which + ", so far", listed.bytes()}});
    });
    listed.finish();
    if (listed.size() == 0) throw gneiss::error(gneiss::errc::invalid_format, "names no node", {.path = which});
    return gneiss::candidate_sets(std::move(listed));
}

gneiss::candidate_sets candidates_of_bipartite(const gneiss::dataset& data, const gneiss::bucket_store& buckets,
    std::uint64_t limit, const std::stop_token& stop) {
    if (data.manifest().relations > 1) return {};
    const std::vector<gneiss::link_query> ends = ends_of_relations(data);
    gneiss::candidate_sets sets = candidates_for("range", data, buckets, ends, limit, stop);
    bool disjoint = sets.of(ends[0]).size() != 0;
    sets.of(ends[0]).for_each(0, data.manifest().nodes,
        [&](gneiss::node_id head) { disjoint = disjoint && !sets.of(ends[1]).contains(head); });
    return disjoint ? std::move(sets) : gneiss::candidate_sets{};
}

gneiss::candidate_sets candidates_of_similar(const std::optional<std::string>& which, const gneiss::dataset& data,
    const gneiss::bucket_store& buckets, std::span<const gneiss::node_id> nodes, std::uint64_t limit,
    const std::stop_token& stop) {
    gneiss::candidate_sets sets = which ? candidates_for(*which, data, buckets, ends_of_relations(data), limit, stop)
                                        : candidates_of_bipartite(data, buckets, limit, stop);
    if (sets && which.value_or("range") == "range") sets.share(nodes, limit);
    return sets;
}

run_negatives negatives_for(const link_options& how, std::uint64_t seed, const gneiss::dataset& data,
    std::uint64_t limit, const std::stop_token& stop) {
    if (how.candidates == "all") return {};
    gneiss::candidate_sets sets =
        candidates_for(how.candidates, data, data.buckets(), ends_of_relations(data), limit, stop);
    sets.index();
    gneiss::memory_need memory{"candidates", sets.bytes()};
    return {gneiss::candidate_negatives(
                how.negative_options(), seed, std::make_shared<const gneiss::candidate_sets>(std::move(sets))),
        std::move(memory)};
}

} // namespace trainers
