#include <gneiss/inference/layerwise_run.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inference/layerwise.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

namespace test_inference_layerwise_run {

using namespace gneiss;
using namespace inference_test;

namespace {

constexpr feature_type narrow_types[] = {feature_type::f16, feature_type::bf16};

std::uint64_t bytes_of(const layerwise_plan& plan) {
    std::uint64_t sum = 0;
    for (const memory_part& part : plan.parts) sum += part.bytes;
    return sum;
}

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
        std::uint32_t most = 0;
        for (std::uint64_t bytes = bytes_of(memory.plan) - 1;; bytes = bytes / 100 * 93) {
            std::optional<outcome> streamed;
            try {
                streamed = infer(m, graph, source, d, bytes, serial_executor{}, true, type);
            } catch (const over_budget&) {
                break;
            }
            if (!streamed->plan.streamed) break;
            most = std::max(most, std::ranges::max(streamed->plan.groups));
            CHECK(same_bits(streamed->rows, memory.rows));
        }
        CHECK(most >= 2);
    }
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
    model both("sage:6:tanh,sage:5:sum", {.dense = 7}), hidden("sage:6:tanh", {.dense = 7}), last("sage:5:sum", {.dense = 6});
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
    const outcome streamed = infer(m, graph, source, d, std::uint64_t{1} << 20, serial_executor{}, true);
    REQUIRE(streamed.plan.groups == std::vector<std::uint32_t>{1, 1});
    for (const feature_type type : narrow_types) {
        options.hidden_rows = type;
        const std::uint64_t least_narrow = least_memory(m, graph, source, options);
        const outcome narrow = infer(m, graph, source, d, least_narrow, serial_executor{}, false, type);
        REQUIRE(narrow.plan.targets == 1);
        CHECK(least_narrow + 2 * 256 * 16 == least + 256 * 16 * sizeof(float) * 9 / 8 + 512); // half a partition; and the rounded rows of a chunk
        CHECK(exact.io.written_bytes == 4 * rows + 4 * rows);
        CHECK(narrow.io.written_bytes == 2 * rows + 4 * rows);
        CHECK(exact.io.read_bytes - narrow.io.read_bytes == 2 * rows * (8 + 1)); // read for 8 groups, and as own rows

        const outcome once = infer(m, graph, source, d, std::uint64_t{1} << 20, serial_executor{}, true, type);
        REQUIRE(once.plan.groups == std::vector<std::uint32_t>{1, 1});
        CHECK(streamed.io.written_bytes - once.io.written_bytes == 2 * rows);
        CHECK(streamed.io.read_bytes - once.io.read_bytes == 2 * rows);
        CHECK(streamed.plan.bytes - once.plan.bytes == 4 * rows);
    }
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

} // namespace test_inference_layerwise_run
