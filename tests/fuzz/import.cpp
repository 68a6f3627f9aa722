#include "fuzz/first_pass.hpp"

#include <algorithm>
#include <cctype>

#include "io/import/support.hpp"
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>

namespace test_fuzz_import {

using namespace gneiss;

/// True if the text has a number of more than four digits: as an id it would make that many nodes, and take too long.
static bool has_long_number(std::string_view text) {
    std::size_t digits = 0;
    return std::any_of(text.begin(), text.end(), [&](char c) {
        digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
        return digits > 4;
    });
}

GNEISS_FUZZ_TARGET("import", bytes) {
    static const test::temporary_directory at;
    std::string_view text = fuzz::text_of(bytes);
    const std::string_view letters = text.substr(0, text.find('\n'));
    const char* name = letters.starts_with('m') ? "graph.metis"
        : letters.starts_with('x')              ? "graph.mtx"
        : letters.starts_with('z')              ? "graph.gz"
                                                : "graph.txt";
    import_options options = fuzz::take_options(text);
    if (has_long_number(text)) return;
    if (name[6] == 'm') options.ids = id_kind::automatic;
    plain_file::create(at / name).write_at(0, std::as_bytes(std::span(text)));
    options.sources = {{.path = at / name}};
    options.out = at / "out";
    options.partitions = 3;
    options.memory = 1 << 20; // the minimum
    options.force = true;
    options.unseen_to_train = letters.ends_with('u');
    import_report report;
    if (!fuzz::accepted([&] { report = import_dataset(options, serial_executor{}); })) return;
    const dataset result(options.out);
    result.verify();
    fuzz::property(result.manifest().nodes == report.nodes && result.buckets().edges() == report.train_edges &&
            report.train_edges + report.valid_edges + report.test_edges == report.edges,
        "the dataset holds what is reported");
    std::uint64_t edges = 0;
    result.buckets().for_each_edge([&](std::span<const edge> each) {
        edges += each.size();
        for (const edge& e : each)
            fuzz::property(std::max(e.source, e.destination) < report.nodes && e.relation < report.relations,
                "ids are below what is reported");
    });
    fuzz::property(edges == report.train_edges, "all edges are present");
}

} // namespace test_fuzz_import
