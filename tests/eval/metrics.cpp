#include <gneiss/eval/metrics.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace test_eval_metrics {

using namespace gneiss;

namespace {

std::vector<rank_counts> random_ranks(std::size_t count) {
    random_stream draw(random_key{1, random_domain::user});
    std::vector<rank_counts> result(count);
    for (rank_counts& counts : result) counts = {draw.below(30), draw.below(3)};
    return result;
}

} // namespace

TEST_CASE("metrics are the means of their definitions") {
    const auto ranks = random_ranks(1000);
    rank_metrics metrics;
    double reciprocal = 0, rank = 0, hits[3] = {};
    for (const rank_counts& counts : ranks) {
        metrics.add(counts);
        const double r = 1 + static_cast<double>(counts.greater) + static_cast<double>(counts.ties) / 2;
        CHECK(counts.rank() == r);
        reciprocal += 1 / r;
        rank += r;
        hits[0] += r <= 1;
        hits[1] += r <= 3;
        hits[2] += r <= 10;
    }
    CHECK(metrics.count() == 1000);
    CHECK(metrics.mrr() == doctest::Approx(reciprocal / 1000).epsilon(1e-12));
    CHECK(metrics.mean_rank() == doctest::Approx(rank / 1000).epsilon(1e-12));
    CHECK(metrics.hits_at_1() == hits[0] / 1000);
    CHECK(metrics.hits_at_3() == hits[1] / 1000);
    CHECK(metrics.hits_at_10() == hits[2] / 1000);
}

TEST_CASE("any grouping and order of ranks gives the same bits of the metrics") {
    auto ranks = random_ranks(999);
    rank_metrics once;
    for (const rank_counts& counts : ranks) once.add(counts);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        shuffle(ranks, random_key{seed, random_domain::user});
        std::vector<rank_metrics> parts(1 + seed);
        for (std::size_t i = 0; i < ranks.size(); ++i) parts[i * i % parts.size()].add(ranks[i]);
        rank_metrics sum;
        for (const rank_metrics& part : parts) sum += part;
        CHECK(sum == once);
    }
}

TEST_CASE("the first place has a reciprocal rank of exactly one") {
    rank_metrics metrics;
    metrics.add({});
    metrics.add({});
    CHECK(metrics.mrr() == 1);
    CHECK(metrics.mean_rank() == 1);
    CHECK(metrics.hits_at_1() == 1);
}

TEST_CASE("both sides are merged by count") {
    link_metrics metrics;
    metrics.head.add({0, 0});
    metrics.tail.add({1, 0});
    metrics.tail.add({3, 0});
    CHECK(metrics.both().count() == 3);
    CHECK(metrics.both().mrr() == doctest::Approx((1 + 0.5 + 0.25) / 3));
}

} // namespace test_eval_metrics
