#include <gneiss/train/trainers/armada.hpp>

#include <doctest/doctest.h>

#include "graph_harness.hpp"
#include "support/error_code.hpp"

#include <sample/graphs.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/miss_ratio.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/dist/assignment.hpp>
#include <gneiss/train/row_owner.hpp>
#include <gneiss/train/worker_batches.hpp>

namespace test_train_armada {

using namespace graph_harness;

static_assert(std::is_same_v<armada_trainer, trainer<armada_loop>>);
static_assert(std::is_same_v<armada_loop::features_type, frame_features>);
static_assert(std::is_same_v<armada_loop::embeddings_type, summed_rows>);

namespace {

constexpr std::uint64_t run_id = 99;

set_up with_features(bool sparse = false) {
    set_up with;
    with.rows = false;
    with.features = test::feature_form{};
    with.features->sparse = sparse;
    with.training.sampler = sampler_kind::neighbor;
    with.training.batch = 9;
    with.epochs = 3;
    return with;
}

/// A cache at the compute worker.
struct cache_of {
    std::size_t rows = 0;
    std::function<delivery_planner()> make{};
    std::uint64_t window = 100;
};

/// Armada over planted classes: the parts of a harness, and workers with their partitions.
struct workers {
    const graph_data& data;
    gnn_harness all;
    std::uint32_t count, resident, group;
    cache_of cache;
    construction construct;
    bool replicated;    // features
    std::uint32_t hubs; // partitions that all hold
    tbb_executor on;
    memory_budget budget{};
    node_task task;
    worker_batches source;
    remote_batches<worker_batches> batches;
    embedding_table learned{}; // rows of all nodes, if the harness has some
    std::optional<armada_trainer> training{};

    workers(const graph_data& of, const set_up& with, std::uint32_t of_workers, std::uint32_t held,
        std::uint32_t batches_of_a_group = 1, cache_of with_cache = {}, construction of_batches = construction::local,
        bool all_features = false, std::uint32_t pinned = 0)
        : data(of),
          all(of, with),
          count(of_workers),
          resident(held),
          group(batches_of_a_group),
          cache(std::move(with_cache)),
          construct(of_batches),
          replicated(all_features),
          hubs(pinned),
          on(with.threads),
          task({}, of.labels, all.encode->outputs(), of.rows, {}),
          source(options(), task, buffers(), on),
          batches(source, {.run = run_id, .sampler = with.training.sampler}, on) {
        if (!with.rows) return;
        learned = embedding_table(of.rows.nodes, all.rows->layout());
        std::ranges::copy(all.all_rows(), learned.data().begin());
    }

    [[nodiscard]] std::vector<node_plan> plans(std::uint64_t epoch) const {
        return assign_partitions(data.rows.partitions, count, resident, all.with.training.seed, epoch, hubs);
    }
    [[nodiscard]] epoch_plan rounds(std::uint64_t epoch) const { return rounds_of(plans(epoch)); }
    [[nodiscard]] worker_options options() const {
        return {.batch = all.with.training.batch,
            .seed = all.with.training.seed,
            .run = run_id,
            .group = group,
            .replicas = all.with.training.replicas.count,
            .cache = cache.make,
            .window = cache.window,
            .sampler = all.with.training.sampler,
            .neighbors = all.with.training.neighbors,
            .construct = construct,
            .ask = {},
            .all_features = replicated,
            .plans = [this](std::uint64_t epoch) { return plans(epoch); },
            .nodes =
                [this](const node_plan& plan, std::uint32_t state, std::vector<node_id>& out) {
                    std::vector<node_id> every;
                    for (node_id v = 0; v < data.rows.nodes; v += 3) every.push_back(v);
                    append_training_nodes(plan, state, data.rows, every, out);
                }};
    }
    [[nodiscard]] std::vector<worker_buffers> buffers() {
        std::vector<worker_buffers> result;
        for (std::uint32_t w = 0; w < count; ++w)
            result.push_back({std::make_unique<graph_buffer>(data.store, all.with.engines, all.direction(), 0, budget,
                                  graph_buffer_options{.owned_lists = construct == construction::remote}),
                std::make_unique<feature_buffer>(*all.features, all.with.engines, 0, budget)});
        return result;
    }
    armada_trainer& trainer() {
        if (!training)
            training.emplace(make_armada(all.with.training,
                {.batches = any_batches(std::ref(batches)),
                    .task = classified_nodes{data.labels, {}, {}, {}},
                    .encode = *all.encode,
                    .weights = all.weights,
                    .optimizer = all.dense,
                    .shape = state_sizes(data.store, &*all.features)
                        .of(std::min(
                            resident * (construct == construction::remote ? count : 1) + hubs, data.rows.partitions)),
                    .cached_rows = cache.rows,
                    .rows = learned.rows() == 0 ? nullptr : &learned,
                    .row_optimizer = all.optimizer},
                on, budget));
        return *training;
    }
    [[nodiscard]] outcome end(std::vector<training_statistics> epochs) {
        outcome result = all.end(std::move(epochs));
        result.rows.assign(learned.data().begin(), learned.data().end());
        return result;
    }
};

outcome train_by(const graph_data& data, const set_up& with, std::uint32_t count, std::uint32_t resident,
    std::uint64_t stop_every = 0, std::uint32_t group = 1, const cache_of& cache = {}, frame_statistics* read = nullptr,
    construction construct = construction::local) {
    workers now(data, with, count, resident, group, cache, construct);
    std::vector<training_statistics> epochs;
    resume_position at{};
    while (at.epoch < with.epochs) {
        std::stop_source stop;
        std::atomic<std::uint64_t> applied{0};
        const training_observer observer{.on_batch = [&](const batch_key&, const training_statistics&) {
            if (stop_every != 0 && ++applied == stop_every) stop.request_stop();
        }};
        std::optional<buffer_state> ahead;
        if (at.epoch + 1 < with.epochs) ahead = now.rounds(at.epoch + 1).front();
        const training_epoch epoch = now.trainer().run(now.rounds(at.epoch), at, observer, stop.get_token(), ahead);
        epochs.push_back(epoch.model);
        at = epoch.position;
    }
    if (read != nullptr) *read = now.batches.statistics();
    return now.end(std::move(epochs));
}

/// An owned, aligned copy of a frame.
struct copied {
    explicit copied(std::span<const std::byte> from) : memory(from.size()) {
        std::ranges::copy(from, memory.span().begin());
    }
    aligned_buffer<std::byte, mini_batch::alignment> memory;
};

} // namespace

TEST_CASE("one worker that holds everything trains the bits of a trainer without frames") {
    const graph_data data = graph_data::planted(300, 3);
    for (const bool sparse : {false, true})
        for (const sampler_kind kind : {sampler_kind::neighbor, sampler_kind::dense}) {
            CAPTURE(sparse);
            set_up with = with_features(sparse);
            with.training.sampler = kind;
            with.order = "memory";
            with.order_slots = with.buffer_slots = 3;
            const outcome expected = train(data, with);
            CHECK(train_by(data, with, 1, 3) == expected);
            with.training.replicas.count = 3;
            const outcome three = train(data, with);
            CHECK(three.weights != expected.weights);
            CHECK(train_by(data, with, 1, 64) == three);
        }
}

TEST_CASE("workers, replicas and threads: the logical ones decide the bits, the real ones none") {
    const graph_data data = graph_data::planted(400, 8);
    set_up with = with_features();
    std::set<std::vector<float>> different;
    for (const std::uint32_t count : {1U, 2U, 3U})
        for (const std::uint32_t replicas : {1U, 2U, 3U}) {
            CAPTURE(count);
            CAPTURE(replicas);
            with.training.replicas.count = replicas;
            with.threads = 1;
            with.training.pipeline.sample_workers = 1;
            const outcome expected = train_by(data, with, count, 2);
            different.insert(expected.weights);
            CHECK(expected.epochs.back().loss < expected.epochs.front().loss);
            with.threads = 4;
            with.training.pipeline.sample_workers = 3;
            CHECK(train_by(data, with, count, 2) == expected);
            for (const std::uint64_t stop_every : {1U, 5U}) { // steps of replicas are whole
                const outcome resumed = train_by(data, with, count, 2, stop_every);
                CHECK(resumed.weights == expected.weights);
                CHECK(resumed.state == expected.state);
            }
        }
    CHECK(different.size() == 9);
}

TEST_CASE("batches above the bound of a sample are made again, alone, and train the same bits") {
    const graph_data data = graph_data::planted(400, 8);
    set_up with = with_features();
    with.training.replicas.count = 3;
    const outcome expected = train_by(data, with, 2, 2);
    with.training.sample_memory = 9000; // some of the frames
    CHECK(train_by(data, with, 2, 2) == expected);
}

TEST_CASE("batches that share rows train the bits of those that do not, resumed within a group too") {
    const graph_data data = graph_data::planted(400, 8);
    for (const bool sparse : {false, true})
        for (const sampler_kind kind : {sampler_kind::neighbor, sampler_kind::dense}) {
            set_up with = with_features(sparse);
            with.training.sampler = kind;
            with.training.replicas.count = 2;
            const outcome expected = train_by(data, with, 2, 2);
            for (const std::uint32_t group : {2U, 3U, 64U}) {
                CAPTURE(group);
                CHECK(train_by(data, with, 2, 2, 0, group) == expected);
                CHECK(train_by(data, with, 2, 2, 3, group).weights == expected.weights);
                with.threads = 4;
                with.training.pipeline.sample_workers = 3;
                CHECK(train_by(data, with, 2, 2, 0, group) == expected);
                with.training.sample_memory = 4000; // some batches are made again
                CHECK(train_by(data, with, 2, 2, 0, group) == expected);
                with.training.sample_memory = 0;
                with.threads = 1;
                with.training.pipeline.sample_workers = 1;
            }
        }
}

TEST_CASE("a group's frames hold each row of its batches once, and are made again the same") {
    const graph_data data = graph_data::planted(400, 8);
    const set_up with = with_features();
    workers now(data, with, 2, 2, 3);
    const epoch_plan rounds = now.rounds(0);
    const epoch_start start{rounds, 0};
    now.source.begin_epoch(start, {});
    const state_work work = now.source.acquire(start, 0);
    const batch_groups& groups = worker_batches::groups(work);
    REQUIRE(groups.size() > 2);
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const auto made = now.source.make_group(work, {0, {0, 0, groups[g].back()}});
        REQUIRE(made->frames.size() == groups[g].size());
        if (groups[g].size() == 1) {
            CHECK(made->rows.empty());
            continue;
        }
        const frame rows = frame::attach(made->rows, {.run = run_id, .key = batch_key{0, {0, 0, groups[g].front()}}});
        std::set<node_id> distinct;
        for (std::size_t m = 0; m < groups[g].size(); ++m) {
            const batch_key key{0, {0, 0, groups[g][m]}};
            const frame of = frame::attach(made->frames[m], {.run = run_id, .key = key});
            of.check_rows(rows);
            const auto sample = neighbor_sample<>::of(of.sample());
            REQUIRE(of.positions().size() == sample.nodes.size());
            distinct.insert(sample.nodes.begin(), sample.nodes.end());
            for (std::size_t i = 0; i < sample.nodes.size(); ++i)
                for (std::size_t c = 0; c < graph_data::columns; ++c)
                    CHECK(
                        rows.dense()(of.positions()[i], c) == data.features[sample.nodes[i] * graph_data::columns + c]);
            mini_batch_arena arena;
            const received_frame got = now.source.make(work, key, arena, {});
            CHECK(
                std::ranges::equal(frame::attach(got.bytes, {.run = run_id, .key = key}).positions(), of.positions()));
            CHECK(frame::attach(got.rows, {.run = run_id}).rows() == rows.rows());
        }
        CHECK(rows.rows() == distinct.size());
    }
}

namespace {

/// Caches of a tenth of 400 rows.
std::vector<cache_of> caches(std::uint64_t window) {
    std::vector<node_id> fixed;
    for (node_id v = 0; v < 40; ++v) fixed.push_back(7 * v);
    return {{40, [] { return delivery_planner(lru(40)); }},
        {40, [fixed] { return delivery_planner(static_cache(fixed, 40)); }},
        {40, [] { return delivery_planner(std::size_t{40}); }, window}};
}

} // namespace

TEST_CASE("a cache of rows trains the bits of none, with groups, several workers and threads, and resumed") {
    const graph_data data = graph_data::planted(400, 8);
    for (const sampler_kind kind : {sampler_kind::neighbor, sampler_kind::dense})
        for (const std::uint32_t count : {1U, 3U}) {
            set_up with = with_features();
            with.training.sampler = kind;
            with.training.replicas.count = 2;
            frame_statistics all;
            const outcome expected = train_by(data, with, count, 2, 0, 1, {}, &all);
            for (const cache_of& cache : caches(12)) // more than are in flight
                for (const std::uint32_t group : {1U, 3U}) {
                    CAPTURE(group);
                    frame_statistics read, again;
                    CHECK(train_by(data, with, count, 2, 0, group, cache, &read) == expected);
                    CHECK(read.rows < all.rows);
                    CHECK(read.cached > 0);
                    if (group == 1) CHECK(read.rows + read.cached == all.rows);
                    CHECK(train_by(data, with, count, 2, 3, group, cache).weights == expected.weights);
                    with.threads = 4;
                    with.training.pipeline.sample_workers = 3;
                    CHECK(train_by(data, with, count, 2, 0, group, cache, &again) == expected);
                    CHECK(again.rows == read.rows);
                    CHECK(again.bytes == read.bytes);
                    with.threads = 1;
                    with.training.pipeline.sample_workers = 1;
                }
        }
}

TEST_CASE("as many rows are sent as a simulation of the cache reads, from epoch to epoch") {
    const graph_data data = graph_data::planted(400, 8);
    set_up with = with_features();
    memory_trace trace;
    {
        workers now(data, with, 1, 8);
        for (std::uint64_t epoch = 0; epoch < with.epochs; ++epoch) {
            const epoch_plan rounds = now.rounds(epoch);
            const epoch_start start{rounds, epoch};
            now.source.begin_epoch(start, {});
            REQUIRE(rounds.size() == 1);
            const state_work work = now.source.acquire(start, 0);
            for (std::uint64_t k = 0; k < work.batches; ++k) {
                mini_batch_arena arena;
                const batch_key key{epoch, {0, 0, k}};
                const frame of = frame::attach(now.source.make(work, key, arena, {}).bytes, {.run = run_id});
                trace.append(neighbor_sample<>::of(of.sample()).nodes);
            }
        }
    }
    const std::size_t batches = trace.batches() / with.epochs; // windows end with their round
    REQUIRE(batches % 5 == 0);
    const auto rows = [&](const cache_of& cache) {
        frame_statistics read;
        (void)train_by(data, with, 1, 8, 0, 1, cache, &read);
        return read.rows;
    };
    lru recent(40);
    CHECK(rows(caches(5)[0]) == simulate(recent, trace).misses);
    CHECK(rows(caches(5)[2]) ==
        simulate_belady(trace, {.capacity = 40, .batches = 5, .carry = true, .nodes = 400}, serial_executor{}).reads());
}

TEST_CASE("a group made again leaves out the same rows") {
    const graph_data data = graph_data::planted(400, 8);
    const set_up with = with_features();
    workers now(data, with, 1, 8, 2, caches(5)[2]), other(data, with, 1, 8, 2);
    const epoch_plan rounds = now.rounds(0);
    const epoch_start start{rounds, 0};
    now.source.begin_epoch(start, {});
    other.source.begin_epoch(start, {});
    const state_work work = now.source.acquire(start, 0), of_other = other.source.acquire(start, 0);
    for (std::uint64_t k = 0; k < work.batches; k += 2) {
        const batch_key key{0, {0, 0, k}};
        mini_batch_arena arena;
        const received_frame got = now.source.make(work, key, arena, {});
        const frame first = frame::attach(got.rows, {.run = run_id});
        row_delivery same{.sequence = first.sequence(), .from = {}, .enter = {}};
        same.from.assign(first.from().begin(), first.from().end());
        same.enter.assign(first.enter().begin(), first.enter().end());
        const auto again = other.source.make_group(of_other, key, &same); // by another worker
        const frame second = frame::attach(again->rows, {.run = run_id});
        CHECK(second.rows() == first.rows());
        CHECK(std::ranges::equal(second.from(), first.from()));
        for (std::size_t r = 0; r < first.rows(); ++r) CHECK(std::ranges::equal(second.dense()[r], first.dense()[r]));
        same.from.pop_back();
        CHECK(test::code_of([&] { (void)other.source.make_group(of_other, key, &same); }) == errc::invalid_argument);
    }
}

TEST_CASE("a worker samples within its own partitions, and each training node is a seed once an epoch") {
    const graph_data data = graph_data::planted(400, 8);
    const set_up with = with_features();
    for (const std::uint32_t count : {1U, 3U, 8U})
        for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
            workers now(data, with, count, 2);
            const auto plans = now.plans(epoch);
            const epoch_plan rounds = now.rounds(epoch);
            const epoch_start start{rounds, epoch};
            now.source.begin_epoch(start, {});
            std::multiset<node_id> seeds;
            for (std::uint32_t t = 0; t < rounds.size(); ++t) {
                const state_work work = now.source.acquire(start, t);
                for (std::uint64_t k = 0; k < work.batches; ++k) {
                    mini_batch_arena arena;
                    const batch_key key{epoch, {t, 0, k}};
                    const received_frame got = now.source.make(work, key, arena, {});
                    const frame of = frame::attach(got.bytes, {.run = run_id, .key = key});
                    const auto sample = neighbor_sample<>::of(of.sample());
                    const auto mine = sample.nodes.first(sample.seeds());
                    seeds.insert(mine.begin(), mine.end());
                    std::uint32_t owner = 0;
                    const partition_id home = data.rows.of(mine.front());
                    while (plans[owner].states.size() <= t ||
                        !std::ranges::binary_search(plans[owner].states[t].resident, home))
                        REQUIRE(++owner < count);
                    for (const node_id v : sample.nodes)
                        CHECK(std::ranges::binary_search(plans[owner].states[t].resident, data.rows.of(v)));
                    REQUIRE(of.dense().rows() == sample.nodes.size());
                    for (std::size_t i = 0; i < sample.nodes.size(); ++i)
                        for (std::size_t c = 0; c < graph_data::columns; ++c)
                            CHECK(of.dense()(i, c) == data.features[sample.nodes[i] * graph_data::columns + c]);
                    for (std::size_t i = 0; i < mine.size(); ++i) CHECK(of.labels()[i] == data.labels[mine[i]]);
                    mini_batch_arena other; // made again: the same frame
                    const frame again =
                        frame::attach(now.source.make(work, key, other, {}).bytes, {.run = run_id, .key = key});
                    CHECK(std::ranges::equal(neighbor_sample<>::of(again.sample()).neighbors, sample.neighbors));
                    CHECK(std::ranges::equal(again.labels(), of.labels()));
                }
            }
            CHECK(seeds.size() == 134);
            CHECK(std::set<node_id>(seeds.begin(), seeds.end()).size() == 134);
        }
}

TEST_CASE("remote construction: the bits of one process over the partitions of all workers, in one message per owner") {
    const graph_data data = graph_data::planted(400, 8);
    for (const bool sparse : {false, true})
        for (const sampler_kind kind : {sampler_kind::neighbor, sampler_kind::dense})
            for (const std::uint32_t group : {1U, 3U})
                for (const std::uint32_t count : {1U, 3U, 8U}) {
                    const char* const fanout = group == 1 ? "3,3" : "2+1,3";
                    const bool replicated = count == 8; // features
                    CAPTURE(sparse);
                    CAPTURE(fanout);
                    CAPTURE(count);
                    set_up with = with_features(sparse);
                    with.training.sampler = kind;
                    with.training.neighbors.fanout = parse_fanout(fanout);
                    workers now(data, with, count, 2, group, {}, construction::remote, replicated, count == 3 ? 1 : 0);
                    const epoch_plan rounds = now.rounds(1);
                    const epoch_start start{rounds, 1};
                    now.source.begin_epoch(start, {});
                    memory_budget budget;
                    graph_buffer in_one_process(data.store, with.engines, now.all.direction(), 0, budget);
                    in_one_process.begin_epoch(rounds);
                    std::uint64_t groups = 0;
                    for (std::uint32_t t = 0; t < rounds.size(); ++t) {
                        const state_work work = now.source.acquire(start, t);
                        const auto all = in_one_process.acquire(t);
                        groups += worker_batches::groups(work).size();
                        for (std::uint64_t k = 0; k < work.batches; ++k) {
                            mini_batch_arena arena, expected;
                            const batch_key key{1, {t, 0, k}};
                            const received_frame got = now.source.make(work, key, arena, {});
                            const frame of = frame::attach(got.bytes, {.run = run_id, .key = key});
                            std::span<const node_id> nodes;
                            const auto check = [&](auto sampler, auto sample) {
                                nodes = input_nodes(sample);
                                const std::size_t first =
                                    kind == sampler_kind::dense ? nodes.size() - sample.seeds() : 0;
                                const auto seeds = nodes.subspan(first, sample.seeds());
                                (void)sampler.sample(key, *all, seeds, serial_executor{}, expected);
                                mini_batch_arena found;
                                std::ranges::copy(
                                    of.sample().bytes(), found.reserve(of.sample().bytes().size()).begin());
                                CHECK((test::contents(found) == test::contents(expected)));
                            };
                            if (kind == sampler_kind::dense)
                                check(dense_sampler<>(with.training.neighbors, with.training.seed),
                                    dense_sample<>::of(of.sample()));
                            else
                                check(neighbor_sampler<>(with.training.neighbors, with.training.seed),
                                    neighbor_sample<>::of(of.sample()));
                            const frame rows = got.rows.empty() ? of : frame::attach(got.rows, {.run = run_id});
                            REQUIRE((got.rows.empty() ? of.rows() : of.positions().size()) == nodes.size());
                            for (std::size_t i = 0; i < nodes.size(); ++i) {
                                std::vector<float> row(graph_data::columns, 0.0F);
                                const std::size_t at = got.rows.empty() ? i : of.positions()[i];
                                if (sparse)
                                    for (std::uint64_t e = rows.sparse()->offsets[at];
                                        e < rows.sparse()->offsets[at + 1]; ++e)
                                        row[rows.sparse()->columns[e]] =
                                            rows.sparse()->values.empty() ? 1.0F : rows.sparse()->values[e];
                                else
                                    std::ranges::copy(rows.dense()[at], row.begin());
                                CHECK(std::ranges::equal(row,
                                    std::span(data.features)
                                        .subspan(nodes[i] * graph_data::columns, graph_data::columns)));
                            }
                        }
                    }
                    const construction_traffic sent = now.source.traffic();
                    CHECK(sent.messages <= 2 * (replicated ? 2 : 3) * (count - 1) * groups); // two hops and rows
                    CHECK((sent.remote != 0) == (count != 1));
                    CHECK((sent.remote_rows != 0) == (count != 1 && !replicated));
                    CHECK((sent.messages != 0) == (count != 1));
                }
}

TEST_CASE(
    "remote construction trains the same bits on any threads, stopped or not, and others than local construction") {
    const graph_data data = graph_data::planted(400, 8);
    set_up with = with_features();
    with.training.replicas.count = 2;
    with.threads = 1;
    with.training.pipeline.sample_workers = 1;
    const auto remote = [&](std::uint32_t count, std::uint64_t stop_every) {
        return train_by(data, with, count, 2, stop_every, 1, {}, nullptr, construction::remote);
    };
    const outcome expected = remote(3, 0);
    CHECK(expected.weights != train_by(data, with, 3, 2).weights);
    CHECK(remote(1, 0) == train_by(data, with, 1, 2)); // no other worker
    with.threads = 4;
    with.training.pipeline.sample_workers = 3;
    CHECK(remote(3, 0) == expected);
    CHECK(remote(3, 5).weights == expected.weights);
}

TEST_CASE(
    "workers in processes of their own ask each other for the frames of one; a changed answer is refused by name") {
    const graph_data data = graph_data::planted(400, 8);
    for (const bool sparse : {false, true}) {
        const set_up with = with_features(sparse);
        workers now(data, with, 3, 2, 1, {}, construction::remote);
        const epoch_plan rounds = now.rounds(0);
        const epoch_start start{rounds, 0};
        std::vector<std::unique_ptr<worker_batches>> apart;
        std::vector<state_work> held(3);
        bool change = false;
        worker_options options = now.options();
        options.ask = [&](const batch_key&, std::span<const owner_message> questions) {
            std::vector<owner_message> answers;
            for (const owner_message& question : questions) {
                auto arena = std::make_shared<mini_batch_arena>();
                const auto bytes =
                    apart[question.owner]->answer(held[question.owner], question.owner, question.bytes, *arena);
                if (change) arena->reserve(bytes.size())[bytes.size() / 2] ^= std::byte{1};
                answers.push_back({question.owner, bytes, std::move(arena)});
            }
            return answers;
        };
        for (std::size_t w = 0; w < 3; ++w) {
            std::vector<worker_buffers> all = now.buffers(), own(3);
            own[w] = std::move(all[w]);
            apart.push_back(std::make_unique<worker_batches>(options, now.task, std::move(own), now.on));
            apart.back()->begin_epoch(start, {});
        }
        now.source.begin_epoch(start, {});
        for (std::uint32_t t = 0; t < rounds.size(); ++t) {
            const state_work work = now.source.acquire(start, t);
            for (std::size_t w = 0; w < 3; ++w) {
                held[w] = {}; // two states have no room
                held[w] = apart[w]->acquire(start, t);
            }
            for (std::uint64_t k = 0; k < work.batches; ++k) {
                const std::uint32_t w = worker_batches::place(work, k).worker;
                const batch_key key{0, {t, 0, k}};
                mini_batch_arena mine, expected;
                const frame::expectation of{.run = run_id, .key = key};
                const frame got = frame::attach(apart[w]->make(held[w], key, mine, {}).bytes, of);
                const frame one = frame::attach(now.source.make(work, key, expected, {}).bytes, of);
                const auto sample = [](const frame& from) {
                    mini_batch_arena copy;
                    std::ranges::copy(from.sample().bytes(), copy.reserve(from.sample().bytes().size()).begin());
                    return test::contents(copy);
                };
                CHECK((sample(got) == sample(one)));
                CHECK(got.rows() == one.rows());
                if (sparse)
                    CHECK(std::ranges::equal(got.sparse()->columns, one.sparse()->columns));
                else
                    for (std::size_t i = 0; i < got.rows(); ++i)
                        CHECK(std::ranges::equal(got.dense()[i], one.dense()[i]));
                if (t != 0 || k != 0) continue;
                change = true;
                try {
                    (void)apart[w]->make(held[w], key, mine, {});
                    FAIL("a changed answer is believed");
                } catch (const error& e) {
                    CHECK(e.code() == errc::corrupt);
                    CHECK(std::string(e.what()).starts_with("the answer of batch worker "));
                }
                change = false;
            }
        }
        construction_traffic sent;
        for (const auto& of : apart) sent += of->traffic();
        CHECK(sent.remote_rows > 0);
        CHECK(sent == now.source.traffic());
        held.clear();
    }
}

namespace {

/// Gives the frames of workers, changed.
struct changing {
    worker_batches& from;
    std::function<void(std::span<std::byte>)> change;
    std::function<batch_key(batch_key)> other = [](batch_key key) { return key; };

    void begin_epoch(const epoch_start& start, const std::stop_token& stop) { from.begin_epoch(start, stop); }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t i) { return from.acquire(start, i); }
    [[nodiscard]] bool ready(std::uint32_t i) const { return from.ready(i); }
    received_frame make(
        const state_work& work, const batch_key& key, mini_batch_arena& arena, const std::stop_token& stop) const {
        const received_frame got = from.make(work, other(key), arena, stop);
        auto own = std::make_shared<copied>(got.bytes); // as in memory of another process
        if (change) change(own->memory.span());
        return {own->memory.span(), own};
    }
    void enter(phase next) { from.enter(next); }
};
static_assert(frame_source<changing>);

} // namespace

TEST_CASE("frames from elsewhere train the same bits; a changed, foreign or misplaced one ends the epoch") {
    const graph_data data = graph_data::planted(300, 4);
    set_up with = with_features();
    with.epochs = 1;
    const outcome expected = train_by(data, with, 2, 1);
    const auto run = [&](auto change, auto other, std::uint64_t id, std::uint64_t most) {
        workers now(data, with, 2, 1);
        changing source{now.source, change};
        if (other) source.other = other;
        remote_batches<changing> batches(
            source, {.run = id, .sampler = with.training.sampler, .most_bytes = most}, now.on);
        armada_trainer training = make_armada(with.training,
            {.batches = any_batches(std::ref(batches)),
                .task = classified_nodes{data.labels, {}, {}, {}},
                .encode = *now.all.encode,
                .weights = now.all.weights,
                .optimizer = now.all.dense,
                .shape = state_sizes(data.store, &*now.all.features).of(1)},
            now.on, now.budget);
        std::vector<training_statistics> epochs{training.run(now.rounds(0), 0).model};
        return now.all.end(std::move(epochs));
    };
    using changed = std::function<void(std::span<std::byte>)>;
    using moved = std::function<batch_key(batch_key)>;
    CHECK(run(changed{}, moved{}, run_id, 0) == expected);
    const changed flip = [](std::span<std::byte> bytes) { bytes[bytes.size() / 2] ^= std::byte{4}; };
    CHECK(test::code_of([&] { (void)run(flip, moved{}, run_id, 0); }) == errc::corrupt);
    CHECK(test::code_of([&] { (void)run(changed{}, moved{}, run_id + 1, 0); }) == errc::config_mismatch);
    CHECK(test::code_of([&] { (void)run(changed{}, moved{}, run_id, 1000); }) == errc::over_budget);
    const moved first = [](batch_key key) {
        key.number.index = 0;
        return key;
    };
    CHECK(test::code_of([&] { (void)run(changed{}, first, run_id, 0); }) == errc::config_mismatch);
}

TEST_CASE("a replica that others step makes the bits of the loop, and a wrong, repeated or late frame changes none") {
    const graph_data data = graph_data::planted(300, 4);
    set_up with = with_features();
    with.epochs = 1;
    with.training.replicas.count = 2;
    const outcome expected = train_by(data, with, 2, 1);
    workers now(data, with, 2, 1);
    const gnn_task task{classified_nodes{data.labels, {}, {}, {}}};
    const auto replica = make_armada_replica(with.training, task, *now.all.encode, now.all.weights,
        {.run = run_id, .sampler = with.training.sampler}, now.on);
    replica->begin({sgd{}, now.all.dense});
    const std::size_t size = replica->size();
    const epoch_plan rounds = now.rounds(0);
    const epoch_start start{rounds, 0};
    now.source.begin_epoch(start, {});
    std::optional<copied> late;
    std::uint64_t step = 0, refused = 0;
    double loss = 0;
    for (std::uint32_t t = 0; t < rounds.size(); ++t) {
        const state_work work = now.source.acquire(start, t);
        for (std::uint64_t first = 0; first < work.batches; first += 2) {
            ++step;
            batch_key key{0, {t, 0, first}};
            std::vector<std::vector<float>> gradients;
            for (; key.number.index < std::min(first + 2, work.batches); ++key.number.index) {
                mini_batch_arena arena;
                copied here(now.source.make(work, key, arena, {}).bytes);
                const std::span<std::byte> bytes = here.memory.span();
                std::vector<float>& of = gradients.emplace_back(size);
                const auto refusal = [&](std::span<const std::byte> got) {
                    std::vector<float> none(size);
                    ++refused;
                    return test::code_of([&] { (void)replica->differentiate(got, key, step, none); });
                };
                for (const std::size_t at : {std::size_t{130}, bytes.size() / 2, bytes.size() - 1}) {
                    copied flipped(bytes);
                    flipped.memory.span()[at] ^= std::byte{4};
                    CHECK(refusal(flipped.memory.span()) == errc::corrupt);
                }
                if (late) CHECK(refusal(late->memory.span()) == errc::config_mismatch);
                CHECK(refusal(bytes.first(bytes.size() - 64)) == errc::invalid_format);
                loss += replica->differentiate(bytes, key, step, of).loss;
                std::vector<float> again(size);
                (void)replica->differentiate(bytes, key, step, again); // the frame of a worker that was asked, too
                CHECK(again == of);
                late.emplace(bytes);
            }
            --key.number.index;
            const std::vector<std::span<const float>> all(gradients.begin(), gradients.end());
            replica->step(all, key, step);
        }
    }
    replica->end();
    const outcome got = now.all.end({});
    CHECK(refused > 4 * step);
    CHECK(got.weights == expected.weights);
    CHECK(got.state == expected.state);
    CHECK(loss == doctest::Approx(expected.epochs.front().loss));
    // Another run
    const auto other = make_armada_replica(with.training, task, *now.all.encode, now.all.weights,
        {.run = run_id + 1, .sampler = with.training.sampler}, now.on);
    std::vector<float> none(size);
    CHECK(test::code_of([&] {
        const batch_key key = frame::attach(late->memory.span(), {.run = run_id}).id().key;
        (void)other->differentiate(late->memory.span(), key, 1, none);
    }) == errc::config_mismatch);
    none.resize(size - 1);
    CHECK(test::code_of([&] { replica->step(std::vector<std::span<const float>>{none}, {}, step + 1); }) ==
        errc::config_mismatch);
    CHECK(test::code_of([&] { replica->step({}, {}, step + 1); }) == errc::invalid_argument);
}

TEST_CASE("learned rows: a step of one batch is that of a trainer with a buffer of them") {
    const graph_data data = graph_data::planted(300, 3);
    for (const bool sparse : {false, true}) {
        CAPTURE(sparse);
        set_up with = with_features(sparse);
        with.rows = true;
        with.order = "memory";
        with.order_slots = with.buffer_slots = 3;
        const outcome expected = train(data, with);
        CHECK(expected.rows.size() == 300 * 16);
        CHECK(train_by(data, with, 1, 3) == expected);
    }
}

TEST_CASE("learned rows: the logical workers and replicas decide the bits, the real ones none") {
    const graph_data data = graph_data::planted(400, 8);
    for (const std::string optimizer : {"adagrad", "adam", "sgd"}) {
        set_up with = with_features();
        with.rows = true;
        with.optimizer = optimizer;
        std::set<std::vector<float>> different;
        for (const std::uint32_t replicas : {1U, 2U, 3U}) {
            CAPTURE(optimizer);
            CAPTURE(replicas);
            with.training.replicas.count = replicas;
            with.threads = 1;
            with.training.pipeline.sample_workers = 1;
            const outcome expected = train_by(data, with, 2, 2);
            different.insert(expected.rows);
            CHECK(expected.epochs.back().loss < expected.epochs.front().loss);
            with.threads = 4;
            with.training.pipeline.sample_workers = 3;
            CHECK(train_by(data, with, 2, 2) == expected);
            CHECK(train_by(data, with, 2, 2, 0, 3) == expected); // groups that share the features
            const outcome resumed = train_by(data, with, 2, 2, 5);
            CHECK(resumed.rows == expected.rows);
            CHECK(resumed.weights == expected.weights);
        }
        CHECK(different.size() == 3);
    }
}

TEST_CASE("learned rows of owners, whoever owns them: the bits of the loop") {
    const graph_data data = graph_data::planted(300, 4);
    set_up with = with_features();
    with.rows = true;
    with.epochs = 1;
    with.training.replicas.count = 3;
    const outcome expected = train_by(data, with, 2, 1);
    for (const std::uint32_t count : {1U, 3U, 4U}) {
        CAPTURE(count);
        workers now(data, with, 2, 1);
        const row_owners places(data.rows, count);
        const std::size_t dim = now.learned.layout().dim, floats = now.learned.layout().floats();
        std::vector<row_owner> owners;
        for (std::uint32_t o = 0; o < count; ++o) {
            std::vector<float> rows(places.rows_of(o) * floats);
            places.for_each_range(o, [&](std::uint64_t first, std::uint64_t size, std::uint64_t place) {
                std::ranges::copy(now.learned.data().subspan(first * floats, size * floats),
                    rows.begin() + static_cast<std::ptrdiff_t>(place * floats));
            });
            owners.emplace_back(places.rows_of(o), now.learned.layout(), now.on).begin(1, 0, rows, now.all.optimizer);
        }
        const gnn_task task{classified_nodes{data.labels, {}, {}, {}}};
        const auto replica = make_armada_replica(with.training, task, *now.all.encode, now.all.weights,
            {.run = run_id, .sampler = with.training.sampler}, now.on, 0, dim);
        replica->begin({sgd{}, now.all.dense});
        const epoch_plan rounds = now.rounds(0);
        const epoch_start start{rounds, 0};
        now.source.begin_epoch(start, {});
        std::uint64_t step = 0;
        for (std::uint32_t t = 0; t < rounds.size(); ++t) {
            const state_work work = now.source.acquire(start, t);
            for (std::uint64_t first = 0; first < work.batches; first += 3) {
                ++step;
                batch_key key{0, {t, 0, first}};
                std::vector<std::vector<float>> gradients;
                std::vector<std::vector<std::vector<std::uint32_t>>> at(count); // [owners, replicas]
                std::vector<std::vector<std::vector<float>>> of(count);
                for (; key.number.index < std::min(first + 3, work.batches); ++key.number.index) {
                    mini_batch_arena arena;
                    const copied here(now.source.make(work, key, arena, {}).bytes);
                    std::vector<float>& dense = gradients.emplace_back(replica->size());
                    (void)replica->differentiate(here.memory.span(), key, step, dense, {},
                        [&](std::span<const node_id> nodes, matrix_view<float> to) {
                            const row_owners::split asked = places.divide(nodes);
                            for (std::size_t i = 0; i < nodes.size(); ++i) {
                                const auto [o, at_owner] = asked.of[i];
                                owners[o].read(
                                    1, step, std::span(asked.places[o]).subspan(at_owner, 1), to.middle_rows(i, 1));
                            }
                        });
                    const auto [nodes, learned] = replica->row_gradients();
                    row_owners::split divided = places.divide(nodes);
                    for (std::uint32_t o = 0; o < count; ++o) of[o].emplace_back(divided.places[o].size() * dim);
                    for (std::size_t i = 0; i < nodes.size(); ++i)
                        std::ranges::copy(learned[i],
                            of[divided.of[i].first].back().begin() +
                                static_cast<std::ptrdiff_t>(divided.of[i].second * dim));
                    for (std::uint32_t o = 0; o < count; ++o) at[o].push_back(std::move(divided.places[o]));
                }
                --key.number.index;
                replica->step(std::vector<std::span<const float>>(gradients.begin(), gradients.end()), key, step);
                for (std::uint32_t o = 0; o < count; ++o) {
                    std::vector<row_gradients> all;
                    for (std::size_t r = 0; r < at[o].size(); ++r)
                        all.push_back({at[o][r], {of[o][r].data(), at[o][r].size(), dim}});
                    // A repeated step, and those of others: each is applied once.
                    CHECK(test::code_of([&] { owners[o].apply(2, step, all); }) == errc::invalid_argument);
                    CHECK(test::code_of([&] { owners[o].apply(1, step + 1, all); }) == errc::invalid_argument);
                    owners[o].apply(1, step, all);
                    CHECK(test::code_of([&] { owners[o].apply(1, step, all); }) == errc::invalid_argument);
                }
            }
        }
        replica->end();
        for (std::uint32_t o = 0; o < count; ++o)
            places.for_each_range(o, [&](std::uint64_t first, std::uint64_t size, std::uint64_t place) {
                std::ranges::copy(owners[o].rows().subspan(place * floats, size * floats),
                    now.learned.data().begin() + static_cast<std::ptrdiff_t>(first * floats));
            });
        const outcome got = now.end({});
        CHECK(got.rows == expected.rows);
        CHECK(got.weights == expected.weights);
        CHECK(got.state == expected.state);
    }
}

TEST_CASE("an owner of learned rows sums in the order of replicas, and refuses what is not its next step") {
    const row_layout layout{2, 0};
    row_owner owner(3, layout, serial_executor{});
    const std::vector<float> rows{1, 1, 2, 2, 3, 3};
    owner.begin(5, 10, rows, sgd{1});
    const std::vector<float> big{1e8F, 0, -1e8F, 0}, small{1, 1};
    const std::vector<std::uint32_t> two{2, 0}, last{0}, beyond{3};
    const auto of = [](const std::vector<std::uint32_t>& places, const std::vector<float>& values) {
        return row_gradients{places, {values.data(), places.size(), values.size() / places.size()}};
    };
    std::vector<float> read(2);
    owner.read(5, 11, last, {read.data(), 1, 2});
    CHECK(read == std::vector<float>{1, 1});
    CHECK(test::code_of([&] { owner.read(4, 11, last, {read.data(), 1, 2}); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { owner.read(5, 12, last, {read.data(), 1, 2}); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { owner.read(5, 11, beyond, {read.data(), 1, 2}); }) == errc::out_of_range);
    const std::vector<row_gradients> wrong{of(two, big), of(beyond, small)}, wide{of(last, {1, 2, 3})};
    CHECK(test::code_of([&] { owner.apply(5, 11, wrong); }) == errc::out_of_range);
    CHECK(test::code_of([&] { owner.apply(5, 11, wide); }) == errc::config_mismatch);
    CHECK(std::ranges::equal(owner.rows(), rows)); // nothing of a step that is refused
    const std::vector<float> minus{1e8F, 0};
    const std::vector<row_gradients> step{of(two, big), of(last, small), of(last, minus)};
    owner.apply(5, 11, step);
    // Row 0: (-1e8 + 1) + 1e8 is 0 in this order of floats, and 1 in another.
    CHECK(std::ranges::equal(owner.rows(), std::vector<float>{1, 0, 2, 2, 3 - 1e8F, 3}));
    CHECK(owner.steps() == 11);
    owner.join(6);
    CHECK(test::code_of([&] { owner.apply(5, 12, step); }) == errc::invalid_argument);
    owner.apply(6, 12, {});
    CHECK(owner.steps() == 12);
    CHECK(test::code_of([&] { owner.begin(7, 0, std::span(rows).first(4), sgd{}); }) == errc::config_mismatch);
    CHECK(test::code_of([&] { owner.begin(7, 0, rows, adagrad{}); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { row_owners({3, 3}, 0); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { (void)row_owners({3, 3}, 2).divide(std::vector<node_id>{3}); }) == errc::out_of_range);
}

TEST_CASE("another plan, frames of other columns, and parts that Armada does not have are refused") {
    const graph_data data = graph_data::planted(300, 4);
    set_up with = with_features();
    workers now(data, with, 2, 1);
    CHECK(test::code_of([&] { (void)now.trainer().run({{.resident = {0}}}, 0); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { worker_batches(now.options(), now.task, {}, now.on); }) == errc::invalid_argument);
    worker_options layerwise = now.options();
    layerwise.sampler = sampler_kind::layerwise;
    CHECK(test::code_of([&] { worker_batches(layerwise, now.task, std::vector<worker_buffers>(1), now.on); }) ==
        errc::invalid_argument);
    training_batch none;
    CHECK(test::code_of([&] { frame_features({.dense = 3}).gather(none, {}); }) == errc::invalid_argument);
    with.training.coverage_correction = .5;
    workers other(data, with, 2, 1);
    CHECK(test::code_of([&] { (void)other.trainer(); }) == errc::invalid_argument);
    with.training.coverage_correction = 0;
    with.rows = true;
    with.training.pipeline.staleness = 1;
    workers stale(data, with, 2, 1);
    CHECK(test::code_of([&] { (void)stale.trainer(); }) == errc::invalid_argument);
}

} // namespace test_train_armada
