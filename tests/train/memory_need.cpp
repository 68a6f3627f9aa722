#include <gneiss/core/memory_budget.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/sum_of_replicas.hpp>

#include "graph_harness.hpp"

namespace test_train_memory_need {

using namespace graph_harness;

TEST_CASE("a trainer of GNNs charges what samplers, encoder and loop state, and what replicas share") {
    const graph_data data = graph_data::planted(300, 2);
    set_up with;
    with.rows = false;
    with.features = test::feature_form{};
    with.order = "memory";
    with.training.pipeline.sample_workers = 3;
    for (const std::uint32_t replicas : {1U, 4U}) {
        CAPTURE(replicas);
        with.training.replicas.count = replicas;
        gnn_harness all(data, with);
        gnn_shape shape = state_sizes(data.store, &*all.features).of(2);
        shape.columns = all.encode->inputs();
        const gnn_memory bound = bound_gnn_memory(with.training, shape, all.encode->factories());
        const train_loop_options loop =
            train_loop_options{.pipeline = with.training.pipeline, .replicas = replicas}.charging(bound.batch, 0);
        std::vector<memory_need> expected{bound.samplers(3), bound.encoders(), loop.need()};
        const std::size_t gradients = all.weights.gradients().size();
        if (replicas > 1)
            expected.insert(
                expected.end(), {train_loop_options::shared_gradients(gradients), sum_of_replicas::need(gradients)});
        all.run([&](auto&, const auto&) {
            const std::vector<memory_need> charged = all.budget.parts();
            for (const memory_need& need : expected) {
                CAPTURE(need.name);
                CHECK(std::ranges::count(charged, need) == 1);
            }
            const auto shared = [](const memory_need& need) { return need.name.find("shared") != std::string::npos; };
            CHECK(std::ranges::any_of(charged, shared) == (replicas > 1));
        });
    }
}

} // namespace test_train_memory_need
