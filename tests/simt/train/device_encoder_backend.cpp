#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>
#include <gneiss/cuda/train/device_sampling.cuh>
#include <gneiss/sample/weighted.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <simt/train/support.hpp>
#include <train/graph_harness.hpp>

namespace test_simt_train_device_graph_compute {

using namespace graph_harness;
using namespace simt_pipeline;

namespace {

/// Trains on the emulated device.
std::function<std::optional<any_backend>(gnn_harness&)> on_device(memory_budget& budget, bool keep = false,
    bool sample = false, const device_features* features = nullptr, bool recorded = false, bool ids_on_host = true,
    const std::function<float(edge_index)>& weight = {}) {
    return [&budget, keep, sample, features, recorded, ids_on_host, weight](gnn_harness& of) {
        std::optional<device_embeddings> rows;
        if (keep) rows = device_embeddings{of.data.rows.nodes, of.rows->layout()};
        const network_setup network{.layers = of.with.encoder_layers(),
            .in = of.encode->inputs(),
            .weights = of.weights,
            .seed = of.with.training.seed,
            .recorded = recorded};
        std::shared_ptr<cuda::device_sampling> sampler;
        if (sample) {
            sampler = std::make_shared<cuda::device_sampling>(budget,
                device_sampling_setup{.nodes = of.data.rows.nodes,
                    .edges = of.data.store.edges(),
                    .graphs = 2,
                    .neighbors = of.with.training.neighbors,
                    .sampler = of.with.training.sampler,
                    .seed = of.with.training.seed,
                    .seeds = 200,
                    .excluded =
                        of.with.training.exclude_target_edges ? static_cast<std::uint32_t>(of.with.training.batch) : 0,
                    .lists_of_inputs = cuda::device_network::needs_lists_of_inputs(network, of.with.rows),
                    .recorded = recorded,
                    .weight = weight,
                    .ids_on_host = ids_on_host});
            of.with.training.device_sampler.emplace(sampler);
        }
        if (!of.with.links)
            return std::optional<any_backend>(
                std::in_place, std::in_place_type<cuda::device_node_backend>, budget, network, rows, sampler, features);
        return std::optional<any_backend>(std::in_place, std::in_place_type<cuda::device_link_backend>, budget, network,
            decoder_setup{.decoder = of.with.decoder,
                .loss = "softmax",
                .margin = 1,
                .dim = of.encode->outputs(),
                .options = {},
                .batch = of.with.training.batch,
                .negatives = of.with.training.negatives,
                .relations = of.relations},
            rows, sampler, features);
    };
}

/// Checks that losses and parameters of a short run equal those of the CPU up to rounding.
void check_run(const graph_data& data, const set_up& with) {
    CAPTURE(with.layers);
    CAPTURE(with.links);
    const outcome want = train(data, with);
    memory_budget budget;
    const outcome got = train(data, with, 0, on_device(budget));
    REQUIRE(got.epochs.size() == want.epochs.size());
    for (std::size_t e = 0; e < want.epochs.size(); ++e) {
        CHECK(std::abs(got.epochs[e].loss - want.epochs[e].loss) <= 1e-3 * std::abs(want.epochs[e].loss));
        CHECK(got.epochs[e].examples == want.epochs[e].examples);
        CHECK(got.epochs[e].query_count == want.epochs[e].query_count);
        CHECK(got.epochs[e].sampled_edges == want.epochs[e].sampled_edges);
    }
    CHECK(difference(got.weights, want.weights) < 2e-3);
    CHECK(difference(got.rows, want.rows) < 2e-3);
    CHECK(difference(got.relations, want.relations) < 2e-3);
}

set_up small() {
    set_up with;
    with.optimizer = "sgd"; // the others initially divide rounding errors by small sums
    with.layers = "sage:6,sage:4";
    with.epochs = 1;
    with.features = test::feature_form{};
    with.training.batch = 30;
    with.training.neighbors.fanout = parse_fanout("3,2", neighbor_direction::both);
    return with;
}

/// Returns all features of a graph, which outlives them, for the device's memory.
device_features features_of(const graph_data& data, feature_type type = feature_type::f32) {
    return {.nodes = data.rows.nodes,
        .columns = graph_data::columns,
        .type = type,
        .read = [&data, type](std::uint64_t first, matrix_view<std::byte> to) {
            for (std::size_t i = 0; i < to.rows(); ++i)
                CHECK(
                    encode_row(std::span(data.features).subspan((first + i) * graph_data::columns, graph_data::columns),
                        type, to[i].data()) == graph_data::columns);
        }};
}

} // namespace

TEST_CASE("simt.train.device_encoder_backend: node classification on the device trains as on the CPU") {
    const graph_data data = graph_data::planted(150, 3);
    for (const char* layers : {"sage:6:dropout=.2,sage:4", "gcn:6:norm,gcn:4", "gat:3x2,gat:4x2:mean",
             "linear:5,sage:6:max:residual,gcn:4:symmetric", "sage:6,sage:4:tanh"}) {
        set_up with = small();
        with.layers = layers;
        check_run(data, with);
    }
    set_up with = small();
    with.rows = false;
    with.features->sparse = true;
    with.epochs = 2;
    with.optimizer = "adam";
    check_run(data, with);
}

TEST_CASE("simt.train.device_encoder_backend: edges on the device are trained as on the CPU") {
    const graph_data data = graph_data::random(90, 3, 3, 150, 5);
    set_up with = small();
    with.links = true;
    with.layers = "sage:6,gat:4x2";
    with.decoder = "complex";
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
    check_run(data, with);
    with.training.negatives = {.per_chunk = 8, .all = true};
    check_run(data, with);
    with.layers = "sage:8";
    with.training.neighbors.fanout = parse_fanout("3", neighbor_direction::in);
    with.training.sampler = sampler_kind::neighbor;
    with.features.reset();
    check_run(data, with);
}

TEST_CASE("simt.train.device_encoder_backend: host threads copy a batch once: rows land in pinned memory") {
    const graph_data data = graph_data::planted(150, 3);
    memory_budget budget;
    set_up with = small();
    with.features.reset();
    with.dim = 1024;
    with.layers = "sage:4";
    with.training.neighbors.fanout = parse_fanout("3", neighbor_direction::both);
    std::shared_ptr<cuda::device_node_backend> device;
    const outcome got = train(data, with, 0, [&](gnn_harness& of) {
        device = std::make_shared<cuda::device_node_backend>(budget,
            network_setup{.layers = of.with.encoder_layers(),
                .in = of.encode->inputs(),
                .weights = of.weights,
                .seed = of.with.training.seed});
        return std::optional<any_backend>(device);
    });
    const std::uint64_t rows = got.epochs.front().input_nodes * with.dim * sizeof(float);
    CHECK(device->host_bytes() > 0);
    CHECK(device->host_bytes() < rows / 20); // besides the gather, which writes each row once
}

TEST_CASE(
    "simt.train.device_encoder_backend: a step waits once for its results, and once for each part of a sample that "
    "the device drew") {
    const graph_data data = graph_data::planted(150, 3);
    set_up with = small();
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    for (const bool sample : {false, true}) {
        std::uint64_t batches = 0;
        const auto calls_of = [&](std::uint32_t epochs) {
            with.epochs = epochs;
            memory_budget budget;
            const cuda::device_calls before = cuda::calls_so_far();
            const outcome got = train(data, with, 0, on_device(budget, false, sample));
            batches = ceil_div(got.epochs.front().examples, std::uint64_t{with.training.batch});
            return cuda::calls_so_far() - before;
        };
        const cuda::device_calls third = calls_of(3) - calls_of(2); // the last epoch of three
        MESSAGE("batches ", batches, ", launches ", third.launches, ", copies ", third.copies, ", bytes ",
            third.copied_bytes, ", allocations ", third.allocations, ", waits ", third.waits);
        CHECK(third.waits == batches * (sample ? 3 : 1) + 2); // two when weights come and go
        CHECK(third.launches % batches == 0);
        CHECK(third.allocations == 0);
    }
}

TEST_CASE(
    "simt.train.device_encoder_backend: recorded steps give the bits of steps that are not, by two launches each, "
    "and one for a sample") {
    const graph_data planted = graph_data::planted(150, 3), random = graph_data::random(90, 3, 3, 150, 5);
    const auto check = [&](const graph_data& data, set_up with, bool keep = false, bool sample = false,
                           const device_features* features = nullptr) {
        CAPTURE(with.layers);
        CAPTURE(with.links);
        CAPTURE(sample);
        with.features_on_device = features != nullptr;
        with.epochs = 3;
        const auto run = [&](bool recorded) {
            memory_budget budget;
            const cuda::device_calls before = cuda::calls_so_far();
            outcome result = train(data, with, 0, on_device(budget, keep, sample, features, recorded));
            return std::pair(std::move(result), cuda::calls_so_far() - before);
        };
        const auto [want, eager] = run(false);
        const auto [got, calls] = run(true);
        CHECK(got == want);
        CHECK(eager.recorded_steps + eager.eager_steps == 0);
        const std::uint64_t steps = calls.recorded_steps + calls.eager_steps;
        CHECK(calls.recorded_steps >= steps / 4); // the first of three epochs sets the capacities
        if (sample) return;
        CHECK(eager.launches % steps == 0);
        CHECK(calls.launches == 2 * calls.recorded_steps + eager.launches / steps * calls.eager_steps);
    };
    set_up with = small();
    with.training.batch = 8;
    with.training.pipeline = {.staleness = 2, .deterministic = true};
    check(planted, with);
    with.training.pipeline = {.staleness = 0};
    with.optimizer = "adam";
    with.rows = false;
    for (const char* layers :
        {"gcn:6:norm:dropout=.2,gat:4x2:mean", "linear:5,sage:6:max:residual,gcn:4:symmetric", "sage:6,sage:4"}) {
        with.layers = layers;
        check(planted, with);
    }
    with.training.pipeline.sample_workers = 2;
    check(planted, with, false, true); // the graphs of three states
    with.features->sparse = true;
    check(planted, with);
    with = small();
    with.training.batch = 8;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    const device_features table = features_of(planted);
    check(planted, with, true, true, &table); // learned rows on the device, too
    with = small();
    with.links = true;
    with.layers = "sage:6,gat:4x2";
    with.decoder = "complex";
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5, .filtered = true};
    check(random, with);
    with.training.negatives = {.per_chunk = 8, .all = true};
    check(random, with);
}

TEST_CASE(
    "simt.train.device_encoder_backend: learning rates that change with each epoch are read by the steps that are "
    "recorded already, with the bits of steps that are not") {
    const graph_data planted = graph_data::planted(150, 3), random = graph_data::random(90, 3, 3, 150, 5);
    const auto check = [](const graph_data& data, set_up with, bool keep = false) {
        CAPTURE(with.links);
        CAPTURE(with.optimizer);
        with.epochs = 5;
        const auto run = [&](bool recorded, double decay) {
            memory_budget budget;
            gnn_harness all(data, with);
            all.compute = on_device(budget, keep, false, nullptr, recorded);
            std::vector<training_statistics> epochs;
            const cuda::device_calls before = cuda::calls_so_far();
            all.run([&](mariusgnn_trainer& training, const auto& states) {
                resume_position at{};
                for (double factor = 1; at.epoch < with.epochs; factor *= decay) {
                    training.set_optimizers({make_row_optimizer(with.optimizer, static_cast<float>(with.rate * factor)),
                        make_dense_optimizer(with.optimizer, static_cast<float>(with.dense_rate * factor),
                            {.weight_decay = .01, .decoupled = true})});
                    const training_epoch epoch = training.run(states(at.epoch), at);
                    epochs.push_back(epoch.model);
                    at = epoch.position;
                }
            });
            return std::pair(all.end(std::move(epochs)), cuda::calls_so_far() - before);
        };
        const auto [want, eager] = run(false, .7);
        const auto [got, calls] = run(true, .7);
        const auto [constant, of_constant] = run(true, 1);
        CHECK(got == want);
        CHECK_FALSE(got == constant);
        CHECK(eager.recordings == 0);
        CHECK(calls.recordings == of_constant.recordings);
        CHECK(calls.recorded_steps == of_constant.recorded_steps);
        CHECK(calls.recorded_steps > 0);
    };
    set_up with = small();
    with.training.batch = 50;            // one of each epoch
    with.training.batches_in_flight = 1; // in one slot, whatever the timing
    with.optimizer = "adam";
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    check(planted, with);
    with.rows = true;
    with.optimizer = "adagrad";
    check(planted, with, true); // rows on the device, too
    with.links = true;
    with.layers = "sage:6";
    with.features.reset();
    with.training.neighbors.fanout = parse_fanout("3", neighbor_direction::both);
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
    check(random, with);
}

TEST_CASE("simt.train.device_encoder_backend: an epoch of recorded steps and samples launches three graphs a step, "
          "allocates nothing, and waits no more than others") {
    const graph_data data = graph_data::planted(150, 3);
    set_up with = small();
    with.rows = false;
    with.training.batch = 10;
    with.training.neighbors.fanout = parse_fanout("all,all", neighbor_direction::both);
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    const auto last_of = [&](bool recorded) { // the last epoch of four
        const auto calls_of = [&](std::uint32_t epochs) {
            with.epochs = epochs;
            memory_budget budget;
            const cuda::device_calls before = cuda::calls_so_far();
            (void)train(data, with, 0, on_device(budget, false, true, nullptr, recorded));
            return cuda::calls_so_far() - before;
        };
        return calls_of(4) - calls_of(3);
    };
    const cuda::device_calls eager = last_of(false), recorded = last_of(true);
    MESSAGE("launches ", eager.launches, " and ", recorded.launches, ", waits ", eager.waits, " and ", recorded.waits,
        ", copies ", eager.copies, " and ", recorded.copies);
    CHECK(eager.launches == 5 * (30 + 32)); // a step, and a sample
    CHECK(recorded.recorded_steps >= 4);
    CHECK(recorded.recorded_steps + recorded.eager_steps == 5);
    CHECK(recorded.launches == 3 * recorded.recorded_steps + (30 + 1) * recorded.eager_steps);
    CHECK(recorded.allocations == 0);
    CHECK(recorded.waits == eager.waits);
    CHECK(recorded.copies <= eager.copies);
}

TEST_CASE("simt.train.device_encoder_backend: where all rows are on the device, recorded steps wait for their results "
          "alone, and neither sizes nor ids of samples come to the host") {
    const graph_data data = graph_data::planted(150, 3);
    const device_features table = features_of(data);
    set_up with = small();
    with.rows = false;
    with.features_on_device = true;
    with.training.batch = 10;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    with.training.batches_in_flight = 1; // in one slot, whatever the timing
    std::uint64_t kept_bytes = 0, seen_bytes = 0;
    for (const bool dense : {true, false}) {
        with.training.sampler = dense ? sampler_kind::dense : sampler_kind::neighbor;
        with.training.neighbors.fanout = parse_fanout(dense ? "all,all" : "5,5", neighbor_direction::both);
        const auto last_of = [&](bool ids_on_host) { // the last epoch of four
            std::uint64_t inputs = 0;
            const auto calls_of = [&](std::uint32_t epochs) {
                with.epochs = epochs;
                memory_budget budget;
                const cuda::device_calls before = cuda::calls_so_far();
                const cuda::padded_steps padded = cuda::padded_so_far();
                inputs = train(data, with, 0, on_device(budget, false, true, &table, true, ids_on_host))
                             .epochs.back()
                             .input_nodes;
                return std::pair(cuda::calls_so_far() - before, cuda::padded_so_far() - padded);
            };
            const auto [three, padded_of_three] = calls_of(3);
            const auto [four, padded] = calls_of(4);
            return std::tuple(four - three, padded - padded_of_three, inputs);
        };
        const auto [seen, padded, inputs] = last_of(true);
        const auto [kept, padded_of_kept, inputs_of_kept] = last_of(false);
        MESSAGE("waits ", seen.waits, " and ", kept.waits, ", to the host ", seen.host_bytes, " and ", kept.host_bytes,
            " bytes, launches ", seen.launches, " and ", kept.launches, ", copies ", seen.copies, " and ", kept.copies);
        constexpr std::uint64_t batches = 5;
        CHECK(inputs_of_kept == inputs);
        CHECK(kept.recorded_steps == seen.recorded_steps);
        CHECK(kept.recorded_steps >= 4);
        const std::uint64_t refused = kept.eager_steps;
        CHECK(padded_of_kept == padded); // from sizes that the device has, or the host
        CHECK(padded.steps == batches - refused);
        REQUIRE(padded.hops.size() == 3);
        CHECK((padded.hops[0].edges == 0 && padded.hops[2].edges > padded.hops[1].nodes));
        if (refused == 0) CHECK(padded.hops[2].nodes == inputs);
        for (const cuda::hop_sizes& hop : padded.hops) {
            CHECK(hop.nodes <= hop.node_capacity);
            CHECK(hop.edges <= hop.edge_capacity);
        }
        CHECK(seen.waits == 3 * batches + 2); // two when weights come and go
        CHECK(kept.waits == batches + refused + 2);
        CHECK(kept.launches == 3 * batches + refused * 30);
        CHECK(kept.allocations == 0);
        CHECK(kept.copies < seen.copies);
        if (refused != 0) continue;                                // its results come twice
        CHECK((kept_bytes == 0 || kept.host_bytes == kept_bytes)); // whatever the size of samples
        CHECK(seen.host_bytes != seen_bytes);
        kept_bytes = kept.host_bytes;
        seen_bytes = seen.host_bytes;
    }
    CHECK(kept_bytes != 0);
}

TEST_CASE("simt.train.device_encoder_backend: steps that the device refuses, as their samples exceed the capacities, "
          "are computed eagerly before later ones, with the bits of a run that is not recorded") {
    const graph_data planted = graph_data::planted(150, 3), random = graph_data::random(90, 3, 3, 150, 5);
    std::uint64_t refused = 0;
    const auto check = [&](const graph_data& data, set_up with, bool keep = false, std::uint64_t stop_every = 0) {
        CAPTURE(with.links);
        CAPTURE(keep);
        with.features_on_device = true;
        with.epochs = 4;
        device_features table = features_of(data);
        table.fused = stop_every == 0;
        memory_budget budget;
        const outcome want = train(data, with, 0, on_device(budget, keep, true, &table));
        const cuda::device_calls before = cuda::calls_so_far();
        const outcome got = train(data, with, stop_every, on_device(budget, keep, true, &table, true, false));
        const cuda::device_calls calls = cuda::calls_so_far() - before;
        CHECK(got.weights == want.weights);
        CHECK(got.state == want.state);
        CHECK(got.rows == want.rows);
        CHECK(got.relations == want.relations);
        if (stop_every != 0) return;
        CHECK(got == want);
        for (std::size_t e = 0; e < want.epochs.size(); ++e)
            CHECK(got.epochs[e].input_nodes == want.epochs[e].input_nodes);
        std::uint64_t batches = 0;
        for (const training_statistics& of : want.epochs)
            batches += ceil_div(of.examples, std::uint64_t{with.training.batch});
        CHECK(calls.recorded_steps + calls.eager_steps >= batches); // states end by smaller ones
        CHECK(calls.recorded_steps > 0);
        CHECK(calls.refused_steps <= calls.eager_steps);
        refused += calls.refused_steps;
        MESSAGE("recorded ", calls.recorded_steps, ", eager ", calls.eager_steps, ", refused ", calls.refused_steps);
    };
    set_up with = small();
    with.rows = false;
    with.optimizer = "adam";
    with.training.batch = 8;
    check(planted, with); // graphs of three states
    with.training.pipeline = {.staleness = 3, .deterministic = true, .sample_workers = 2};
    with.training.sampler = sampler_kind::neighbor;
    check(planted, with); // later steps were launched before one is known to be refused
    check(planted, with, false, 9);
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    with.training.pipeline = {.staleness = 0};
    with.rows = true;
    with.optimizer = "adagrad";
    check(planted, with, true); // learned rows on the device
    with.training.batch = 20;
    with.rows = false;
    with.links = true;
    with.layers = "sage:6";
    with.decoder = "complex";
    with.training.neighbors.fanout = parse_fanout("3", neighbor_direction::in);
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
    with.training.exclude_target_edges = true;
    check(random, with);
    with = small(); // batches of two nodes, of which few are as large as the largest
    with.rows = false;
    with.optimizer = "adam";
    with.training.batch = 2;
    with.training.neighbors.fanout = parse_fanout("4,all", neighbor_direction::both);
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    for (const std::uint64_t staleness : {0, 3}) {
        with.training.pipeline = {.staleness = staleness, .deterministic = true, .sample_workers = 2};
        refused = 0;
        check(random, with);
        CHECK(refused > 0);
    }
}

TEST_CASE("simt.train.device_encoder_backend: a device keeps the ids of samples only where it has all rows") {
    const graph_data data = graph_data::planted(150, 3);
    set_up with = small();
    memory_budget budget;
    const auto refused = [&](const device_features* features) {
        with.features_on_device = features != nullptr;
        CHECK_THROWS_WITH_AS((void)train(data, with, 0, on_device(budget, false, true, features, true, false)),
            doctest::Contains("keeps the ids of a batch needs all rows in its memory"), error);
    };
    with.rows = false;
    refused(nullptr); // rows of the host
    device_features over_bus = features_of(data);
    over_bus.resident.emplace();
    refused(&over_bus);
    with.features->sparse = true;
    refused(nullptr);
}

namespace {

/// The kernels and fills of a step, launched or recorded.
struct watched_step {
    std::size_t slot, nodes;
    std::vector<cuda::recorded_call> calls;
    bool replayed; ///< as graphs, which may have been recorded before
};

/// Passes calls on to a backend, and keeps those that each step makes.
class watched_backend {
public:
    watched_backend(std::shared_ptr<cuda::device_node_backend> to, std::vector<watched_step>& steps)
        : to_(std::move(to)),
          steps_(&steps) {}

    void prepare(std::size_t in_flight, bool shared) { to_->prepare(in_flight, shared); }
    void upload(const training_optimizers& by) { to_->upload(by); }
    void download() { to_->download(); }
    [[nodiscard]] row_target target(training_batch& b, std::size_t columns, std::size_t gradients) {
        return to_->target(b, columns, gradients);
    }
    void differentiate(training_batch& b) {
        calls_ = std::make_shared<cuda::recorder>();
        to_->differentiate(b);
    }
    [[nodiscard]] gradient_parts gradients() noexcept { return to_->gradients(); }
    void step(training_batch& b) {
        to_->step(b);
        watched_step made{b.slot, b.nodes.size(), calls_->take(), false};
        calls_.reset();
        made.replayed = std::erase_if(made.calls,
                            [](const cuda::recorded_call& one) { return one.what == cuda::device_call::replay; }) != 0;
        std::erase_if(made.calls, [](const cuda::recorded_call& one) { // others are also made by other threads
            return one.what != cuda::device_call::launch && one.what != cuda::device_call::fill;
        });
        steps_->push_back(std::move(made));
    }
    [[nodiscard]] bool device_resident() const noexcept { return to_->device_resident(); }
    void upload_embeddings(const resident_embeddings& from) { to_->upload_embeddings(from); }
    void download_embeddings(resident_embeddings& to) { to_->download_embeddings(to); }
    [[nodiscard]] bool transfers() const noexcept { return to_->transfers(); }
    void to_device(training_batch& b) { to_->to_device(b); }
    void to_host(training_batch& b) { to_->to_host(b); }
    [[nodiscard]] double device_seconds() const noexcept { return to_->device_seconds(); }

private:
    std::shared_ptr<cuda::device_node_backend> to_;
    std::vector<watched_step>* steps_;
    std::shared_ptr<cuda::recorder> calls_;
};
static_assert(train_backend<watched_backend>);

} // namespace

TEST_CASE("simt.train.device_encoder_backend: padded batches of other sizes make equal calls, argument by argument; "
          "larger ones run eagerly") {
    const graph_data data = graph_data::planted(150, 3);
    set_up with = small();
    with.training.batch = 10;
    with.epochs = 4;
    std::vector<watched_step> steps;
    const auto watched = [&](memory_budget& budget) {
        return [&](gnn_harness& of) {
            return std::optional<any_backend>(std::in_place, std::in_place_type<watched_backend>,
                std::make_shared<cuda::device_node_backend>(budget,
                    network_setup{.layers = of.with.encoder_layers(),
                        .in = of.encode->inputs(),
                        .weights = of.weights,
                        .seed = of.with.training.seed,
                        .recorded = true}),
                steps);
        };
    };
    memory_budget budget;
    const cuda::device_calls before = cuda::calls_so_far();
    (void)train(data, with, 0, watched(budget));
    const cuda::device_calls calls = cuda::calls_so_far() - before;
    std::map<std::size_t, const watched_step*> last;
    std::size_t equal = 0, replayed = 0, again = 0;
    for (const watched_step& one : steps) {
        const watched_step*& eager = last[one.slot];
        if (!one.replayed) {
            eager = &one;
            again += replayed != 0;
        } else if (!one.calls.empty()) { // recorded: it makes the calls of the eager batch before it in its slot
            REQUIRE(eager != nullptr);
            CHECK((one.calls == eager->calls));
            equal += one.nodes != eager->nodes;
        }
        replayed += one.replayed;
    }
    CHECK(equal > 0);
    CHECK(again > 0); // larger than the capacities
    CHECK(replayed == calls.recorded_steps);
    CHECK(steps.size() == calls.recorded_steps + calls.eager_steps);
}

TEST_CASE(
    "simt.train.device_encoder_backend: lists by source of the first layer come where its backward pass reads them") {
    const graph_data data = graph_data::planted(150, 3);
    set_up with = small();
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    for (const auto& [layers, needed] :
        {std::pair{"sage:6,sage:4", false}, {"sage:6:max,gat:4x2:mean", false}, {"gcn:6,gcn:4", false},
            {"gcn:6:symmetric,sage:4", true}, {"gat:3x2,sage:4", true}, {"linear:5,sage:6,gcn:4", true}}) {
        with.layers = layers;
        check_run(data, with);
        memory_budget budget;
        const outcome want = train(data, with, 0, [&](gnn_harness& of) {
            const network_setup network{.layers = of.with.encoder_layers(),
                .in = of.encode->inputs(),
                .weights = of.weights,
                .seed = of.with.training.seed};
            CHECK(cuda::device_network::needs_lists_of_inputs(network, false) == needed);
            CHECK(cuda::device_network::needs_lists_of_inputs(network, true));
            return on_device(budget)(of);
        });
        CHECK(train(data, with, 0, on_device(budget, false, true)) == want);
    }
}

TEST_CASE("simt.train.device_encoder_backend: replicas share the steps of weights and relations as on the CPU") {
    const graph_data planted = graph_data::planted(150, 3), random = graph_data::random(90, 3, 3, 150, 5);
    for (const bool links : {false, true})
        for (const std::uint32_t count : {2U, 4U}) {
            set_up with = small();
            with.links = links;
            with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
            with.training.replicas.count = count;
            check_run(links ? random : planted, with);
            // The others compute nothing here. In the last group of a state this one may have no batch.
            with.training.replicas = {.count = count, .only = count - 1, .reducer = any_reducer{}};
            check_run(links ? random : planted, with);
        }
}

TEST_CASE("simt.train.device_encoder_backend: batches of replicas are recorded, a graph each, with the bits of "
          "batches that are not") {
    const graph_data planted = graph_data::planted(150, 3), random = graph_data::random(90, 3, 3, 150, 5);
    const auto check = [&](const graph_data& data, const set_up& with, bool keep = false, bool sample = false,
                           const device_features* features = nullptr, bool ids_on_host = true) {
        CAPTURE(with.links);
        CAPTURE(sample);
        const auto run = [&](bool recorded) {
            memory_budget budget;
            const cuda::device_calls before = cuda::calls_so_far();
            outcome result =
                train(data, with, 0, on_device(budget, keep, sample, features, recorded, !recorded || ids_on_host));
            return std::pair(std::move(result), cuda::calls_so_far() - before);
        };
        const auto [want, eager] = run(false);
        const auto [got, calls] = run(true);
        CHECK(got == want);
        std::uint64_t batches = 0;
        for (const training_statistics& of : want.epochs)
            batches += ceil_div(of.examples, std::uint64_t{with.training.batch});
        CHECK(calls.recorded_steps + calls.eager_steps >= batches); // states end by smaller ones
        CHECK(calls.eager_steps >= batches / with.epochs);          // those of the first epoch
        CHECK(calls.recorded_steps >= batches / 4);
        CHECK(calls.refused_steps == 0);
        CHECK(calls.launches < eager.launches);
        MESSAGE("recorded ", calls.recorded_steps, ", eager ", calls.eager_steps, ", launches ", calls.launches, " of ",
            eager.launches);
    };
    set_up with = small();
    with.epochs = 3;
    with.optimizer = "adam";
    with.training.batch = 8;
    with.training.replicas.count = 3;
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
    check(planted, with);
    with.links = true;
    with.decoder = "complex";
    check(random, with);
    with.links = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    const device_features table = features_of(planted);
    with.features_on_device = true;
    check(planted, with, true, true, &table, false); // learned rows and samples on the device, too
}

TEST_CASE(
    "simt.train.device_encoder_backend: a run stopped anywhere resumes to the same bits, even if batches overlap") {
    const graph_data data = graph_data::planted(150, 3);
    memory_budget budget;
    set_up with = small();
    with.epochs = 2;
    const outcome want = train(data, with, 0, on_device(budget)), stopped = train(data, with, 2, on_device(budget));
    CHECK(stopped.weights == want.weights);
    CHECK(stopped.state == want.state);
    CHECK(stopped.rows == want.rows);
    with.training.pipeline = {.staleness = 2, .deterministic = true};
    const outcome once = train(data, with, 0, on_device(budget));
    CHECK(once == train(data, with, 0, on_device(budget)));
    with = small();
    with.training.batch = 8;
    const outcome whole = train(data, with, 0, on_device(budget));
    const outcome recorded = train(data, with, 5, on_device(budget, false, true, nullptr, true));
    CHECK(recorded.weights == whole.weights);
    CHECK(recorded.state == whole.state);
    CHECK(recorded.rows == whole.rows);
}

TEST_CASE("simt.train.device_encoder_backend: resident rows are stepped like copied ones") {
    memory_budget budget;
    for (const bool links : {false, true}) {
        const graph_data data = links ? graph_data::random(90, 3, 3, 150, 5) : graph_data::planted(150, 3);
        set_up with = small();
        with.links = links;
        with.optimizer = "adagrad";
        with.order = "memory";
        with.order_slots = with.buffer_slots = 3;
        with.epochs = 2;
        with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
        if (links) with.features.reset();
        const outcome want = train(data, with, 0, on_device(budget));
        CHECK(train(data, with, 0, on_device(budget, true)) == want);
        const outcome stopped = train(data, with, 3, on_device(budget, true));
        CHECK(stopped.rows == want.rows);
        CHECK(stopped.weights == want.weights);
        with.buffer_slots = 2;
        CHECK_THROWS_AS((void)train(data, with, 0, on_device(budget, true)), error);
    }
}

TEST_CASE("simt.train.device_encoder_backend: neighborhoods drawn on the device equal those of the host, bit for bit") {
    memory_budget budget;
    for (const bool links : {false, true}) {
        CAPTURE(links);
        const graph_data data = links ? graph_data::random(90, 3, 3, 200, 5) : graph_data::planted(150, 3);
        set_up with = small();
        with.links = links;
        with.order = "memory";
        with.order_slots = with.buffer_slots = 3;
        with.training.sampler = links ? sampler_kind::neighbor : sampler_kind::dense;
        with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
        with.training.exclude_target_edges = links;
        const outcome want = train(data, with, 0, on_device(budget));
        CHECK(train(data, with, 0, on_device(budget, links, true)) == want);
        CHECK(train(data, with, 0, on_device(budget, links, true, nullptr, true)) == want);
        if (!links) continue;
        with.training.exclude_target_edges = false; // and they are excluded before
        CHECK_FALSE(train(data, with, 0, on_device(budget)) == want);
    }
}

TEST_CASE("simt.train.device_encoder_backend: neighborhoods drawn by weights on the device equal those of the host") {
    const graph_data data = graph_data::planted(150, 4);
    const auto weight = [](edge_index e) { return static_cast<float>(e % 5); };
    set_up with = small(); // states of two partitions
    with.training.sampler = sampler_kind::dense;
    memory_budget budget;
    const outcome equal = train(data, with, 0, on_device(budget));
    const auto hops = with.training.neighbors;
    with.training.own_sampler = [=] { return weighted(dense_sampler<>(hops, set_up{}.training.seed), weight); };
    const outcome want = train(data, with, 0, on_device(budget));
    CHECK_FALSE(want == equal);
    with.training.own_sampler.reset();
    CHECK(train(data, with, 0, on_device(budget, false, true, nullptr, false, true, weight)) == want);
}

TEST_CASE("simt.train.device_encoder_backend: the graph of each state is copied to the device, and samples equal the "
          "host's") {
    for (const bool links : {false, true}) {
        CAPTURE(links);
        const graph_data data = links ? graph_data::random(90, 4, 3, 200, 5) : graph_data::planted(150, 4);
        set_up with = small(); // states of two partitions
        with.links = links;
        with.epochs = 2;
        with.training.batch = 20;
        with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
        with.training.exclude_target_edges = links;
        with.training.pipeline.sample_workers = links ? 1 : 3;
        memory_budget budget;
        const outcome want = train(data, with, 0, on_device(budget));
        CHECK(train(data, with, 0, on_device(budget, false, true)) == want);
    }
    const graph_data data = graph_data::planted(150, 3);
    memory_budget small_device(memory_budget::unlimited, memory_budget::unlimited, 5000);
    CHECK_THROWS_WITH_AS((void)train(data, small(), 0, on_device(small_device, false, true)),
        doctest::Contains("graph for sampling"), over_budget);
}

TEST_CASE("simt.train.device_encoder_backend: features on the device, in a tier and over the bus equal the host's, bit "
          "for bit, and rows that pass the bus are counted") {
    const graph_data data = graph_data::planted(150, 3);
    for (const bool rows : {false, true}) {
        CAPTURE(rows);
        set_up with = small();
        with.rows = rows;
        if (rows) { // learned columns are on the device, too
            with.order = "memory";
            with.order_slots = with.buffer_slots = 3;
        }
        memory_budget budget;
        const outcome want = train(data, with, 0, on_device(budget, rows));
        std::uint64_t inputs = 0;
        for (const auto& epoch : want.epochs) inputs += epoch.input_nodes;
        device_features features = features_of(data);
        std::vector<node_id> some;
        for (node_id v = 0; v < data.rows.nodes; v += 3) some.push_back(v);
        std::uint64_t over_bus[3] = {};
        for (const int place : {0, 1, 2}) { // device, tier, uva
            CAPTURE(place);
            if (place != 0) features.resident = place == 1 ? some : std::vector<node_id>{};
            with.features_on_device = true;
            const cuda::device_calls before = cuda::calls_so_far();
            CHECK(train(data, with, 0, on_device(budget, rows, place == 1, &features)) == want);
            const cuda::device_calls calls = cuda::calls_so_far() - before;
            over_bus[place] = calls.bus_rows;
            CHECK(calls.bus_bytes == calls.bus_rows * device_features::pinned_row_bytes(features.columns));
        }
        CHECK(over_bus[0] == 0);
        CHECK(over_bus[1] > 0);
        CHECK(over_bus[1] < over_bus[2]);
        CHECK(over_bus[2] == inputs);
    }
}

TEST_CASE("simt.train.device_encoder_backend: first layers read features of each type on the device by id, with the "
          "launches and bits of rows that the host brings") {
    const graph_data data = graph_data::planted(150, 3);
    set_up with = small();
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 3;
    std::size_t turn = 0;
    for (const char* layers : {"sage:6,sage:4", "sage:6:sum:add:residual,gcn:4", "sage:3:max:dropout=.3,sage:4",
             "gcn:6:symmetric,gcn:4", "gcn:2:norm,gat:4x2:mean", "gat:3x2,gat:4x2:mean", "linear:5,sage:6,gcn:4"})
        for (const feature_type type : {feature_type::f32, feature_type::f16, feature_type::bf16}) {
            CAPTURE(layers);
            CAPTURE(to_string(type));
            const bool dense = ++turn % 2 == 0;
            with.layers = layers;
            with.features = test::feature_form{.f16 = type == feature_type::f16, .bf16 = type == feature_type::bf16};
            with.training.sampler = dense ? sampler_kind::dense : sampler_kind::neighbor;
            memory_budget budget;
            const auto run = [&](const device_features* from) {
                with.features_on_device = from != nullptr;
                const cuda::device_calls before = cuda::calls_so_far();
                outcome result = train(data, with, 0, on_device(budget, false, dense, from));
                return std::pair(std::move(result), cuda::calls_so_far() - before);
            };
            const auto [want, of_host] = run(nullptr);
            device_features features = features_of(data, type);
            const auto [got, of_device] = run(&features);
            CHECK(got == want);
            CHECK(of_device.launches == of_host.launches);
            CHECK(of_device.copied_bytes < of_host.copied_bytes);
            features.fused = false;
            const auto [apart, of_apart] = run(&features);
            CHECK(apart == want);
            CHECK(of_apart.launches > of_device.launches); // gathers
            CHECK(of_apart.copied_bytes == of_device.copied_bytes);
            features.fused = true;
            features.resident.emplace(turn / 3 % 2 == 0 ? 0 : 40); // over the bus, or a tier of the first 40
            std::iota(features.resident->begin(), features.resident->end(), node_id{0});
            const auto [gathered, of_bus] = run(&features);
            CHECK(gathered == want);
            CHECK(of_bus.launches > of_host.launches); // gathers
            CHECK(of_bus.bus_bytes == of_bus.bus_rows * 128);
        }
}

TEST_CASE(
    "simt.train.device_encoder_backend: features of half the size take half the device's memory; of int8, kernels "
    "read none") {
    const graph_data data = graph_data::planted(150, 3);
    const auto rows_fit = [&](feature_type type, std::uint64_t bytes) {
        memory_budget budget(memory_budget::unlimited, memory_budget::unlimited, bytes);
        device_features features = features_of(data, type);
        features.columns = 48; // 192 bytes as floats
        features.read = [](std::uint64_t, matrix_view<std::byte> to) {
            for (std::size_t i = 0; i < to.rows(); ++i) std::ranges::fill(to[i], std::byte{0});
        };
        try {
            const cuda::device_feature_table table(budget, features);
            return true;
        } catch (const over_budget&) {
            return false;
        }
    };
    const std::uint64_t halves = 150 * 96;
    for (const feature_type type : {feature_type::f16, feature_type::bf16}) {
        CHECK(rows_fit(type, halves));
        CHECK_FALSE(rows_fit(type, halves - 1));
    }
    CHECK(rows_fit(feature_type::f32, 2 * halves));
    CHECK_FALSE(rows_fit(feature_type::f32, 2 * halves - 1));
    CHECK_THROWS_WITH_AS((void)rows_fit(feature_type::int8, 2 * halves), doctest::Contains("not int8"), error);
}

TEST_CASE("simt.train.device_encoder_backend: a lack of device memory is reported with its parts, a NaN loss with its "
          "batch") {
    const graph_data data = graph_data::planted(150, 3);
    memory_budget small_device(memory_budget::unlimited, memory_budget::unlimited, 20000);
    CHECK_THROWS_WITH_AS(
        (void)train(data, small(), 0, on_device(small_device)), doctest::Contains("weights"), over_budget);
    memory_budget small_pinned(memory_budget::unlimited, 5000);
    CHECK_THROWS_WITH_AS(
        (void)train(data, small(), 0, on_device(small_pinned)), doctest::Contains(", pinned "), over_budget);
    memory_budget budget;
    const auto poisoned = [&](gnn_harness& of) {
        of.weights.values()[0] = std::numeric_limits<float>::quiet_NaN();
        return on_device(budget)(of);
    };
    check_not_finite([&] { (void)train(data, small(), 0, poisoned); });
}

} // namespace test_simt_train_device_graph_compute
