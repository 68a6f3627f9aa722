#include <gneiss/eval/classification.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

namespace test_eval_classification {

using namespace gneiss;

namespace {

/// Random scores of few values, so that some are equal, in blocks of a few rows.
struct score_table {
    std::vector<float> values;
    std::size_t classes, block;

    score_table(std::size_t nodes, std::size_t columns, std::size_t rows)
        : values(nodes * columns),
          classes(columns),
          block(rows) {
        const random_key key(nodes, random_domain::user);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(below(key[i], 5));
    }
    [[nodiscard]] std::uint64_t rows() const { return values.size() / classes; }
    [[nodiscard]] std::size_t dim() const { return classes; }
    void for_each_block(const row_block_visitor& visit) {
        for (std::size_t at = 0; at < rows(); at += block)
            visit(at, {values.data() + at * classes, std::min(block, static_cast<std::size_t>(rows()) - at), classes});
    }
};

} // namespace

TEST_CASE("nodes are classified as one by one, whatever the blocks and threads, and only labelled ones count") {
    const auto label_of = [](std::uint64_t node) {
        return node % 3 == 0 ? unlabelled : static_cast<class_id>(node % 7);
    };
    classification_metrics expected(7);
    const score_table all(5000, 7, 5000);
    std::vector<class_id> classes;
    for (std::size_t v = 0; v < 5000; ++v) {
        std::size_t best = 0;
        for (std::size_t c = 1; c < 7; ++c)
            if (all.values[v * 7 + c] > all.values[v * 7 + best]) best = c;
        classes.push_back(static_cast<class_id>(best));
        if (label_of(v) != unlabelled) expected.add(label_of(v), classes.back());
    }
    CHECK(expected.count() == 3333);
    const tbb_executor three(3);
    for (const std::size_t block : {1U, 77U, 2048U, 5000U}) {
        score_table table(5000, 7, block);
        std::vector<class_id> seen;
        CHECK(classify_nodes(table, label_of, serial_executor{}) == expected);
        CHECK(classify_nodes(table, label_of, three, [&](std::uint64_t node, class_id predicted) {
            CHECK(node == seen.size());
            seen.push_back(predicted);
        }) == expected);
        CHECK(seen == classes);
    }
}

TEST_CASE("a label that is no class is refused") {
    score_table table(10, 4, 10);
    CHECK_THROWS_AS((void)classify_nodes(
                        table, [](std::uint64_t) { return class_id{4}; }, serial_executor{}),
        error);
}

} // namespace test_eval_classification
