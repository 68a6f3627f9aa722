#include <gneiss/sample/link_batch_builder.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace test_sample_link_batch_builder {

using namespace gneiss;

namespace {

std::vector<edge> random_edges(std::size_t count, std::uint64_t nodes, std::uint64_t relations, std::uint64_t seed) {
    std::vector<edge> edges(count);
    random_stream draw(random_key(seed, random_domain::user));
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(relations)),
            static_cast<node_id>(draw.below(nodes))};
    return edges;
}

/// Looks up edges in a set, like the pipeline's index of resident edges.
struct edge_set {
    std::multimap<std::tuple<side, node_id, relation_id>, node_id> answers;
    explicit edge_set(const std::vector<edge>& edges) {
        for (const edge& e : edges) {
            answers.insert({{side::tail, e.source, e.relation}, e.destination});
            answers.insert({{side::head, e.destination, e.relation}, e.source});
        }
    }
    template <class Visit>
    void operator()(side missing, node_id known, relation_id relation, Visit&& visit) const {
        const auto [begin, end] = answers.equal_range({missing, known, relation});
        for (auto at = begin; at != end; ++at) visit(at->second);
    }
};

} // namespace

TEST_CASE("keys are grouped like a map of lists, over every width of key") {
    key_grouping grouping;
    for (const std::uint64_t bound : {1ULL, 2ULL, 50ULL, 5000ULL, 1ULL << 22, 1ULL << 32}) {
        random_stream draw(random_key(bound, random_domain::user));
        std::vector<std::uint32_t> keys(300);
        std::map<std::uint32_t, std::vector<std::uint32_t>> expected;
        for (std::uint32_t i = 0; i < keys.size(); ++i) {
            keys[i] = static_cast<std::uint32_t>(draw.below(bound));
            if (i % 3 == 1) keys[i] = keys[i - 1];
            expected[keys[i]].push_back(i);
        }
        grouping.group(keys);
        REQUIRE(grouping.distinct() == expected.size());
        std::vector<std::uint32_t> values(expected.size()), offsets(expected.size() + 1), positions(300), rank(300);
        grouping.write(values, offsets, positions, rank);
        std::size_t at = 0;
        for (const auto& [value, where] : expected) {
            CHECK(values[at] == value);
            CHECK(std::vector(positions.begin() + offsets[at], positions.begin() + offsets[at + 1]) == where);
            for (const std::uint32_t p : where) CHECK(rank[p] == at);
            ++at;
        }
        CHECK(offsets.back() == 300);
    }
}

TEST_CASE("a link batch maps every occurrence to its node and back") {
    const id_range all{0, 60};
    const resident_nodes resident({&all, 1});
    mini_batch_arena arena;
    for (const auto sides : {corrupted_sides::both, corrupted_sides::tail, corrupted_sides::head})
        for (const std::size_t B : {1U, 2U, 7U, 100U}) {
            const auto edges = random_edges(B, 60, 4, B);
            link_batch_builder builder({.per_chunk = 9, .chunks = 3, .degree_fraction = .5, .sides = sides}, 1);
            const negative_pool pool(resident, edges);
            const link_batch batch = builder.build({0, {0, 0, B}}, edges, pool, arena);
            REQUIRE(batch.positives() == B);
            REQUIRE(batch.chunks == std::min<std::size_t>(3, B));
            CHECK(batch.chunk_begin(0) == 0);
            CHECK(batch.chunk_begin(batch.chunks) == B);
            for (std::size_t i = 0; i < B; ++i) {
                CHECK(batch.nodes[batch.heads[i]] == edges[i].source);
                CHECK(batch.nodes[batch.tails[i]] == edges[i].destination);
                CHECK(batch.relations[batch.relation_of[i]] == edges[i].relation);
            }
            const negative_sampler sampler(builder.options(), 1);
            std::vector<node_id> list(9);
            for (std::size_t c = 0; c < batch.chunks; ++c)
                for (std::size_t s = 0; s < batch.sides.size(); ++s) {
                    sampler.draw(batch.key, c, batch.side_at(s), pool, list);
                    for (std::size_t j = 0; j < 9; ++j) CHECK(batch.nodes[batch.list(c, s)[j]] == list[j]);
                }
            std::vector<std::uint32_t> where(batch.heads.begin(), batch.heads.end());
            where.insert(where.end(), batch.tails.begin(), batch.tails.end());
            where.insert(where.end(), batch.negatives.begin(), batch.negatives.end());
            REQUIRE(batch.node_occurrences.size() == where.size());
            REQUIRE(batch.node_offsets.back() == where.size());
            for (std::size_t u = 0; u < batch.nodes.size(); ++u) {
                if (u > 0) CHECK(batch.nodes[u - 1] < batch.nodes[u]);
                CHECK(batch.node_offsets[u] < batch.node_offsets[u + 1]);
                for (std::size_t o = batch.node_offsets[u]; o < batch.node_offsets[u + 1]; ++o) {
                    CHECK(where[batch.node_occurrences[o]] == u);
                    if (o > batch.node_offsets[u]) CHECK(batch.node_occurrences[o - 1] < batch.node_occurrences[o]);
                }
            }
            for (std::size_t r = 0; r < batch.relations.size(); ++r)
                for (std::size_t o = batch.relation_offsets[r]; o < batch.relation_offsets[r + 1]; ++o)
                    CHECK(batch.relation_of[batch.relation_occurrences[o]] == r);
            CHECK(batch.relation_offsets.back() == B);
        }
}

TEST_CASE("filtered negatives mask exactly the known true answers") {
    const id_range all{0, 20};
    const auto edges = random_edges(120, 20, 3, 1);
    const negative_pool resident(resident_nodes({&all, 1}), edges);
    const edge_set known(edges);
    mini_batch_arena arena;
    for (const bool every : {false, true}) {
        link_batch_builder builder(
            {.per_chunk = 30, .chunks = 4, .degree_fraction = .5, .filtered = true, .all = every}, 1);
        const std::span<const edge> positives = std::span(edges).first(25);
        for (const bool only_positives : {false, true}) {
            const link_batch batch = only_positives ? builder.build({}, positives, resident, arena)
                                                    : builder.build({}, positives, resident, arena, known);
            if (every) CHECK(batch.chunks == 1);
            REQUIRE(batch.mask_offsets.size() == 2 * 25 + 1);
            for (std::size_t s = 0; s < 2; ++s)
                for (std::size_t c = 0; c < batch.chunks; ++c)
                    for (std::size_t i = batch.chunk_begin(c); i < batch.chunk_begin(c + 1); ++i) {
                        const auto masked = batch.masked(s, i);
                        const std::set<std::uint32_t> columns(masked.begin(), masked.end());
                        for (std::uint32_t j = 0; j < batch.negatives_per_list; ++j) {
                            edge asked = edges[i];
                            const node_id candidate = batch.nodes[batch.list(c, s)[j]];
                            (batch.side_at(s) == side::tail ? asked.destination : asked.source) = candidate;
                            const bool is_true = only_positives
                                ? asked == edges[i]
                                : std::find(edges.begin(), edges.end(), asked) != edges.end();
                            CHECK(columns.contains(j) == is_true);
                        }
                    }
        }
    }
}

TEST_CASE("a link batch survives relocation, and a reused builder equals a fresh one") {
    const id_range all{0, 60};
    const auto edges = random_edges(64, 60, 4, 9);
    const negative_pool resident(resident_nodes({&all, 1}), edges);
    mini_batch_arena arena, other;
    link_batch_builder used({.filtered = true}, 1), fresh({.filtered = true}, 1);
    (void)used.build({0, {0, 0, 1}}, std::span(edges).first(9), resident, arena);
    (void)used.build({0, {0, 0, 2}}, edges, resident, arena);
    (void)fresh.build({0, {0, 0, 2}}, edges, resident, other);
    const auto bytes = mini_batch::attach(arena.reserve(0)).bytes();
    mini_batch_arena copy;
    std::memcpy(copy.reserve(bytes.size()).data(), bytes.data(), bytes.size());
    std::memset(arena.reserve(0).data(), 0, arena.capacity());
    const link_batch a = link_batch::of(mini_batch::attach(copy.reserve(0)));
    const link_batch b = link_batch::of(mini_batch::attach(other.reserve(0)));
    const auto same = [](auto x, auto y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); };
    CHECK(a.key == b.key);
    CHECK(same(a.nodes, b.nodes));
    CHECK(same(a.negatives, b.negatives));
    CHECK(same(a.node_occurrences, b.node_occurrences));
    CHECK(same(a.mask_offsets, b.mask_offsets));
    CHECK(same(a.mask_columns, b.mask_columns));
}

TEST_CASE("a batch without a positive or a resident node is refused") {
    mini_batch_arena arena;
    const edge e{0, 0, 1};
    link_batch_builder<> builder({}, 1);
    const id_range all{0, 2};
    CHECK_THROWS_AS(builder.build({}, {}, negative_pool(resident_nodes({&all, 1})), arena), error);
    CHECK_THROWS_AS(builder.build({}, {&e, 1}, negative_pool{}, arena), error);
    const id_range huge{0, 1ULL << 32};
    link_batch_builder everything({.all = true}, 1);
    CHECK_THROWS_AS(everything.build({}, {&e, 1}, negative_pool(resident_nodes({&huge, 1})), arena), error);
}

namespace {

/// Returns the first nodes of a given list, in turn.
struct listed_negatives {
    std::vector<node_id> nodes;
    std::uint64_t size = 5;

    [[nodiscard]] std::uint64_t list_size(const negative_pool&) const { return size; }
    void draw(const batch_key& key, std::uint64_t chunk, side corrupt_side, const negative_pool&,
        std::span<node_id> list) const {
        for (std::size_t j = 0; j < list.size(); ++j)
            list[j] = nodes[(key.number.index + chunk + (corrupt_side == side::head ? 1U : 0U) + j) % nodes.size()];
    }
};
static_assert(negative_source<listed_negatives>);

} // namespace

TEST_CASE("custom negatives replace the library's, with the same masks and corrections") {
    const std::vector<id_range> ranges{{0, 10}, {20, 30}, {40, 50}};
    const std::vector<edge> edges{{1, 0, 2}, {3, 0, 22}, {22, 1, 45}, {7, 0, 7}};
    const negative_pool resident(resident_nodes(ranges, 6), edges);
    const listed_negatives own{{2, 45, 22, 3, 29}};
    const negative_options options{
        .per_chunk = 5, .chunks = 2, .degree_fraction = .5, .filtered = true, .log_q_correction = true};
    mini_batch_arena arena, other;
    const batch_key key{3, {1, 0, 7}};
    link_batch_builder builder(options, own);
    const link_batch batch = builder.build(key, edges, resident, arena);
    CHECK(batch.chunks == 2);
    REQUIRE(batch.negatives_per_list == 5);
    REQUIRE(batch.corrections.size() == 8);
    REQUIRE(batch.mask_offsets.size() == 9);
    for (std::size_t c = 0; c < 2; ++c)
        for (std::size_t s = 0; s < 2; ++s) {
            std::vector<node_id> expected(5), found;
            own.draw(key, c, batch.side_at(s), resident, expected);
            std::ranges::sort(expected); // by partition, as correction requires
            for (const std::uint32_t at : batch.list(c, s)) found.push_back(batch.nodes[at]);
            CHECK(found == expected);
            for (std::size_t i = batch.chunk_begin(c); i < batch.chunk_begin(c + 1); ++i) {
                const node_id answer = batch.side_at(s) == side::tail ? edges[i].destination : edges[i].source;
                const auto masked = batch.masked(s, i);
                REQUIRE(masked.size() == static_cast<std::size_t>(std::ranges::count(expected, answer)));
                for (const std::uint32_t column : masked) CHECK(found[column] == answer);
            }
        }
    link_batch_builder erased(options, any_negatives(own));
    const link_batch same = erased.build(key, edges, resident, other);
    CHECK(std::ranges::equal(same.negatives, batch.negatives));
    CHECK(std::ranges::equal(same.corrections, batch.corrections));
}

TEST_CASE("type-erased library negatives draw the same") {
    const id_range all{0, 60};
    const auto edges = random_edges(64, 60, 4, 9);
    const negative_pool resident(resident_nodes({&all, 1}), edges);
    for (const bool every : {false, true}) {
        const negative_options options{
            .per_chunk = 20, .chunks = 3, .degree_fraction = .5, .filtered = true, .all = every};
        mini_batch_arena arena, other;
        const link_batch a = link_batch_builder(options, 4).build({1, {}}, edges, resident, arena);
        const link_batch b =
            link_batch_builder(options, make_negatives(options, 4)).build({1, {}}, edges, resident, other);
        CHECK(a.chunks == b.chunks);
        CHECK(std::ranges::equal(a.nodes, b.nodes));
        CHECK(std::ranges::equal(a.negatives, b.negatives));
        CHECK(std::ranges::equal(a.mask_columns, b.mask_columns));
    }
}

TEST_CASE("by default a batch has one chunk per 1000 positives, from 2 to 64") {
    CHECK(default_chunks(1) == 2);
    CHECK(default_chunks(3999) == 3);
    CHECK(default_chunks(1'000'000) == 64);
    CHECK(with_chunks({}, 5000).chunks == 5);
    CHECK(with_chunks({.chunks = 7}, 5000).chunks == 7);
    const id_range all{0, 60};
    const negative_pool resident(resident_nodes({&all, 1}));
    mini_batch_arena arena;
    for (const std::size_t positives : {1U, 2U, 3500U}) {
        const auto edges = random_edges(positives, 60, 4, 9);
        const link_batch batch = link_batch_builder({.per_chunk = 3}, 1).build({}, edges, resident, arena);
        CHECK(batch.chunks == std::min<std::size_t>(positives, default_chunks(positives)));
    }
}

TEST_CASE("too many, no or non-resident custom negatives are refused") {
    const std::vector<id_range> ranges{{0, 10}, {20, 30}};
    const std::vector<edge> edges{{1, 0, 2}};
    const negative_pool resident(resident_nodes(ranges), edges);
    mini_batch_arena arena;
    const auto build = [&](const listed_negatives& from, const negative_options& options) {
        const link_batch plain = link_batch_builder(options, from).build({3, {}}, edges, resident, arena);
        return link_batch_builder(options, any_negatives(from))
                   .build({3, {}}, edges, resident, arena)
                   .negatives_per_list == plain.negatives_per_list;
    };
    CHECK(build({{1, 29}, 5}, {.per_chunk = 5}));
    CHECK(build({{1, 29}, 20}, {.per_chunk = 5, .all = true}));
    CHECK_THROWS_WITH_AS(build({{1, 29}, 6}, {.per_chunk = 5}),
        doctest::Contains("lists of 6 negatives, where the options allow 1 to 5"), error);
    CHECK_THROWS_AS(build({{1, 29}, 21}, {.per_chunk = 5, .all = true}), error);
    CHECK_THROWS_AS(build({{1, 29}, 0}, {.per_chunk = 5}), error);
    for (const node_id outside : {10U, 19U, 30U, 4000000000U})
        CHECK_THROWS_WITH_AS(
            build({{1, outside}, 2}, {.per_chunk = 5}), doctest::Contains("which is not resident"), error);
}

} // namespace test_sample_link_batch_builder
