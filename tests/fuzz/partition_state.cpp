#include "fuzz/target.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/io/partition_journal_file.hpp>
#include <gneiss/partition/band.hpp>
#include <gneiss/partition/fennel.hpp>
#include <gneiss/partition/grem_partitioner.hpp>

namespace test_fuzz_partition_state {

using namespace gneiss;

static constexpr std::uint64_t nodes = 12, identity = 5;
static constexpr std::uint32_t parts = 3;

/// Makes a graph without node attributes whose row order differs from the numbers.
static dataset graph_of(const std::filesystem::path& at) {
    dataset_writer writer(at);
    bucket_builder<> builder({{nodes, 2}, 0}, 1 << 20, writer.partial());
    builder.push(edge{0, 0, 1});
    writer.edges(builder);
    npy_writer &there = writer.array("node_to_row", npy_dtype::u32),
               &back = writer.array("row_to_node", npy_dtype::u32);
    for (std::uint32_t v = 0; v < nodes; ++v) {
        there.append((5 * v) % 12U);
        back.append((5 * v) % 12U); // its own inverse
    }
    dataset_manifest manifest;
    manifest.nodes = nodes;
    manifest.partitions = 2;
    manifest.train_edges = 1;
    writer.commit(manifest);
    return dataset(at);
}

/// Reads an assignment as users provide it.
static void read_parts(fuzz::input bytes) {
    static const test::temporary_directory at;
    static const dataset data = graph_of(at / "data");
    const fuzz::memory_file file(bytes);
    std::vector<partition_id16> read;
    if (!fuzz::accepted([&] { read = read_assignment(data, file.path()); })) return;
    fuzz::property(
        read.size() == nodes && std::ranges::all_of(read, [](partition_id16 p) { return p < max_partition_count; }),
        "every node has a part");
    write_assignment(data, read, max_partition_count, "fuzz", at / "again.npy");
    fuzz::property(read_assignment(data, at / "again.npy") == read, "written data is read back");
}

/// Resumes a partitioner from the contents of a file, or expects a refusal.
static void resume(const std::filesystem::path& path) {
    static const symmetric_csr graph = [] {
        random_stream draw(random_key(1, random_domain::user));
        std::vector<edge> edges;
        for (int e = 0; e < 40; ++e)
            edges.push_back({static_cast<node_id>(draw.below(nodes)), 0, static_cast<node_id>(draw.below(nodes))});
        edge_list<> stream(nodes, std::move(edges));
        return make_symmetric_csr(stream);
    }();
    const auto with = [&](auto&& run) {
        (void)fuzz::accepted([&] {
            partition_journal_file journal(path, identity);
            symmetric_stream stream(graph, 5);
            const std::vector<partition_id16> result =
                run(stream, partition_request{.parts = parts, .journal = &journal});
            check_assignment(result, parts, nodes);
        });
    };
    const serial_executor executor;
    const std::vector<std::byte> whole = fuzz::memory_file::content_of(path);
    const auto again = [&] { plain_file::create(path).write_at(0, whole); };
    with([&](auto& stream, const auto& request) { return fennel_partitioner{.passes = 3}(stream, request, executor); });
    again();
    with([&](auto& stream, const auto& request) { return band_partitioner{}(stream, request, executor); });
    again();
    with([&](auto& stream, const auto& request) {
        memory_scratch<> place;
        return grem_partitioner{{.chunk = .3, .passes = 2}}(stream, request, place, executor);
    });
}

GNEISS_FUZZ_TARGET("partition_state", bytes) {
    read_parts(bytes);
    static const test::temporary_directory at;
    const std::filesystem::path path = at / "journal";
    plain_file::create(path).write_at(0, bytes);
    (void)fuzz::accepted([&] { const partition_journal_file found(path, identity); });
    // An intact file: the first byte is the step, the others are its state.
    fuzz::input state = bytes;
    const std::uint32_t step = fuzz::take<std::uint8_t>(state) % 7 + 1U;
    std::filesystem::remove(path);
    partition_journal_file(path, identity).save(step, state);
    resume(path);
}

} // namespace test_fuzz_partition_state
