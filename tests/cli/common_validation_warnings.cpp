#include "kit/report/validation_warnings.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace test_cli_common_validation_warnings {

using namespace programs;

namespace {

/// Returns epochs with these validations; a loss that falls from 1 by `step` in each.
std::vector<epoch_record> run_of(const std::vector<double>& valid, double step, const std::string& metric = "mrr") {
    std::vector<epoch_record> epochs;
    for (std::size_t e = 0; e < valid.size(); ++e) {
        epoch_record epoch;
        epoch.epoch = e + 1;
        epoch.loss = 1 - step * static_cast<double>(e);
        epoch.valid = {{metric, valid[e]}};
        epochs.push_back(epoch);
    }
    return epochs;
}
const validated_run links{.measure = "MRR", .epochs = 9, .examples = 5000, .largest_class = 0, .stops_early = false};
bool names(const std::vector<std::string>& warnings, const std::string& word) {
    return warnings.size() == 1 && warnings.front().find(word) != std::string::npos;
}

} // namespace

TEST_CASE("a validation that fell for a third of the run is a warning with its epochs, and one within noise is none") {
    const std::vector<double> falls{.1, .2, .25, .24, .22, .2, .19, .18, .16};
    const auto warnings = validation_warnings(run_of(falls, .05), {}, links);
    CHECK(names(warnings, "was 0.2500 after epoch 3 and is 0.1600 after epoch 9"));
    validated_run few = links;
    few.examples = 20; // the difference is within two standard errors
    few.stops_early = true;
    CHECK(validation_warnings(run_of(falls, .05), {}, few).empty());
    CHECK(validation_warnings(run_of({.1, .2, .22, .24, .25, .26, .26, .265, .26}, .05), {}, links).empty());
    CHECK(validation_warnings(run_of({.3, .2, .1}, .05), {}, links).empty()); // too few for a trend
}

TEST_CASE("a run that overfits is advised of the flags that it takes") {
    const std::vector<epoch_record> falls = run_of({.1, .2, .25, .24, .22, .2, .19, .18, .16}, .05);
    const auto advice = [&](const nlohmann::ordered_json& config, bool stops_early) {
        validated_run of = links;
        of.stops_early = stops_early;
        of.mends = flags_against_overfitting(config);
        const auto warnings = validation_warnings(falls, {}, of);
        REQUIRE(warnings.size() == 1);
        return warnings.front().substr(warnings.front().find("; ") + 2);
    };
    CHECK(advice({{"lr", .1}}, false) == "fewer --epochs or --early-stop N end it sooner");
    CHECK(advice({{"dropout", .5}, {"weight-decay", 0}, {"regularizer", nullptr}}, true) ==
        "fewer --epochs or a lower --early-stop end it sooner, --dropout or --weight-decay may mend it");
    CHECK(advice({{"dropout", .5}, {"weight-decay", 0}, {"regularizer", "none"}}, true) ==
        "fewer --epochs or a lower --early-stop end it sooner, --dropout, --weight-decay or --regularizer may mend it");
    CHECK(advice({{"regularizer", "n3"}, {"regularizer-weight", .05}}, true) ==
        "fewer --epochs or a lower --early-stop end it sooner, --regularizer-weight may mend it");
}

TEST_CASE("a loss that falls while the validation stands still is a warning, unless a patience ends the run") {
    const std::vector<double> still{.2, .25, .25, .249, .25, .25, .249, .25, .25};
    CHECK(names(validation_warnings(run_of(still, .05), {}, links), "is no better than after epoch 2"));
    CHECK(validation_warnings(run_of(still, 0), {}, links).empty()); // the loss stands still, too
    validated_run patient = links;
    patient.stops_early = true;
    CHECK(validation_warnings(run_of(still, .05), {}, patient).empty());
}

TEST_CASE("an accuracy that stays at the share of the largest class is a warning") {
    const validated_run classes{
        .measure = "accuracy", .epochs = 6, .examples = 1000, .largest_class = .79, .stops_early = true};
    CHECK(names(validation_warnings(run_of({.79, .79, .788, .79, .79, .792}, .01, "accuracy"), {}, classes),
        "the share of the largest class"));
    CHECK(validation_warnings(run_of({.79, .79, .8, .81, .82, .82}, .01, "accuracy"), {}, classes).empty());
}

TEST_CASE("errors are better the smaller they are, and numbers beyond 1 have noise of their own size") {
    validated_run numbers = links;
    numbers.measure = "mse";
    CHECK(names(validation_warnings(run_of({30, 20, 15, 16, 18, 20, 22, 24, 26}, .05, "mse"), {}, numbers),
        "was 15.0000 after epoch 3"));
    CHECK(validation_warnings(run_of({30, 20, 15, 14, 13, 12, 12, 11, 11}, .05, "mse"), {}, numbers).empty());
}

} // namespace test_cli_common_validation_warnings
