#include <gneiss/eval/ranking.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/csr.hpp>

// Ids near the largest, and counts beyond 2^31, by arithmetic: nothing of that size is allocated.
namespace test_sample_far_ids {

using namespace gneiss;

namespace {

constexpr std::uint32_t degree = 9;

/// A graph of `count` nodes with 9 neighbors each, among the last thousand, and edge ids beyond 2^40.
template <class NodeId>
struct far_graph {
    using id_type = NodeId;
    static constexpr std::size_t neighbor_batch = 16;
    std::uint64_t count;

    [[nodiscard]] std::uint64_t nodes() const { return count; }
    [[nodiscard]] std::uint64_t id_of(NodeId v) const { return v; }
    void degrees(std::span<const NodeId> ids, neighbor_direction, std::span<std::uint32_t> to) const {
        for (std::size_t i = 0; i < ids.size(); ++i) to[i] = degree;
    }
    [[nodiscard]] NodeId neighbor(NodeId v, std::uint32_t position) const {
        return static_cast<NodeId>(count - 1 - (std::uint64_t{v} * 7 + position * std::uint64_t{111}) % 1000);
    }
    void neighbors_at(const neighbor_request<NodeId>& request, const neighbor_answer<NodeId>& answer) const {
        std::size_t k = 0;
        for (std::size_t i = 0; i < request.ids.size(); ++i)
            for (; k < request.offsets[i + 1] - request.offsets[0]; ++k) {
                answer.neighbors[k] = neighbor(request.ids[i], request.positions[k]);
                if (!answer.edge_ids.empty()) answer.edge_ids[k] = (std::uint64_t{1} << 40) + request.positions[k];
            }
    }
};
static_assert(neighbor_source<far_graph<std::uint32_t>>);

template <class NodeId>
void check_samples(std::uint64_t nodes) {
    const far_graph<NodeId> graph{nodes};
    const std::vector<NodeId> seeds{static_cast<NodeId>(nodes - 1), static_cast<NodeId>(nodes - 2), 0};
    neighbor_sampler<NodeId> sampler({parse_fanout("4,all"), false, false, true}, 5);
    mini_batch_arena arena;
    const auto sample = sampler.sample({}, graph, std::span<const NodeId>(seeds), serial_executor{}, arena);
    CHECK(std::set<NodeId>(sample.nodes.begin(), sample.nodes.end()).size() == sample.nodes.size());
    for (const NodeId v : sample.nodes) CHECK((v == 0 || v >= nodes - 1000));
    std::size_t edge = 0;
    for (std::size_t t = 0; t < seeds.size(); ++t)
        for (std::uint32_t k = 0; k < 4; ++k, ++edge) {
            const std::uint64_t position = sample.edge_ids[edge] - (std::uint64_t{1} << 40);
            REQUIRE(position < degree);
            CHECK(
                sample.nodes[sample.neighbors[edge]] == graph.neighbor(seeds[t], static_cast<std::uint32_t>(position)));
        }
    dense_sampler<NodeId> dense({parse_fanout("4,3"), false, false, false}, 5);
    const auto once = dense.sample({}, graph, std::span<const NodeId>(seeds), serial_executor{}, arena);
    CHECK(std::set<NodeId>(once.node_ids.begin(), once.node_ids.end()).size() == once.node_ids.size());
    for (const NodeId v : once.node_ids) CHECK((v == 0 || v >= nodes - 1000));
}

} // namespace

TEST_CASE("samplers draw and number nodes near the largest id") {
    check_samples<std::uint32_t>((std::uint64_t{1} << 32) - 1);
    check_samples<std::uint64_t>((std::uint64_t{1} << 32) + 5000);
    check_samples<std::uint64_t>(std::uint64_t{1} << 60);
}

TEST_CASE("partitions hold rows near 2^32, and a row is in the partition that begins before it") {
    constexpr std::uint64_t nodes = (std::uint64_t{1} << 32) - 1;
    for (const std::uint32_t partitions : {1U, 2U, 7U, 4096U}) {
        const row_partitioning rows{nodes, partitions};
        const row_finder finder(rows);
        CHECK(rows.begin(partitions) == nodes);
        for (const std::uint64_t row :
            {std::uint64_t{0}, nodes / 2, (std::uint64_t{1} << 31) - 1, std::uint64_t{1} << 31, nodes - 1}) {
            const partition_id p = finder.of(static_cast<node_id>(row));
            CHECK(rows.of(row) == p);
            CHECK(rows.begin(p) <= row);
            CHECK(row < rows.begin(p + 1));
        }
    }
    const row_partitioning sizes = row_partitioning::of_sizes(
        std::vector<std::uint64_t>{3, (std::uint64_t{1} << 31) + 7, (std::uint64_t{1} << 31) - 12});
    CHECK(sizes.nodes == (std::uint64_t{1} << 32) - 2);
    CHECK(row_finder(sizes).of(static_cast<node_id>(sizes.nodes - 1)) == 2);
    CHECK(row_finder(sizes).of((node_id{1} << 31) + 9) == 1);
}

TEST_CASE("bytes and blocks of more than 2^31 elements are those of exact arithmetic") {
    constexpr std::uint64_t nodes = (std::uint64_t{1} << 32) - 2, edges = std::uint64_t{1} << 34;
    CHECK(csr<>::bytes_needed(nodes, edges, {.relations = true, .edge_ids = true}) == 8 * (nodes + 2) + 16 * edges);
    CHECK(ranked_bitmap::memory_of(nodes) >= nodes / 4);
    constexpr edge_block_shape shape{
        .direction = edge_direction::in, .edges = nodes, .nodes = nodes, .has_relations = true};
    CHECK(shape.words() == 2 * nodes + 1 + 3 * nodes);
    const ranking_plan plan = plan_ranking(
        {.edges = std::size_t{1} << 40, .dim = 400, .filtered = true, .concurrency = 64}, std::uint64_t{1} << 50);
    CHECK(plan.edges_per_block == std::size_t{1} << 30); // slots of a block are 32-bit
    std::uint64_t sum = 0;
    for (const memory_need& part : plan.parts) sum += part.bytes;
    CHECK(sum <= std::uint64_t{1} << 50);
}

TEST_CASE("a permutation of 2^32 - 1 elements, and draws from them, reach both ends") {
    constexpr std::uint64_t size = (std::uint64_t{1} << 32) - 1;
    const random_key key(3, random_domain::user);
    const keyed_permutation permute(size, key);
    std::set<std::uint64_t> images;
    for (std::uint64_t i = 0; i < 1000; ++i) {
        images.insert(permute(i));
        images.insert(permute(size - 1 - i));
    }
    CHECK(images.size() == 2000);
    CHECK(*images.rbegin() < size);
    CHECK(*images.rbegin() > size / 100 * 99);
    std::uint64_t most = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) most = std::max(most, below(key[i], size));
    CHECK(most < size);
    CHECK(most > size / 100 * 99);
}

} // namespace test_sample_far_ids
