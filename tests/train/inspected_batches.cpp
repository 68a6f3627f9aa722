#include <gneiss/train/inspected_batches.hpp>

#include <doctest/doctest.h>

#include <gneiss/io/csc_builder.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/train/sampled_batches.hpp>

#include <chrono>
#include <thread>

#include "graph_harness.hpp"

namespace test_train_inspected_batches {

using namespace graph_harness;

namespace {

using whole_batches = sampled_batches<link_task<>, no_topology, any_sampler>;
static_assert(inspectable_batches<whole_batches>);
static_assert(inspectable_batches<sampled_batches<link_task<>, graph_in_memory<disk_csc>, neighbor_sampler<>>>);
static_assert(inspectable_batches<sampled_batches<node_task, graph_in_memory<memory_csc>, dense_sampler<>>>);
static_assert(!inspectable_batches<sampled_batches<node_task, buffered_topology, neighbor_sampler<>>>);
static_assert(!inspectable_batches<sampled_batches<link_task<>, no_topology, no_hops>>);

/// Links, with features, in a graph of one partition.
set_up of_links() {
    set_up with;
    with.links = true;
    with.rows = false;
    with.features = test::feature_form{};
    with.training.sampler = sampler_kind::neighbor;
    with.epochs = 3;
    return with;
}
const epoch_plan whole{buffer_state{.resident = {0}, .edge_buckets = {{0, 0}}}};

/// Oracle: the same training by `make_mariusgnn`, all in memory.
outcome in_memory(const graph_data& data, const set_up& with) {
    gnn_harness all(data, with);
    std::vector<training_statistics> epochs;
    all.run(
        [&](mariusgnn_trainer& training, const auto&) {
            for (std::uint64_t e = 0; e < with.epochs; ++e) epochs.push_back(training.run(whole, e).model);
        },
        3, &whole);
    return all.end(std::move(epochs));
}

struct inspection {
    superbatch_schedule schedule = superbatch_schedule::overlap;
    std::uint64_t superbatch = 3, epochs = 3, accesses = 0;
    std::size_t cache = 40, threads = 1; ///< without slots: no cache
    bool keeps_edges = true;
    std::uint64_t stop_every = 0; ///< stop after this many batches, and resume with new slots
};

/// Slots of link prediction in a graph on disk, with superbatches, a cache and an encoder.
struct link_training {
    gnn_harness all;
    inspection how;
    temporary_directory files{};
    memory_budget budget{};
    tbb_executor on;
    feature_files features;
    int turns = 0;

    link_training(const graph_data& data, const set_up& with, const inspection& by)
        : all(data, with),
          how(by),
          on(by.threads),
          features(test::feature_writer(files.path(), data.rows, {}).write(data.features, graph_data::columns)) {
        (void)build_csc(data.store, neighbor_direction::in, files / "csc");
    }

    [[nodiscard]] csc_files lists() const { return {.in = files / "csc", .out = {}}; }
    [[nodiscard]] stored_rows stored() const {
        return {.path = features.values.path,
            .offset = features.values.checksums.data_offset(),
            .rows = all.data.rows.nodes,
            .row_bytes = row_bytes(features.type, graph_data::columns)};
    }

    /// Trains with batches by `make(task)`, a function that returns a producer by shared pointer.
    template <class Make>
    outcome run(Make&& make, const graph_buffer* exclude_from = nullptr) {
        std::vector<training_statistics> epochs;
        resume_position at{};
        while (at.epoch < how.epochs) run_slots(make, exclude_from, at, epochs);
        return all.end(std::move(epochs));
    }

private:
    template <class Make>
    void run_slots(
        Make& make, const graph_buffer* exclude_from, resume_position& at, std::vector<training_statistics>& epochs) {
        const gnn_options& t = all.with.training;
        bucket_reader reader(all.data.store, all.with.engines);
        edge_buffer edges(reader.source(), {.cache_all = how.keeps_edges}, budget);
        link_task<> task({t.batch, t.batch_from, t.negatives, t.seed}, edges, all.data.rows, exclude_from);
        any_row_source source(std::in_place_type<disk_rows>, all.with.engines, stored(), gather_options{}, on, budget);
        cached_rows<any_row_source> cache(source, how.cache, slot_table_kind::hashed, on, budget);
        const bool ahead = how.schedule != superbatch_schedule::conventional;
        const bool in_turns = how.schedule == superbatch_schedule::alternate;
        cached_features rows({.source = source, .cache = ahead ? &cache : nullptr, .columns = graph_data::columns},
            in_turns ? cache_between_superbatches::emptied : cache_between_superbatches::kept, on);
        auto drawn = make(task, on);
        inspected_batches batches(*drawn,
            {.schedule = how.schedule,
                .batches = how.superbatch,
                .directory = files / "run",
                .cache_capacity = how.cache,
                .direct_table = true,
                .carry = !in_turns,
                .accesses = how.accesses,
                .epochs = how.epochs},
            on,
            {.nodes = all.data.rows.nodes,
                .before_sampling =
                    [&] {
                        ++turns;
                        cache.release();
                    },
                .before_gathering = [&] { cache.acquire(); }});
        no_embeddings none;
        cpu_encoder_backend<link_head> backend(
            *all.encode, all.weights, link_head(*all.model, all.relations, {}), t.seed, on);
        train_loop loop({.pipeline = {.staleness = t.pipeline.staleness, .sample_workers = how.threads}}, batches, rows,
            none, backend, {all.optimizer, all.dense}, budget);
        std::stop_source stop;
        std::uint64_t seen = 0;
        const training_observer observer{.on_batch = [&](const batch_key&, const training_statistics&) {
            if (++seen == how.stop_every) stop.request_stop();
        }};
        while (at.epoch < how.epochs) {
            const training_epoch done = loop.run(whole, at, observer, stop.get_token());
            epochs.push_back(done.model);
            at = done.position;
            if (done.stopped) return;
        }
        CHECK(batches.in_order() == ahead);
        CHECK_FALSE(batches.repeats());
        if (how.stop_every == 0 && ahead) CHECK(batches.inspected().batches == how.epochs * batches_of(task, edges));
    }
    [[nodiscard]] std::uint64_t batches_of(const link_task<>&, const edge_buffer&) const {
        return ceil_div<std::uint64_t>(all.data.store.edges(), all.with.training.batch);
    }
};

/// Makes batches by a sampler of the graph on disk, whose type is known.
template <class Sampler = neighbor_sampler<>>
auto on_disk(const disk_csc& graph, const set_up& with) {
    return [&graph, &with](link_task<>& task, const tbb_executor& on) {
        struct parts {
            graph_in_memory<disk_csc> topology;
            sampled_batches<link_task<>, graph_in_memory<disk_csc>, Sampler> batches;
            parts(link_task<>& t, const disk_csc& g, const set_up& w, const tbb_executor& e)
                : topology(g),
                  batches(t, topology, [&w] { return Sampler(w.training.neighbors, w.training.seed); }, e) {}
        };
        auto made = std::make_shared<parts>(task, graph, with, on);
        return std::shared_ptr<decltype(made->batches)>(made, &made->batches);
    };
}
/// Makes batches by a sampler that is chosen at run time, with its graph.
template <class G>
auto chosen(const G& graph, const set_up& with) {
    return [&graph, &with](link_task<>& task, const tbb_executor& on) {
        static no_topology topology;
        return std::make_shared<whole_batches>(
            task, topology,
            [&] { return make_sampler(graph, with.training.sampler, with.training.neighbors, with.training.seed); },
            on);
    };
}

outcome train_on_disk(const graph_data& data, const set_up& with, const inspection& how) {
    link_training training(data, with, how);
    disk_csc graph(training.lists(), with.engines, training.budget);
    return training.run(on_disk(graph, with));
}

/// Compares all but the loss of an epoch that was cut in parts, which is summed in another order.
void check_same_end(const outcome& found, const outcome& expected) {
    CHECK(found.weights == expected.weights);
    CHECK(found.state == expected.state);
    CHECK(found.relations == expected.relations);
    CHECK(found.epochs.back().loss > 0);
}

} // namespace

TEST_CASE("links by superbatches train the bits of GNN training in memory, for every schedule, sampler and graph") {
    const auto data = graph_data::random(200, 1, 3, 900, 2);
    set_up with = of_links();
    for (const auto sampler : {sampler_kind::neighbor, sampler_kind::dense}) {
        with.training.sampler = sampler;
        const outcome expected = in_memory(data, with);
        CHECK(expected.epochs[2].loss < expected.epochs[0].loss);
        for (const auto schedule :
            {superbatch_schedule::conventional, superbatch_schedule::overlap, superbatch_schedule::alternate}) {
            CAPTURE(static_cast<int>(schedule));
            link_training training(data, with, {.schedule = schedule});
            disk_csc graph(training.lists(), with.engines, training.budget);
            CHECK(training.run(chosen(graph, with)) == expected);
            CHECK((training.turns > 0) == (schedule == superbatch_schedule::alternate));
            link_training again(data, with, {.schedule = schedule});
            const mapped_csc mapped(again.lists(), again.budget);
            CHECK(again.run(chosen(mapped, with)) == expected);
        }
        link_training typed(data, with, {});
        disk_csc graph(typed.lists(), with.engines, typed.budget);
        CHECK((sampler == sampler_kind::dense ? typed.run(on_disk<dense_sampler<>>(graph, with))
                                              : typed.run(on_disk<>(graph, with))) == expected);
    }
}

TEST_CASE(
    "neither the size of superbatches and caches nor threads change the bits of links, and edges may be reloaded") {
    const auto data = graph_data::random(200, 1, 3, 900, 2); // 18 batches
    const set_up with = of_links();
    const outcome expected = in_memory(data, with);
    for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate})
        for (const std::uint64_t superbatch : {1U, 5U, 18U, 100U})
            CHECK(train_on_disk(data, with, {.schedule = schedule, .superbatch = superbatch}) == expected);
    for (const std::size_t cache : {0U, 1U, 200U}) CHECK(train_on_disk(data, with, {.cache = cache}) == expected);
    for (const std::size_t threads : {2U, 4U})
        for (const auto schedule : {superbatch_schedule::conventional, superbatch_schedule::overlap})
            CHECK(train_on_disk(data, with, {.schedule = schedule, .threads = threads}) == expected);
    CHECK(train_on_disk(data, with, {.accesses = 150}) == expected);
    CHECK(train_on_disk(data, with, {.keeps_edges = false}) == expected);
}

TEST_CASE("links by superbatches, stopped after any batch and resumed, end in the bits of an uninterrupted run") {
    const auto data = graph_data::random(200, 1, 3, 900, 2);
    const set_up with = of_links();
    const outcome expected = in_memory(data, with);
    for (const auto schedule :
        {superbatch_schedule::conventional, superbatch_schedule::overlap, superbatch_schedule::alternate})
        for (const std::uint64_t stop_every : {1U, 7U, 18U, 31U}) {
            CAPTURE(static_cast<int>(schedule));
            CAPTURE(stop_every);
            check_same_end(
                train_on_disk(data, with, {.schedule = schedule, .superbatch = 5, .stop_every = stop_every}), expected);
        }
}

TEST_CASE("edges that a batch predicts are left out of its sample ahead of training, too") {
    const auto data = graph_data::random(200, 1, 3, 900, 2);
    set_up with = of_links();
    with.training.exclude_target_edges = true;
    const outcome expected = in_memory(data, with);
    set_up without = with;
    without.training.exclude_target_edges = false;
    CHECK_FALSE(in_memory(data, without) == expected);

    memory_budget budget;
    graph_buffer buffer(data.store, with.engines, neighbor_direction::in,
        graph_buffer::need(whole, data.store, neighbor_direction::in).bytes, budget);
    buffer.begin_epoch(whole);
    const auto graph = buffer.acquire(0);
    for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::conventional}) {
        link_training training(data, with, {.schedule = schedule});
        CHECK(training.run(chosen(*graph, with), &buffer) == expected);
    }
}

TEST_CASE("superbatches of several states are refused, and batches on demand of them are not") {
    const auto data = graph_data::random(200, 1, 3, 900, 2);
    const set_up with = of_links();
    link_training training(data, with, {});
    const memory_csc graph(training.lists(), training.budget);
    node_task task({10, 1}, data.rows, [](std::uint32_t s, std::vector<node_id>& out) { out = {s, s + 10U}; });
    no_topology topology;
    const serial_executor on;
    sampled_batches drawn(
        task, topology, [&] { return make_sampler(graph, sampler_kind::neighbor, with.training.neighbors, 1); }, on);
    const epoch_plan two(2, whole[0]);
    inspected_batches ahead(drawn, {.directory = training.files.path()}, on);
    CHECK_THROWS_WITH_AS(
        ahead.begin_epoch({.states = two}, {}), doctest::Contains("of one state, the plan has 2"), error);
    inspected_batches on_demand(drawn, {.schedule = superbatch_schedule::conventional}, on);
    on_demand.begin_epoch({.states = two}, {});
    CHECK(on_demand.acquire({.states = two}, 1).batches == 1);
    CHECK(on_demand.repeats());
}

TEST_CASE("an error of a task on the inspecting thread ends the run") {
    const auto data = graph_data::random(200, 1, 3, 900, 2);
    set_up with = of_links();
    with.training.negatives.per_chunk = 5;
    link_training training(data, with, {.superbatch = 2});
    disk_csc graph(training.lists(), with.engines, training.budget);
    std::vector<class_id> labels(200, 0);
    labels[7] = 9;
    node_task task({10, 1}, labels, 3, data.rows, [](std::uint32_t, std::vector<node_id>& out) {
        for (node_id v = 0; v < 100; ++v) out.push_back(v);
    });
    graph_in_memory topology(graph);
    sampled_batches drawn(task, topology, [&] { return neighbor_sampler<>(with.training.neighbors, 1); }, training.on);
    inspected_batches batches(drawn, {.batches = 3, .directory = training.files / "run"}, training.on);
    batches.begin_epoch({.states = whole}, {});
    training_batch b;
    b.work = std::make_shared<const state_work>(batches.acquire({.states = whole}, 0));
    const auto produce_all = [&] {
        for (std::uint64_t k = 0; k < b.work->batches; ++k) {
            b.key = {0, {0, 0, k}};
            batches.produce(b, {});
            batches.gathered(b);
        }
    };
    CHECK_THROWS_WITH_AS(produce_all(), doctest::Contains("node 7 has the label 9"), error);
}

} // namespace test_train_inspected_batches
