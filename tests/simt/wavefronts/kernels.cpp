#include <simt/wavefronts/counter.hpp>

#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/linear.cuh>
#include <gneiss/cuda/model/device/link_model.cuh>
#include <gneiss/cuda/model/device/link_tiles.cuh>
#include <gneiss/model/decoder/dot.hpp>

#include <doctest/doctest.h>
#include <simt/model/support.hpp>
#include <simt/support.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace test_simt_wavefronts {

using namespace simt_model;

namespace {

/// Lane i writes, then reads, word i · stride of shared memory; all read word `one`.
__global__ void strided_words(float* out, unsigned stride, unsigned one) {
    __shared__ float words[32 * 33];
    words[threadIdx.x * stride] = static_cast<float>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x * stride] + words[one];
}
/// The same with 16 bytes, in dynamic memory.
__global__ void strided_fours(const float4* in, float4* out, unsigned stride) {
    auto* const fours = gneiss::cuda::dynamic_shared<float4>();
    fours[threadIdx.x * stride] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = fours[threadIdx.x * stride];
}

/// Returns the loads and stores that a launch makes.
template <class Launch>
std::pair<simt::wavefronts, simt::wavefronts> counted(const std::string& name, const Launch& launch) {
    simt::wavefront_counter of;
    launch();
    const simt::wavefronts loads = of.loads(), stores = of.stores();
    MESSAGE(name, ": ", loads.accesses, " loads, wavefronts over the least ", loads.conflicts(), "; ", stores.accesses,
        " stores, ", stores.conflicts());
    return {loads, stores};
}

} // namespace

TEST_CASE("simt.wavefronts: a bank serves a word at a time; one word is served to all lanes") {
    std::vector<float> out(32);
    for (const auto& [stride, taken] : {std::pair{1U, 1U}, {2U, 2U}, {4U, 4U}, {32U, 32U}, {33U, 1U}, {0U, 1U}}) {
        CAPTURE(stride);
        simt::for_each_seed(3, [&] {
            simt::wavefront_counter count;
            gneiss::cuda::launch(nullptr, strided_words, dim3(1), dim3(32), 0, out.data(), stride, 0U);
            CHECK(count.stores().accesses == 1);
            CHECK(count.stores().taken == taken);
            CHECK(count.loads().accesses == 2);
            CHECK(count.loads().taken == taken + 1);
            CHECK(count.loads().least == 2);
        });
    }
}

TEST_CASE("simt.wavefronts: accesses of 16 bytes are served by quarters of a warp") {
    const std::vector<float4> in(32);
    std::vector<float4> out(32);
    for (const auto& [stride, taken] : {std::pair{1U, 4U}, {2U, 8U}, {8U, 32U}, {9U, 4U}}) {
        CAPTURE(stride);
        simt::wavefront_counter count;
        gneiss::cuda::launch(nullptr, strided_fours, dim3(1), dim3(32), std::size_t{32} * stride * sizeof(float4),
            in.data(), out.data(), stride);
        CHECK(count.loads().taken == taken);
        CHECK(count.stores().taken == taken);
        CHECK(count.loads().least == 4);
    }
}

// Rows of tiles start in different banks, so that loads have no conflict. A thread stores four adjacent values one by
// one, in which lanes meet. docs/results/cuda.md has the figures.
TEST_CASE_TEMPLATE("simt.wavefronts: products load their tiles without conflicts", T, float, bfloat16) {
    constexpr std::uint32_t count = 128;
    constexpr bool wide = std::is_same_v<T, float>;
    const rows<T> x(count, 64, layout::aligned, 1), g(count, 64, layout::aligned, 2);
    const rows<float> w(64, 64, layout::aligned, 3);
    const cuda::row_range range{&count, count, nullptr};
    rows<T> out(count, 64, layout::aligned);
    rows<float> grad(64, 64, layout::aligned);
    std::vector<float> scratch(cuda::partial_slices(count).floats(64 * 64));
    const auto check = [](const auto& of, double stores) {
        CHECK(of.first.accesses > 0);
        CHECK(of.first.taken == of.first.least);
        CHECK(of.second.conflicts() <= stores + .01);
    };
    check(counted("linear", [&] { cuda::linear<T>(nullptr, range, x.view(), w.view(), out.view(), {}); }),
        wide ? 16. / 3 : 14. / 3);
    check(counted("gradient of inputs",
              [&] { cuda::linear_input_gradient<T>(nullptr, range, g.view(), w.view(), out.view(), false); }),
        wide ? 4 : 3);
    check(
        counted("gradient of weights",
            [&] { cuda::linear_weight_gradient<T>(nullptr, range, x.view(), g.view(), grad.view(), scratch.data()); }),
        40. / 3);
}

TEST_CASE_TEMPLATE("simt.wavefronts: tiles of link losses load with few conflicts", T, float, bfloat16) {
    constexpr std::uint32_t queries = 128, negatives = 192;
    constexpr std::size_t dim = 64;
    const rows<T> nodes(negatives, dim, layout::aligned, 1);
    const rows<float> relations(1, dim, layout::aligned, 2);
    std::vector<std::uint32_t> ids(negatives), known(queries), answers(queries);
    for (std::uint32_t i = 0; i < negatives; ++i) ids[i] = i;
    for (std::uint32_t i = 0; i < queries; ++i) known[i] = i, answers[i] = i + 1;
    const cuda::link_list list{.count = queries};
    const cuda::query_batch batch{
        .lists = &list, .capacity = queries, .known = known.data(), .answers = answers.data(), .negatives = &negatives};
    rows<float> known_out(queries, dim, layout::aligned), answers_out(queries, dim, layout::aligned),
        relations_out(queries, dim, layout::aligned), negatives_out(negatives, dim, layout::aligned),
        query_gradients(queries, dim, layout::aligned);
    rows<T> query_rows(queries, dim, layout::aligned);
    std::vector<cuda::query_outcome> outcomes(queries);
    std::vector<cuda::detail::scored_query> met(queries);
    const auto [loads, stores] = counted("softmax of dot products", [&] {
        cuda::link_by_tiles<dot_decoder, T>(nullptr, batch, {.ids = ids.data(), .capacity = negatives},
            cuda::link_loss::softmax, 0, nodes.view(), relations.view(),
            {query_rows.view(), query_gradients.view(), met.data()},
            {{known_out.view(), answers_out.view(), relations_out.view()}, negatives_out.view(), outcomes.data()});
    });
    CHECK(loads.accesses > 0);
    CHECK(loads.conflicts() <= 1.11);
    CHECK(stores.conflicts() <= 2.54);
}

} // namespace test_simt_wavefronts
