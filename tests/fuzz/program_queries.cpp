#include "fuzz/target.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "kit/run/candidate_file.hpp"
#include "kit/run/link_queries.hpp"
#include "kit/run/name_lines.hpp"

namespace test_fuzz_program_queries {

using namespace gneiss;

static constexpr std::uint64_t nodes = 12, relations = 2;

/// Makes a dataset whose nodes and relations have names, or numbers.
static dataset make(const std::filesystem::path& at, bool named) {
    import_options options;
    options.out = at;
    options.memory = 4 << 20;
    import_source edges{.path = "edges"};
    edges.compute = [](std::uint64_t first, std::span<edge> out) {
        for (edge& e : out) {
            e = {static_cast<node_id>(first % nodes), static_cast<relation_id>(first % relations),
                static_cast<node_id>((first * 5 + 1) % nodes)};
            ++first;
        }
    };
    edges.computed_edges = 40;
    edges.computed_nodes = nodes;
    edges.computed_relations = relations;
    options.sources = {edges};
    options.fractions = {.7, .1, .2};
    options.node_attributes.nodes = nodes;
    options.node_attributes.compute_label = [](std::uint64_t) { return std::int32_t{0}; };
    if (named) {
        options.compute_name = [](std::uint64_t node) { return std::string(1, static_cast<char>('a' + node)); };
        options.relation_names = {"r", "s"};
    }
    (void)import_dataset(options, serial_executor{});
    return dataset(at);
}

/// A file of queries, of names, or of candidates: what is read is within the dataset, or the file is refused. The first
/// byte selects the dataset and the name of the file.
GNEISS_FUZZ_TARGET("program_queries", bytes) {
    static const test::temporary_directory at;
    static const dataset with_names = make(at / "names", true), with_numbers = make(at / "numbers", false);
    const auto choice = fuzz::take<std::uint8_t>(bytes);
    const dataset& data = (choice & 1U) != 0 ? with_names : with_numbers;
    const std::filesystem::path file = at /
        ((choice & 2U) != 0          ? "file.csv"
                : (choice & 4U) != 0 ? "file.npz"
                                     : "file.tsv");
    constexpr std::uint64_t memory = 1 << 20;
    plain_file::create(file).write_at(0, bytes);
    (void)fuzz::accepted([&] {
        trainers::query_flags flags;
        flags.queries = file;
        const trainers::link_queries asked = trainers::read_queries(data, flags, memory);
        for (const link_query& q : asked.open)
            fuzz::property(q.known < nodes && q.relation < relations, "queries are of nodes and relations");
        for (const edge& e : asked.edges)
            fuzz::property(e.source < nodes && e.destination < nodes && e.relation < relations,
                "edges are of nodes and relations");
        fuzz::property(asked.of_edges.size() == asked.open.size() + asked.edges.size() &&
                static_cast<std::size_t>(std::ranges::count(asked.of_edges, true)) == asked.edges.size(),
            "each query is one or the other");
    });
    (void)fuzz::accepted([&] {
        trainers::for_each_name(data, file, [](node_id node) { fuzz::property(node < nodes, "names are of nodes"); });
    });
    (void)fuzz::accepted([&] {
        const auto split = data.split("test");
        std::vector<edge> edges(split.edges().begin(), split.edges().end());
        std::ranges::sort(edges);
        const trainers::candidate_file candidates(data, file, edges, memory);
        fuzz::property(candidates.bytes() <= memory, "candidates are within the memory");
        candidates.read(0, edges.size(), [](std::size_t, side, std::span<const node_id> list) {
            fuzz::property(std::ranges::all_of(list, [](node_id v) { return v < nodes; }), "candidates are nodes");
        });
    });
}

} // namespace test_fuzz_program_queries
