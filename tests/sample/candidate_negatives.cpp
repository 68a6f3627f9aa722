#include <gneiss/sample/candidate_negatives.hpp>

#include <gneiss/eval/candidate_sets.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace test_sampling_candidate_negatives {

using namespace gneiss;

namespace {

constexpr std::uint64_t nodes = 200;

/// Edges of relation 0 from nodes 0 to 79 to nodes 80 to 119, of relation 1 from 80 to 119 to 120 to 149, of relation 2
/// among 150 to 159, of which several repeat. Nodes from 160 on have none.
std::vector<edge> typed_edges() {
    std::vector<edge> edges;
    random_stream draw(random_key{1, random_domain::user});
    const auto between = [&](std::uint64_t begin, std::uint64_t end) {
        return static_cast<node_id>(begin + draw.below(end - begin));
    };
    for (int i = 0; i < 2000; ++i) edges.push_back({between(0, 80), 0, between(80, 120)});
    for (int i = 0; i < 1000; ++i) edges.push_back({between(80, 120), 1, between(120, 150)});
    for (int i = 0; i < 300; ++i) edges.push_back({between(150, 160), 2, between(150, 160)});
    return edges;
}

/// Returns the nodes seen at the ends of relations.
std::shared_ptr<const candidate_sets> ranges_of(const std::vector<edge>& edges) {
    std::vector<link_query> ends;
    for (relation_id r = 0; r < 3; ++r)
        for (const side end : {side::head, side::tail}) ends.push_back({.relation = r, .target_side = end});
    candidate_sets sets =
        candidate_sets::seen_in([&](const edge_visitor& visit) { visit(edges); }, nodes, ends, 1 << 20);
    sets.index();
    return std::make_shared<const candidate_sets>(std::move(sets));
}

node_id end_of(const edge& e, side at) { return at == side::tail ? e.destination : e.source; }

/// Returns true if the statistic is within five deviations of its distribution's mean, and no impossible node was
/// drawn.
bool likely(const std::map<node_id, double>& seen, const std::map<node_id, double>& expected) {
    double chi = 0, drawn = 0;
    for (const auto& [node, count] : seen) {
        if (!expected.contains(node)) return false;
        drawn += count;
    }
    for (const auto& [node, share] : expected) {
        const auto found = seen.find(node);
        const double count = found == seen.end() ? 0 : found->second;
        chi += (count - drawn * share) * (count - drawn * share) / (drawn * share);
    }
    const auto freedom = static_cast<double>(expected.size()) - 1;
    return std::abs(chi - freedom) < 5 * std::sqrt(2 * freedom);
}

} // namespace

TEST_CASE("negatives are uniform over the resident nodes of the ends of the chunk's relations, by chi-square") {
    const std::vector<edge> edges = typed_edges();
    const auto sets = ranges_of(edges);
    const candidate_negatives negatives({.per_chunk = 40}, 7, sets);
    const std::array<id_range, 1> all{{{0, nodes}}};
    const std::array<id_range, 3> some{{{0, 30}, {90, 140}, {155, 200}}}; // as out of core
    for (const std::span<const id_range> ranges : {std::span<const id_range>(all), std::span<const id_range>(some)}) {
        const negative_pool resident{resident_nodes(ranges, 5)};
        for (const std::vector<edge>& chunk : {std::vector<edge>{{5, 0, 95}},
                 std::vector<edge>{{5, 0, 95}, {6, 0, 97}, {95, 1, 125}}, std::vector<edge>{{156, 2, 157}}})
            for (const side corrupt : {side::tail, side::head}) {
                std::map<node_id, double> expected, seen;
                for (const edge& e : chunk) {
                    std::set<node_id> range;
                    for (const edge& t : edges)
                        if (t.relation == e.relation && resident.contains(end_of(t, corrupt)))
                            range.insert(end_of(t, corrupt));
                    for (const node_id node : range)
                        expected[node] += 1. / static_cast<double>(chunk.size() * range.size());
                }
                std::vector<node_id> list(negatives.list_size(resident));
                REQUIRE(list.size() == 40);
                for (std::uint32_t b = 0; b < 500; ++b) {
                    negatives.draw({1, {0, 0, b}}, 0, corrupt, chunk, resident, list);
                    for (const node_id node : list) ++seen[node];
                }
                CHECK(likely(seen, expected));
            }
    }
}

TEST_CASE("negatives by degree are proportional to the degree at that end, and the rest stays uniform, by chi-square") {
    std::vector<edge> edges = typed_edges();
    std::erase_if(edges, [](const edge& e) { return e.relation != 0; });
    const auto sets = ranges_of(edges);
    const std::array<id_range, 1> all{{{0, nodes}}};
    const negative_pool resident(resident_nodes(all), edges);
    const candidate_negatives negatives({.per_chunk = 40, .degree_fraction = .5}, 7, sets);
    for (const side corrupt : {side::tail, side::head}) {
        std::map<node_id, double> expected, seen;
        for (const edge& e : edges) expected[end_of(e, corrupt)] += .5 / static_cast<double>(edges.size());
        const auto range = static_cast<double>(expected.size());
        for (auto& [node, share] : expected) share += .5 / range;
        std::vector<node_id> list(40);
        for (std::uint32_t b = 0; b < 1000; ++b) {
            negatives.draw({1, {0, 0, b}}, 0, corrupt, std::span(edges).first(3), resident, list);
            for (const node_id node : list) ++seen[node];
        }
        CHECK(likely(seen, expected));
    }
}

TEST_CASE("one set for all queries limits all negatives; if none of it is resident, all resident nodes are drawn") {
    node_set few(nodes);
    for (const node_id node : {3U, 150U, 77U}) few.insert(node);
    few.finish();
    candidate_sets sets(std::move(few));
    sets.index();
    const candidate_negatives negatives({.per_chunk = 30}, 7, std::make_shared<const candidate_sets>(std::move(sets)));
    const std::vector<edge> chunk{{5, 0, 95}};
    std::vector<node_id> list(30);
    const std::array<id_range, 1> all{{{0, nodes}}}, none{{{10, 20}}};
    negatives.draw({}, 0, side::tail, chunk, negative_pool{resident_nodes(all)}, list);
    CHECK(std::set<node_id>(list.begin(), list.end()) == std::set<node_id>{3, 77, 150});
    negatives.draw({}, 0, side::tail, chunk, negative_pool{resident_nodes(none)}, list);
    for (const node_id node : list) CHECK((node >= 10 && node < 20));
    CHECK_THROWS_AS(negatives.draw({}, 0, side::tail, chunk, negative_pool{}, list), error);
    CHECK_THROWS_AS((candidate_negatives({.all = true}, 7, std::make_shared<const candidate_sets>())), error);
}

TEST_CASE("a batch's lists are those of the source for the chunk's positives, type-erased too") {
    const std::vector<edge> edges = typed_edges();
    const candidate_negatives negatives({.per_chunk = 20, .chunks = 3}, 7, ranges_of(edges));
    const negative_options options{.per_chunk = 20, .chunks = 3};
    const std::array<id_range, 1> all{{{0, nodes}}};
    const negative_pool resident(resident_nodes(all), edges);
    const auto positives = std::span(edges).subspan(1900, 400); // relations 0 and 1
    const batch_key key{2, {0, 0, 9}};
    mini_batch_arena arena, other;
    const link_batch batch = link_batch_builder(options, negatives).build(key, positives, resident, arena);
    for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t s = 0; s < 2; ++s) {
            const auto chunk = positives.subspan(batch.chunk_begin(c), batch.chunk_begin(c + 1) - batch.chunk_begin(c));
            std::vector<node_id> expected(20), found;
            negatives.draw(key, c, batch.side_at(s), chunk, resident, expected);
            for (const std::uint32_t at : batch.list(c, s)) found.push_back(batch.nodes[at]);
            CHECK(found == expected);
        }
    const link_batch same =
        link_batch_builder(options, any_negatives(negatives)).build(key, positives, resident, other);
    CHECK(std::ranges::equal(same.negatives, batch.negatives));
    CHECK(std::ranges::equal(same.nodes, batch.nodes));
}

} // namespace test_sampling_candidate_negatives
