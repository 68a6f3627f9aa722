// Datasets of gneiss-data of revision 56c2978 and what it exported of them. Every later revision must open them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <support/temporary_directory.hpp>

#include <gneiss/io/dataset.hpp>
#include <gneiss/io/export.hpp>

namespace test_io_fixture {

namespace {

namespace fs = std::filesystem;

const fs::path fixtures = fs::path(GNEISS_TEST_DATA) / "56c2978";

std::string slurp(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> names_in(const fs::path& directory) {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory)) found.insert(entry.path().filename().string());
    return found;
}

} // namespace

TEST_CASE("a dataset of 56c2978 opens, verifies and exports to the same bytes as then") {
    for (const std::string name : {"link", "node"}) {
        CAPTURE(name);
        const gneiss::dataset data(fixtures / name);
        CHECK_NOTHROW(data.verify());
        const gneiss::test::temporary_directory directory;
        gneiss::export_dataset(data, directory / "out", gneiss::export_format::tsv);
        const fs::path expected = fixtures / (name + "-export");
        CHECK(names_in(directory / "out") == names_in(expected));
        for (const std::string& file : names_in(expected)) {
            CAPTURE(file);
            CHECK(slurp(directory / "out" / file) == slurp(expected / file));
        }
    }
}

TEST_CASE("a dataset of 56c2978 has its contents: versions 1 and 3, names, classes, splits and hubs") {
    const gneiss::dataset link(fixtures / "link"), node(fixtures / "node");
    CHECK(link.manifest().task == gneiss::dataset_task::link);
    CHECK(link.manifest().ids == gneiss::dataset_ids::integer);
    CHECK(link.manifest().nodes == 160);
    CHECK(link.manifest().relations == 2);
    CHECK(link.manifest().partitions == 3);
    CHECK(link.split("valid").edges().size() == 30);
    CHECK(link.split("test").edges().size() == 30);
    CHECK(link.relation_label(0) == "knows");

    CHECK(node.manifest().task == gneiss::dataset_task::node);
    CHECK(node.manifest().ids == gneiss::dataset_ids::string);
    CHECK(node.manifest().node_attributes.features == 4);
    CHECK(node.manifest().node_attributes.classes == 3);
    CHECK(node.manifest().node_attributes.train == 71);
    CHECK(node.features().columns() == 4);
    CHECK(node.find_row("Ωmega-35"));
    CHECK_FALSE(node.find_row("person 35"));
    const gneiss::bucket_store buckets = node.buckets();
    CHECK(buckets.rows().partitions == 3);
    CHECK(buckets.edges() == 420);
}

} // namespace test_io_fixture
