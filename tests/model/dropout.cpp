#include <gneiss/model/dropout.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace test_model_dropout {

using namespace gneiss;

TEST_CASE("each element is dropped at the rate, independently of others, and the mean is kept") {
    constexpr std::size_t rows = 2000, columns = 30;
    for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
        const dropout_mask mask(random_key{3, random_domain::dropout}, rate, {});
        std::vector<std::vector<double>> kept(rows, std::vector<double>(columns));
        double sum = 0, all = 0, both = 0;
        const std::vector<double> ones(columns, 1);
        for (std::size_t i = 0; i < rows; ++i) {
            std::vector<double> out(columns);
            mask.apply(i, ones.data(), out.data(), columns);
            for (std::size_t c = 0; c < columns; ++c) {
                sum += out[c];
                kept[i][c] = out[c] != 0;
                all += kept[i][c];
                CHECK(out[c] == mask.scale_of<double>(i, c));
                if (c > 0) both += kept[i][c] * kept[i][c - 1];
            }
        }
        const double n = rows * columns, keep = 1 - rate, sigma = std::sqrt(n * keep * rate);
        CHECK(std::abs(all - n * keep) <= 5 * sigma + 1e-4 * n);
        CHECK(std::abs(sum / n - 1) < 0.05);
        const double pairs = rows * (columns - 1);
        CHECK(std::abs(both - pairs * keep * keep) <= 6 * std::sqrt(pairs) * 0.5 + 1e-4 * pairs);
    }
}

TEST_CASE("rows are identified by name, ids or numbers, and rates that drop everything are refused") {
    const std::vector<node_id> ids{5, 2, 9};
    const logical_rows by_id{ids}, by_number{{}, 10};
    CHECK(by_id[1] == 2);
    CHECK(by_id.middle(1, 2)[1] == 9);
    CHECK(by_number.middle(3, 2)[1] == 14);
    CHECK(by_id[3] > 0xffffffffU);
    for (const double rate : {-0.1, 1.0, std::nan("")})
        CHECK_THROWS_AS(dropout_mask(random_key{3, random_domain::dropout}, rate, {}), error);
}

} // namespace test_model_dropout
