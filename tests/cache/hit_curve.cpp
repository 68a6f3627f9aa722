#include <gneiss/cache/hit_curve.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gneiss/core/random.hpp>

namespace test_cache_hit_curve {

TEST_CASE("the curve of scores that are powers of two equals that of the sorted entries") {
    struct entry {
        double score;
        std::uint64_t bytes, requests;
    };
    gneiss::random_stream draw(gneiss::random_key{7, gneiss::random_domain::generate});
    std::vector<entry> entries;
    for (int i = 0; i < 200; ++i) {
        const auto level = draw.below(6);
        entries.push_back({static_cast<double>(std::uint64_t{64} << level), 64, draw.below(3) + level * 5});
    }
    gneiss::hit_curve curve;
    std::uint64_t requests = 0;
    for (const entry& e : entries) curve.add(e.score, e.bytes, e.requests), requests += e.requests;
    CHECK(curve.requests() == requests);
    std::ranges::stable_sort(entries, std::greater{}, &entry::score);
    // Sums are exact between levels, where a class is whole.
    std::uint64_t bytes = 0, answered = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        bytes += entries[i].bytes;
        answered += entries[i].requests;
        if (i + 1 == entries.size() || entries[i + 1].score != entries[i].score)
            CHECK(curve.answered(bytes) == doctest::Approx(static_cast<double>(answered)));
    }
    CHECK(curve.answered(0) == 0);
    CHECK(curve.answered(~std::uint64_t{0}) == doctest::Approx(static_cast<double>(requests)));
}

TEST_CASE("entries without a score are requested and never hit") {
    gneiss::hit_curve curve;
    curve.add(0, 8, 10);
    CHECK(curve.requests() == 10);
    CHECK(curve.answered(1000) == 0);
}

TEST_CASE("the best split is the best of all splits tried") {
    gneiss::hit_curve rows, lists;
    for (int i = 0; i < 100; ++i) rows.add(8 * (i + 1), 1024, static_cast<std::uint64_t>(i));
    for (int i = 0; i < 100; ++i) lists.add(8 * (i + 1), 256, static_cast<std::uint64_t>(i) / 2);
    const std::uint64_t bytes = 64 * 1024;
    const double split = gneiss::best_split(lists, rows, bytes);
    const auto both = [&](double share) {
        const auto first = static_cast<std::uint64_t>(share * static_cast<double>(bytes));
        return lists.answered(first) + rows.answered(bytes - first);
    };
    for (int i = 0; i <= 64; ++i) CHECK(both(split) >= both(i / 64.0) * (1 - 1e-6));
    CHECK(split > 0);
    CHECK(split < 1);
    CHECK(gneiss::best_split({}, rows, bytes) == 0); // no gain: rows get all
    CHECK(gneiss::best_split(lists, {}, 256 * 100) > .9);
}

} // namespace test_cache_hit_curve
