// Covers programs/kit/report/statistics.hpp.
#include "kit/report/statistics.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace test_cli_common_statistics {

TEST_CASE("Student's t has the values of published tables") {
    for (const auto& [freedom, t] : {std::pair(1U, 12.7062), std::pair(2U, 4.30265), std::pair(4U, 2.77645),
             std::pair(9U, 2.26216), std::pair(30U, 2.04227), std::pair(120U, 1.97993)})
        CHECK(programs::student_t(freedom) == doctest::Approx(t).epsilon(1e-5));
    CHECK(programs::student_t(9, .99) == doctest::Approx(3.24984).epsilon(1e-5));
    CHECK(programs::student_t(100000) == doctest::Approx(1.95998).epsilon(1e-4)); // the normal distribution
}

TEST_CASE("an interval contains the mean, and is undefined for a single value") {
    CHECK(programs::estimate_mean({}).count == 0);
    const std::vector<double> one{3}, same{2, 2, 2}, some{1, 2, 3, 4};
    CHECK(programs::estimate_mean(one).mean == 3);
    CHECK_FALSE(programs::estimate_mean(one).half.has_value());
    CHECK(programs::estimate_mean(same).half == 0);
    const programs::estimate result = programs::estimate_mean(some);
    CHECK(result.mean == doctest::Approx(2.5));
    CHECK(programs::to_text(result) == "2.5000 ± 2.0543");
    CHECK(programs::to_text(programs::estimate_mean(one), true) == "+3.0000");
    CHECK(programs::to_text({}).empty());
    CHECK(result.half.value() == doctest::Approx(3.18245 * std::sqrt(5.0 / 3 / 4)).epsilon(1e-5)); // t(3) · s/√n
}

} // namespace test_cli_common_statistics
