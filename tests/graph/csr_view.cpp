#include <gneiss/graph/csr_view.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/dense.hpp>

#include "support/error_code.hpp"

namespace test_graph_csr_view {

using namespace gneiss;

namespace {

/// Arrays of a graph, as other libraries keep them.
template <class Offset, class Neighbor>
struct arrays {
    std::vector<Offset> offsets{0};
    std::vector<Neighbor> neighbors;

    explicit arrays(std::uint32_t nodes) {
        random_stream draw(random_key(nodes, random_domain::user));
        for (std::uint32_t v = 0; v < nodes; ++v) {
            for (std::uint64_t i = draw.below(12); i > 0; --i)
                neighbors.push_back(static_cast<Neighbor>(draw.below(nodes)));
            std::sort(neighbors.begin() + static_cast<std::ptrdiff_t>(offsets.back()), neighbors.end());
            offsets.push_back(static_cast<Offset>(neighbors.size()));
        }
    }
};

/// A sample: its nodes, neighbors and edge ids.
template <class G>
auto sample_of(const G& graph) {
    dense_sampler<typename G::id_type> sampler({.fanout = parse_fanout("3,2"), .edge_ids = true}, 7);
    mini_batch_arena arena;
    const std::vector<typename G::id_type> seeds{0, 5, 17};
    const auto s = sampler.sample({}, graph, std::span<const typename G::id_type>(seeds), serial_executor{}, arena);
    std::vector<std::uint64_t> found(s.node_ids.begin(), s.node_ids.end());
    found.insert(found.end(), s.nbrs.begin(), s.nbrs.end());
    found.insert(found.end(), s.edge_ids.begin(), s.edge_ids.end());
    return found;
}

template <class Offset, class Neighbor>
struct widths {
    using offset = Offset;
    using neighbor = Neighbor;
};

} // namespace

TEST_CASE_TEMPLATE("a view of arrays with any integers gives the samples of a CSR that owns them", W,
    widths<std::int32_t, std::int32_t>, widths<std::int64_t, std::int32_t>, widths<std::int32_t, std::int64_t>,
    widths<std::int64_t, std::int64_t>, widths<std::uint64_t, std::uint32_t>) {
    const arrays<typename W::offset, typename W::neighbor> a(100);
    const csr_view view(a.offsets, a.neighbors);
    using id = typename decltype(view)::id_type;
    std::vector<edge_index> places(a.neighbors.size());
    for (std::size_t e = 0; e < places.size(); ++e) places[e] = e;
    const csr_graph<id> owned(
        csr<id>({a.offsets.begin(), a.offsets.end()}, {a.neighbors.begin(), a.neighbors.end()}, {}, places), csr<id>());
    CHECK(view.nodes() == owned.nodes());
    CHECK(view.edges() == owned.edges());
    CHECK(sample_of(view) == sample_of(owned));
}

TEST_CASE("arrays that are no lists, and what a view does not store, are refused") {
    const auto refused = [](std::vector<std::int64_t> offsets, std::vector<std::int64_t> neighbors) {
        return test::code_of([&] { (void)csr_view(offsets, neighbors); }) == errc::invalid_argument;
    };
    CHECK(refused({}, {}));
    CHECK(refused({0, 2}, {0}));
    CHECK(refused({1, 2}, {0, 0}));
    CHECK(refused({0, -1, 1}, {0}));
    CHECK(refused({0, 1}, {1}));
    CHECK(refused({0, 1}, {-1}));
    CHECK_FALSE(refused({0, 1}, {0}));
    const std::vector<std::int64_t> offsets{0, 1}, neighbors{0};
    const csr_view in(offsets, neighbors);
    CHECK(
        test::code_of([&] { (void)csr_view(offsets, neighbors, neighbor_direction::both); }) == errc::invalid_argument);
    const std::vector<std::uint64_t> ids{0};
    std::vector<std::uint32_t> degree(1);
    CHECK(test::code_of([&] { in.degrees(ids, neighbor_direction::out, degree); }) == errc::invalid_argument);
    std::vector<relation_id> relation(1);
    std::vector<std::uint64_t> neighbor(1);
    const std::vector<std::uint32_t> of{0, 1}, at{0};
    CHECK(test::code_of([&] { in.neighbors_at({ids, neighbor_direction::in, of, at}, {neighbor, relation, {}}); }) ==
        errc::invalid_argument);
}

} // namespace test_graph_csr_view
