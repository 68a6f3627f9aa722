#include <gneiss/model/layer/edge_operations.hpp>

#include "../gnn.hpp"

#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace test_model_layer_edge_operations {

using namespace gneiss;

TEST_CASE("every edge is visited once with its ends, in the order of its target or of its source") {
    const gnn::sample views({300, 200}, true, 3);
    const layer_view& v = views[0];
    struct ends {
        std::size_t source = 0, target = 0, visits = 0;
    };
    for (const bool by_source : {false, true}) {
        std::vector<ends> seen(v.edges());
        std::vector<std::size_t> before(by_source ? v.sources : v.targets, 0); // the last edge + 1 of each end
        const auto visit = [&, count = std::size_t{0}](std::size_t e, std::size_t s, std::size_t t) mutable {
            CHECK(++count <= seen.size()); // edges of the task
            seen[e] = {s, t, seen[e].visits + 1};
            std::size_t& last = before[by_source ? s : t];
            CHECK(last <= e);
            last = e + 1;
        };
        if (by_source)
            apply_edges_by_source(v, tbb_executor(3), visit);
        else
            apply_edges(v, tbb_executor(3), visit);
        for (std::size_t e = 0; e < v.edges(); ++e) {
            CHECK(seen[e].visits == 1);
            CHECK(seen[e].source == v.neighbors[e]);
            CHECK(seen[e].target == v.edge_target[e]);
        }
    }
}

TEST_CASE("push is the transpose of pull: <pull(x), g> = <x, push(g)>") {
    const gnn::sample views({30, 20}, false, 5);
    const layer_view& v = views[0];
    const gnn::naive_backend by;
    const serial_executor executor;
    for (const message_reduction reduce : {message_reduction::sum, message_reduction::mean, message_reduction::max}) {
        const gnn::matrix<> x(30, 4, 1);
        gnn::matrix<> out(20, 4), g(20, 4, 2), back(30, 4);
        const gnn::matrix<> same(20, 4, 2); // g is consumed
        gnn::matrix<std::uint32_t> winners(20, 4);
        pull(by, v, reduce, x.view, out.view, winners.view, executor);
        push(by, v, reduce, g.view, winners.view, back.view, executor);
        double forward = 0, backward = 0;
        for (std::size_t i = 0; i < 80; ++i) forward += out.memory[i] * same.memory[i];
        for (std::size_t i = 0; i < 120; ++i) backward += x.memory[i] * back.memory[i];
        CHECK(forward == doctest::Approx(backward).epsilon(1e-12));
        CHECK(forward != 0);
    }
}

} // namespace test_model_layer_edge_operations
