// Runs `gneiss-data sample` as users do.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_sample {

namespace {

struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") {}
};

/// Writes an .npy file, int64 [rows, columns].
std::string seeds_file(std::size_t rows, std::size_t columns, const std::vector<std::int64_t>& values) {
    std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
        std::to_string(columns) + "), }";
    header.resize(117, ' ');
    header += '\n';
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size());
    file += '\0';
    return file + header +
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
}

} // namespace

TEST_CASE("sample reports the size of batches: the same for CSR and blocks, and for any number of threads") {
    const workshop shop;
    REQUIRE(shop.run("generate rmat --nodes 500 --edges 4000 --partitions 3 --out data").code == 0);
    std::vector<std::int64_t> nodes(5 * 20);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<std::int64_t>(7 * i % 500);
    shop.write("seeds.npy", seeds_file(5, 20, nodes));
    for (const std::string sampler : {"dense", "neighbor", "layerwise"})
        for (const std::string hops : {"--fanout 4,3", "--fanout 3+2,all", "--fanout 5 --direction both --replace"}) {
            if (sampler == "layerwise" && hops != "--fanout 4,3") { // nor is it a fan-out that it takes
                shop.refuses(2, "sample data --sampler layerwise " + hops, {"layer-wise sampling"});
                continue;
            }
            const std::string command =
                std::string("sample data --json --seeds seeds.npy --sampler ").append(sampler).append(" ").append(hops);
            const auto result = nlohmann::json::parse(shop.run(command + " --threads 1").out);
            CHECK(result["batches"] == 2); // three rows of five are warm-up
            CHECK(result["batch"] == 20);
            CHECK(result["nodes_per_batch"].get<double>() > 20);
            if (sampler == "layerwise") CHECK(result["nodes_per_batch"].get<double>() <= 20 + 4 + 3);
            CHECK(result["edges_per_batch"].get<double>() > (sampler == "layerwise" ? 5 : 20));
            CHECK(result["ms_per_batch"].get<double>() > 0);
            CHECK(result["ns_per_edge"].get<double>() > 0);
            for (const std::string other : {" --threads 2", " --threads 2 --graph blocks"}) {
                const auto same = nlohmann::json::parse(shop.run(command + other).out);
                CHECK(same["nodes_per_batch"] == result["nodes_per_batch"]);
                CHECK(same["edges_per_batch"] == result["edges_per_batch"]);
            }
        }
    const auto drawn = nlohmann::json::parse(shop.run("sample data --batch 50 --batches 4 --json").out);
    CHECK(drawn["batches"] == 4);
    CHECK(drawn["sampler"] == "dense");
    CHECK(shop.run("sample data --batch 50").out.find("ns per edge") != std::string::npos);
}

TEST_CASE("sample refuses unusable fan-outs, seeds and memory") {
    const workshop shop;
    REQUIRE(shop.run("generate rmat --nodes 500 --edges 4000 --partitions 3 --out data").code == 0);
    shop.refuses(2, "sample data --fanout 10,,10", {"fan-out '10,,10'"});
    shop.refuses(2, "sample data --fanout 0", {"takes no neighbor"});
    shop.refuses(2, "sample data --batch 501", {"--batch 501", "500 nodes"});
    shop.refuses(1, "sample data --seeds none.npy", {"none.npy"});
    shop.write("seeds.npy", seeds_file(1, 3, {4, 500, 5}));
    shop.refuses(1, "sample data --seeds seeds.npy", {"seeds.npy", "seed 500 in row 0"});
    shop.write("seeds.npy", seeds_file(1, 3, {4, 5, 4}));
    shop.refuses(2, "sample data --seeds seeds.npy", {"given twice"});
    shop.refuses(2, "sample data --seeds seeds.npy --batch 4", {"--batch 4"});
    shop.refuses(2, "sample data --seeds seeds.npy --batches 2", {"--batches 2"});
    shop.refuses(3, "sample data --batch 50 --memory 16MiB", {"graph"});
}

} // namespace test_programs_sample
