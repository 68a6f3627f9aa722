#include <gneiss/inference/layerwise_inference.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inference/layerwise.hpp>
#include <model/gnn.hpp>
#include <sample/graphs.hpp>
#include <storage/forwarding_engine.hpp>
#include <support/allocations.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace test_inference_layerwise_inference {

using namespace gneiss;
using namespace inference_test;

namespace {

/// Returns the rows of the encoder over a sample with all neighbors of all nodes.
std::vector<float> sampled(model& m, const stored_graph& graph, const inputs& in, neighbor_direction d) {
    std::string fanout = "all";
    for (std::size_t hop = 1; hop < m.encode.hops(); ++hop) fanout += ",all";
    layer_stack layers;
    mini_batch_arena arena;
    if (m.encode.hops() != 0) {
        const auto whole = test::whole_graph(graph.rows.nodes, graph.edges);
        std::vector<node_id> seeds(graph.rows.nodes);
        for (std::size_t v = 0; v < seeds.size(); ++v) seeds[v] = static_cast<node_id>(v);
        dense_sampler<> sampler({parse_fanout(fanout, d)}, 3);
        const auto sample = sampler.sample({}, whole, std::span<const node_id>(seeds), serial_executor{}, arena);
        REQUIRE(std::ranges::equal(sample.node_ids, seeds));
        layers.assign(sample, serial_executor{}, layer_stack::lists::forward);
    }
    const auto out = m.encode.forward(m.weights, layers, in.all(), {}, serial_executor{});
    return {out.data(), out.data() + out.rows() * out.columns()};
}

/// Checks that each row is within 1e-5 of its largest value.
void check_close(const std::vector<float>& found, const std::vector<float>& expected, std::size_t columns) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t at = 0; at < found.size(); at += columns) {
        float largest = 0, worst = 0;
        for (std::size_t c = at; c < at + columns; ++c) {
            largest = std::max(largest, std::abs(expected[c]));
            worst = std::max(worst, std::abs(found[c] - expected[c]));
        }
        if (!(worst <= 1e-5F * (largest + 0.1F)))
            FAIL_CHECK("row " << at / columns << ": off by " << worst << " of " << largest);
    }
}

constexpr neighbor_direction directions[] = {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both};

/// Compares with the encoder over a sample of all nodes; in memory, on disk and on several threads.
void check_model(const std::string& layers, std::size_t dense, std::size_t sparse) {
    const tbb_executor three(3);
    for (const auto& [nodes, partitions] : {std::pair{61U, 1U}, {150U, 2U}, {150U, 7U}, {6U, 4U}}) {
        const stored_graph graph(nodes, partitions, nodes * 6);
        const inputs in(nodes, dense, sparse);
        const layerwise_input source = in.source(graph.rows);
        for (const neighbor_direction d : directions) {
            CAPTURE(layers);
            CAPTURE(nodes);
            CAPTURE(partitions);
            CAPTURE(static_cast<int>(d));
            model m(layers, {dense, sparse});
            const auto expected = sampled(m, graph, in, d);
            const outcome memory = infer(m, graph, source, d, memory_budget::unlimited, serial_executor{});
            check_close(memory.rows, expected, m.encode.outputs());
            CHECK(memory.plan.in_memory);
            CHECK(memory.io.written_bytes == 0);
            const auto loops = static_cast<std::size_t>(
                std::ranges::count_if(graph.edges, [](const edge& e) { return e.source == e.destination; }));
            CHECK(memory.edges ==
                m.encode.hops() *
                    (d == neighbor_direction::both ? 2 * graph.edges.size() - loops : graph.edges.size()));
            CHECK(same_bits(memory.rows, infer(m, graph, source, d, memory_budget::unlimited, three).rows));
            if (partitions != 7) continue;
            const layerwise_options options{.direction = d, .engines = threads(), .scratch = graph.scratch()};
            layerwise_input again = source;
            again.repeatable = true;
            for (const layerwise_input& from : {source, again}) {
                const std::uint64_t least = least_memory(m, graph, from, options);
                const outcome disk = infer(m, graph, from, d, least, serial_executor{});
                CHECK(!disk.plan.in_memory);
                CHECK(disk.plan.targets == 1);
                CHECK(same_bits(disk.rows, memory.rows));
                CHECK(disk.edges == memory.edges);
                CHECK(same_bits(infer(m, graph, from, d, least + least / 4, three).rows, memory.rows));
            }
        }
    }
}

/// Compares streamed runs, with one group of targets and with many, with a run in memory.
void check_streamed(const std::string& layers) {
    const tbb_executor three(3);
    const stored_graph graph(2500, 9, 12000);
    const inputs in(2500, 12, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    for (const neighbor_direction d : directions) {
        CAPTURE(layers);
        CAPTURE(static_cast<int>(d));
        model m(layers, {.dense = 12});
        const outcome memory = infer(m, graph, source, d, memory_budget::unlimited, serial_executor{});
        const std::vector<streamed_budget> budgets = streamed_budgets(m, graph, source, d);
        REQUIRE(!budgets.empty());
        for (const streamed_budget& budget : budgets) {
            CAPTURE(budget.memory);
            const outcome streamed = infer(m, graph, source, d, budget.memory, three, true);
            CHECK(streamed.plan.streamed);
            CHECK(streamed.plan.groups == budget.groups);
            CHECK(same_bits(streamed.rows, memory.rows));
            CHECK(streamed.edges == memory.edges);
        }
        CHECK(budgets.front().most_groups() == 1);
        CHECK(budgets.back().most_groups() >= 3);
    }
}

/// Returns a memory with which a streamed run has at least three groups of targets.
std::uint64_t memory_of_groups(const model& m, const stored_graph& graph, const layerwise_input& in) {
    const std::vector<streamed_budget> budgets = streamed_budgets(m, graph, in, neighbor_direction::in);
    const auto found = std::ranges::find_if(budgets, [](const streamed_budget& b) { return b.most_groups() >= 3; });
    REQUIRE(found != budgets.end());
    return found->memory;
}

} // namespace

TEST_CASE("targets are cut into groups of equal sizes; far too many groups end, too") {
    const stored_graph graph(150, 2, 900);
    block_reader reader(graph.store, threads());
    detail::list_degrees degrees(graph.store, neighbor_direction::in, reader, {});
    for (const std::uint64_t nodes : {150, 250000}) {
        degrees.target_counts.assign(degrees.target_counts.size(), 0);
        degrees.target_counts[3] = nodes;
        degrees.target_entries[3] = 3 * nodes;
        for (const std::uint64_t rows : {1, 2, 60}) {
            const detail::target_groups groups(degrees, nodes, rows, true);
            CHECK(groups.groups == std::min<std::uint64_t>((nodes + rows - 1) / rows, 100000));
            std::uint64_t targets = 0;
            for (const std::uint64_t group : groups.targets) targets += group;
            CHECK(targets == nodes);
        }
    }
}

TEST_CASE("list lengths are estimated from a sixteenth of the partitions, unless these are unlike the others") {
    std::vector<edge> drawn;
    const random_key key(3, random_domain::user);
    for (std::uint64_t e = 0; e < 60000; ++e)
        drawn.push_back(
            {static_cast<node_id>(below(key[2 * e], 6400)), 0, static_cast<node_id>(below(key[2 * e + 1], 6400))});
    const stored_graph graph(drawn, {6400, 32}), hubs(6400, 32, 60000);
    const auto sum = [](const std::vector<std::uint64_t>& counts) {
        return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
    };
    for (const neighbor_direction d : {neighbor_direction::in, neighbor_direction::both}) {
        block_reader reader(graph.store, threads()), again(graph.store, threads());
        const detail::list_degrees all(graph.store, d, reader, {});
        const auto some = detail::list_degrees::estimate(graph.store, d, again, {});
        REQUIRE(some);
        CHECK(again.statistics().read_bytes < reader.statistics().read_bytes / 6);
        CHECK(sum(some->target_counts) == doctest::Approx(6400).epsilon(.01));
        CHECK(sum(some->source_counts) == doctest::Approx(6400).epsilon(.01));
        CHECK(sum(some->target_entries) == doctest::Approx(sum(all.target_entries)).epsilon(.1));
        for (const double share : {.1, .5})
            CHECK(some->distinct_sources(share) == doctest::Approx(all.distinct_sources(share)).epsilon(.1));
        std::stop_source stop;
        stop.request_stop();
        CHECK_THROWS_AS((void)detail::list_degrees::estimate(graph.store, d, again, stop.get_token()), error);
        block_reader of_hubs(hubs.store, threads());
        CHECK_FALSE(detail::list_degrees::estimate(hubs.store, d, of_hubs, {}));
    }
}

TEST_CASE("streamed runs with any number of groups equal those in memory") {
    check_streamed("sage:12,sage:9:sum");
    check_streamed("sage:12:max,sage:14:mean:add:residual");
    check_streamed("gcn:12:symmetric,gcn:10:row:norm");
    check_streamed("gat:3x4,gat:6x2:mean");
    check_streamed("linear:12,gcn:12:symmetric,linear:5");
    check_streamed("own");
}

TEST_CASE("a streamed run moves the bytes of its plan, and inputs and edges once") {
    constexpr std::uint64_t nodes = 16384;
    rmat<> draw({.nodes = nodes, .edges = 16 * nodes, .seed = 2});
    std::vector<edge> edges(16 * nodes);
    draw.fill(0, edges);
    const stored_graph graph(edges, {nodes, 32});
    const inputs in(nodes, 64, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    std::uint64_t topology = 0;
    graph.store.for_each_bucket([&](edge_bucket b) { topology += graph.store.extent(b).in.length; });
    for (const std::string layers : {"gcn:64,gcn:32", "sage:64,sage:32", "gat:16x4,gat:8x4"}) {
        CAPTURE(layers);
        model m(layers, {.dense = 64});
        const outcome memory =
            infer(m, graph, source, neighbor_direction::in, memory_budget::unlimited, serial_executor{});
        const std::vector<streamed_budget> budgets = streamed_budgets(m, graph, source, neighbor_direction::in);
        for (const std::uint32_t groups : {2U, 6U}) {
            CAPTURE(groups);
            const auto budget =
                std::ranges::find_if(budgets, [&](const streamed_budget& b) { return b.most_groups() >= groups; });
            REQUIRE(budget != budgets.end());
            const outcome streamed =
                infer(m, graph, source, neighbor_direction::in, budget->memory, serial_executor{}, true);
            REQUIRE(streamed.plan.streamed);
            CHECK(same_bits(streamed.rows, memory.rows));
            const auto moved = static_cast<double>(streamed.bytes(64) - topology); // without the pass that counts
            CHECK(moved < 1.1 * static_cast<double>(streamed.plan.bytes));
            CHECK(moved > 0.9 * static_cast<double>(streamed.plan.bytes));
            CHECK(streamed.input_rows == nodes * (1 + m.encode.parts(0).begins));
        }
    }
}

/// Checks that with any fault, once or from then on if `sticky`, a run ends with a typed error, or after a short
/// transfer with the rows `expected`, and leaves no file and no charge. Faults are at operation 1 and each an nth later
/// than the one before.
/// Returns the number of runs with a fault.
std::uint64_t sweep_faults(model& m, const stored_graph& graph, const layerwise_input& source,
    layerwise_options options, std::uint64_t memory, const std::vector<float>& expected,
    std::initializer_list<bool> stickiness, std::uint64_t nth, bool streamed) {
    std::uint64_t struck = 0;
    for (const fault_kind kind :
        {fault_kind::device_error, fault_kind::no_space, fault_kind::short_transfer, fault_kind::zero_read})
        for (const bool sticky : stickiness)
            for (std::uint64_t at = 1;; at += 1 + at / nth) {
                CAPTURE(static_cast<int>(kind));
                CAPTURE(sticky);
                CAPTURE(at);
                const auto injector = std::make_shared<fault_injector>(fault{kind, at, sticky});
                options.engines = [&] { return any_engine(faulty(threads_engine(4), injector)); };
                memory_budget budget(memory);
                bool failed = false;
                try {
                    const auto result =
                        infer_layerwise(m.encode, m.weights, source, graph.store, options, serial_executor{}, budget);
                    const bool same = same_bits(all_rows(*result.rows), expected); // CHECK would catch the error
                    CHECK(same);
                    if (streamed) CHECK(result.plan.streamed);
                } catch (const io_error& e) {
                    failed = true;
                    CHECK(e.out_of_space() == (kind == fault_kind::no_space));
                } catch (const error& e) {
                    failed = true;
                    CHECK(e.code() == errc::corrupt);
                    CHECK(kind == fault_kind::zero_read);
                }
                CHECK(graph.scratch_files() == 0);
                CHECK(budget.used() == 0);
                if (injector->injected() == 0) {
                    CHECK_FALSE(failed);
                    break;
                }
                ++struck;
                CHECK(failed == (kind != fault_kind::short_transfer));
            }
    return struck;
}

TEST_CASE("on any disk fault, a streamed run ends with a typed error or the right rows, and leaves no file") {
    const stored_graph graph(2500, 9, 12000);
    const inputs in(2500, 12, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    model m("sage:12,sage:9:sum", {.dense = 12});
    const std::uint64_t memory = memory_of_groups(m, graph, source);
    layerwise_options options{.engines = threads(), .scratch = graph.scratch(), .streamed = true};
    const auto expected = infer(m, graph, source, neighbor_direction::in, memory, serial_executor{}, true).rows;
    CHECK(sweep_faults(m, graph, source, options, memory, expected, {false}, 2, true) > 30);
}

TEST_CASE("a streamed run detects a changed byte in each of its files") {
    const stored_graph graph(2500, 9, 12000);
    const inputs in(2500, 12, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    model m("sage:12,sage:9:sum", {.dense = 12});
    const std::uint64_t memory = memory_of_groups(m, graph, source);
    const auto expected = infer(m, graph, source, neighbor_direction::in, memory, serial_executor{}, true).rows;
    for (const std::string name : {"dealt", "rows-0"}) {
        CAPTURE(name);
        int changes = 0, detected = 0;
        for (std::uint64_t step = 1; step < 16; ++step) {
            CAPTURE(step);
            memory_budget budget(memory);
            bool changed = false;
            const auto change = [&](std::uint64_t done, std::uint64_t) {
                if (done < step || changed) return;
                for (const auto& entry : std::filesystem::recursive_directory_iterator(graph.scratch())) {
                    if (entry.path().filename() != name || entry.file_size() < 4096) continue;
                    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
                    file.seekg(2000);
                    const int byte = file.get();
                    file.seekp(2000);
                    file.put(static_cast<char>(byte ^ 1));
                    changed = true;
                }
            };
            try {
                const auto result = infer_layerwise(m.encode, m.weights, source, graph.store,
                    {.engines = threads(), .scratch = graph.scratch(), .streamed = true}, serial_executor{}, budget, {},
                    change);
                const bool same = same_bits(all_rows(*result.rows), expected); // CHECK would catch the error
                CHECK(same); // the byte had been read, or comes after the last record
            } catch (const error& e) {
                CHECK(e.code() == errc::corrupt);
                CHECK(changed);
                ++detected;
            }
            changes += changed;
            CHECK(graph.scratch_files() == 0);
        }
        CHECK(changes >= 4);
        CHECK(detected >= 2);
    }
}

TEST_CASE("GraphSAGE over all nodes equals a sample with all neighbors, in memory and on disk") {
    for (const std::string reduce : {"mean", "sum", "max"})
        for (const std::string combine : {"concat", "add"}) check_model("sage:5:" + reduce + ":" + combine, 7, 0);
    check_model("sage:9:tanh,sage:4:sum:no-bias", 5, 0);
    check_model("sage:6:mean,sage:12:max,sage:3:mean:add,sage:8:max:add", 4, 0);
}

TEST_CASE("graph convolutions over all nodes equal a sample with all neighbors, in memory and on disk") {
    check_model("gcn:5:symmetric", 7, 0);
    check_model("gcn:9:row:no-bias", 4, 0);
    check_model("gcn:8:symmetric:elu,gcn:4:row,gcn:7:symmetric", 5, 0);
}

TEST_CASE("graph attention over all nodes equals a sample with all neighbors, in memory and on disk") {
    check_model("gat:4x3", 5, 0);
    check_model("gat:6:mean:slope=.05:no-bias", 5, 0);
    check_model("gat:3x4,gat:5x2:mean,gat:2x8", 6, 0);
}

TEST_CASE("linear layers, norms, residuals and mixed layers equal a sample with all neighbors") {
    check_model("linear:5", 3, 0);
    check_model("sage:6:norm:residual,gcn:6:residual:tanh,gat:3x2:residual:norm,linear:4:norm", 6, 0);
    check_model("linear:6:sigmoid,sage:7:residual,linear:7:residual,gcn:3:norm", 5, 0);
}

TEST_CASE("custom layers equal a sample with all neighbors") { check_model("own", 5, 0); }

TEST_CASE("sparse features, alone and with dense rows, equal a sample with all neighbors") {
    for (const std::size_t dense : {0U, 3U}) {
        check_model("sage:5:residual,gat:2x2", dense, 9);
        check_model("gcn:12:symmetric,sage:3", dense, 9);
        check_model("linear:5:norm,sage:4:max", dense, 9);
        check_model("gat:4x2:norm:residual", dense, 9);
    }
}

TEST_CASE("with more memory a plan sums for more partitions and reads less") {
    const stored_graph graph(3000, 12, 20000);
    const inputs in(3000, 16, 0);
    const layerwise_input source = in.source(graph.rows);
    model m("sage:16,sage:8", {.dense = 16});
    const layerwise_options options{.engines = threads(), .scratch = graph.scratch()};
    const std::uint64_t least = least_memory(m, graph, source, options);
    std::uint32_t targets = 0;
    std::uint64_t read = ~std::uint64_t{0};
    for (const std::uint64_t more : {0U, 250000U, 500000U}) {
        const outcome now = infer(m, graph, source, neighbor_direction::in, least + more, serial_executor{});
        CHECK(!now.plan.in_memory);
        CHECK(now.plan.targets > targets);
        CHECK(now.io.read_bytes < read);
        targets = now.plan.targets;
        read = now.io.read_bytes;
        std::uint64_t sum = 0;
        for (const memory_need& part : now.plan.parts) sum += part.bytes;
        CHECK(sum <= least + more);
    }
    CHECK(plan_layerwise(m.encode, source, graph.store, options, least * 1000).in_memory);
}

TEST_CASE("a budget that is too small is refused with its parts before anything is read") {
    const stored_graph graph(400, 8, 2000);
    const inputs in(400, 16, 0);
    layerwise_input source = in.source(graph.rows);
    source.open = []() -> layerwise_reader { throw error(errc::invalid_argument, "was read"); };
    model m("sage:16,sage:8", {.dense = 16});
    layerwise_options options{.engines = threads(), .scratch = graph.scratch()};
    const std::uint64_t least = least_memory(m, graph, source, options);
    const auto refused = [&](std::uint64_t memory) {
        memory_budget budget(memory);
        try {
            (void)infer_layerwise(m.encode, m.weights, source, graph.store, options, serial_executor{}, budget);
        } catch (const over_budget& e) {
            CHECK(e.limit() == memory);
            CHECK(e.needed() > memory);
            CHECK(e.parts().size() == 6);
            CHECK(budget.used() == 0);
            return true;
        }
        return false;
    };
    CHECK(refused(least - 1));
    CHECK_THROWS_WITH_AS(refused(least), "was read", error);
    options.scratch.clear(); // no scratch directory: all rows must fit
    CHECK(refused(least));
    model wide("sage:4", {.dense = 17});
    memory_budget budget;
    CHECK_THROWS_AS(
        (void)infer_layerwise(wide.encode, wide.weights, source, graph.store, options, serial_executor{}, budget),
        error);
}

TEST_CASE("a stop ends a run at any step and leaves no file") {
    const stored_graph graph(120, 7, 700);
    const inputs in(120, 6, 0);
    const layerwise_input source = in.source(graph.rows);
    model m("sage:6,gcn:5", {.dense = 6});
    const layerwise_options options{.engines = threads(), .scratch = graph.scratch(), .streamed = false};
    for (const std::uint64_t memory : {memory_budget::unlimited, least_memory(m, graph, source, options)}) {
        std::uint64_t steps = 1;
        for (std::uint64_t at = 0; at < steps; at += 1 + at / 4) {
            memory_budget budget(memory);
            std::stop_source stop;
            std::uint64_t last = 0;
            const auto watch = [&](std::uint64_t done, std::uint64_t all) {
                CHECK(done == last + 1);
                CHECK(done <= all);
                last = done;
                steps = all - 1; // nothing to stop after the last one
                if (done == at + 1) stop.request_stop();
            };
            try {
                (void)infer_layerwise(m.encode, m.weights, source, graph.store, options, serial_executor{}, budget,
                    stop.get_token(), watch);
                FAIL_CHECK("went on after step " << at);
            } catch (const error& e) {
                CHECK(e.code() == errc::canceled);
            }
            CHECK(last == at + 1);
            CHECK(graph.scratch_files() == 0);
            CHECK(budget.used() == 0);
        }
        CHECK(steps > 7);
    }
}

TEST_CASE("on any disk fault, a run ends with a typed error or the right rows, and leaves no file") {
    const stored_graph graph(60, 5, 300);
    const inputs in(60, 4, 0);
    const layerwise_input source = in.source(graph.rows);
    model m("gcn:5:symmetric,gat:2x2", {.dense = 4});
    layerwise_options options{.engines = threads(), .scratch = graph.scratch()};
    const std::uint64_t memory = least_memory(m, graph, source, options);
    const auto expected = infer(m, graph, source, neighbor_direction::in, memory, serial_executor{}).rows;
    CHECK(sweep_faults(m, graph, source, options, memory, expected, {false, true}, 4, false) > 80);
}

TEST_CASE("rows of a partition buffer are read unchanged, more than once") {
    const stored_graph graph(100, 5, 600);
    const inputs in(100, 6, 0);
    model m("sage:4", {.dense = 6});
    const auto expected =
        infer(m, graph, in.source(graph.rows), neighbor_direction::in, memory_budget::unlimited, serial_executor{});
    for (const std::uint32_t slots : {1U, 5U}) {
        const auto path = graph.directory / ("rows" + std::to_string(slots));
        any_engine engine = threads()();
        embedding_file::create(engine, path, graph.rows, {6, 6}, 2);
        embedding_file file(threads(), path, graph.rows, {6, 6}, 2);
        file.fill([&](std::uint64_t first, matrix_view<float> rows) {
            for (std::size_t i = 0; i < rows.rows(); ++i)
                std::ranges::copy(in.dense.view[static_cast<std::size_t>(first) + i], rows[i].begin());
        });
        memory_budget budget;
        partition_buffer buffer(file, {slots, 1}, budget);
        const layerwise_input source = learned_rows(buffer);
        for (int again = 0; again < 2; ++again)
            CHECK(same_bits(
                infer(m, graph, source, neighbor_direction::in, memory_budget::unlimited, serial_executor{}).rows,
                expected.rows));
        std::stop_source stop; // ends the epoch, even if the run is stopped
        stop.request_stop();
        memory_budget other;
        CHECK_THROWS_AS((void)infer_layerwise(m.encode, m.weights, source, graph.store, {.engines = threads()},
                            serial_executor{}, other, stop.get_token()),
            error);
        CHECK(
            same_bits(infer(m, graph, source, neighbor_direction::in, memory_budget::unlimited, serial_executor{}).rows,
                expected.rows));
    }
}

namespace {

/// Writes a dataset with the features of `in`, dense or sparse.
void write_features(
    const std::filesystem::path& at, const inputs& in, const row_partitioning& rows, npy_dtype type, bool sparse) {
    dataset_writer writer(at);
    const auto append = [&](npy_writer& out, float value) {
        if (type == npy_dtype::f32) return out.append(value);
        const float16 small = to_float16(value);
        out.append(std::span(&small, 1));
    };
    if (sparse) {
        npy_writer& indptr = writer.array("features.indptr", npy_dtype::i64);
        npy_writer& indices = writer.array("features.indices", npy_dtype::u32);
        npy_writer& values = writer.array("features.values", type);
        for (const std::uint64_t offset : in.words.offsets) indptr.append(static_cast<std::int64_t>(offset));
        for (std::size_t k = 0; k < in.words.indices.size(); ++k) {
            indices.append(in.words.indices[k]);
            append(values, in.words.values[k]);
        }
    } else {
        npy_writer& out = writer.array("features", type, {in.dense.view.columns()});
        for (const float x : in.dense.memory) append(out, x);
    }
    const std::vector<std::int32_t> labels(rows.nodes, no_label);
    const std::vector<std::uint8_t> parts(rows.nodes, 3); // unused
    writer.array("labels", npy_dtype::i32).append(std::span(labels));
    writer.array("split", npy_dtype::u8).append(std::span(parts));
    dataset_manifest manifest;
    manifest.nodes = rows.nodes;
    manifest.partitions = rows.partitions;
    manifest.train_edges = 1;
    manifest.task = dataset_task::node;
    manifest.node_attributes = {.features = sparse ? in.words.columns : in.dense.view.columns(), .classes = 5};
    bucket_builder<> builder({rows, 0}, 1 << 20, writer.partial());
    builder.push(edge{0, 0, 1});
    writer.edges(builder);
    writer.commit(manifest);
}

} // namespace

TEST_CASE("features of a dataset are read as stored, alone and with other rows") {
    const stored_graph graph(100, 7, 600);
    inputs in(100, 6, 9);
    for (float& x : in.dense.memory) x = std::round(x * 64) / 64; // exact in f16
    for (float& x : in.words.values) x = std::round(x * 64) / 64;
    const inputs rows(100, 3, 0);
    gnn::matrix<float> joined(100, 9); // `rows` and the dense rows of `in`
    for (std::size_t i = 0; i < 100; ++i) {
        std::ranges::copy(rows.dense.view[i], joined.view[i].begin());
        std::ranges::copy(in.dense.view[i], joined.view[i].begin() + 3);
    }
    const auto run = [&](const layerwise_input& source) {
        model m("sage:4,sage:3", source.columns);
        return infer(m, graph, source, neighbor_direction::both, memory_budget::unlimited, serial_executor{}).rows;
    };
    int number = 0;
    for (const npy_dtype type : {npy_dtype::f32, npy_dtype::f16})
        for (const bool sparse : {false, true}) {
            const auto at = graph.directory / ("features" + std::to_string(number++));
            write_features(at, in, graph.rows, type, sparse);
            const dataset data(at);
            const node_features features = data.features();
            const layerwise_input alone = fixed_features(features, graph.rows, threads());
            CHECK(same_bits(run(alone),
                run(source_of(
                    sparse ? input_rows<float>{.sparse = in.words.view()} : input_rows<float>{.dense = in.dense.view},
                    graph.rows))));
            CHECK(same_bits(run(side_by_side(rows.source(graph.rows), alone, graph.rows)),
                run(source_of(sparse ? input_rows<float>{rows.dense.view, in.words.view()}
                                     : input_rows<float>{.dense = joined.view},
                    graph.rows))));
            CHECK_THROWS_AS((void)fixed_features(features, {99, 7}), error);
            if (sparse || type != npy_dtype::f32) continue;
            const auto file = at / "features.npy";
            std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
                .seekp(static_cast<std::streamoff>(std::filesystem::file_size(file)) - 1)
                .put('x');
            CHECK_THROWS_AS((void)fixed_features(features, graph.rows, threads()).open()(6, {}), error); // verified
        }
}

namespace {

/// A threaded engine whose memory is not counted: its threads free what the caller allocates.
class uncounted_engine : public storage_test::forwarding_engine<threads_engine> {
public:
    using forwarding_engine::forwarding_engine;

    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) {
        test::allocation_meter* const meter = std::exchange(test::allocation_meter::now, nullptr);
        const std::size_t taken = engine_.submit(requests);
        test::allocation_meter::now = meter;
        return taken;
    }
};

} // namespace

TEST_CASE("a streamed run with many groups and partitions takes the memory of its plan, with the tables of records") {
    const stored_graph graph(16000, 120, 40000);
    const inputs in(16000, 96, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    for (const std::string layers : {"sage:96,sage:64:sum", "gat:24x4,gat:32x2"}) {
        CAPTURE(layers);
        model m(layers, {.dense = 96});
        const std::vector<streamed_budget> budgets = streamed_budgets(m, graph, source, neighbor_direction::in);
        REQUIRE(!budgets.empty());
        const streamed_budget& budget = *std::ranges::max_element(budgets, {}, &streamed_budget::most_groups);
        CHECK(budget.most_groups() > 10);
        memory_budget within(budget.memory);
        test::allocation_meter counted; // see support/replaced_new.hpp, included by layerwise_input.cpp
        std::optional<layerwise_result> result;
        counted.during([&] {
            const engine_factory engines = [] { return any_engine(uncounted_engine(threads_engine(4))); };
            result.emplace(infer_layerwise(m.encode, m.weights, source, graph.store,
                {.engines = engines, .scratch = graph.scratch(), .streamed = true}, serial_executor{}, within));
        });
        REQUIRE(result->plan.streamed);
        CHECK(result->plan.groups == budget.groups);
        std::uint64_t planned = 0;
        for (const memory_need& part : result->plan.parts) planned += part.bytes;
        MESSAGE(layers, ": ", budget.most_groups(), " groups, ", counted.peak, " of ", planned,
            " bytes, tables and sums ", result->plan.parts[3].bytes);
        CHECK(planned <= budget.memory);
        CHECK(counted.peak <= planned);
        CHECK(counted.peak > planned / 2);
    }
}

} // namespace test_inference_layerwise_inference
