#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/grem.hpp>

#include "support/error_code.hpp"

namespace test_partition_grem {

using namespace gneiss;
using test::code_of;

namespace {

constexpr double any_size = std::numeric_limits<double>::infinity();

/// Assigns two sides by the sign of random values averaged repeatedly over neighbors: good for two communities. Keeps
/// its caps.
std::vector<partition_id16> spectral(
    const symmetric_csr& graph, std::array<std::uint64_t, 2> most, std::uint64_t seed) {
    const auto nodes = static_cast<std::size_t>(graph.nodes());
    std::vector<double> x(nodes), y(nodes);
    for (std::size_t v = 0; v < nodes; ++v) x[v] = to_unit(random_key{seed, random_domain::user}[v]) - .5;
    for (int round = 0; round < 60; ++round) {
        double mean = 0, ends = 1;
        for (std::size_t v = 0; v < nodes; ++v) {
            const auto list = graph.list(static_cast<node_id>(v));
            y[v] = x[v];
            for (const node_id u : list) y[v] += x[u];
            y[v] /= static_cast<double>(list.size() + 1);
            mean += y[v] * static_cast<double>(list.size());
            ends += static_cast<double>(list.size());
        }
        for (std::size_t v = 0; v < nodes; ++v) x[v] = (y[v] - mean / ends) * 2;
    }
    std::vector<std::size_t> by_value(nodes);
    std::iota(by_value.begin(), by_value.end(), std::size_t{0});
    std::ranges::sort(by_value, [&](std::size_t a, std::size_t b) { return x[a] != x[b] ? x[a] < x[b] : a < b; });
    std::vector<partition_id16> sides(nodes, 1);
    for (std::size_t i = 0; i < nodes * most[0] / (most[0] + most[1]); ++i) sides[by_value[i]] = 0;
    return sides;
}
constexpr auto by_spectrum = [](const symmetric_csr& graph, std::array<std::uint64_t, 2> most, std::uint64_t seed) {
    return spectral(graph, most, seed);
};
/// Violates every cap.
constexpr auto all_on_one_side = [](const symmetric_csr& graph, std::array<std::uint64_t, 2>, std::uint64_t seed) {
    return std::vector<partition_id16>(static_cast<std::size_t>(graph.nodes()), static_cast<partition_id16>(seed % 2));
};

std::vector<edge> edges_of(edge_list<>& from) {
    std::vector<edge> all;
    from.rewind();
    for (auto chunk = from.next(); !chunk.empty(); chunk = from.next())
        all.insert(all.end(), chunk.begin(), chunk.end());
    return all;
}

/// Returns `communities` of equal size in random order, with `mixing` of the edges between them.
edge_list<> communities(std::uint64_t nodes, edge_index edges, std::uint32_t count, double mixing, std::uint64_t seed) {
    generated_edges from(planted_partition<>(
        {.nodes = nodes, .edges = edges, .communities = count, .mixing = mixing, .degree_exponent = 0, .seed = seed}));
    std::vector<edge> result;
    for (auto chunk = from.next(); !chunk.empty(); chunk = from.next())
        result.insert(result.end(), chunk.begin(), chunk.end());
    return {nodes, std::move(result)};
}

double cut_of(edge_list<>& edges, const std::vector<partition_id16>& part) {
    double cut = 0;
    for (const edge& e : edges_of(edges)) cut += part[e.source] != part[e.destination];
    return cut / static_cast<double>(edges.edges());
}

/// Reference implementation of Algorithms 1 and 2, line by line, over edges in the given order. \param leave  a node
/// leaves its part before it is assigned, and stays on ties; false: as printed, except for the minus sign
std::vector<partition_id16> listing(const std::vector<edge>& edges, std::size_t nodes, std::size_t chunks,
    std::uint64_t most, const auto& seed, bool leave) {
    std::vector<int> parts(nodes, -1);
    std::vector<std::array<float, 2>> nbr_counts(nodes);
    std::array<std::uint64_t, 2> sizes{};
    for (std::size_t i = 0; i < chunks; ++i) {
        const std::vector<edge> c_edges(edges.begin() + static_cast<std::ptrdiff_t>(edges.size() * i / chunks),
            edges.begin() + static_cast<std::ptrdiff_t>(edges.size() * (i + 1) / chunks));
        std::set<node_id> c_nodes;
        for (const edge& e : c_edges)
            if (e.source != e.destination) c_nodes.insert({e.source, e.destination});
        const auto cnt_nbrs = [&](node_id n) {
            std::array<float, 2> found{};
            for (const edge& e : c_edges) {
                if (e.source == e.destination || (e.source != n && e.destination != n)) continue;
                const node_id nbr = e.destination == n ? e.source : e.destination;
                if (parts[nbr] != -1) ++found[static_cast<std::size_t>(parts[nbr])];
            }
            return found;
        };
        if (i == 0) {
            std::vector<edge> local;
            const std::vector<node_id> names(c_nodes.begin(), c_nodes.end());
            const auto place = [&](node_id v) {
                return static_cast<node_id>(std::ranges::lower_bound(names, v) - names.begin());
            };
            for (const edge& e : c_edges) local.push_back({place(e.source), 0, place(e.destination)});
            edge_list<> stream(names.size(), local);
            const std::uint64_t fair = std::max<std::uint64_t>((names.size() + 1) / 2, names.size() * most / nodes);
            const std::uint64_t key =
                random_key{0, random_domain::partition}.with(detail::grem_key).with(1).with(0).value();
            const std::vector<partition_id16> given = seed(make_symmetric_csr(stream), std::array{fair, fair}, key);
            for (std::size_t v = 0; v < names.size(); ++v)
                ++sizes[static_cast<std::size_t>(parts[names[v]] = given[v])];
            for (const node_id n : c_nodes) nbr_counts[n] = cnt_nbrs(n);
            continue;
        }
        for (const node_id n : c_nodes) {
            const int old_part = parts[n];
            std::array<float, 2> nbrs = cnt_nbrs(n);
            if (old_part != -1)
                for (std::size_t s = 0; s < 2; ++s) nbrs[s] = (nbr_counts[n][s] + nbrs[s]) / 2;
            if (leave && old_part != -1) --sizes[static_cast<std::size_t>(old_part)];
            if (nbrs[0] < nbrs[1] && sizes[1] < most)
                parts[n] = 1;
            else if (nbrs[1] < nbrs[0] && sizes[0] < most)
                parts[n] = 0;
            else if (!(leave && old_part != -1 && nbrs[0] == nbrs[1]))
                parts[n] = sizes[0] < most && sizes[0] <= sizes[1] ? 0 : 1;
            ++sizes[static_cast<std::size_t>(parts[n])];
            if (!leave && old_part != -1) --sizes[static_cast<std::size_t>(old_part)];
            nbr_counts[n] = nbrs;
        }
    }
    std::vector<partition_id16> result;
    for (const int p : parts) result.push_back(static_cast<partition_id16>(p));
    for (partition_id16& p : result)
        if (p > 1) ++sizes[p = sizes[0] <= sizes[1] ? 0 : 1];
    return result;
}

struct memory_journal final : partition_journal {
    struct killed {};
    std::uint32_t at = 0, saves = 0;
    std::uint32_t last = ~0U; ///< throws after this many
    std::vector<std::byte> bytes{};

    void save(std::uint32_t step, std::span<const std::byte> state) override {
        at = step;
        bytes.assign(state.begin(), state.end());
        if (++saves == last) throw killed();
    }
    [[nodiscard]] std::uint32_t step() const override { return at; }
    [[nodiscard]] std::span<const std::byte> state() const override { return bytes; }
};

} // namespace

TEST_CASE("GREM equals its corrected listing, line by line") {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        edge_list<> edges = communities(120 + seed, 900, 2, .2, seed);
        for (const double imbalance : {0., .03, .2})
            for (const std::size_t chunks : {2UL, 5UL, 9UL}) {
                const std::uint64_t most = max_weight(edges.nodes(), 2, imbalance);
                memory_scratch<> place;
                CHECK(grem(edges, place, {.imbalance = imbalance},
                          {.chunk = 1. / static_cast<double>(chunks), .shuffle = false},
                          by_spectrum) == listing(edges_of(edges), edges.nodes(), chunks, most, by_spectrum, true));
            }
    }
}

TEST_CASE("the printed listing drives nodes out of full parts; the corrected one finds the communities") {
    edge_list<> edges = communities(1000, 16000, 2, .1, 1);
    memory_scratch<> place;
    const double literal = cut_of(edges, listing(edges_of(edges), 1000, 10, 500, by_spectrum, false));
    CHECK(literal > .3);
    for (const double imbalance : {0., .03})
        CHECK(
            cut_of(edges, grem(edges, place, {.imbalance = imbalance}, {}, by_spectrum)) < (imbalance == 0 ? .2 : .12));
}

TEST_CASE("one chunk of all edges gives its seed partition") {
    edge_list<> edges = communities(200, 4000, 2, .3, 4);
    const symmetric_csr graph = make_symmetric_csr(edges);
    std::uint64_t given_seed = 0;
    std::array<std::uint64_t, 2> given_most{};
    memory_scratch<> place;
    const std::vector<partition_id16> part = grem(edges, place, {}, {.chunk = 1, .shuffle = false},
        [&](const symmetric_csr& whole, std::array<std::uint64_t, 2> most, std::uint64_t seed) {
            CHECK(whole.neighbors == graph.neighbors);
            given_most = most;
            return spectral(whole, most, given_seed = seed);
        });
    CHECK(given_most == std::array<std::uint64_t, 2>{103, 103});
    CHECK(part == spectral(graph, given_most, given_seed));
}

TEST_CASE("refined estimates beat first decisions, and an estimate kept across chunks beats both") {
    edge_list<> edges = communities(3000, 60000, 2, .2, 5);
    memory_scratch<> place;
    const auto cut = [&](double older, std::uint32_t passes) {
        return cut_of(edges, grem(edges, place, {}, {.chunk = .07, .older = older, .passes = passes}, by_spectrum));
    };
    const double fixed = cut(1, 1), refined = cut(.5, 1), patient = cut(.65, 2);
    CHECK(refined < fixed - .05);
    CHECK(patient < refined);
}

TEST_CASE("no part exceeds its cap, for any request and any seed partitioner") {
    for (const std::uint32_t parts : {1U, 2U, 3U, 5U, 8U, 13U, 64U})
        for (const double imbalance : {0., .03, .5, any_size})
            for (const bool unfair : {false, true})
                for (const double chunk : {.15, 1.}) {
                    edge_list<> edges = communities(301, 1500, 4, .1, parts);
                    memory_scratch<> place;
                    const partition_request request{.parts = parts, .imbalance = imbalance, .seed = parts};
                    const grem_options options{.chunk = chunk};
                    const auto part = unfair ? grem(edges, place, request, options, all_on_one_side)
                                             : grem(edges, place, request, options, by_spectrum);
                    check_assignment(part, parts, 301);
                    CHECK(std::ranges::max(part_sizes(part, parts)) <= max_weight(301, parts, imbalance));
                }
}

TEST_CASE("many parts come from bisections: merging pairs of four gives two, and communities are found") {
    edge_list<> edges = communities(800, 24000, 8, .1, 3);
    memory_scratch<> place;
    const auto result = [&](std::uint32_t parts, double imbalance) {
        return grem(edges, place, {.parts = parts, .imbalance = imbalance}, {.chunk = .2}, by_spectrum);
    };
    std::vector<partition_id16> halves = result(4, any_size);
    for (partition_id16& p : halves) p /= 2;
    CHECK(halves == result(2, any_size)); // without caps they are equal
    for (const std::uint32_t parts : {3U, 5U, 8U}) {
        const std::vector<partition_id16> part = result(parts, .05);
        const std::vector<std::uint64_t> sizes = part_sizes(part, parts);
        CHECK(std::ranges::min(sizes) > 800 / parts * 3 / 4);
        CHECK(cut_of(edges, part) < .45); // random parts: 0.66 and more
    }
    CHECK(cut_of(edges, result(8, .05)) < .25);
}

TEST_CASE("neither chunks of the stream nor their boundaries matter; the seed does") {
    edge_list<> long_chunks = communities(300, 4000, 3, .3, 9);
    edge_list<> short_chunks(300, edges_of(long_chunks), 7);
    memory_scratch<> place;
    const auto result = [&](edge_list<>& edges, std::uint64_t seed) {
        return grem(edges, place, {.parts = 3, .seed = seed}, {}, by_spectrum);
    };
    CHECK(result(long_chunks, 1) == result(short_chunks, 1));
    CHECK(result(long_chunks, 1) != result(long_chunks, 2));
}

TEST_CASE("an interrupted run resumes to the same bits, wherever it was killed") {
    edge_list<> edges = communities(150, 6000, 4, .3, 2);
    memory_scratch<> place;
    for (const std::uint32_t passes : {1U, 2U}) {
        const grem_options options{.chunk = .06, .passes = passes};
        memory_journal whole;
        const auto expected = grem(edges, place, {.parts = 5, .journal = &whole}, options, by_spectrum);
        CHECK(expected == grem(edges, place, {.parts = 5}, options, by_spectrum));
        CHECK(whole.saves > 20);
        for (std::uint32_t last = 1; last <= whole.saves; ++last) {
            memory_journal journal;
            journal.last = last;
            const partition_request request{.parts = 5, .journal = &journal};
            CHECK_THROWS_AS((void)grem(edges, place, request, options, by_spectrum), memory_journal::killed);
            CHECK(grem(edges, place, request, options, by_spectrum) == expected);
            CHECK(journal.saves == whole.saves);
        }
        CHECK(grem(edges, place, {.parts = 5, .journal = &whole}, options, by_spectrum) ==
            expected); // nothing was left to do
        CHECK(code_of([&] { (void)grem(edges, place, {.parts = 4, .journal = &whole}, options, by_spectrum); }) ==
            errc::config_mismatch);
        edge_list<> other = communities(151, 6000, 4, .3, 2);
        CHECK(code_of([&] { (void)grem(other, place, {.parts = 5, .journal = &whole}, options, by_spectrum); }) ==
            errc::config_mismatch);
    }
}

TEST_CASE("degenerate graphs are partitioned") {
    memory_scratch<> place;
    const auto result = [&](std::uint64_t nodes, std::vector<edge> edges, std::uint32_t parts) {
        edge_list<> stream(nodes, std::move(edges));
        const auto part = grem(stream, place, {.parts = parts}, {.chunk = .4}, by_spectrum);
        check_assignment(part, parts, nodes);
        if (nodes != 0) CHECK(std::ranges::max(part_sizes(part, parts)) <= max_weight(nodes, parts, .03));
        return part;
    };
    CHECK(result(0, {}, 3).empty());
    CHECK(result(1, {}, 1) == std::vector<partition_id16>{0});
    CHECK(result(10, {}, 4).size() == 10);                                // no edge
    CHECK(result(10, {{3, 0, 3}, {4, 0, 4}, {4, 0, 4}}, 2).size() == 10); // only loops
    CHECK(result(2, {{0, 0, 1}}, 7).size() == 2);                         // more parts than nodes
    std::vector<edge> star;
    for (node_id v = 1; v < 40; ++v) star.push_back({0, 0, v});
    CHECK(result(40, star, 4).size() == 40);
    std::vector<edge> twice{{0, 0, 1}, {0, 0, 1}, {1, 0, 0}, {2, 0, 3}, {3, 0, 2}};
    CHECK(result(4, twice, 2).size() == 4);
}

TEST_CASE("invalid requests are refused") {
    memory_scratch<> place;
    edge_list<> edges = communities(50, 100, 2, .2, 0);
    const auto code = [&](const partition_request& request, const grem_options& options) {
        return code_of([&] { (void)grem(edges, place, request, options, by_spectrum); });
    };
    CHECK(code({.parts = 0}, {}) == errc::invalid_argument);
    CHECK(code({}, {.chunk = 0}) == errc::invalid_argument);
    CHECK(code({}, {.older = 1.5}) == errc::invalid_argument);
    CHECK(code({}, {.passes = 0}) == errc::invalid_argument);
    CHECK(code({.balance = balance_by::edges}, {}) == errc::unsupported);
    CHECK(code({.label_cap = 1.05}, {}) == errc::unsupported);
    std::stop_source stopped;
    stopped.request_stop();
    CHECK(code({.stop = stopped.get_token()}, {}) == errc::canceled);
    edge_list<> beyond(3, {{0, 0, 3}});
    CHECK(code_of([&] { (void)grem(beyond, place, {}, {}, by_spectrum); }) == errc::out_of_range);
    CHECK(code_of([&] {
        (void)grem(edges, place, {}, {}, [](const symmetric_csr&, std::array<std::uint64_t, 2>, std::uint64_t) {
            return std::vector<partition_id16>{};
        });
    }) == errc::invalid_argument);
}

} // namespace test_partition_grem
