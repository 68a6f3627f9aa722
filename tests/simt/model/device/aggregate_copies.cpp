#include <gneiss/cuda/model/device/aggregate_copies.cuh>

#include <simt/model/support.hpp>

namespace test_simt_model_device_aggregate_copies {

using namespace simt_model;
using cuda::edge_weight;
using cuda::row_path;

namespace {

template <class T>
void check_equal(const random_layer& layer, edge_weight weight, bool loops, std::size_t columns) {
    for (const bool backward : {false, true}) {
        const std::size_t in_rows = backward ? layer.targets() : layer.sources(),
                          out_rows = (backward ? layer.sources() : layer.targets()) + random_layer::spare;
        const rows<T> in(in_rows, columns, layout::aligned, columns);
        const cuda::edge_lists lists =
            backward ? cuda::outgoing(layer.device(), loops) : cuda::incoming(layer.device(), loops);
        rows<T> want(out_rows, columns, layout::aligned);
        CHECK(cuda::aggregate_path<T>(in.view(), want.view(), 9, 227 << 10) == row_path::copies);
        cuda::aggregate<T>(nullptr, lists, weight, in.view(), want.view(), row_path::registers);
        simt::for_each_seed(2, [&] {
            rows<T> out(out_rows, columns, layout::aligned);
            cuda::aggregate<T>(nullptr, lists, weight, in.view(), out.view(), row_path::copies);
            CHECK(out.bits() == want.bits());
        });
    }
}

} // namespace

TEST_CASE_TEMPLATE("simt.model.aggregate_copies: copied rows give the bits of loaded rows", T, float, bfloat16) {
    const random_layer layer(9, 14, 600, 1);
    constexpr std::size_t least = 512 / sizeof(T);
    check_equal<T>(layer, edge_weight::mean, true, least);
    check_equal<T>(layer, edge_weight::one, false, least + 3);
    check_equal<T>(layer, edge_weight::symmetric, true, 2 * least + 20);
    check_equal<T>(random_layer(1, 1, 0, 2), edge_weight::one, false, least);
}

TEST_CASE("simt.model.aggregate_copies: shapes and devices without copies use registers") {
    rows<float> wide(2, 128, layout::aligned), odd(2, 129, layout::odd), narrow(2, 127, layout::aligned);
    const auto path = [](rows<float>& of, int major, std::uint64_t shared) {
        return cuda::aggregate_path<float>(of.view(), of.view(), major, shared);
    };
    CHECK(path(wide, 8, 160 << 10) == row_path::copies);
    CHECK(path(wide, 7, 160 << 10) == row_path::registers);
    CHECK(path(wide, 9, 48 << 10) == row_path::registers);
    CHECK(path(odd, 9, 227 << 10) == row_path::registers);
    CHECK(path(narrow, 9, 227 << 10) == row_path::registers);
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.model.aggregate_copies: warps read whole sectors, each row once per edge") {
    const random_layer layer(40, 60, 64, 8);
    const double edges = static_cast<double>(layer.host().edges()), lists = edges / 8 + 6.0 * layer.targets();
    const rows<float> in(layer.sources(), 128, layout::aligned, 1);
    rows<float> out(layer.targets() + random_layer::spare, 128, layout::aligned);
    simt::traffic_counter counter;
    cuda::aggregate<float>(
        nullptr, cuda::incoming(layer.device()), edge_weight::one, in.view(), out.view(), row_path::copies);
    const double sectors = static_cast<double>(counter.loads().sectors);
    CHECK(sectors >= 16 * edges);
    CHECK(sectors <= 16 * edges + lists);
    CHECK(counter.stores().sectors == 16 * layer.targets());
}
#endif

} // namespace test_simt_model_device_aggregate_copies
