#include <gneiss/storage/adjacency/adjacency_file_stream.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/graph/symmetric.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <storage/csc.hpp>
#include <storage/support.hpp>

namespace test_storage_adjacency_adjacency_file_stream {

using namespace gneiss;
using test::stored_lists;

namespace {

using lists = std::vector<std::vector<node_id>>;

engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// Returns the expected stream: outgoing neighbors in order, then incoming ones, no loops.
lists expected(const stored_lists& data) {
    const std::uint64_t nodes = data.store.rows().nodes;
    lists out(nodes), in(nodes);
    data.store.for_each_edge([&](std::span<const edge> edges) {
        for (const edge& e : edges) {
            if (e.source == e.destination) continue;
            out[e.source].push_back(e.destination);
            in[e.destination].push_back(e.source);
        }
    });
    for (std::size_t v = 0; v < nodes; ++v) {
        std::ranges::sort(out[v]);
        std::ranges::sort(in[v]);
        out[v].insert(out[v].end(), in[v].begin(), in[v].end());
    }
    return out;
}

/// Copies one pass; checks that chunks are consecutive.
template <adjacency_stream Stream>
lists pass(Stream& stream) {
    lists all;
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next())
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            CHECK(chunk.node(i) == all.size());
            const auto list = chunk.list(i);
            all.emplace_back(list.begin(), list.end());
        }
    CHECK(stream.next().empty());
    return all;
}

std::uint64_t arcs_of(const lists& all) {
    std::uint64_t total = 0;
    for (const auto& list : all) total += list.size();
    return total;
}

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream from(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(from), {}};
}

} // namespace

TEST_CASE("a graph streamed from disk equals that in memory, whatever the chunks, after each rewind") {
    for (const auto& [nodes, partitions, edges] : {std::tuple(std::uint64_t{3000}, 5U, std::size_t{60000}),
             {211, 3, 3000}, {1, 1, 40}, {1, 1, 0}, {10, 4, 0}, {0, 1, 0}}) {
        const stored_lists data(nodes, partitions, edges == 0 ? std::vector<edge>{} : test::lists_edges(nodes, edges));
        const lists want = expected(data);
        for (const auto& [arcs, lists_of_chunk] :
            {std::pair<std::size_t, std::size_t>{1 << 20, 1 << 16}, {1, 1}, {100, 7}, {1000, 100000}, {7, 2000}}) {
            for (const bool direct : {true, false}) {
                memory_budget budget;
                adjacency_file_stream stream(data.files, threads(), budget,
                    {.chunk_arcs = arcs, .chunk_nodes = lists_of_chunk, .direct = direct});
                CHECK(stream.nodes() == nodes);
                CHECK(stream.arcs() == arcs_of(want));
                CHECK(stream.arcs() + 2 * stream.self_loops() == 2 * edges);
                CHECK((pass(stream) == want));
                stream.rewind();
                (void)stream.next();
                stream.rewind(); // mid-pass
                CHECK((pass(stream) == want));
                any_adjacency any(std::move(stream));
                any.rewind();
                CHECK((pass(any) == want));
            }
        }
    }
}

TEST_CASE("threads hand over to each other with every engine: after opening, mid-pass, before the end") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    const lists want = expected(data);
    for (const auto& [name, engines] : storage_test::all_engines()) {
        if (name == "memory") continue; // has its own files
        CAPTURE(name);
        for (int round = 0; round < 5; ++round) {
            memory_budget budget;
            adjacency_file_stream stream(data.files, engines, budget, {.chunk_arcs = 1000, .chunk_nodes = 100});
            (void)stream.next();
            stream.rewind();
            CHECK((pass(stream) == want));
            stream.rewind();
            (void)stream.next(); // stops mid-pass
        }
    }
}

TEST_CASE("chunks keep their size limit except for a longer list, and memory its declared limit") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    const adjacency_file_stream_options options{.chunk_arcs = 3000, .chunk_nodes = 50};
    memory_budget budget;
    adjacency_file_stream stream(data.files, threads(), budget, options);
    std::uint64_t longest = 0; // a loop counts twice
    for (node_id v = 0; v < 3000; ++v)
        longest = std::max<std::uint64_t>(longest, data.graph.in().degree(v) + data.graph.out().degree(v));
    REQUIRE(longest > 8000);
    CHECK(
        budget.used() == adjacency_file_stream::need(3000, 60000, options).bytes + 8 * (longest - options.chunk_arcs));
    std::size_t single = 0;
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
        CHECK(chunk.size() <= 50);
        if (chunk.neighbors.size() > 3000) {
            CHECK(chunk.size() == 1);
            ++single;
        }
    }
    CHECK(single > 0);
    memory_budget tight(
        adjacency_file_stream::need(3000, 60000, options).bytes + 8 * (longest - options.chunk_arcs) - 1);
    CHECK_THROWS_AS(adjacency_file_stream(data.files, threads(), tight, options), over_budget);
    memory_budget tighter(adjacency_file_stream::need(3000, 60000, options).bytes - 1);
    CHECK_THROWS_AS(adjacency_file_stream(data.files, threads(), tighter, options), over_budget);
}

TEST_CASE("after any failed read a pass is right or ends in a typed error, and the next one is right") {
    const stored_lists data(600, 3, test::lists_edges(600, 3000));
    const lists want = expected(data);
    std::uint64_t runs = 0, failed = 0;
    for (const fault_kind kind : {fault_kind::device_error, fault_kind::short_transfer, fault_kind::zero_read,
             fault_kind::interrupted, fault_kind::try_again})
        for (const bool sticky : {false, true})
            for (std::uint64_t at = 1; at < 100; ++at) {
                const auto injector = std::make_shared<fault_injector>(fault{kind, at, sticky, {}});
                const engine_factory engines = [&] {
                    return any_engine(faulty<threads_engine>(threads_engine(2), injector));
                };
                memory_budget budget;
                std::unique_ptr<adjacency_file_stream> stream;
                const auto tried = [&](auto&& work) {
                    try {
                        work();
                        return true;
                    } catch (const io_error& e) {
                        CHECK(*e.what() != '\0');
                    } catch (const error& e) {
                        CHECK(e.code() == errc::corrupt); // a file that ends too early
                        CHECK(!e.place().path.empty());
                    }
                    ++failed;
                    return false;
                };
                const auto right_pass = [&] {
                    const lists got = pass(*stream);
                    CHECK((got == want));
                };
                if (tried([&] {
                        stream = std::make_unique<adjacency_file_stream>(
                            data.files, engines, budget, adjacency_file_stream_options{.chunk_arcs = 50});
                    })) {
                    if (!tried(right_pass)) CHECK_THROWS((void)stream->next());
                    stream->rewind();
                    if (injector->injected() == 0 || sticky)
                        (void)tried(right_pass);
                    else
                        right_pass();
                }
                ++runs;
                if (injector->operations() < at) break;
            }
    CHECK(runs > 50);
    CHECK(failed > 20);
}

TEST_CASE("every truncated file is refused, and every flipped bit is found before its neighbor is returned") {
    const stored_lists data(600, 3, test::lists_edges(600, 21000));
    const lists want = expected(data);
    const auto stream_all = [&] {
        memory_budget budget;
        adjacency_file_stream stream(data.files, threads(), budget);
        const lists got = pass(stream); // outside of CHECK, which would catch exceptions
        CHECK((got == want));
    };
    for (const auto& directory : {data.files.in, data.files.out})
        for (const char* name :
            {"indptr.npy", "neighbours.npy", "stamp.npy", "indptr.npy.xxh3", "neighbours.npy.xxh3", "stamp.npy.xxh3"}) {
            const auto path = directory / name;
            CAPTURE(path);
            const std::string whole = bytes_of(path);
            const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
            for (std::size_t length = 0; length < whole.size(); length += whole.size() / 6 + 1) {
                write(whole.substr(0, length));
                CHECK_THROWS_AS(stream_all(), error);
            }
            for (std::size_t at = 1; at < whole.size(); at += whole.size() / 17 + 1) {
                std::string flipped = whole;
                flipped[at] = static_cast<char>(flipped[at] ^ 16);
                write(flipped);
                try {
                    stream_all();
                    FAIL("damage was not found");
                } catch (const error& e) {
                    const bool typed = e.code() == errc::corrupt || e.code() == errc::invalid_format ||
                        e.code() == errc::version_mismatch;
                    CHECK(typed);
                    const std::string place = e.place().path.filename().string();
                    CHECK(std::string(name).starts_with(place.substr(0, place.find('.'))));
                }
            }
            write(whole);
        }
    stream_all();
}

TEST_CASE("damage to an open graph is reported with its place, and never ends a pass silently") {
    const stored_lists data(600, 3, test::lists_edges(600, 21000));
    const auto path = data.files.in / "neighbours.npy";
    memory_budget budget;
    adjacency_file_stream stream(data.files, threads(), budget, {.chunk_arcs = 100});
    const std::string whole = bytes_of(path);
    const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
    std::string flipped = whole;
    flipped[4096 + 5 * 4096 + 17] ^= 1;
    write(flipped);
    try {
        (void)pass(stream);
        FAIL("damage was not found");
    } catch (const error& e) {
        CHECK(e.code() == errc::corrupt);
        CHECK(e.place().path == path);
        CHECK(e.place().offset == 6 * 4096);
    }
    CHECK_THROWS_AS((void)stream.next(), error);
    write(whole.substr(0, 3 * 4096));
    stream.rewind();
    CHECK_THROWS_AS((void)pass(stream), error);
    write(whole);
    stream.rewind();
    CHECK((pass(stream) == expected(data)));
}

TEST_CASE("a stream can be destroyed while its thread waits or reads, and a stop request ends the first batch") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    for (int i = 0; i < 20; ++i) {
        memory_budget budget;
        adjacency_file_stream stream(data.files, threads(), budget, {.chunk_arcs = 50});
        for (int k = 0; k < i; ++k) (void)stream.next();
        if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::stop_source stop;
    stop.request_stop();
    memory_budget budget;
    try {
        adjacency_file_stream stream(data.files, threads(), budget, {.stop = stop.get_token()});
        FAIL("was not stopped");
    } catch (const error& e) {
        CHECK(e.code() == errc::canceled);
    }
}

TEST_CASE("unsupported input is refused: one direction, exchanged or foreign files, odd sizes") {
    const stored_lists data(300, 3, test::lists_edges(300, 4000)), other(301, 3, test::lists_edges(301, 4000));
    memory_budget budget;
    const auto refused = [&](const csc_files& files, const adjacency_file_stream_options& options = {}) {
        try {
            adjacency_file_stream stream(files, threads(), budget, options);
            FAIL("was not refused");
        } catch (const error& e) {
            CHECK(e.code() == errc::invalid_argument);
        }
    };
    refused({data.files.in, {}});
    refused({{}, data.files.out});
    refused({data.files.out, data.files.in});
    refused({data.files.in, other.files.out});
    refused(data.files, {.chunk_arcs = 0});
    refused(data.files, {.chunk_nodes = 0});
    refused(data.files, {.piece_bytes = 4096});
    CHECK(budget.used() == 0);
}

} // namespace test_storage_adjacency_adjacency_file_stream
