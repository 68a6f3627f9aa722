#include <gneiss/storage/edge/disk_scratch.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <support/temporary_directory.hpp>

namespace test_storage_edge_disk_scratch {

using namespace gneiss;

namespace {

std::vector<edge> some_edges(std::uint64_t nodes, std::size_t count, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user));
    std::vector<edge> edges(count);
    for (edge& e : edges) e = {static_cast<node_id>(draw.below(nodes)), 0, static_cast<node_id>(draw.below(nodes))};
    return edges;
}

std::vector<edge> all_of(disk_scratch::stream& from) {
    std::vector<edge> all;
    for (auto some = from.next(); !some.empty(); some = from.next()) all.insert(all.end(), some.begin(), some.end());
    return all;
}

} // namespace

TEST_CASE("edges are read back from disk as written, however they were cut, any number of times") {
    const test::temporary_directory directory;
    disk_scratch place(directory.path());
    for (const std::size_t count : {0U, 1U, 8191U, 8192U, 8193U, 50000U}) {
        const auto edges = some_edges(1000, count, count);
        auto writer = place.create(1000);
        for (std::size_t at = 0, step = 1; at < count; at += step, step = step * 3 % 5003 + 1)
            writer.append(std::span(edges).subspan(at, std::min(step, count - at)));
        auto stream = std::move(writer).finish();
        CHECK(stream.nodes() == 1000);
        CHECK(stream.edges() == count);
        CHECK((all_of(stream) == edges));
        CHECK(stream.next().empty());
        stream.rewind();
        (void)stream.next();
        stream.rewind();
        CHECK((all_of(stream) == edges));
        CHECK(place.bytes() == 8 * count);
    }
    CHECK(place.bytes() == 0);
    CHECK(place.peak_bytes() == 8 * 50000);
    CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("several sets at once are independent and free their space one by one") {
    const test::temporary_directory directory;
    disk_scratch place(directory.path());
    std::vector<disk_scratch::writer> writers;
    for (std::size_t i = 0; i < 50; ++i) writers.push_back(place.create(100));
    for (std::size_t round = 0; round < 5; ++round)
        for (std::size_t i = 0; i < 50; ++i) writers[i].append(some_edges(100, 3000, 100 * i + round));
    std::vector<disk_scratch::stream> streams;
    for (auto& writer : writers) streams.push_back(std::move(writer).finish());
    writers.clear();
    CHECK(place.bytes() == 50 * 15000 * 8);
    for (std::size_t i = 50; i-- > 0;) {
        std::vector<edge> expected;
        for (std::size_t round = 0; round < 5; ++round)
            for (const edge& e : some_edges(100, 3000, 100 * i + round)) expected.push_back(e);
        CHECK((all_of(streams[i]) == expected));
        streams.pop_back();
        CHECK(place.bytes() == i * 15000 * 8);
    }
}

TEST_CASE("an edge beyond the nodes is reported when it is read") {
    const test::temporary_directory directory;
    disk_scratch place(directory.path());
    auto writer = place.create(10);
    const edge wrong{3, 0, 10};
    writer.append(std::span(&wrong, 1));
    auto stream = std::move(writer).finish();
    CHECK_THROWS_AS((void)stream.next(), error);
    CHECK_THROWS_AS((void)disk_scratch(directory.path() / "none").create(1), io_error);
}

} // namespace test_storage_edge_disk_scratch
