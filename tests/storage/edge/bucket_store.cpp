#include <gneiss/storage/edge/bucket_store.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <storage/buckets.hpp>
#include <support/cut_into.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>

namespace test_storage_edge_bucket_store {

namespace {

using gneiss::edge;
using gneiss::edge_bucket;
using gneiss::edge_direction;
using gneiss::test::build;
using gneiss::test::word_file;

std::vector<edge> random_edges(const gneiss::bucket_layout& layout, std::size_t count, std::uint64_t seed) {
    gneiss::random_stream draw(gneiss::random_key{seed, gneiss::random_domain::user});
    std::vector<edge> edges(count);
    for (edge& e : edges) {
        const auto node = [&] { // a few hubs, so that edges repeat
            return static_cast<gneiss::node_id>(
                draw.below(draw.below(2) != 0 ? layout.rows.nodes : std::min<std::uint64_t>(layout.rows.nodes, 3)));
        };
        e = {
            node(), static_cast<gneiss::relation_id>(draw.below(std::max<std::uint64_t>(layout.relations, 1))), node()};
        if (draw.below(20) == 0) e.destination = e.source;
    }
    return edges;
}

std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
void spit(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

const std::vector<gneiss::bucket_layout> layouts{{{1, 1}, 0}, {{1, 3}, 2}, {{5, 9}, 3}, {{10, 1}, 1}, {{100, 4}, 0},
    {{103, 7}, 5}, {gneiss::test::cut_into({2, 0, 60, 1, 0, 40, 0}), 5}, {gneiss::test::cut_into({0, 9, 1}), 0}};

} // namespace

TEST_CASE("buckets hold each edge once, in order, in both directions, like a map of sorted edges") {
    std::uint64_t seed = 0;
    for (const gneiss::bucket_layout& layout : layouts)
        for (const std::size_t count : std::vector<std::size_t>{0, 1, 10, 3000}) {
            CAPTURE(layout.rows.nodes);
            CAPTURE(layout.rows.partitions);
            CAPTURE(count);
            const gneiss::test::temporary_directory directory;
            const auto edges = random_edges(layout, count, ++seed);
            const auto store = build(directory.path(), layout, edges);
            std::map<edge_bucket, std::vector<edge>> oracle;
            for (const edge& e : edges) oracle[{layout.rows.of(e.source), layout.rows.of(e.destination)}].push_back(e);
            std::vector<edge> all;
            store.for_each_bucket([&](edge_bucket b) {
                auto& expected = oracle[b];
                std::sort(expected.begin(), expected.end());
                all.insert(all.end(), expected.begin(), expected.end());
                const auto i = static_cast<gneiss::node_id>(layout.rows.begin(b.first)),
                           j = static_cast<gneiss::node_id>(layout.rows.begin(b.second));
                const auto out = store.read(b, edge_direction::out), in = store.read(b, edge_direction::in);
                REQUIRE(out.block.edges() == expected.size());
                REQUIRE(in.block.edges() == expected.size());
                CHECK(store.extent(b).edges == expected.size());
                CHECK(store.extent(b).out.offset % 512 == 0);
                CHECK(store.extent(b).in.length % 512 == 0);
                std::vector<edge> decoded(expected.size());
                gneiss::decode(out.block, i, j, std::span(decoded));
                CHECK(decoded == expected);
                std::ranges::fill(decoded, edge{});
                gneiss::decode_incoming(in.block, i, j, std::span(decoded));
                CHECK(decoded == expected);
                std::set<std::uint32_t> sources, destinations;
                for (const edge& e : expected) {
                    sources.insert(e.source - i);
                    destinations.insert(e.destination - j);
                }
                CHECK(std::ranges::equal(out.block.nodes, sources));
                CHECK(std::ranges::equal(in.block.nodes, destinations));
                CHECK(out.block.relations.size() == (layout.has_relations() ? expected.size() : 0));
                // Within a node by (neighbor, relation, edge id), so that samplers may draw positions.
                for (std::size_t v = 0; v < in.block.nodes.size(); ++v)
                    for (std::size_t e = in.block.starts[v] + std::size_t{1}; e < in.block.starts[v + 1]; ++e)
                        CHECK(std::pair(in.block.neighbors[e - 1], in.block.edge_ids[e - 1]) <
                            std::pair(in.block.neighbors[e], in.block.edge_ids[e]));
            });
            CHECK_NOTHROW(store.verify());
            std::vector<edge> streamed;
            store.for_each_edge(
                [&](std::span<const edge> some) { streamed.insert(streamed.end(), some.begin(), some.end()); });
            CHECK(streamed == all);
            CHECK(store.edges() == count);
        }
}

TEST_CASE("any memory, threads and order of edges give the same files") {
    const gneiss::bucket_layout layout{{500, 3}, 7};
    auto edges = random_edges(layout, 40000, 5);
    std::string out, in;
    for (const std::uint64_t memory :
        {std::uint64_t{4096}, std::uint64_t{60000}, std::uint64_t{1} << 20, std::uint64_t{64} << 20}) {
        const gneiss::test::temporary_directory directory;
        gneiss::shuffle(edges, gneiss::random_key{memory, gneiss::random_domain::user});
        (void)build(directory.path(), layout, edges, memory, gneiss::tbb_executor(memory < 100000 ? 1 : 2));
        if (out.empty()) {
            out = slurp(directory / "out");
            in = slurp(directory / "in");
        }
        CHECK(slurp(directory / "out") == out);
        CHECK(slurp(directory / "in") == in);
    }
}

TEST_CASE("progress grows up to the number of edges") {
    const gneiss::test::temporary_directory directory;
    const gneiss::bucket_layout layout{{50, 2}, 0};
    const auto edges = random_edges(layout, 1000, 3);
    gneiss::bucket_builder<> builder(layout, 1 << 20, directory.path());
    builder.push(edges);
    CHECK(builder.edges() == 1000);
    word_file out(directory / "out"), in(directory / "in");
    std::uint64_t last = 0;
    (void)builder.finish(out, in, [&](std::uint64_t written) {
        CHECK(written >= last);
        last = written;
    });
    CHECK(last == 1000);
}

TEST_CASE("progress is reported within a large bucket, too") {
    const gneiss::test::temporary_directory directory;
    constexpr std::uint64_t count = (std::uint64_t{1} << 20) + 5;
    gneiss::bucket_builder<> builder({{64, 1}, 0}, 64 << 20, directory.path());
    for (std::uint32_t i = 0; i < count; ++i) builder.push(edge{i % 64, 0, i / 64 % 64});
    word_file out(directory / "out"), in(directory / "in");
    std::vector<std::uint64_t> reports;
    (void)builder.finish(out, in, [&](std::uint64_t written) { reports.push_back(written); });
    CHECK(reports == std::vector<std::uint64_t>{count - 5, count});
}

TEST_CASE("the key of the largest layouts does not overflow") {
    const gneiss::test::temporary_directory directory;
    for (const std::uint32_t partitions : {1U, 2U, 3U, 1000U}) {
        const gneiss::bucket_layout layout{{(std::uint64_t{1} << 32) - partitions, partitions}, 2};
        const auto last = static_cast<std::uint32_t>(layout.rows.nodes - 1);
        const auto store =
            build(directory.path(), layout, std::vector<edge>{{last, 1, last}, {0, 0, last}, {last, 0, 0}});
        std::vector<edge> found;
        store.for_each_edge([&](std::span<const edge> some) { found.insert(found.end(), some.begin(), some.end()); });
        CHECK(found == std::vector<edge>{{0, 0, last}, {last, 0, 0}, {last, 1, last}});
    }
    // Very unequal: partitions times the largest of them do not fit 32 bits.
    std::vector<std::uint64_t> sizes(1000, 1);
    sizes[500] = (std::uint64_t{1} << 32) - 2000;
    const gneiss::bucket_layout layout{gneiss::test::cut_into(sizes), 1};
    const auto last = static_cast<std::uint32_t>(layout.rows.nodes - 1);
    const std::vector<edge> edges{{0, 0, 1}, {499, 0, last}, {500, 0, 499}, {500, 0, last - 499}, {last - 499, 0, 500},
        {last, 0, 0}, {last, 0, last}};
    const auto store = build(directory.path(), layout, edges);
    std::vector<edge> found;
    store.for_each_edge([&](std::span<const edge> some) { found.insert(found.end(), some.begin(), some.end()); });
    CHECK(found == edges);
}

TEST_CASE("ids out of range and impossible layouts are refused") {
    const gneiss::test::temporary_directory directory;
    gneiss::bucket_builder<> builder({{10, 2}, 3}, 1 << 20, directory.path());
    CHECK_THROWS_AS(builder.push(edge{10, 0, 0}), gneiss::error);
    CHECK_THROWS_AS(builder.push(edge{0, 0, 10}), gneiss::error);
    CHECK_THROWS_AS(builder.push(edge{0, 3, 0}), gneiss::error);
    CHECK_THROWS_AS(
        gneiss::bucket_builder<>({{std::uint64_t{1} << 32, 2}, 3}, 1 << 20, directory.path()), gneiss::error);
    CHECK_THROWS_AS(gneiss::bucket_builder<>({{10, 0}, 3}, 1 << 20, directory.path()), gneiss::error);
}

TEST_CASE("a table that does not fit in memory is refused before a byte is written") {
    const gneiss::test::temporary_directory directory;
    const std::uint64_t table = gneiss::bucket_builder<>::table_bytes(512);
    CHECK(table >= 512 * 512 * sizeof(gneiss::bucket_row));
    const gneiss::bucket_layout layout{{5000, 512}, 0};
    CHECK_NOTHROW(gneiss::bucket_builder<>(layout, table + (1 << 20), directory.path()));
    CHECK_THROWS_AS(gneiss::bucket_builder<>(layout, table - 1, directory.path()), gneiss::over_budget);
    CHECK_NOTHROW(gneiss::bucket_builder<>({{5000, 3}, 0}, 0, directory.path()));
    CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("every damaged table, and every truncation or bit flip of the blocks, is found") {
    const gneiss::test::temporary_directory directory;
    const gneiss::bucket_layout layout{{40, 3}, 4};
    const auto edges = random_edges(layout, 800, 9);
    gneiss::bucket_builder<> builder(layout, 1 << 20, directory.path());
    builder.push(edges);
    word_file out(directory / "out"), in(directory / "in");
    const auto table = builder.finish(out, in);
    const auto out_file = out.close(), in_file = in.close();
    const auto check = [&](const std::vector<gneiss::bucket_row>& rows) {
        gneiss::bucket_store(layout, rows, out_file, in_file, "table").verify();
    };
    CHECK_NOTHROW(check(table));
    gneiss::random_stream draw(gneiss::random_key{1, gneiss::random_domain::user});
    const auto words = reinterpret_cast<const std::uint64_t*>(table.data());
    for (std::size_t word = 0; word < 6 * table.size(); ++word)
        for (int i = 0; i < 4; ++i) {
            std::vector<std::uint64_t> damaged(words, words + 6 * table.size());
            damaged[word] ^= std::uint64_t{1} << draw.below(64);
            std::vector<gneiss::bucket_row> rows(table.size());
            for (std::size_t r = 0; r < rows.size(); ++r)
                rows[r] = {damaged[6 * r], damaged[6 * r + 1], damaged[6 * r + 2], damaged[6 * r + 3],
                    damaged[6 * r + 4], damaged[6 * r + 5]};
            CHECK_THROWS_AS(check(rows), gneiss::error);
        }
    for (const char* name : {"out", "in"}) {
        const std::string whole = slurp(directory / name);
        for (std::size_t length = 0; length < whole.size(); length += 97) {
            spit(directory / name, whole.substr(0, length));
            CHECK_THROWS_AS(check(table), gneiss::error);
        }
        for (int i = 0; i < 200; ++i) {
            std::string flipped = whole;
            const std::size_t bit = draw.below(8 * whole.size());
            flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
            spit(directory / name, flipped);
            CHECK_THROWS_AS(check(table), gneiss::error);
        }
        spit(directory / name, whole);
    }
}

TEST_CASE("blocks with valid checksums but inconsistent contents are refused") {
    const std::vector<std::uint32_t> good{
        /*nodes*/ 1, 4, /*starts*/ 0, 2, 3, /*neighbors*/ 0, 5, 2, /*relations*/ 1, 0, 1, /*ids*/ 2, 0, 1};
    const gneiss::edge_block_shape shape{edge_direction::in, 3, 2, true, 5, 6, 2};
    REQUIRE(shape.words() == good.size());
    CHECK(gneiss::diagnose_block(gneiss::cut_block(good, shape), shape).empty());
    // A word set too large is an error, and so is any swap of two different words that breaks an order.
    for (std::size_t i = 0; i < good.size(); ++i) {
        auto bad = good;
        bad[i] = 6;
        CHECK_FALSE(gneiss::diagnose_block(gneiss::cut_block(bad, shape), shape).empty());
    }
    for (const auto& [a, b] : {std::pair(0, 1), std::pair(2, 3), std::pair(3, 4), std::pair(5, 6)}) {
        auto bad = good;
        std::swap(bad[static_cast<std::size_t>(a)], bad[static_cast<std::size_t>(b)]);
        CHECK_FALSE(gneiss::diagnose_block(gneiss::cut_block(bad, shape), shape).empty());
    }
}

TEST_CASE("bytes read by an engine are parsed in place; others are refused") {
    const gneiss::test::temporary_directory directory;
    const gneiss::bucket_layout layout{{40, 2}, 0};
    const auto store = build(directory.path(), layout, random_edges(layout, 300, 4));
    const auto range = store.extent({1, 0}).out;
    std::string bytes = slurp(store.path(edge_direction::out))
                            .substr(range.offset + store.data_offset(edge_direction::out), range.length);
    gneiss::aligned_buffer<std::byte> buffer(bytes.size());
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    const auto block = store.parse_and_verify(buffer.span(), {1, 0}, edge_direction::out);
    CHECK(reinterpret_cast<const std::byte*>(block.nodes.data()) == buffer.data());
    CHECK_THROWS_AS((void)store.parse_and_verify(buffer.span().first(bytes.size() - 512), {1, 0}, edge_direction::out),
        gneiss::error);
    buffer[bytes.size() / 2] ^= std::byte{4};
    CHECK_THROWS_AS((void)store.parse_and_verify(buffer.span(), {1, 0}, edge_direction::out), gneiss::error);
}

} // namespace test_storage_edge_bucket_store
