#include <gneiss/cuda/model/device/linear_resident.cuh>

#include <simt/model/support.hpp>

namespace test_simt_model_device_linear_resident {

using namespace simt_model;

namespace {

/// Compares with `linear` of the same rows; both are float sums rounded once at the end.
void check(
    std::uint32_t count, std::uint32_t k, std::uint32_t n, layout options, std::uint32_t first, cuda::epilogue then) {
    CAPTURE(k);
    CAPTURE(n);
    const rows<bfloat16> x(first + count + 3, k, options, 1);
    const rows<float> w(k, n, options, 2);
    std::vector<float> bias(n);
    for (std::uint32_t c = 0; c < n; ++c) bias[c] = static_cast<float>(c % 7) / 8 - .3F;
    then.bias = bias.data();
    const cuda::row_range range{&count, count + 3, &first};
    rows<bfloat16> want(count + 3, n, options);
    cuda::linear<bfloat16>(nullptr, range, x.view(), w.view(), want.view(), then);
    doubles sizes(count, n);
    std::ranges::fill(sizes.memory, static_cast<double>(k));
    simt::for_each_seed(2, [&] {
        rows<bfloat16> out(count + 3, n, options);
        cuda::linear_resident(nullptr, range, x.view(), w.view(), out.view(), 1, then);
        check_rows<bfloat16>("linear", out, count, doubles(std::as_const(want)).view, sizes.view, 1e-6);
    });
}

} // namespace

TEST_CASE("simt.model.linear_resident: descriptors and bricks equal those computed by hand from the PTX ISA") {
    using cuda::detail::brick_place, cuda::detail::wgmma_descriptor;
    // shared address 0x400 = 64 · 16, 1024 bytes = 64 · 16 along the depth, 128 = 8 · 16 along the rows
    CHECK(wgmma_descriptor(0x400, 1024, 128) == 0x0000'0008'0040'0040U);
    CHECK(wgmma_descriptor(0x38a00, 4096, 128) == 0x0000'0008'0100'38a0U);
    CHECK(brick_place(64, 0, 0) == 0);
    CHECK(brick_place(64, 1, 0) == 8);        // a row of a brick is 16 bytes
    CHECK(brick_place(64, 8, 0) == 64);       // the next brick of rows: 128 bytes
    CHECK(brick_place(64, 0, 8) == 512);      // the next of the depth: 64 rows · 16 bytes = 1024
    CHECK(brick_place(256, 255, 15) == 4095); // the last of a [256, 16] operand
}

TEST_CASE("simt.model.linear_resident: products equal those of tiles") {
    check(130, 33, 65, layout::aligned, 4, {});
    check(7, 16, 64, layout::aligned, 0, {.then = activation::relu});
    check(70, 50, 200, layout::odd, 1, {.then = activation::tanh});
    check(5, 3, 1, layout::odd, 0, {});
    check(0, 8, 8, layout::aligned, 0, {});
}

TEST_CASE("simt.model.linear_resident: shapes and devices that cannot keep the weights resident use tiles") {
    using cuda::linear_path, cuda::linear_path_of;
    CHECK(linear_path_of<bfloat16>(256, 256, 9, 227 << 10) == linear_path::resident);
    CHECK(linear_path_of<bfloat16>(100, 48, 9, 227 << 10) == linear_path::resident);
    CHECK(linear_path_of<bfloat16>(512, 256, 9, 227 << 10) == linear_path::tiles);
    CHECK(linear_path_of<bfloat16>(64, 257, 9, 227 << 10) == linear_path::tiles);
    CHECK(linear_path_of<bfloat16>(100, 48, 8, 160 << 10) == linear_path::tiles);
    CHECK(linear_path_of<bfloat16>(100, 48, 10, 227 << 10) == linear_path::tiles);
    CHECK(linear_path_of<float>(100, 48, 9, 227 << 10) == linear_path::tiles);
}

} // namespace test_simt_model_device_linear_resident
