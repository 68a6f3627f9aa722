// The model of benchmarks on a GPU: its page is what the program prints, and its figures keep their order.
#include <cuda/macro_batch_model.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

namespace test_cli_gpu_model {

using namespace gpu_model;

TEST_CASE("the page of the model is what gneiss-gpu-model prints, and says that it is a model") {
    std::ifstream file(
        std::filesystem::path(GNEISS_TEST_DATA).parent_path().parent_path() / "docs/results/cuda-model.md");
    const std::string written{std::istreambuf_iterator<char>(file), {}};
    CHECK(written == page());
    CHECK(written.find("This page is a model: nothing on it was measured") != written.npos);
    for (const char* name : {"papers100M", "MAG240M", "Freebase86M", "| A100 | PCIe 4 |", "| H200 | PCIe 5 |"})
        CHECK(written.find(name) != written.npos);
}

TEST_CASE("each kind of benchmark has an expected share of its limit; unknown ones and unknown devices have none") {
    const device* const h100 = find_device("NVIDIA H100 80GB HBM3");
    REQUIRE(h100 != nullptr);
    CHECK(find_device("emulator") == nullptr);
    const auto share = [&](kernel_case of) { return expect(of, 3000, h100).share; };
    const kernel_case sums{.name = "aggregate", .bytes = 3e9, .row_bytes = 512};
    CHECK(expect(sums, 3000, h100).limit_seconds == doctest::Approx(1e-3));
    CHECK(share(sums) == doctest::Approx(0.8));
    CHECK(share({.name = "aggregate", .bytes = 3e9, .row_bytes = 64}) < share(sums));
    CHECK(share({.name = "attention", .bytes = 3e9, .row_bytes = 512}) < share(sums));
    // A product that computes reaches the share of products; one that moves bytes, that of rows in order.
    CHECK(share({.name = "linear", .bytes = 1, .operations = 1e12}) == doctest::Approx(assumed.products));
    CHECK(share({.name = "linear", .bytes = 1e12, .operations = 1}) == doctest::Approx(assumed.streams));
    CHECK(expect({.name = "linear", .operations = 1e12, .halves = true}, 3000, h100).limit_seconds ==
        doctest::Approx(1 / (2 * h100->tf32)));
    // 1000 queries are 16 tiles, fewer than multiprocessors.
    CHECK(share({.name = "link", .operations = 1e12, .queries = 1000}) <
        share({.name = "link", .operations = 1e12, .queries = 10'000}) / 4);
    CHECK(share({.name = "sampling", .bytes = 1}) == 0);
    CHECK(expect({.name = "linear", .operations = 1e12}, 0, nullptr).share == 0);
}

TEST_CASE("a sample has at most the fan-out's edges, and a batch is as slow as its slowest stage") {
    for (const node_shape& of : node_shapes) {
        const sample_size sample = sample_of(of);
        double most = of.batch;
        for (std::size_t hop = 0; hop < of.fanout.size(); ++hop) {
            most *= of.fanout[hop];
            CHECK(sample.edges[hop] < most);
            CHECK(sample.nodes[hop + 1] - sample.nodes[hop] <= sample.edges[hop]);
        }
        for (const way how : {way::host, way::sampled_on_device, way::features_on_device}) {
            const stages slow = stages_of(of, devices[0], buses[0], how),
                         fast = stages_of(of, devices[2], buses[1], how);
            CHECK(fast.epoch() <= slow.epoch());
            CHECK(fast.kernels < slow.kernels);
            for (const double stage : {slow.sample, slow.gather, slow.over_bus, slow.kernels, slow.launches})
                CHECK(slow.step() >= stage);
            CHECK(slow.busy() <= 1);
        }
        CHECK(stages_of(of, devices[1], buses[1], way::sampled_on_device).sample == 0);
        CHECK(stages_of(of, devices[1], buses[1], way::features_on_device).bus_bytes <
            stages_of(of, devices[1], buses[1], way::sampled_on_device).bus_bytes / 100);
    }
}

TEST_CASE("macro-batches: degrees have their mean, stages move less, and the papers-like graph saves what the thesis "
          "counts") {
    for (const macro_batch_shape& of : thesis_shapes) {
        const std::vector<degree_class> degrees = degrees_of(of.graph);
        double nodes = 0, edges = 0;
        for (const degree_class& one : degrees) {
            nodes += one.nodes;
            edges += one.nodes * one.degree;
        }
        CHECK(nodes == doctest::Approx(of.graph.nodes));
        CHECK(edges == doctest::Approx(of.graph.nodes * of.graph.mean_degree));
        const sample_size sample = sample_by_degrees(of.graph, degrees, of.graph.batch);
        CHECK(sample.nodes.size() == of.graph.fanout.size() + 1);
        CHECK(sample.edges[0] <= of.graph.batch * of.graph.fanout[0]);
        CHECK(sample.nodes.back() < of.graph.nodes);
        const double one_stage = traffic_of(of, degrees, first_stage::none).bytes,
                     large = traffic_of(of, degrees, first_stage::large_batches).bytes;
        CHECK(large < one_stage);
        if (of.partitions_save != 0)
            CHECK(
                traffic_of(of, degrees, first_stage::partitions).bytes == doctest::Approx(large / of.partitions_save));
        if (of.graph.name == std::string("papers-like")) CHECK(one_stage / large == doctest::Approx(2.2).epsilon(.05));
        for (const device& on : thesis_devices)
            CHECK(stages_of(of, degrees, on, thesis_buses[1], first_stage::large_batches).epoch() <=
                stages_of(of, degrees, on, thesis_buses[0], first_stage::large_batches).epoch());
    }
}

} // namespace test_cli_gpu_model
