#include <gneiss/io/csc_builder.hpp>
#include <gneiss/io/detail/csc_builder.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <storage/csc.hpp>

namespace test_io_csc_builder {

using namespace gneiss;
using test::stored_lists;

namespace {

void check_files(const std::filesystem::path& directory, const csr<>& expected) {
    const mapped_npy indptr(directory / "indptr.npy"), neighbors(directory / "neighbours.npy");
    CHECK(std::ranges::equal(indptr.elements<std::uint64_t>(), expected.offsets()));
    CHECK(std::ranges::equal(neighbors.elements<std::uint32_t>(), expected.neighbors()));
    for (const char* name : {"indptr.npy", "neighbours.npy", "stamp.npy"})
        checksum_table::load(directory / name).verify_file(plain_file::open(directory / name));
}

/// Compares the self loops of incoming lists with those of a CSR.
void check_loops(const std::filesystem::path& directory, const csr<>& expected) {
    std::vector<std::uint32_t> rows;
    for (node_id v = 0; v < expected.nodes(); ++v) {
        const auto list = expected.neighbors(v);
        const auto count = static_cast<std::uint32_t>(std::ranges::count(list, v));
        if (count != 0)
            rows.insert(rows.end(), {v, static_cast<std::uint32_t>(std::ranges::find(list, v) - list.begin()), count});
    }
    const mapped_npy file(directory / csc_loops_name);
    CHECK(std::ranges::equal(file.elements<std::uint32_t>(), rows));
    checksum_table::load(directory / csc_loops_name).verify_file(plain_file::open(directory / csc_loops_name));
}

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the least bytes that `build_csc` accepts.
std::uint64_t least_memory(const bucket_store& edges) {
    using builder = detail::csc_builder;
    return builder::fixed_bytes(edges) + builder::minimum_windows;
}

} // namespace

TEST_CASE(
    "lists on disk equal those of a CSR: multigraphs, self loops, isolated nodes, hubs, one node, no node, no edge") {
    for (const auto& [nodes, partitions, edges] : {std::tuple(std::uint64_t{900}, 7U, std::size_t{40000}),
             {500, 1, 30000}, {211, 211, 3000}, {64, 5, 60}, {1, 1, 40}, {1, 3, 0}, {0, 1, 0}, {10, 4, 0}}) {
        const stored_lists data(nodes, partitions, edges == 0 ? std::vector<edge>{} : test::lists_edges(nodes, edges));
        check_files(data.files.in, data.graph.in());
        check_files(data.files.out, data.graph.out());
        check_loops(data.files.in, data.graph.in());
        CHECK(!std::filesystem::exists(data.files.out / csc_loops_name));
    }
}

TEST_CASE("incoming lists of an earlier version, without self loops, are made again, and both directions need them") {
    const stored_lists data(211, 7, test::lists_edges(211, 3000));
    const auto loops = data.files.in / csc_loops_name;
    CHECK(!build_csc(data.store, neighbor_direction::in, data.files.in));
    std::filesystem::remove(loops);
    std::filesystem::remove(sidecar_path(loops));
    memory_budget budget;
    CHECK_NOTHROW(memory_csc({.in = data.files.in, .out = {}}, budget));
    CHECK_THROWS_WITH_AS(memory_csc(data.files, budget), doctest::Contains("build the lists again"), error);
    CHECK(build_csc(data.store, neighbor_direction::in, data.files.in));
    check_files(data.files.in, data.graph.in());
    check_loops(data.files.in, data.graph.in());
    CHECK_NOTHROW(memory_csc(data.files, budget));
}

TEST_CASE("memory and executor change nothing, even for lists longer than the memory") {
    const stored_lists data(900, 3, test::lists_edges(900, 60000));
    const std::uint64_t least = least_memory(data.store);
    for (const std::uint64_t memory : {least, least + 10000, least + 100000, std::uint64_t{1} << 28})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out}) {
            const auto directory = data.directory.path() / "again";
            edge_index reported = 0;
            CHECK(build_csc(data.store, d, directory,
                {.memory = memory,
                    .progress =
                        [&](edge_index done, edge_index all) {
                            CHECK(done >= reported);
                            CHECK(all == 60000);
                            reported = done;
                        }},
                tbb_executor(2)));
            CHECK(reported == 60000);
            const auto& first = d == neighbor_direction::in ? data.files.in : data.files.out;
            for (const char* name :
                {"indptr.npy", "indptr.npy.xxh3", "neighbours.npy", "neighbours.npy.xxh3", "stamp.npy"})
                CHECK((bytes_of(directory / name) == bytes_of(first / name)));
            if (d == neighbor_direction::in)
                CHECK((bytes_of(directory / csc_loops_name) == bytes_of(first / csc_loops_name)));
            std::filesystem::remove_all(directory);
        }
    try {
        build_csc(data.store, neighbor_direction::in, data.directory.path() / "again", {.memory = least - 1});
        FAIL("too little memory");
    } catch (const over_budget& e) {
        CHECK(e.limit() == least - 1);
        CHECK(e.parts() == std::vector{memory_need{"sorting neighbors", least}});
    }
}

TEST_CASE("lists of the same edges are kept, those of other edges are refused, and unfinished ones are rebuilt") {
    const stored_lists data(300, 3, test::lists_edges(300, 4000)), other(300, 3, test::lists_edges(300, 4001));
    CHECK_FALSE(build_csc(data.store, neighbor_direction::in, data.files.in));
    const auto refuse = [](const bucket_store& store, neighbor_direction d, const std::filesystem::path& directory) {
        try {
            build_csc(store, d, directory);
            FAIL("lists of other edges");
        } catch (const error& e) {
            CHECK(e.code() == errc::config_mismatch);
        }
    };
    refuse(other.store, neighbor_direction::in, data.files.in);
    refuse(data.store, neighbor_direction::out, data.files.in);

    const auto directory = data.directory.path() / "third", partial = data.directory.path() / "third.partial";
    std::stop_source stop;
    CHECK_THROWS_AS(build_csc(data.store, neighbor_direction::in, directory,
                        {.memory = least_memory(data.store),
                            .stop = stop.get_token(),
                            .progress = [&](edge_index, edge_index) { stop.request_stop(); }}),
        error);
    CHECK_FALSE(std::filesystem::exists(directory));
    CHECK_FALSE(std::filesystem::exists(partial));
    std::filesystem::create_directory(partial);
    std::ofstream(partial / "neighbours.npy") << "half";
    CHECK_THROWS_AS(build_csc(data.store, neighbor_direction::in, directory), error); // a user's
    std::ofstream(partial / directory_mark).close();
    CHECK(build_csc(data.store, neighbor_direction::in, directory));
    check_files(directory, data.graph.in());
    CHECK_FALSE(std::filesystem::exists(partial));
}

TEST_CASE("damage anywhere in the buckets is found, and no files remain") {
    const stored_lists data(300, 2, test::lists_edges(300, 4000));
    const auto path = data.store.path(edge_direction::in);
    const std::string whole = bytes_of(path);
    const auto directory = data.directory.path() / "again";
    const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
    const auto fails = [&] {
        CHECK_THROWS_AS(build_csc(data.store, neighbor_direction::in, directory), error);
        CHECK_FALSE(std::filesystem::exists(directory));
    };
    for (std::size_t at = 3; at < whole.size(); at += whole.size() / 50) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ 4);
        write(flipped);
        fails();
    }
    for (const std::size_t length : {std::size_t{0}, whole.size() / 3, whole.size() - 1}) {
        write(whole.substr(0, length));
        fails();
    }
    write(whole);
    CHECK(build_csc(data.store, neighbor_direction::in, directory));
}

} // namespace test_io_csc_builder
