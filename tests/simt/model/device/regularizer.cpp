#include <gneiss/cuda/model/device/regularizer.cuh>

#include <simt/model/support.hpp>

namespace test_simt_model_device_regularizer {

using namespace simt_model;

TEST_CASE("simt.model.regularizer: penalties of rows and their gradients equal those of the CPU") {
    for (const layout options : {layout::aligned, layout::odd})
        for (const auto& [penalty, complex_rows] : {std::pair{norm_penalty::none, false}, {norm_penalty::l2, true},
                 {norm_penalty::n3, false}, {norm_penalty::n3, true}})
            for (const std::size_t dim : {2U, 66U}) {
                constexpr std::uint32_t count = 9, spare = 4;
                const rows<float> x(count, dim, options, 1), before(count + spare, dim, options, 2),
                    factors(1, count, layout::aligned, 3);
                const regularizer by{penalty, 0.3};
                doubles want(before);
                double want_total = 2;
                for (std::size_t i = 0; i < count; ++i)
                    want_total +=
                        by.add_gradient<double>(doubles(x).view[i], complex_rows, factors(0, i), want.view[i]);
                doubles sizes(count, dim);
                std::ranges::fill(sizes.memory, 2.0);
                simt::for_each_seed(2, [&] {
                    rows<float> gradient = before;
                    std::vector<float> penalties(count + spare);
                    double total = 2;
                    cuda::add_penalty<float>(nullptr, &count, count + spare, by, complex_rows, factors.begin(),
                        x.view(), gradient.view(), penalties.data(), &total);
                    check_rows<float>("gradient", gradient, count, want.view, sizes.view, 1e-6, &before);
                    CHECK(std::abs(total - want_total) <= 1e-5 * (1 + std::abs(want_total)));
                });
            }
}

} // namespace test_simt_model_device_regularizer
