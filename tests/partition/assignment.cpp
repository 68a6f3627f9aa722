#include <gneiss/partition/assignment.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/symmetric.hpp>

namespace test_partition_assignment {

using namespace gneiss;

TEST_CASE("the cap of a part is its share times the imbalance, at least the share rounded up, at most everything") {
    CHECK(max_weight(0, 4, .03) == 0);
    CHECK(max_weight(10, 4, 0) == 3);
    CHECK(max_weight(10, 4, .03) == 3);
    CHECK(max_weight(1000, 4, .03) == 257);
    CHECK(max_weight(3, 8, .03) == 1);
    CHECK(max_weight(1000, 4, 10) == 1000);
    CHECK(max_weight(1000, 4, std::numeric_limits<double>::infinity()) == 1000);
    CHECK(max_weight(std::uint64_t{1} << 40, 1, .03) == std::uint64_t{1} << 40);
}

TEST_CASE("labels are counted with the unlabeled ones last, and capped like weights") {
    CHECK(label_counts({}) == std::vector<std::uint64_t>{0});
    const std::vector<class_id> labels{unlabeled, 2, 0, unlabeled, 2, 2};
    const auto counts = label_counts(labels);
    CHECK(counts == std::vector<std::uint64_t>{1, 0, 3, 2});
    CHECK(label_caps(counts, 2, 0) == counts);
    CHECK(label_caps(counts, 2, 1.05) == std::vector<std::uint64_t>{1, 0, 2, 1});
}

TEST_CASE("impossible requests are refused by the name of their field") {
    const std::vector<class_id> labels(3);
    const auto field = [&](partition_request request) {
        try {
            check_request(request, 4);
        } catch (const error& e) {
            CHECK(e.code() == errc::invalid_argument);
            return e.place().field;
        }
        return std::string();
    };
    CHECK(field({}).empty());
    CHECK(field({.parts = max_partition_count}).empty());
    CHECK(field({.parts = 0}) == "parts");
    CHECK(field({.parts = max_partition_count + 1}) == "parts");
    CHECK(field({.imbalance = -.1}) == "imbalance");
    CHECK(field({.imbalance = std::numeric_limits<double>::quiet_NaN()}) == "imbalance");
    CHECK(field({.label_cap = .5}) == "label_cap");
    CHECK(field({.labels = labels}) == "labels");
}

TEST_CASE("sizes and weights count assigned nodes; an assignment is checked for its length and its parts") {
    edge_list<> edges(4, {{0, 0, 1}, {0, 0, 2}, {0, 0, 2}});
    const symmetric_csr graph = make_symmetric_csr(edges);
    symmetric_stream stream(graph, 3);
    const std::vector<partition_id16> parts{1, 0, no_partition, 1};
    CHECK(part_sizes(parts, 3) == std::vector<std::uint64_t>{1, 2, 0});
    CHECK(part_weights(stream, parts, 3, balance_by::nodes) == std::vector<std::uint64_t>{1, 2, 0});
    CHECK(part_weights(stream, parts, 3, balance_by::edges) == std::vector<std::uint64_t>{2, 5, 0});
    CHECK(total_weight(balance_by::edges, graph.nodes(), graph.arcs()) == 10);
    CHECK_THROWS_AS(check_assignment(parts, 2, 4), error);
    CHECK_NOTHROW(check_assignment(std::vector<partition_id16>{1, 0}, 2, 2));
    CHECK_THROWS_AS(check_assignment(std::vector<partition_id16>{1, 0}, 2, 3), error);
    CHECK_THROWS_AS(check_assignment(std::vector<partition_id16>{1, 2}, 2, 2), error);
}

} // namespace test_partition_assignment
