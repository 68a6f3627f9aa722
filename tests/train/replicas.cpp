#include <gneiss/train/sum_of_replicas.hpp>

#include <doctest/doctest.h>

#include "graph_harness.hpp"
#include "support/error_code.hpp"

#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

namespace test_train_replicas {

using namespace graph_harness;

namespace {

/// Keeps the gradients of each batch in one list.
struct recorder {
    std::vector<std::vector<float>>* batches;
    sum_of_replicas sum{};

    void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& stop) {
        auto& all = batches->emplace_back();
        for (const std::span<float> part : gradients) all.insert(all.end(), part.begin(), part.end());
        sum.reduce(gradients, turn, stop);
    }
};

set_up of_one_state(bool links) {
    set_up with;
    with.links = links;
    with.optimizer = "sgd";
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    with.epochs = 1;
    with.rate = .05F;
    with.dense_rate = .03F;
    if (!links) with.features = test::feature_form{};
    return with;
}

/// Checks after − before = −rate · gradient.
void check_step(
    std::span<const float> before, std::span<const float> after, std::span<const float> gradient, float rate) {
    REQUIRE(before.size() == after.size());
    REQUIRE(before.size() == gradient.size());
    for (std::size_t i = 0; i < before.size(); ++i)
        CHECK(after[i] == doctest::Approx(before[i] - rate * gradient[i]).epsilon(1e-5));
}

} // namespace

TEST_CASE("replicas take one step by the sum of their gradients: weights, and relations that any of them used") {
    for (const bool links : {false, true}) {
        CAPTURE(links);
        const graph_data data = links ? graph_data::random(60, 2, 5, 200, 3) : graph_data::planted(300, 2);
        set_up with = of_one_state(links);
        std::vector<std::vector<float>> batches;
        with.training.replicas = {.count = 64, .reducer = any_reducer(std::in_place_type<recorder>, &batches)};
        const outcome after = train(data, with);
        set_up nothing = with;
        nothing.epochs = 0;
        const outcome before = train(data, nothing);
        REQUIRE(batches.size() > 1);
        std::vector<float> sum(batches.front().size());
        for (const auto& each : batches)
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += each[i];
        const std::size_t weights = before.weights.size();
        check_step(before.weights, after.weights, std::span(sum).first(weights), with.dense_rate);
        if (!links) continue;
        check_step(before.relations, after.relations, std::span(sum).subspan(weights), with.rate);
        CHECK(after.relations != before.relations);
    }
}

TEST_CASE("a step of one replica by shared gradients is that of a trainer without replicas") {
    for (const bool links : {false, true}) {
        CAPTURE(links);
        const graph_data data = links ? graph_data::random(60, 2, 5, 200, 3) : graph_data::planted(300, 2);
        set_up with = of_one_state(links);
        with.training.batch = 1000; // one batch, and one of the two replicas has none
        const outcome alone = train(data, with);
        with.training.replicas.count = 2;
        const outcome first = train(data, with);
        CHECK(first.weights == alone.weights);
        CHECK(first.relations == alone.relations);
        CHECK(first.rows == alone.rows);
    }
}

TEST_CASE("a replica of several needs a reducer") {
    const graph_data data = graph_data::planted(300, 2);
    set_up with = of_one_state(false);
    with.training.replicas = {.count = 2, .only = 1};
    CHECK(test::code_of([&] { (void)train(data, with); }) == errc::invalid_argument);
}

} // namespace test_train_replicas
