#include "fuzz/first_pass.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/io/import/detail/parse.hpp>

namespace gneiss::fuzz {
namespace {

/// Result of the importer's first pass over a text.
struct first_pass {
    std::string refusal; ///< empty: accepted
    bool integers = false;
    std::uint64_t declared_nodes = 0;
    importing::parsed_edges found;
    std::array<std::vector<std::byte>, 3> records;
};

/// Reads `text` in chunks of `chunk` bytes, on this thread.
[[nodiscard]] first_pass read_edges(
    import_options options, const std::string& name, std::string_view text, std::size_t chunk) {
    first_pass result;
    import_source source{.path = name};
    source.open = [text] {
        return std::make_unique<importing::generated_source>(
            [left = text](std::string& to) mutable { to += std::exchange(left, {}); });
    };
    options.sources = {source};
    try {
        const std::vector<importing::planned_source> planned{importing::plan_source(source, options)};
        result.declared_nodes = planned[0].nodes;
        result.integers = options.ids == id_kind::integer || planned[0].format == edge_format::metis ||
            planned[0].format == edge_format::mtx;
        using importing::relation_kind;
        importing::edge_parser<serial_executor>::setup settings{.options = &options,
            .sources = &planned,
            .integer_ids = result.integers,
            .relations = !planned[0].text.relation               ? relation_kind::none
                : planned[0].integer_relation && result.integers ? relation_kind::integers
                                                                 : relation_kind::names,
            .memory = {.chunk = chunk,
                .chunks = 2,
                .line = 1 << 16,
                .filter = 1024,
                .heaps = 2,
                .heap_block = 1024,
                .relations = 1 << 16}};
        const memory_file files[4];
        std::array<importing::append_file, 3> raw{importing::append_file(files[0].path()),
            importing::append_file(files[1].path()), importing::append_file(files[2].path())};
        importing::partitioned_spill names(files[3].path(), settings.memory.heaps, settings.memory.heap_block);
        importing::relation_dictionary relations(settings.memory.relations);
        const serial_executor executor;
        result.found = importing::edge_parser<serial_executor>(settings, raw, &names, relations, executor).run();
        for (std::size_t split = 0; split < 3; ++split) result.records[split] = files[split].content();
    } catch (const error& refused) {
        result.refusal = refused.what();
    }
    return result;
}

} // namespace

void check_first_pass(const import_options& options, const std::string& name, std::string_view text) {
    const first_pass one = read_edges(options, name, text, 1 << 16), other = read_edges(options, name, text, 64);
    (void)accepted([&] {
        if (!one.refusal.empty()) throw error(errc::invalid_format, one.refusal);
    });
    property(one.refusal == other.refusal, "'" + one.refusal + "', in smaller chunks '" + other.refusal + "'");
    if (!one.refusal.empty()) return;
    property(one.found.edges == other.found.edges && one.found.source_entries == other.found.source_entries &&
            one.found.largest_node == other.found.largest_node && one.records == other.records,
        "smaller chunks give the same edges");
    const std::size_t width = one.integers ? sizeof(edge) : sizeof(importing::named_edge);
    for (std::size_t split = 0; split < 3; ++split)
        property(one.records[split].size() == one.found.edges[split] * width, "all edges are written");
    if (!one.integers) return;
    if (one.declared_nodes != 0 || name.ends_with(".mtx"))
        property(one.found.largest_node <= one.declared_nodes, "ids are below the declared count");
    for (const auto& records : one.records)
        for (std::size_t at = 0; at < records.size(); at += width) {
            edge e;
            std::memcpy(&e, records.data() + at, sizeof e);
            property(std::max(e.source, e.destination) < one.found.largest_node, "the largest id is known");
        }
}

import_options take_options(std::string_view& text) {
    import_options options;
    options.ids = id_kind::string;
    const std::size_t end = std::min(text.find('\n'), text.size());
    for (const char letter : text.substr(0, end)) switch (letter) {
        case 't': options.format = edge_format::tsv; break;
        case 'c': options.format = edge_format::csv; break;
        case 'e': options.format = edge_format::edge_list; break;
        case 'i': options.ids = id_kind::integer; break;
        case 'h': options.header = true; break;
        case 'u': options.undirected = true; break;
        case 's': options.fractions = {0.5, 0.25, 0.25}; break;
        case '2': options.columns = {"1", "0"}; break;
        case '3': options.columns = {"2", "from", "0"}; break;
        case '#':
        case '%': options.comment = letter; break;
        case ',':
        case ';':
        case '|':
        case '\t':
        case ' ': options.delimiter = letter; break;
        default: break;
        }
    text.remove_prefix(std::min(end + 1, text.size()));
    return options;
}

} // namespace gneiss::fuzz
