#include <gneiss/storage/adjacency/neighbor_cache.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <storage/csc.hpp>

namespace test_storage_adjacency_neighbor_cache {

using namespace gneiss;

namespace {

struct cached {
    test::temporary_directory directory{};
    std::filesystem::path path = directory.path() / "cache";
    csr_graph<> graph = test::whole_graph(500, test::lists_edges(500, 30000));
    std::vector<node_id> all = std::vector<node_id>(500);
    std::vector<std::uint32_t> in = std::vector<std::uint32_t>(500), out = in;
    memory_budget budget{};

    cached() {
        for (node_id v = 0; v < 500; ++v) all[v] = v;
        graph.degrees(all, neighbor_direction::in, in);
        graph.degrees(all, neighbor_direction::out, out);
    }
    void build(std::uint64_t bytes, neighbor_direction d = neighbor_direction::in) const {
        neighbor_cache::build(path, graph, d, rank_lists(out, in), bytes, 7);
    }
};

} // namespace

TEST_CASE("a cache holds exactly the whole lists of the nodes selected by rank, within its bytes") {
    const cached data;
    memory_budget budget;
    for (const auto d : {neighbor_direction::in, neighbor_direction::both})
        for (const std::uint64_t bytes : {0U, 500U, 5000U, 50000U, 1000000U}) {
            data.build(bytes, d);
            neighbor_cache cache(data.path, 7, budget);
            CHECK(cache.direction() == d);
            CHECK(cache.nodes() == 500);
            if (bytes >= 500) CHECK(cache.memory_bytes() <= bytes);
            std::vector<std::uint32_t> degrees(500);
            data.graph.degrees(data.all, d, degrees);
            const std::uint64_t fixed = ranked_bitmap::memory_of(500) + 8;
            const auto chosen =
                choose_lists(rank_lists(data.out, data.in), degrees, bytes > fixed ? bytes - fixed : 0, 4, 8);
            CHECK(cache.lists() == chosen.size());
            cache.load();
            CHECK(budget.used() == cache.memory_bytes());
            std::vector<const node_id*> lists(500);
            cache.find(data.all, lists);
            for (node_id v = 0; v < 500; ++v) {
                REQUIRE((lists[v] != nullptr) == std::ranges::binary_search(chosen, v));
                if (lists[v] == nullptr) continue;
                std::vector<std::uint32_t> offsets{0, degrees[v]}, positions(degrees[v]);
                for (std::uint32_t k = 0; k < degrees[v]; ++k) positions[k] = k;
                std::vector<node_id> expected(degrees[v]);
                data.graph.neighbors_at({std::span(&v, 1), d, offsets, positions}, {expected});
                CHECK(std::equal(expected.begin(), expected.end(), lists[v]));
            }
            cache.release();
            CHECK(budget.used() == 0);
            cache.find(data.all, lists);
            CHECK(std::ranges::all_of(lists, [](const node_id* list) { return list == nullptr; }));
            cache.load();
            cache.find(data.all, lists);
            CHECK(std::ranges::count(lists, nullptr) == static_cast<std::ptrdiff_t>(500 - chosen.size()));
        }
}

TEST_CASE("a cache of another graph or version, truncated or with a flipped bit is refused; so is a budget too small") {
    cached data;
    data.build(20000);
    CHECK_THROWS_AS(neighbor_cache(data.path, 8, data.budget), error);
    {
        memory_budget tight(10000);
        neighbor_cache cache(data.path, 7, tight);
        CHECK_THROWS_AS(cache.load(), over_budget);
        CHECK_FALSE(cache.loaded());
    }
    const auto sidecar = sidecar_path(data.path);
    for (const auto& path : {data.path, sidecar}) {
        std::string whole;
        {
            std::ifstream from(path, std::ios::binary);
            whole.assign(std::istreambuf_iterator<char>(from), {});
        }
        const auto refused = [&](const std::string& bytes) {
            std::ofstream(path, std::ios::binary) << bytes;
            CHECK_THROWS_AS(neighbor_cache(data.path, 7, data.budget).load(), error);
        };
        for (std::size_t length = 0; length < whole.size(); length += whole.size() / 20 + 1)
            refused(whole.substr(0, length));
        for (std::size_t at = 0; at < whole.size(); at += whole.size() / 100 + 1) {
            std::string flipped = whole;
            flipped[at] = static_cast<char>(flipped[at] ^ 1);
            refused(flipped);
        }
        std::ofstream(path, std::ios::binary) << whole;
    }
    neighbor_cache(data.path, 7, data.budget).load();
}

} // namespace test_storage_adjacency_neighbor_cache
