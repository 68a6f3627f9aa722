// The time of an epoch is computed from given rates alone: compared with numbers worked by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gneiss/core/error.hpp>

#include "kit/cli/machine_rates.hpp"
#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

namespace test_cli_machine_rates {

using namespace programs;
using gneiss::errc;

namespace {

machine_rates rates() {
    return {.directory = "/data",
        .measured = "2026-11-29",
        .cpus = 2,
        .import_edges = 1e6,
        .link_flops = 1.2e6,
        .dense_flops = 1e4,
        .sparse_flops = 1e3,
        .row_floats = 100,
        .sampled_edges = 50,
        .batch_seconds = .1,
        .read_bytes = 1e6,
        .reads = 100,
        .write_bytes = 5e5};
}

} // namespace

TEST_CASE("an epoch of links takes 12 operations an edge, float and score, and 16 scores for its rows") {
    const epoch_work work = work_of(link_epoch_shape{.edges = 1050, .batch = 100, .negatives = 84, .dim = 10});
    CHECK(work.batches == 11);
    CHECK(work.link_flops == 12.0 * 1050 * 100 * 10);
    CHECK(*seconds_of(work, rates()) == doctest::Approx(10.5 + 1.1));
    CHECK(*seconds_of(work, rates(), 2) == doctest::Approx(10.5 + 1.1));
    CHECK(*seconds_of(work, rates(), 1) == doctest::Approx(21 + 1.1)); // half of the CPUs
    CHECK(*seconds_of(work, rates(), 64) == doctest::Approx(10.5 + 1.1));
}

TEST_CASE("disk and compute overlap: the longer one counts") {
    epoch_work work = work_of(link_epoch_shape{.edges = 1000, .batch = 100, .negatives = 84, .dim = 10});
    work.read_bytes = 8e6;
    CHECK(*seconds_of(work, rates()) == doctest::Approx(11));
    work.write_bytes = 2e6;
    work.reads = 300;
    CHECK(*seconds_of(work, rates()) == doctest::Approx(8 + 4 + 3));
}

TEST_CASE("a batch of a GNN reaches nodes by chance, and its layers multiply what they reach") {
    gnn_epoch_shape shape{.nodes = 100,
        .neighbors = 1000,
        .seeds = 10,
        .batches = 2,
        .fanout = {5},
        .layers = {{.width = 4}},
        .columns = 8};
    const double reached = 10 + 90 * (1 - std::exp(-.5));
    const gnn_batch_sizes sizes = sizes_of(shape);
    CHECK(sizes.nodes.size() == 2);
    CHECK(sizes.nodes[1] == doctest::Approx(reached));
    CHECK(sizes.neighbors[0] == 50);
    epoch_work work = work_of(shape); // rows become shorter, so they are multiplied before they are added
    CHECK(work.dense_flops == doctest::Approx(2 * 4 * (reached + 10) * 8 * 4));
    CHECK(work.sampled_edges == doctest::Approx(2 * 50 * (1 + 4 / 64.0)));
    CHECK(work.row_floats == 2 * 10 * 4);
    CHECK(work.sparse_flops == 0);
    CHECK(*seconds_of(work, rates()) ==
        doctest::Approx(work.dense_flops / 1e4 + work.sampled_edges / 50 + 80 / 100.0 + .2));

    shape.trains_rows = true; // the gradient of the input, too
    CHECK(work_of(shape).dense_flops == doctest::Approx(1.5 * work.dense_flops));
    shape.trains_rows = false;
    shape.layers[0].own_row = false;
    CHECK(work_of(shape).dense_flops == doctest::Approx(2 * 4 * reached * 8 * 4));
    shape.layers[0] = {.width = 16}; // added first: a row for each seed, twice
    CHECK(work_of(shape).dense_flops == doctest::Approx(2 * 4 * 20 * 8 * 16));
    CHECK(work_of(shape).sampled_edges == doctest::Approx(2 * 50 * (1 + 8 / 64.0)));
    shape.entries = 3; // sparse rows are multiplied first
    work = work_of(shape);
    CHECK(work.dense_flops == 0);
    CHECK(work.sparse_flops == doctest::Approx(2 * 4 * (reached + 10) * 3 * 16));
    shape.fanout = {0}; // all ten
    CHECK(sizes_of(shape).neighbors[0] == 100);
    shape.fanout = {50};
    CHECK(sizes_of(shape).neighbors[0] == 100);
}

TEST_CASE("a second layer reads what the first one wrote, for fewer nodes") {
    const gnn_epoch_shape shape{.nodes = 1'000'000'000,
        .neighbors = 100'000'000'000,
        .seeds = 10,
        .batches = 1,
        .fanout = {3, 2},
        .layers = {{.width = 16}, {.width = 2}},
        .columns = 4};
    const epoch_work work = work_of(shape); // 10 seeds, 40 after a hop, 120 after two
    CHECK(work.row_floats == doctest::Approx(40 * 16 + 10 * 2));
    CHECK(work.dense_flops == doctest::Approx(4 * (40 + 40) * 4 * 16 + 6 * (40 + 10) * 16 * 2).epsilon(1e-4));
    CHECK(work.sampled_edges == doctest::Approx(80 * (1 + 4 / 64.0) + 30 * (1 + 2 / 64.0)).epsilon(1e-4));
}

TEST_CASE("an unknown rate leaves the time of work that needs it unknown") {
    machine_rates some = rates();
    some.dense_flops = 0;
    CHECK(seconds_of({.batches = 1, .link_flops = 10}, some));
    CHECK_FALSE(seconds_of({.batches = 1, .dense_flops = 10}, some));
    CHECK_FALSE(seconds_of({}, some));
}

TEST_CASE("rates are read back from their file, and other files are refused") {
    const gneiss::test::temporary_directory here;
    const std::filesystem::path file = here / "deep/rates.json";
    machine_rates some = rates();
    some.sparse_flops = 0;
    write_rates(file, some);
    const machine_rates back = read_rates(file);
    CHECK(to_json(back) == to_json(some));
    CHECK(back.sparse_flops == 0);
    CHECK_FALSE(to_json(back).contains("sparse_flops_per_second"));
    const auto refused = [&](const std::string& text) {
        std::ofstream(file) << text;
        try {
            (void)read_rates(file);
        } catch (const gneiss::error& e) {
            CHECK(std::string(e.what()).find("rates.json") != std::string::npos);
            return e.code();
        }
        return errc::io;
    };
    CHECK(refused("{}") == errc::invalid_format);
    CHECK(refused("[1]") == errc::invalid_format);
    CHECK(refused(R"({"format": "gneiss rates 1", "link_flops_per_second": -1})") == errc::invalid_format);
    CHECK(refused("{") == errc::corrupt);
}

} // namespace test_cli_machine_rates
