#include <gneiss/storage/edge/bucket_reader.hpp>

#include "storage/buckets.hpp"
#include "storage/forwarding_engine.hpp"
#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

namespace test_storage_edge_bucket_reader {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

/// Statistics of requested reads.
struct record {
    std::vector<std::uint64_t> offsets{};
    std::size_t in_flight = 0;                   ///< maximum at a time
    std::byte *first = nullptr, *last = nullptr; ///< destination memory
};

/// Reads files on disk through threads and records the reads.
class recording_engine : public storage_test::forwarding_engine<threads_engine> {
public:
    explicit recording_engine(record& to) : forwarding_engine(threads_engine(8)), to_(&to) {}

    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) {
        const std::size_t taken = engine_.submit(requests);
        for (const io_request& r : requests.first(taken)) {
            to_->offsets.push_back(r.offset);
            to_->first = to_->first == nullptr ? r.data : std::min(to_->first, r.data);
            to_->last = std::max(to_->last, r.data + r.length);
        }
        to_->in_flight = std::max(to_->in_flight, engine_.in_flight());
        return taken;
    }

private:
    record* to_;
};

/// A graph of random edges in buckets on disk, and the edges of each.
struct bucketed_graph {
    temporary_directory folder{};
    std::vector<edge> edges;
    bucket_store store;
    std::map<edge_bucket, std::vector<edge>> expected{}; // in stored order: ascending

    explicit bucketed_graph(std::uint32_t partitions, std::size_t count) : edges(count), store(make(partitions)) {
        std::ranges::sort(edges);
        for (const edge& e : edges) expected[{store.rows().of(e.source), store.rows().of(e.destination)}].push_back(e);
    }
    bucket_store make(std::uint32_t partitions) {
        random_stream draw(random_key{partitions, random_domain::user});
        for (edge& e : edges) // half of them from a few nodes: buckets of all sizes, some empty
            e = {static_cast<node_id>(draw.below(draw.below(2) == 0 ? 4 : 500)),
                static_cast<relation_id>(draw.below(3)), static_cast<node_id>(draw.below(400))};
        return gneiss::test::build(folder.path(), {{500, partitions}, 3}, edges);
    }
    [[nodiscard]] std::size_t size(edge_bucket b) const { return static_cast<std::size_t>(store.extent(b).edges); }
    /// Returns buckets in random order, some of them twice.
    [[nodiscard]] std::vector<edge_bucket> some(random_stream& draw, std::size_t count) const {
        std::vector<edge_bucket> buckets(count);
        for (edge_bucket& b : buckets)
            b = {static_cast<partition_id>(draw.below(store.rows().partitions)),
                static_cast<partition_id>(draw.below(store.rows().partitions))};
        return buckets;
    }
};

struct loaded_edges {
    std::vector<std::vector<edge>> buckets{};

    loaded_edges(const bucketed_graph& graph, bucket_reader& reader, std::span<const edge_bucket> wanted) {
        std::vector<std::span<edge>> to;
        for (const edge_bucket& b : wanted) buckets.emplace_back(graph.size(b));
        for (std::vector<edge>& b : buckets) to.emplace_back(b);
        reader.load(wanted, to);
    }
};

} // namespace

TEST_CASE("many buckets at once equal those loaded one by one, each in its place, on every engine") {
    for (const std::uint32_t partitions : {1U, 5U, 30U}) {
        const bucketed_graph graph(partitions, 20'000);
        for (const auto& [name, engines] : storage_test::all_engines(4)) {
            if (name == "memory") continue; // the file is on disk
            CAPTURE(name);
            CAPTURE(partitions);
            bucket_reader reader(graph.store, engines);
            random_stream draw(random_key{7, random_domain::user});
            for (const std::size_t count : {0, 1, 3, 200, 900}) {
                const std::vector<edge_bucket> wanted = graph.some(draw, count);
                const loaded_edges got(graph, reader, wanted);
                for (std::size_t i = 0; i < count; ++i) {
                    const auto found = graph.expected.find(wanted[i]);
                    CHECK(got.buckets[i] == (found == graph.expected.end() ? std::vector<edge>{} : found->second));
                    std::vector<edge> alone(got.buckets[i].size());
                    if (!alone.empty()) reader.load(wanted[i], alone);
                    CHECK(alone == got.buckets[i]);
                }
            }
        }
    }
}

TEST_CASE("buckets are read in the given order, several in flight, within the requested memory") {
    const bucketed_graph graph(30, 20'000);
    record seen;
    bucket_reader reader(graph.store, [&] { return any_engine(recording_engine(seen)); });
    random_stream draw(random_key{8, random_domain::user});
    const std::vector<edge_bucket> wanted = graph.some(draw, 600);
    const loaded_edges got(graph, reader, wanted);
    std::vector<std::uint64_t> order;
    const std::uint64_t unit = seen.offsets.empty() ? 1 : 4096;
    for (const edge_bucket& b : wanted)
        if (graph.size(b) != 0)
            order.push_back((graph.store.data_offset(edge_direction::out) +
                                graph.store.extent(b).range(edge_direction::out).offset) /
                unit);
    std::vector<std::uint64_t> begun;
    for (const std::uint64_t offset : seen.offsets) begun.push_back(offset / unit);
    CHECK(begun == order);
    CHECK(seen.in_flight == 8);
    CHECK(static_cast<std::uint64_t>(seen.last - seen.first) <= bucket_reader::need(graph.store).bytes);
    CHECK(reader.statistics().reads == order.size());
}

TEST_CASE("the reader needs memory for the largest bucket, or for 16 buckets up to 1 MiB") {
    const bucketed_graph graph(30, 20'000);
    const std::uint64_t largest = graph.store.largest_block(edge_direction::out) + 2 * page_alignment;
    CHECK(bucket_reader::need(graph.store).bytes == std::min(16 * largest, std::uint64_t{1} << 20));
}

TEST_CASE("a damaged bucket is an error, and others can be read afterwards") {
    const bucketed_graph graph(30, 20'000);
    const edge_bucket damaged{0, 3};
    REQUIRE(graph.size(damaged) != 0);
    {
        std::fstream file(graph.store.path(edge_direction::out), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(graph.store.data_offset(edge_direction::out) +
            graph.store.extent(damaged).range(edge_direction::out).offset));
        file.put('\x7f');
    }
    bucket_reader reader(graph.store, [] { return any_engine(threads_engine(4)); });
    random_stream draw(random_key{9, random_domain::user});
    std::size_t errors = 0;
    for (int i = 0; i < 40; ++i) {
        std::vector<edge_bucket> wanted = graph.some(draw, 100);
        const bool hit = i % 2 == 0;
        std::erase_if(wanted, [](edge_bucket b) { return b.first == 0; }); // covered by one checksum
        if (hit) wanted[wanted.size() / 2] = damaged;
        try {
            const loaded_edges got(graph, reader, wanted);
            for (std::size_t k = 0; k < wanted.size(); ++k)
                if (graph.size(wanted[k]) != 0) CHECK(got.buckets[k] == graph.expected.at(wanted[k]));
            CHECK_FALSE(hit);
        } catch (const error& e) {
            CHECK(e.code() == errc::corrupt);
            CHECK(hit);
            ++errors;
        }
    }
    CHECK(errors == 20);
}

} // namespace test_storage_edge_bucket_reader
