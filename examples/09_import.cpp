// Imports a text file of triples into a dataset on disk, and maps ids back to names.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/importer.hpp>

int main() {
    using namespace gneiss;
    std::ofstream("planets.tsv") << "earth\torbits\tsun\n"
                                    "mars\torbits\tsun\n"
                                    "moon\torbits\tearth\n"
                                    "phobos\torbits\tmars\n"
                                    "earth\tis-a\tplanet\n"
                                    "mars\tis-a\tplanet\n";

    //! [import]
    import_options options;
    options.sources = {{.path = "planets.tsv"}}; // any number of files, plain or gzip; also integer ids and arrays
    options.out = "planets";
    options.memory = 64 << 20; // a bound for any input size: the rest goes through the disk
    options.partitions = 2;    // node partitions: 2 x 2 edge buckets
    options.force = true;
    const import_report report = import_dataset(options, tbb_executor());
    //! [import]
    std::printf("%llu nodes, %llu edges, %llu relations\n", static_cast<unsigned long long>(report.nodes),
        static_cast<unsigned long long>(report.edges), static_cast<unsigned long long>(report.relations));

    const dataset planets("planets");
    bool moon_found = false;
    planets.buckets().for_each_edge([&](std::span<const edge> edges) {
        for (const edge& e : edges) {
            const std::string head = planets.node_label(e.source), tail = planets.node_label(e.destination);
            std::printf("row %u %-6s  %-6s  %s\n", e.source, head.c_str(), planets.relation_label(e.relation).c_str(),
                tail.c_str());
            moon_found = moon_found || (head == "moon" && tail == "earth");
        }
    });
    return report.nodes == 6 && report.edges == 6 && moon_found ? 0 : 1;
}
