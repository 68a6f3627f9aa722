#include <gneiss/cache/miss_ratio_sampler.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>

namespace test_cache_miss_ratio_sampler {

namespace {

/// Batches that request low numbers more often, at rows spread over the whole range.
std::vector<std::vector<gneiss::node_id>> skewed_batches(std::uint64_t rows, std::size_t batches, std::size_t size) {
    gneiss::random_stream draw(gneiss::random_key{11, gneiss::random_domain::generate});
    const gneiss::keyed_permutation place(rows, gneiss::random_key{12, gneiss::random_domain::generate});
    std::vector<std::vector<gneiss::node_id>> result(batches);
    for (auto& batch : result) {
        for (std::size_t i = 0; i < size; ++i) {
            const double x = static_cast<double>(draw.below(1U << 30)) / static_cast<double>(1U << 30);
            batch.push_back(
                static_cast<gneiss::node_id>(place(static_cast<std::uint64_t>(x * x * x * static_cast<double>(rows)))));
        }
        std::ranges::sort(batch);
        batch.erase(std::ranges::unique(batch).begin(), batch.end());
    }
    return result;
}

/// Miss ratio of caches that are filled by every second batch and serve the others.
double by_hand(const std::vector<std::vector<gneiss::node_id>>& batches, std::uint64_t rows, std::size_t capacity) {
    double hits = 0, requests = 0;
    for (const std::size_t ranking : {0U, 1U}) {
        std::vector<std::pair<std::uint32_t, std::uint32_t>> counts(
            static_cast<std::size_t>(rows)); // ranking, then requests
        for (std::size_t k = 0; k < batches.size(); ++k)
            for (const gneiss::node_id v : batches[k]) ++(k % 2 == ranking ? counts[v].first : counts[v].second);
        std::ranges::stable_sort(counts, std::greater{}, &std::pair<std::uint32_t, std::uint32_t>::first);
        for (std::size_t i = 0; i < counts.size(); ++i) {
            requests += counts[i].second;
            if (i < capacity) hits += counts[i].second;
        }
    }
    return 1 - hits / requests;
}

} // namespace

TEST_CASE(
    "the predicted miss ratio of any cache size equals the measured one of a cache filled by every second batch") {
    constexpr std::uint64_t rows = 6000;
    const auto batches = skewed_batches(rows, 60, 900);
    gneiss::miss_ratio_sampler every(rows), some(rows, 1500);
    for (const auto& batch : batches) every.add(batch), some.add(batch);
    CHECK(every.batches() == batches.size());
    for (const std::size_t capacity : {60U, 600U, 2000U, 4500U}) {
        CAPTURE(capacity);
        const double truth = by_hand(batches, rows, capacity);
        CHECK(every.miss_ratio(capacity) == doctest::Approx(truth).epsilon(.02));
        CHECK(std::abs(some.miss_ratio(capacity) - truth) < .06);
    }
    CHECK(every.miss_ratio(0) == 1);
    CHECK(every.miss_ratio(rows) == doctest::Approx(0));
    CHECK(some.miss_ratio(rows) == doctest::Approx(0));
}

TEST_CASE("uniform requests miss as often as rows are not held; no requests, no misses") {
    gneiss::miss_ratio_sampler none(100), one(7, 3), even(1000);
    CHECK(none.miss_ratio(50) == 1);
    const std::vector<gneiss::node_id> all{0, 1, 2, 3, 4, 5, 6};
    one.add(all);
    CHECK(one.miss_ratio(7) == doctest::Approx(0));
    std::vector<gneiss::node_id> rows(1000);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<gneiss::node_id>(i);
    for (int k = 0; k < 4; ++k) even.add(rows);
    CHECK(even.miss_ratio(250) == doctest::Approx(.75));
}

} // namespace test_cache_miss_ratio_sampler
