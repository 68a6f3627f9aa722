#include <gneiss/cuda/model/device/aggregate.cuh>

#include <algorithm>

#include <simt/model/support.hpp>

namespace test_simt_model_device_aggregate {

using namespace simt_model;
using cuda::edge_weight;

namespace {

/// Returns the weights of a layer's edges as the CPU's layers compute them.
std::vector<double> weights_of(const gneiss::layer_view& view, edge_weight weight) {
    const edge_segments incoming{view.offsets, view.neighbors};
    std::vector<double> weights(view.edges(), 1);
    if (weight == edge_weight::mean) oracle::segment_shares(incoming, weights, serial);
    std::vector<std::uint32_t> degrees(view.sources);
    for (const std::uint32_t source : view.neighbors) ++degrees[source];
    if (weight == edge_weight::symmetric) oracle::segment_symmetric(incoming, degrees, weights, serial);
    return weights;
}

/// Checks both directions with the oracle. A lane adds up to some 300 terms sequentially, so that a sum may differ by
/// 300 · 2⁻²⁴ of their magnitudes.
template <class T>
void check_sums(const random_layer& layer, edge_weight weight, bool loops, std::size_t columns, layout options) {
    const gneiss::layer_view& view = layer.host(loops);
    const std::vector<double> weights = weights_of(view, weight);
    for (const bool backward : {false, true}) {
        const std::size_t in_rows = backward ? view.targets : view.sources,
                          out_rows = backward ? view.sources : view.targets;
        const rows<T> in(in_rows, columns, options, 7 + columns);
        doubles want(out_rows, columns), magnitudes(out_rows, columns);
        const edge_segments segments = backward ? outgoing(view) : edge_segments{view.offsets, view.neighbors};
        oracle::segment_sum(segments, weights, 1, doubles(in).view, want.view, serial);
        oracle::segment_sum(segments, weights, 1, doubles(in, true).view, magnitudes.view, serial);

        const cuda::edge_lists lists =
            backward ? cuda::outgoing(layer.device(), loops) : cuda::incoming(layer.device(), loops);
        std::vector<T> first;
        simt::for_each_seed(3, [&] {
            rows<T> out(out_rows + random_layer::spare, columns, options);
            cuda::aggregate<T>(nullptr, lists, weight, in.view(), out.view());
            check_rows<T>(backward ? "gradient" : "sum", out, out_rows, want.view, magnitudes.view, 2e-5);
            if (first.empty()) first = out.bits();
            CHECK(first == out.bits());
        });
    }
}

} // namespace

TEST_CASE_TEMPLATE(
    "simt.model.aggregate: sums by any weight and their gradients equal those of the CPU", T, float, bfloat16) {
    const random_layer layer(23, 41, 700, 1);
    for (const edge_weight weight : {edge_weight::one, edge_weight::mean, edge_weight::symmetric})
        for (const bool loops : {false, true})
            check_sums<T>(layer, weight, loops, 20, weight == edge_weight::mean ? layout::odd : layout::aligned);
}

TEST_CASE_TEMPLATE("simt.model.aggregate: any number of columns works, aligned or not", T, float, bfloat16) {
    const random_layer layer(9, 14, 40, 2);
    for (const std::size_t columns : {1U, 4U, 7U, 33U, 64U, 100U, 128U, 129U, 300U})
        for (const layout options : {layout::aligned, layout::odd})
            check_sums<T>(layer, edge_weight::mean, true, columns, options);
}

TEST_CASE_TEMPLATE("simt.model.aggregate: rows gathered from a table, of floats or of half the size, equal those of a "
                   "copy in floats, bit for bit",
    In, float, float16, bfloat16) {
    const random_layer layer(23, 41, 700, 1);
    std::vector<std::uint32_t> ids(layer.sources());
    for (std::uint32_t i = 0; i < ids.size(); ++i) ids[i] = (i * 77 + 13) % 30; // some are repeated
    for (const std::size_t columns : {6U, 33U, 64U, 300U})
        for (const layout options : {layout::aligned, layout::odd}) {
            const rows<In> table(30, columns, options, 2);
            const rows<float> copy = floats_of(table, ids, columns, options);
            for (const edge_weight weight : {edge_weight::one, edge_weight::mean, edge_weight::symmetric}) {
                const cuda::edge_lists lists = cuda::incoming(layer.device(), true);
                rows<float> of_copy(layer.targets(), columns, options), of_table = of_copy;
                cuda::aggregate<float>(nullptr, lists, weight, copy.view(), of_copy.view());
                cuda::aggregate<float, In>(
                    nullptr, cuda::gathered(lists, ids.data()), weight, table.view(), of_table.view());
                CHECK(of_copy.bits() == of_table.bits());
            }
            const cuda::edge_lists lists = cuda::incoming(layer.device());
            rows<float> of_copy(layer.targets(), columns, options), of_table = of_copy;
            rows<std::uint32_t> by_copy(layer.targets(), columns, options), by_table = by_copy;
            cuda::aggregate_max<float>(nullptr, lists, copy.view(), of_copy.view(), by_copy.view());
            cuda::aggregate_max<float, In>(
                nullptr, cuda::gathered(lists, ids.data()), table.view(), of_table.view(), by_table.view());
            CHECK(of_copy.bits() == of_table.bits());
            CHECK(by_copy.bits() == by_table.bits());
        }
}

TEST_CASE("simt.model.aggregate: lists of ten thousand edges and empty lists work") {
    check_sums<float>(random_layer(4, 6, 10'000, 3), edge_weight::mean, false, 9, layout::aligned);
    check_sums<float>(random_layer(1, 1, 0, 4), edge_weight::one, false, 9, layout::aligned);
    check_sums<float>(random_layer(0, 3, 0, 5), edge_weight::one, true, 9, layout::aligned);
}

namespace {

template <class T>
void check_max(const random_layer& layer, std::size_t columns, layout options, bool ties) {
    const gneiss::layer_view& view = layer.host();
    rows<T> in(view.sources, columns, options, 5);
    if (ties) // few values, so that the position must break ties
        for (std::size_t i = 0; i < in.size(); ++i)
            for (std::size_t c = 0; c < columns; ++c) in(i, c) = rows<T>::stored(static_cast<float>((i * 7 + c) % 3));
    doubles want(view.targets, columns), none(view.targets, columns);
    std::vector<std::uint32_t> winners(view.targets * columns);
    oracle::segment_max({view.offsets, view.neighbors}, doubles(std::as_const(in)).view, want.view,
        {winners.data(), view.targets, columns}, serial);

    const rows<T> gradient(view.targets, columns, options, 6);
    doubles want_back(view.sources, columns), magnitudes(view.sources, columns);
    const matrix_view<const std::uint32_t> won(winners.data(), view.targets, columns);
    oracle::segment_max_backward(outgoing(view), doubles(gradient).view, won, want_back.view, serial);
    oracle::segment_max_backward(outgoing(view), doubles(gradient, true).view, won, magnitudes.view, serial);

    simt::for_each_seed(3, [&] {
        rows<T> out(view.targets + random_layer::spare, columns, options);
        rows<std::uint32_t> who(view.targets + random_layer::spare, columns, options);
        cuda::aggregate_max<T>(
            nullptr, cuda::incoming(layer.device()), std::as_const(in).view(), out.view(), who.view());
        check_rows<T>("max", out, view.targets, want.view, none.view, 0);
        for (std::size_t t = 0; t < view.targets; ++t)
            for (std::size_t c = 0; c < columns; ++c) CHECK(who(t, c) == winners[t * columns + c]);

        rows<T> back(view.sources + random_layer::spare, columns, options);
        cuda::aggregate_max_backward<T>(
            nullptr, cuda::outgoing(layer.device()), gradient.view(), std::as_const(who).view(), back.view());
        check_rows<T>("gradient of max", back, view.sources, want_back.view, magnitudes.view, 2e-5);
    });
}

} // namespace

TEST_CASE_TEMPLATE(
    "simt.model.aggregate: maxima, their winners and gradients equal those of the CPU", T, float, bfloat16) {
    const random_layer layer(17, 29, 600, 6);
    for (const bool ties : {false, true}) {
        check_max<T>(layer, 20, layout::aligned, ties);
        check_max<T>(layer, 11, layout::odd, ties);
    }
    check_max<T>(random_layer(5, 5, 10, 7), 270, layout::aligned, true);
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.model.aggregate: warps read whole sectors, each row once per edge") {
    const random_layer layer(40, 60, 64, 8);
    const double edges = static_cast<double>(layer.host().edges());
    // Lists: an index per edge, two offsets per list and chunk, both ends of a request cut.
    const double lists = edges / 8 + 6.0 * layer.targets();
    {
        const rows<float> in(layer.sources(), 128, layout::aligned, 1);
        rows<float> out(layer.targets() + random_layer::spare, 128, layout::aligned);
        simt::traffic_counter counter;
        cuda::aggregate<float>(nullptr, cuda::incoming(layer.device()), edge_weight::one, in.view(), out.view());
        const double sectors = static_cast<double>(counter.loads().sectors);
        CHECK(sectors >= 16 * edges); // 512 bytes per row
        CHECK(sectors <= 16 * edges + lists);
        CHECK(counter.stores().sectors == 16 * layer.targets());
        CHECK(counter.stores().requests == layer.targets());
    }
    { // a table of halves
        const rows<float16> in(layer.sources(), 128, layout::aligned, 1);
        rows<float> out(layer.targets() + random_layer::spare, 128, layout::aligned);
        simt::traffic_counter counter;
        cuda::aggregate<float, float16>(
            nullptr, cuda::incoming(layer.device()), edge_weight::one, in.view(), out.view());
        CHECK(static_cast<double>(counter.loads().sectors) <= 8 * edges + lists); // 256 bytes per row
    }
    { // 100 bfloat16: 200 bytes, read as 13 packets of 16; in rows 208 bytes apart they may share a sector with others
        const rows<bfloat16> in(layer.sources(), 100, layout::aligned, 1);
        rows<bfloat16> out(layer.targets() + random_layer::spare, 100, layout::aligned);
        simt::traffic_counter counter;
        cuda::aggregate<bfloat16>(nullptr, cuda::incoming(layer.device()), edge_weight::one, in.view(), out.view());
        CHECK(static_cast<double>(counter.loads().sectors) <= 8 * edges + lists);
    }
    { // no alignment: 33 floats are read in requests of consecutive ones, 132 bytes in at most 6 sectors and one cut
        const rows<float> in(layer.sources(), 33, layout::odd, 1);
        rows<float> out(layer.targets() + random_layer::spare, 33, layout::odd);
        simt::traffic_counter counter;
        cuda::aggregate<float>(nullptr, cuda::incoming(layer.device()), edge_weight::one, in.view(), out.view());
        CHECK(static_cast<double>(counter.loads().sectors) <= 9 * edges + lists);
    }
}
#endif

} // namespace test_simt_model_device_aggregate
