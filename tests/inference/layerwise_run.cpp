#include <gneiss/inference/detail/layerwise_run.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <inference/layerwise.hpp>
#include <storage/forwarding_engine.hpp>
#include <support/error_code.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

namespace test_inference_layerwise_run {

using namespace gneiss;
using namespace inference_test;

namespace {

constexpr feature_type narrow_types[] = {feature_type::f16, feature_type::bf16};

/// Compares runs with hidden rows of two bytes a value: in memory, by groups, and streamed in one group and in several.
void check_hidden_rows(const std::string& layers) {
    const tbb_executor three(3);
    const stored_graph graph(2500, 9, 12000);
    const inputs in(2500, 12, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    model m(layers, {.dense = 12});
    const neighbor_direction d = neighbor_direction::in;
    const auto exact = infer(m, graph, source, d, memory_budget::unlimited, serial_executor{}).rows;
    for (const feature_type type : narrow_types) {
        CAPTURE(layers);
        CAPTURE(to_string(type));
        const outcome memory = infer(m, graph, source, d, memory_budget::unlimited, serial_executor{}, false, type);
        CHECK(memory.plan.in_memory);
        CHECK(memory.io.written_bytes == 0);
        CHECK(!same_bits(memory.rows, exact)); // it does round
        const layerwise_options options{
            .direction = d, .engines = threads(), .scratch = graph.scratch(), .hidden_rows = type};
        const std::uint64_t least = least_memory(m, graph, source, options);
        for (const std::uint64_t bytes : {least, least + least / 4}) {
            const outcome disk = infer(m, graph, source, d, bytes, three, false, type);
            CHECK(!disk.plan.in_memory);
            CHECK(same_bits(disk.rows, memory.rows));
        }
        const std::vector<streamed_budget> budgets = streamed_budgets(m, graph, source, d, type, 7);
        REQUIRE(!budgets.empty());
        for (const streamed_budget& budget : budgets) {
            CAPTURE(budget.memory);
            const outcome streamed = infer(m, graph, source, d, budget.memory, serial_executor{}, true, type);
            CHECK(streamed.plan.groups == budget.groups);
            CHECK(same_bits(streamed.rows, memory.rows));
        }
        CHECK(budgets.back().most_groups() >= 2);
    }
}

/// Returns edges from nodes to others at most `reach` away: each partition has few neighbors among the partitions.
std::vector<edge> local_edges(std::uint64_t nodes, std::uint64_t each, std::uint64_t reach) {
    const random_key key(7, random_domain::user);
    std::vector<edge> edges;
    for (std::uint64_t v = 0; v < nodes; ++v)
        for (std::uint64_t k = 0; k < each; ++k) {
            const std::uint64_t moved = v + key[v * each + k] % (2 * reach + 1); // by `reach` too far
            const std::uint64_t from = std::clamp(moved, reach, nodes - 1 + reach) - reach;
            edges.push_back({static_cast<node_id>(from), 0, static_cast<node_id>(v)});
        }
    return edges;
}

/// Returns the bytes of topology, inputs and outputs of all layers, each once.
std::uint64_t least_bytes(const model& m, const stored_graph& graph, std::size_t in) {
    std::uint64_t topology = 0, floats = 0;
    graph.store.for_each_bucket([&](edge_bucket b) { topology += graph.store.extent(b).in.length; });
    for (const auto& layer : m.encode.factories()) {
        floats += in + layer.outputs();
        in = layer.outputs();
    }
    return m.encode.layers() * topology + floats * graph.rows.nodes * sizeof(float);
}

} // namespace

TEST_CASE("hidden rows of f16 and bf16 give the same bits in memory, by groups and streamed") {
    check_hidden_rows("sage:12:tanh,sage:12:sum");
    check_hidden_rows("sage:24,sage:5:residual");
    check_hidden_rows("gcn:12:symmetric,gcn:10:row:norm");
    check_hidden_rows("gat:3x4,gat:6x2:mean");
    check_hidden_rows("linear:11,gcn:12:row,sage:7:max");
    check_hidden_rows("own");
}

TEST_CASE("hidden rows of f16 and bf16 change the result by no more than the rounding of their values") {
    const stored_graph graph(800, 4, 5000);
    const inputs in(800, 7, 0);
    const layerwise_input source = in.source(graph.rows);
    const neighbor_direction d = neighbor_direction::in;
    model both("sage:6:tanh,sage:5:sum", {.dense = 7}), hidden("sage:6:tanh", {.dense = 7});
    model last("sage:5:sum", {.dense = 6});
    const std::span<float> all = both.weights.values();
    const std::size_t cut = hidden.weights.values().size();
    REQUIRE(all.size() == cut + last.weights.values().size());
    std::ranges::copy(all.first(cut), hidden.weights.values().begin());
    std::ranges::transform(all.subspan(cut), last.weights.values().begin(), [](float w) { return std::abs(w); });
    const auto run = [&](model& m, const layerwise_input& from, feature_type type) {
        return infer(m, graph, from, d, memory_budget::unlimited, serial_executor{}, false, type).rows;
    };
    // A linear last layer changes by at most its absolute weights times the changes of its inputs.
    std::vector<float> magnitudes = run(hidden, source, feature_type::f32);
    for (float& x : magnitudes) x = std::abs(x);
    const auto most = run(last, source_of({.dense = {magnitudes.data(), 800, 6}}, graph.rows), feature_type::f32);
    const auto exact = run(both, source, feature_type::f32);
    for (const feature_type type : narrow_types) {
        const float step = type == feature_type::f16 ? 1.0F / 2048 : 1.0F / 256;
        const auto rounded = run(both, source, type);
        REQUIRE(rounded.size() == exact.size());
        float worst = 0; // in units of the bound
        for (std::size_t i = 0; i < exact.size(); ++i)
            worst = std::max(worst, std::abs(rounded[i] - exact[i]) / ((step + 1e-5F) * most[i] + 1e-6F));
        CHECK(worst <= 1);
        CHECK(worst > 0.05F);
    }
}

TEST_CASE("hidden rows of f16 and bf16 take half of the bytes, on disk and in the plans") {
    const stored_graph graph(8 * 256, 8, 9000);
    const inputs in(8 * 256, 16, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    model m("sage:16,sage:16:sum", {.dense = 16});
    const neighbor_direction d = neighbor_direction::in;
    constexpr std::uint64_t rows = 8 * 256 * 16; // values of a hidden layer
    layerwise_options options{.direction = d, .engines = threads(), .scratch = graph.scratch()};
    const std::uint64_t least = least_memory(m, graph, source, options);
    const outcome exact = infer(m, graph, source, d, least, serial_executor{});
    REQUIRE(exact.plan.targets == 1);
    REQUIRE(exact.plan.rereads == std::vector<bool>{true, true});
    const std::uint64_t sweeps =
        detail::source_reads(8, 1, d, false, &graph.store); // partitions read for each as targets
    REQUIRE(sweeps > 8);
    const outcome streamed = infer(m, graph, source, d, std::uint64_t{1} << 20, serial_executor{}, true);
    REQUIRE(streamed.plan.groups == std::vector<std::uint32_t>{1, 1});
    for (const feature_type type : narrow_types) {
        options.hidden_rows = type;
        const std::uint64_t least_narrow = least_memory(m, graph, source, options);
        const outcome narrow = infer(m, graph, source, d, least_narrow, serial_executor{}, false, type);
        REQUIRE(narrow.plan.targets == 1);
        const std::uint64_t half_partition = 2 * 256 * 16, rounded_chunk = 256 * 16 * sizeof(float) * 9 / 8 + 512;
        CHECK(least_narrow + half_partition == least + rounded_chunk);
        CHECK(exact.io.written_bytes == 4 * rows + 4 * rows);
        CHECK(narrow.io.written_bytes == 2 * rows + 4 * rows);
        CHECK(
            exact.io.read_bytes - narrow.io.read_bytes == 2 * rows / 8 * (sweeps + 8)); // for targets, and as own rows

        const outcome once = infer(m, graph, source, d, std::uint64_t{1} << 20, serial_executor{}, true, type);
        REQUIRE(once.plan.groups == std::vector<std::uint32_t>{1, 1});
        CHECK(streamed.io.written_bytes - once.io.written_bytes == 2 * rows);
        CHECK(streamed.io.read_bytes - once.io.read_bytes == 2 * rows);
        CHECK(streamed.plan.bytes - once.plan.bytes == 4 * rows);
    }
}

TEST_CASE(
    "in an eighth of the data, runs over local edges move at most 1.3 times the least bytes, and those of their plan") {
    constexpr std::uint64_t nodes = 32768;
    constexpr std::size_t width = 32;
    const inputs in(nodes, width, 0);
    for (const bool local : {true, false}) {
        const stored_graph graph(local_edges(nodes, 8, local ? 200 : nodes), {nodes, 128});
        layerwise_input source = in.source(graph.rows);
        source.repeatable = true;
        source.bytes = graph.rows.capacity() * width * sizeof(float);
        for (const std::string layers : {"gcn:32:row,gcn:32:row", "sage:32:sum,sage:32:sum"}) {
            CAPTURE(local);
            CAPTURE(layers);
            model m(layers, {.dense = width});
            const neighbor_direction d = neighbor_direction::in;
            const std::uint64_t least = least_bytes(m, graph, width);
            const std::uint64_t data = (least - nodes * 4 * width * sizeof(float)) / 2 + nodes * width * sizeof(float);
            const outcome run = infer(m, graph, source, d, data / 8, serial_executor{});
            REQUIRE(!run.plan.in_memory);
            CHECK(same_bits(run.rows, infer(m, graph, source, d, memory_budget::unlimited, serial_executor{}).rows));
            const auto moved = static_cast<double>(run.bytes(width));
            const layerwise_options options{.direction = d};
            const layerwise_edges edges(m.encode, graph.store, d);
            const std::uint64_t planned =
                detail::grouped_bytes(m.encode, source, graph.rows, edges, run.plan, options, graph.store);
            CHECK(moved == doctest::Approx(static_cast<double>(planned)).epsilon(0.02));
            const double groups = 128.0 / run.plan.targets;
            if (local)
                CHECK(moved <= 1.3 * static_cast<double>(least));
            else
                CHECK(moved >= groups / 3 * static_cast<double>(least)); // every group needs all inputs
            const bool keeps = local && layers.starts_with("sage");
            CHECK(run.plan.keeps_own == std::vector<bool>{keeps, keeps});
        }
    }
}

TEST_CASE(
    "groups skip sources without edges to them, and layers with shorter sums have larger groups, with the same bits") {
    const tbb_executor three(3);
    const stored_graph graph(local_edges(3000, 5, 40), {3000, 40});
    const inputs in(3000, 12, 0);
    layerwise_input again = in.source(graph.rows);
    again.repeatable = true;
    bool keeps = false, differs = false;
    for (const std::string layers :
        {"sage:12:sum,sage:12", "sage:24,sage:5:residual", "sage:12:max,sage:14:mean:add:residual",
            "gcn:12:symmetric,gcn:10:row:norm", "gat:3x4,gat:6x2:mean", "linear:12,gcn:12:symmetric,linear:5", "own"})
        for (const neighbor_direction d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
            CAPTURE(layers);
            CAPTURE(static_cast<int>(d));
            model m(layers, {.dense = 12});
            const outcome memory = infer(m, graph, again, d, memory_budget::unlimited, serial_executor{});
            for (const layerwise_input& source : {in.source(graph.rows), again}) {
                const std::uint64_t least =
                    least_memory(m, graph, source, {.direction = d, .engines = threads(), .scratch = graph.scratch()});
                for (const std::uint64_t bytes : {least, least + least / 3}) {
                    const outcome run = infer(m, graph, source, d, bytes, three);
                    CHECK(!run.plan.in_memory);
                    CHECK(same_bits(run.rows, memory.rows));
                    CHECK(run.edges == memory.edges);
                    std::uint64_t sum = 0;
                    for (const memory_need& part : run.plan.parts) sum += part.bytes;
                    CHECK(sum <= bytes);
                    keeps |= run.plan.keeps_own.front();
                    differs |= std::ranges::max(run.plan.layer_targets) > run.plan.targets;
                }
            }
        }
    CHECK(keeps);
    CHECK(differs);
}

TEST_CASE("a value that the type of hidden rows cannot hold is an error, in memory and on disk, and leaves no file") {
    const stored_graph graph(300, 5, 2000);
    const inputs in(300, 8, 0);
    layerwise_input source = in.source(graph.rows);
    source.repeatable = true;
    model m("sage:8:sum,sage:8", {.dense = 8});
    for (float& w : m.weights.values()) w *= 1e6F;
    layerwise_options options{
        .engines = threads(), .scratch = graph.scratch(), .hidden_rows = feature_type::f16, .streamed = false};
    const auto run = [&](std::uint64_t memory) {
        memory_budget budget(memory);
        (void)infer_layerwise(m.encode, m.weights, source, graph.store, options, serial_executor{}, budget);
    };
    const std::uint64_t least = least_memory(m, graph, source, options);
    for (const std::uint64_t memory : {memory_budget::unlimited, least}) {
        const auto code = [&] {
            try {
                run(memory);
            } catch (const error& e) {
                return e.code();
            }
            return errc::closed;
        }();
        CHECK(code == errc::not_finite);
        CHECK(graph.scratch_files() == 0);
    }
    options.hidden_rows = feature_type::bf16;
    CHECK_NOTHROW(run(least));
    options.hidden_rows = feature_type::int8;
    CHECK_THROWS_WITH_AS(run(least), "hidden rows are stored as f32, f16 or bf16, not int8", error);
}

namespace {

/// Counts the reads of threads.
class counting_engine : public storage_test::forwarding_engine<threads_engine> {
public:
    explicit counting_engine(std::atomic<std::uint64_t>& reads)
        : forwarding_engine(threads_engine(1)),
          reads_(&reads) {}
    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) {
        for (const io_request& each : requests) *reads_ += each.operation == io_operation::read ? 1 : 0;
        return engine_.submit(requests);
    }

private:
    std::atomic<std::uint64_t>* reads_;
};

} // namespace

TEST_CASE("a stop before the call ends it before it reads edges, in memory and on disk") {
    const stored_graph graph(300, 5, 2000);
    const inputs in(300, 8, 0);
    const layerwise_input source = in.source(graph.rows);
    model m("gcn:6:symmetric,gcn:5", {.dense = 8}); // counts the source degrees
    std::atomic<std::uint64_t> reads = 0;
    const layerwise_options options{.engines = [&reads] { return any_engine(counting_engine(reads)); },
        .scratch = graph.scratch(),
        .streamed = false};
    std::stop_source stop;
    const auto run = [&](std::uint64_t memory) {
        memory_budget budget(memory);
        (void)infer_layerwise(
            m.encode, m.weights, source, graph.store, options, serial_executor{}, budget, stop.get_token());
    };
    const std::uint64_t least = least_memory(m, graph, source, options);
    for (const std::uint64_t memory : {memory_budget::unlimited, least}) {
        run(memory);
        CHECK(reads.exchange(0) != 0);
    }
    stop.request_stop();
    for (const std::uint64_t memory : {memory_budget::unlimited, least}) {
        CHECK(test::code_of([&] { run(memory); }) == errc::canceled);
        CHECK(reads == 0);
        CHECK(graph.scratch_files() == 0);
    }
}

} // namespace test_inference_layerwise_run
