// A wrong input is a typed error, in release builds too: it reads or writes nothing beyond its arrays.
#include "layerwise.hpp"

#include <doctest/doctest.h>

#include <gneiss/inference/layerwise_inference.hpp>
#include <support/error_code.hpp>

namespace test_inference_preconditions {

using namespace gneiss;
using namespace inference_test;
using test::code_of;

TEST_CASE("inference needs an input, engines and weights of its encoder") {
    const stored_graph graph(40, 2, 200);
    const inputs in(40, 4, 0);
    const layerwise_input source = in.source(graph.rows);
    model m("sage:3", {.dense = 4});
    const auto run = [&](const layerwise_input& from, const dense_parameters<float>& weights,
                         const engine_factory& engines) {
        memory_budget budget;
        return code_of([&] {
            (void)infer_layerwise(
                m.encode, weights, from, graph.store, {.engines = engines}, serial_executor{}, budget);
        });
    };
    CHECK(run(source, m.weights, threads()) == std::nullopt);
    CHECK(run({.columns = source.columns}, m.weights, threads()) == errc::invalid_argument);
    CHECK(run(source, m.weights, {}) == errc::invalid_argument);
    CHECK(run(source, {}, threads()) == errc::invalid_argument);
}

TEST_CASE("rows of another shape than declared are refused, alone and side by side") {
    const stored_graph graph(40, 2, 200);
    model dense("sage:3", {.dense = 4}), sparse("sage:3", {.sparse = 4}), both("sage:3", {.dense = 8});
    const std::vector<float> values(100 * 8, 1);
    const std::vector<std::uint64_t> falling(21, 5), short_of{0, 1};
    const std::vector<std::uint32_t> columns(5, 9);
    const auto input = [&](input_columns of, const input_rows<float>& rows) {
        return layerwise_input{
            of, 0, [=]() -> layerwise_reader { return [=](partition_id, const std::stop_token&) { return rows; }; }};
    };
    const auto run = [&](model& m, const layerwise_input& from) {
        memory_budget budget;
        return code_of([&] {
            (void)infer_layerwise(
                m.encode, m.weights, from, graph.store, {.engines = threads()}, serial_executor{}, budget);
        });
    };
    const auto rows_of = [&](std::size_t rows, std::size_t columns_of) {
        return input_rows<float>{.dense = {values.data(), rows, columns_of}};
    };
    const layerwise_input right = input({.dense = 4}, rows_of(20, 4)), more = input({.dense = 4}, rows_of(30, 4)),
                          wide = input({.dense = 4}, rows_of(20, 6));
    CHECK(run(dense, right) == std::nullopt);
    CHECK(run(dense, more) == errc::invalid_argument);
    CHECK(run(dense, wide) == errc::invalid_argument);
    CHECK(run(both, side_by_side(right, right, graph.rows)) == std::nullopt);
    CHECK(run(both, side_by_side(right, more, graph.rows)) == errc::invalid_argument);
    CHECK(run(both, side_by_side(more, right, graph.rows)) == errc::invalid_argument);
    CHECK(run(both, side_by_side(right, wide, graph.rows)) == errc::invalid_argument);
    CHECK_FALSE(side_by_side(right, {.columns = {.dense = 4}}, graph.rows).open);
    const auto sparse_rows_of = [&](std::span<const std::uint64_t> offsets) {
        return input_rows<float>{.sparse = {4, offsets, columns, {}}};
    };
    CHECK(run(sparse, input({.sparse = 4}, sparse_rows_of(short_of))) == errc::invalid_argument);
    CHECK(run(sparse, input({.sparse = 4}, sparse_rows_of(falling))) == errc::invalid_argument); // columns beyond
}

} // namespace test_inference_preconditions
