#include <gneiss/node_classification.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

namespace test_doors_node_classification {

using namespace gneiss;

namespace {

const std::filesystem::path fixtures = std::filesystem::path(GNEISS_TEST_DATA) / "56c2978";

struct trained {
    std::vector<double> losses;
    double accuracy = 0;
    friend bool operator==(const trained&, const trained&) = default;
};

trained train(const context_options& how, node_classifier_options options, std::uint64_t epochs = 5) {
    context run(how);
    const dataset data(fixtures / "node");
    options.layers = "sage:16,sage";
    options.fanout = "5,5";
    options.batch = 50;
    node_classifier training(run, data, options);
    trained result;
    for (const classification_epoch& epoch : training.epochs(epochs)) {
        CHECK(epoch.model.examples == data.manifest().node_attributes.train);
        result.losses.push_back(epoch.mean_loss());
    }
    result.accuracy = training.evaluate(node_split::test).accuracy();
    CHECK(training.evaluate(node_split::test).accuracy() == result.accuracy);
    return result;
}

} // namespace

TEST_CASE("classes are learned, in memory and a macro-batch at a time") {
    for (const std::uint32_t resident : {0U, 2U}) {
        const trained result = train({}, {.resident = resident}, 20);
        CHECK(result.losses.back() < result.losses.front());
        CHECK(result.accuracy > .3);
    }
}

TEST_CASE("a seed names the result, whatever the threads and however far batches are prepared ahead") {
    const trained expected = train({.threads = 1}, {.resident = 2});
    CHECK(train({.threads = 2}, {.resident = 2}) == expected);
    CHECK(train({.threads = 2}, {.resident = 2, .staleness = 0}) == expected);
    CHECK(train({.threads = 1, .seed = 2}, {.resident = 2}) != expected);
}

TEST_CASE("what does not fit ends in one error that names it") {
    context run;
    const dataset links(fixtures / "link"), nodes(fixtures / "node");
    CHECK_THROWS_WITH_AS(node_classifier(run, links), doctest::Contains("no node labels"), error);
    CHECK_THROWS_WITH_AS(node_classifier(run, nodes, {.layers = "sage:16,sage:1000"}), doctest::Contains("leave out the last width"), error);
    CHECK_THROWS_AS(node_classifier(run, nodes, {.fanout = "5"}), error);
    context small({.memory = 10'000});
    CHECK_THROWS_AS(node_classifier(small, nodes), over_budget);
}

} // namespace test_doors_node_classification
