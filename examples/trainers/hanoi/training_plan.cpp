#include "training_plan.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <gneiss/order/macro_batches.hpp>
#include <gneiss/pipeline/graph_memory.hpp>
#include <gneiss/pipeline/graph_training.hpp>
#include <gneiss/storage/feature_buffer.hpp>

#include "common/machine.hpp"

namespace hanoi {

using trainers::training_plan;

gneiss::node_plan epoch_of(const options& how, const gneiss::dataset& data, std::uint64_t epoch) {
    return gneiss::macro_batches(data.manifest().partitions, how.pinned(data), *how.macro, how.seed, epoch);
}

gneiss::plan with_next(const options& how, const gneiss::dataset& data, std::uint64_t epoch) {
    gneiss::plan states = epoch_of(how, data, epoch).states;
    if (epoch + 1 < *how.epochs) states.push_back(epoch_of(how, data, epoch + 1).states.front());
    return states;
}

training_plan plan_training(
    options& how, const gneiss::dataset& data, const gneiss::node_features& features, const trainers::classifier& net) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const gneiss::bucket_store buckets = data.buckets();
    const auto store = std::make_shared<const gneiss::feature_store>(features.files(), buckets.rows());
    const gneiss::state_sizes sizes(buckets, &*store);
    const gneiss::graph_training_options training = how.training_options();
    const std::uint64_t budget = trainers::budget_of(how), evaluation = trainers::least_evaluation(how, net, features, buckets);
    const std::vector<gneiss::layer_options> layers = trainers::layers_of(net.encode);
    const std::uint32_t pinned = how.pinned(data), others = graph.partitions - pinned;

    const auto with = [&](std::uint32_t macro) {
        options trial = how;
        trial.macro = macro;
        training_plan plan;
        plan.partitioning = buckets.rows();
        plan.slots = pinned + macro;
        plan.in_memory = macro >= others;
        plan.budget = budget;
        plan.order = [trial, &data](std::uint64_t epoch) { return epoch_of(trial, data, epoch).states; };
        for (std::uint64_t e = 0; e < std::min<std::uint64_t>(*how.epochs, 64); ++e) {
            const gneiss::plan states = with_next(trial, data, e);
            plan.graph_bytes = std::max(plan.graph_bytes, gneiss::graph_buffer::bytes_needed(states, buckets, how.neighbours(), macro_graph));
            plan.feature_bytes = std::max(plan.feature_bytes, gneiss::feature_buffer::bytes_needed(states, *store));
        }
        if (!plan.in_memory) // later epochs draw other macro-batches
            for (std::uint64_t* bytes : {&plan.graph_bytes, &plan.feature_bytes}) *bytes += *bytes / 16;
        gneiss::graph_shape shape = sizes.of(plan.slots);
        shape.columns = net.encode.inputs();
        const gneiss::graph_memory bound = gneiss::bound_graph_memory(training, shape, layers);
        plan.parts = {{"program", programs::current_rss() + (std::uint64_t{12} << 20)}, {"features", plan.feature_bytes},
            {"graph", plan.graph_bytes},
            {"classes of nodes", graph.nodes * 5 + (graph.node_data.train * 2 + graph.node_data.valid + graph.node_data.test) * 4},
            {"samplers", std::max<std::size_t>(training.pipeline.sample_workers, 1) * bound.sampler}, {"encoder", bound.encoder},
            {"weights", net.weights.size_bytes() + 4096}};
        // Where memory is short, fewer batches are in flight, down to one that is sampled while one is computed.
        const std::uint64_t used = plan.memory_bytes() + evaluation, left = used < budget ? budget - used : 0;
        plan.batches = gneiss::graph_training::in_flight(training);
        if (!how.deterministic)
            plan.batches = static_cast<std::size_t>(std::clamp<std::uint64_t>(left / bound.batch, std::min<std::size_t>(2, plan.batches), plan.batches));
        plan.batch_bytes = plan.batches * bound.batch;
        plan.parts.push_back({"batches", plan.batch_bytes});
        constexpr std::uint64_t most = std::uint64_t{8} << 30;
        const std::uint64_t all = plan.memory_bytes();
        plan.evaluation_bytes = std::max(evaluation, std::min(all < budget ? (budget - all) / 4 * 3 : 0, most));
        plan.parts.push_back({"evaluation", plan.evaluation_bytes});
        return plan;
    };
    const auto fits = [](const training_plan& plan) { return plan.memory_bytes() <= plan.budget; };

    const auto largest = [&]() -> std::optional<training_plan> {
        std::uint32_t low = 0, high = std::max(others, 1U); // low fits, as far as is known
        std::optional<training_plan> found;
        while (low < high) {
            const std::uint32_t middle = low == 0 && high == std::max(others, 1U) ? high : (low + high + 1) / 2;
            training_plan plan = with(middle);
            if (fits(plan)) {
                low = middle;
                found = std::move(plan);
            } else {
                high = middle - 1;
            }
        }
        if (found) how.macro = low;
        return found;
    };
    const std::uint64_t hubs = buckets.rows().begin(pinned);
    std::optional<training_plan> found;
    if (how.macro) {
        how.macro = std::min(*how.macro, std::max(others, 1U));
        found = with(*how.macro);
        if (!fits(*found)) {
            const std::uint32_t asked = *how.macro;
            const auto best = largest();
            throw gneiss::error(gneiss::errc::over_budget,
                fmt::format("{}; {}", gneiss::over_budget(budget, found->parts).what(),
                    best ? fmt::format("--macro {} fits, {} does not", *how.macro, asked)
                         : fmt::format("no --macro fits: one partition takes {}", gneiss::format_bytes(with(1).memory_bytes()))));
        }
    } else if (found = largest(); !found) {
        throw gneiss::error(gneiss::errc::over_budget,
            fmt::format("{}; what helps: a larger --memory, more partitions, {}a smaller --batch or --fanout",
                gneiss::over_budget(budget, with(1).parts).what(),
                hubs == 0 ? "" : fmt::format("fewer hubs (now {} nodes), ", hubs)));
    }
    found->further_reads = [store, keeps = how.neighbours(), &data](const gneiss::plan& states) {
        return trainers::reads_of(states, keeps, data.buckets(), store.get());
    };
    return std::move(*found);
}

} // namespace hanoi
