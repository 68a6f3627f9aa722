#include <gneiss/train/trainers/marius.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/order/validate.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/engine/throttled.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"
#include "train/link_harness.hpp"

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include <nlohmann/json.hpp>

namespace test_train_marius {

using namespace link_harness;
using gneiss::test::temporary_directory;

TEST_CASE("no partition is missing if all nodes are resident, even if some are empty") {
    const row_partitioning rows{9, 8}; // the last three are empty
    const std::vector<edge> edges{{0, 0, 1}, {2, 0, 3}};
    memory_budget budget;
    edge_buffer buffer({.size = [&](edge_bucket b) { return b == edge_bucket{0, 0} ? edges.size() : 0; },
                           .load = [&](edge_bucket, std::span<edge> to) { std::ranges::copy(edges, to.begin()); }},
        {.partitions = 8}, budget);
    const epoch_plan states = in_memory_order(8)(0);
    buffer.begin_epoch(states);
    const link_state all(states[0], rows, buffer.acquire(0), 1000, batch_scope::state, 0, 0, 0);
    CHECK(all.resident.size() == 9);
    CHECK(all.resident.ranges().size() == all.resident.partitions()); // so that nothing is corrected
}

TEST_CASE("a disk run equals the in-memory run of the same plan, bit for bit: rows, state, relations and loss") {
    const temporary_directory directory;
    const memory_file_system memory;
    const auto slow = std::make_shared<throttled_device<>>(
        throttle_options{.bytes_per_second = 4e9, .latency = std::chrono::microseconds(20), .block_bytes = 4096});
    std::vector<std::pair<std::string, engine_factory>> engines{
        {"threads", [] { return any_engine(threads_engine{}); }},
        {"memory", [&] { return any_engine(memory_engine(memory)); }},
        {"throttled", [&] { return any_engine(throttled(threads_engine{}, slow)); }},
    };
#ifdef GNEISS_HAS_URING
    try {
        (void)choose_engine("uring");
        engines.emplace_back("uring", [] { return any_engine(uring_engine{}); });
    } catch (const error& refusal) {
        MESSAGE("uring is skipped: " << std::string(refusal.what()));
    }
#endif
    // Each engine of a run fails at the same read or write of its own, which the queue retries. Not at a sync: a failed
    // one is an error, whatever its cause.
    std::uint64_t struck = 0, strike_at = 1;
    std::vector<std::shared_ptr<fault_injector>> injectors;
    std::mutex injectors_mutex;
    const std::pair<std::string, fault_kind> kinds[]{{"interrupted", fault_kind::interrupted},
        {"asked to retry", fault_kind::try_again}, {"short transfers", fault_kind::short_transfer}};
    for (const auto& [name, kind] : kinds)
        engines.emplace_back(name, [&, kind = kind] {
            const fault what{.kind = kind, .at = strike_at, .on = {.sync = false}};
            const auto injector = std::make_shared<fault_injector>(what);
            const std::scoped_lock lock(injectors_mutex);
            injectors.push_back(injector);
            return any_engine(faulty(threads_engine{}, injector));
        });
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        random_stream draw(random_key{seed, random_domain::user});
        const auto partitions = static_cast<std::uint32_t>(2 + draw.below(7));
        toy_graph graph(20 + draw.below(300), partitions, static_cast<std::uint32_t>(1 + draw.below(5)),
            200 + draw.below(800), seed);
        set_up with;
        with.decoder = std::vector<std::string>{"dot", "distmult", "complex", "transe"}[draw.below(4)];
        with.optimizer = std::vector<std::string>{"sgd", "adagrad", "adam"}[draw.below(3)];
        with.order = std::vector<std::string>{"beta", "hilbert", "hilbert-symmetric", "row-major"}[draw.below(4)];
        with.order_slots = static_cast<std::uint32_t>(2 + draw.below(partitions - 1));
        with.training.batch_edges = 1 + draw.below(100);
        with.training.batch_from = draw.below(2) == 0 ? batch_scope::state : batch_scope::bucket;
        with.training.negatives = {.per_chunk = static_cast<std::uint32_t>(1 + draw.below(30)),
            .chunks = static_cast<std::uint32_t>(1 + draw.below(4)),
            .degree_fraction = .5,
            .log_q_correction = draw.below(2) == 0};
        with.training.step_at = draw.below(2) == 0 ? step_place::update : step_place::compute;
        with.training.pipeline.staleness = 0;
        with.training.pipeline.sample_workers = 1 + draw.below(3);
        with.training.seed = seed;
        CAPTURE(seed);
        CAPTURE(with.order);
        CAPTURE(with.decoder);

        with.buffer_slots = partitions; // all in memory
        const outcome in_memory = train(graph, with, directory / "memory");
        with.buffer_slots = with.order_slots;
        for (const auto& [name, engine] : engines) {
            CAPTURE(name);
            with.engines = engine;
            with.prefetch = static_cast<std::uint32_t>(draw.below(3));
            with.threads = 1 + draw.below(3);
            strike_at = 1 + draw.below(12);
            const outcome on_disk = train(graph, with, directory / name);
            CHECK(on_disk == in_memory);
        }
    }
    for (const auto& injector : injectors) struck += injector->injected();
    CHECK(struck > 12); // faults took place
}

TEST_CASE("if edges cannot be loaded, all stages have ended when the error is thrown") {
    const temporary_directory directory;
    toy_graph graph(200, 4, 1, 4000, 3);
    for (std::uint64_t loads = 1; loads < 12; ++loads) {
        CAPTURE(loads);
        const row_layout layout{8, 0};
        const engine_factory engines = [] { return any_engine(threads_engine{}); };
        any_engine engine = engines();
        embedding_file::create(engine, directory / "rows", graph.partitioning, layout, 4);
        embedding_file rows(engines, directory / "rows", graph.partitioning, layout, 4);
        rows.fill([](std::uint64_t, matrix_view<float>) {});
        memory_budget budget;
        partition_buffer buffer(rows, {.resident_partitions = 2, .prefetch = 1}, budget);
        edge_loader broken = graph.source();
        broken.load = [&, whole = broken.load, left = loads](edge_bucket b, std::span<edge> to) mutable {
            if (left-- == 0) throw io_error(EIO, "cannot read", {});
            whole(b, to);
        };
        edge_buffer edges(broken, {.partitions = graph.partitioning.partitions}, budget);
        auto model = make_link_model("dot", "softmax", 8);
        embedding_table none(model.relation_rows(1), {static_cast<std::uint32_t>(model.relation_floats()), 0});
        marius_options options{};
        options.batch_edges = 10;
        options.negatives = {.per_chunk = 4, .chunks = 1, .degree_fraction = .5};
        const serial_executor executor;
        marius_trainer training = make_marius(options,
            {.model = model,
                .optimizer = make_row_optimizer("sgd", .1F),
                .rows = buffer,
                .edges = edges,
                .relations = none},
            executor, budget);
        std::atomic<bool> over{false}, late{false};
        const training_observer observer{.on_batch = [&](const batch_key&, const training_statistics&) {
            late = late || over;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }};
        const auto order = make_order("beta", graph.partitioning.partitions, 2, 7);
        CHECK_THROWS_AS((void)training.run(order(0), 0, {}, observer), io_error);
        over = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        CHECK_FALSE(late);
        CHECK_THROWS_AS((void)training.run(order(0), 0, {}, observer), io_error);
    }
}

TEST_CASE("training stopped and resumed anywhere equals uninterrupted training") {
    const temporary_directory directory;
    toy_graph graph(120, 6, 3, 900, 3);
    for (const std::uint64_t staleness : {0U, 3U}) {
        set_up with;
        with.buffer_slots = with.order_slots = 3;
        with.training.batch_edges = 17;
        with.training.negatives = {.per_chunk = 10, .chunks = 2, .degree_fraction = .5};
        with.training.pipeline = {.staleness = staleness, .deterministic = true};
        const outcome whole = train(graph, with, directory / "whole");
        for (const std::uint64_t every : {1U, 5U, 7U, 40U}) {
            CAPTURE(every);
            const outcome parts = train(graph, with, directory / "parts", every);
            CHECK(same_parameters(parts, whole));
        }
    }
}

TEST_CASE("with Adam, a run resumed at its position equals the whole run bit for bit, and not if the position forgets "
          "its steps") {
    const temporary_directory directory;
    toy_graph graph(120, 6, 3, 900, 3);
    set_up with;
    with.optimizer = "adam";
    with.buffer_slots = with.order_slots = 3;
    with.training.batch_edges = 17;
    with.training.negatives = {.per_chunk = 10, .chunks = 2, .degree_fraction = .5};
    with.training.pipeline.staleness = 0;
    const outcome whole = train(graph, with, directory / "whole");
    for (const std::uint64_t every : {1U, 7U, 40U}) {
        CAPTURE(every);
        CHECK(same_parameters(train(graph, with, directory / "parts", every), whole));
    }
    with.forgets_steps = true;
    CHECK(!same_parameters(train(graph, with, directory / "forgetful", 7), whole));
}

TEST_CASE("an observer that a run cannot serve is refused before it begins; checkpoints name the steps before them") {
    const temporary_directory directory;
    toy_graph graph(200, 4, 1, 1000, 3);
    const row_layout layout{8, 0};
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    any_engine engine = engines();
    embedding_file::create(engine, directory / "rows", graph.partitioning, layout, 4);
    embedding_file rows(engines, directory / "rows", graph.partitioning, layout, 4);
    rows.fill([](std::uint64_t, matrix_view<float>) {});
    memory_budget budget;
    partition_buffer buffer(rows, {.resident_partitions = 4}, budget);
    edge_buffer edges(graph.source(), {.partitions = 4}, budget);
    auto model = make_link_model("dot", "softmax", 8);
    embedding_table none(model.relation_rows(1), {static_cast<std::uint32_t>(model.relation_floats()), 0});
    const serial_executor executor;
    marius_trainer training = make_marius({.batch_edges = 60, .negatives = {.per_chunk = 4, .chunks = 1}},
        {.model = model,
            .optimizer = make_row_optimizer("sgd", .1F),
            .rows = buffer,
            .edges = edges,
            .relations = none},
        executor, budget);
    const auto states = make_order("memory", 4, 4, 7);
    training_observer observer;
    observer.checkpoint_due = [] { return true; };
    CHECK_THROWS_WITH_AS(
        (void)training.run(states(0), 0, {}, observer), doctest::Contains("checkpoint_due, and no checkpoint"), error);
    std::vector<resume_position> saved;
    observer.checkpoint = [&](const resume_position& at) { saved.push_back(at); };
    observer.again = [](std::uint32_t, std::uint32_t, bool) { return false; };
    CHECK(gneiss::test::code_of([&] { (void)training.run(states(0), 0, {}, observer); }) == errc::invalid_argument);
    observer.again = {};
    const training_epoch first =
        training.run(states(0), 0, {}, observer); // the refused calls left the trainer as it was
    CHECK(first.batches == 17);
    CHECK(first.position == resume_position{1, {}, 17});
    REQUIRE(saved.size() == 17); // before each batch
    for (std::uint64_t i = 0; i < 17; ++i) CHECK(saved[i] == resume_position{0, {0, 0, i}, i});
    CHECK(training.run(states(1), 1).position.steps == 34);
    CHECK(training.run(states(1), {1, {}, 100}).position.steps == 117);
    CHECK(training.steps() == 117);
}

TEST_CASE("a deterministic staleness gives the same bits at any thread count and buffer size") {
    const temporary_directory directory;
    toy_graph graph(150, 5, 2, 1500, 5);
    set_up with;
    with.order_slots = 2;
    with.training.batch_edges = 20;
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
    with.training.pipeline = {.staleness = 4, .deterministic = true};
    with.buffer_slots = 5;
    const outcome first = train(graph, with, directory / "first");
    with.threads = 3;
    with.buffer_slots = 2;
    with.training.pipeline.sample_workers = 3;
    CHECK(train(graph, with, directory / "second") == first);
    with.training.pipeline.staleness = 0;
    CHECK(!(train(graph, with, directory / "synchronous") == first));
}

TEST_CASE("a traced run gives the same bits, and its trace has every batch of every stage and every moved partition") {
    const temporary_directory directory;
    toy_graph graph(150, 5, 2, 1500, 5);
    set_up with;
    with.training.batch_edges = 20;
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
    with.training.pipeline = {.staleness = 4, .deterministic = true, .sample_workers = 2};
    const outcome expected = train(graph, with, directory / "rows");
    {
        trace_recorder recorder(directory / "trace.json", {.block = 32});
        with.trace = &recorder;
        CHECK(train(graph, with, directory / "rows") == expected);
    }
    std::ifstream in(directory / "trace.json");
    const auto events = nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
    std::set<std::string> tracks;
    std::map<std::string, std::map<std::vector<std::uint64_t>, std::uint64_t>> batches; // by stage: count of each
    std::map<std::string, std::uint64_t> spans, bytes;
    for (const auto& e : events) {
        if (e.at("name") == "thread_name") tracks.insert(e.at("args").at("name").get<std::string>());
        if (e.at("ph") != "X") continue;
        const std::string name = e.at("name");
        const auto& args = e.at("args");
        ++spans[name];
        bytes[name] += args.value("bytes", std::uint64_t{0});
        for (const char* stage : {"sample", "gather", "compute", "update"})
            if (name == stage) ++batches[name][{args.at("epoch"), args.at("state"), args.at("pass"), args.at("batch")}];
    }
    CHECK(tracks ==
        std::set<std::string>{"loop", "sample 1", "sample 2", "gather", "compute", "update", "edge loader",
            "partition reader", "partition writer"});
    CHECK(batches.size() == 4);
    CHECK(batches["sample"].size() > 2 * 1500 / 20 - 1);
    for (const auto& [stage, seen] : batches) {
        CAPTURE(stage);
        CHECK(seen == batches["sample"]);
        for (const auto& [batch, times] : seen) CHECK(times == 1);
    }
    CHECK(spans["epoch"] == with.epochs);
    CHECK(spans["load partition"] >= with.epochs * 5);
    CHECK(spans["load partition"] == spans["store partition"]);
    CHECK(bytes["load edges"] == with.epochs * 1500 * sizeof(edge));
    CHECK(bytes["gather"] > 0);
    CHECK(bytes["gather"] == bytes["update"]);
}

TEST_CASE("asynchronous relations are those read with the batch: the same bits at staleness 0, others above it") {
    const temporary_directory directory;
    toy_graph graph(150, 5, 4, 1500, 5);
    for (const std::uint64_t staleness : {0U, 4U}) {
        CAPTURE(staleness);
        set_up with;
        with.order_slots = with.buffer_slots = 2;
        with.training.batch_edges = 20;
        with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
        with.training.pipeline = {.staleness = staleness, .deterministic = true};
        const outcome current = train(graph, with, directory / "current");
        with.training.async_relations = true;
        const outcome stale = train(graph, with, directory / "stale");
        CHECK((stale == current) == (staleness == 0));
        with.threads = with.training.pipeline.sample_workers = 3;
        CHECK(train(graph, with, directory / "again") == stale);
        CHECK(same_parameters(train(graph, with, directory / "parts", 7), stale));
        with.training.pipeline.deterministic = false; // only check that it runs and learns equally well
        CHECK(train(graph, with, directory / "free").loss == doctest::Approx(stale.loss).epsilon(.05));
    }
}

TEST_CASE("a budget for the edges of one state trains the same bits; a smaller one is refused with the numbers") {
    const temporary_directory directory;
    toy_graph graph(150, 6, 2, 3000, 5);
    set_up with;
    with.order_slots = with.buffer_slots = 3;
    with.training.batch_edges = 20;
    with.training.negatives = {.per_chunk = 8, .chunks = 2, .degree_fraction = .5};
    with.training.pipeline = {.staleness = 4, .deterministic = true};
    const outcome whole = train(graph, with, directory / "whole");
    std::uint64_t one = 0;
    const auto order = make_order(with.order, 6, 3, 7);
    for (std::uint64_t epoch = 0; epoch < with.epochs; ++epoch)
        for (const buffer_state& s : order(epoch)) one = std::max(one, edge_buffer::need({s}, graph.source()).bytes);
    with.edge_memory = one;
    CHECK(train(graph, with, directory / "one") == whole);
    with.edge_memory = one - 1;
    CHECK_THROWS_WITH_AS((void)train(graph, with, directory / "none"), doctest::Contains("edges"), over_budget);
}

TEST_CASE("asynchronous training learns: the loss falls, and every edge is trained once per epoch") {
    const temporary_directory directory;
    toy_graph graph(60, 4, 2, 0, 9);
    for (node_id v = 0; v < 60; ++v) // two rings
        for (relation_id r = 0; r < 2; ++r) {
            const edge e{v, r, (v + 1 + 6 * r) % 60};
            graph.buckets[{graph.partitioning.of(e.source), graph.partitioning.of(e.destination)}].push_back(e);
        }
    set_up with;
    with.dim = 32;
    with.training.batch_edges = 10;
    with.training.negatives = {.per_chunk = 20, .chunks = 1, .degree_fraction = .5};
    with.epochs = 1;
    const double first = train(graph, with, directory / "one").loss;
    with.epochs = 30;
    const double all = train(graph, with, directory / "all").loss;
    CHECK(all < 30 * 0.5 * first);
}

TEST_CASE("filtered negatives mask every true answer of the batch, on both sides") {
    const temporary_directory directory;
    toy_graph graph(40, 4, 2, 150, 11);
    set_up with;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 4;
    with.epochs = 1;
    with.training.batch_edges = 1000; // one batch
    with.training.negatives = {.filtered = true, .all = true};
    std::vector<edge> edges;
    for (const auto& [bucket, some] : graph.buckets) edges.insert(edges.end(), some.begin(), some.end());
    std::uint64_t expected = 0;
    for (const edge& e : edges) {
        std::set<node_id> tails, heads;
        for (const edge& other : edges) {
            if (other.relation != e.relation) continue;
            if (other.source == e.source) tails.insert(other.destination);
            if (other.destination == e.destination) heads.insert(other.source);
        }
        expected += tails.size() + heads.size();
    }
    CHECK(train(graph, with, directory / "filtered").masked == expected);
    with.training.negatives.filtered = false;
    CHECK(train(graph, with, directory / "raw").masked == 0);
}

TEST_CASE("an optimizer whose state does not fit the rows is refused, at construction and later") {
    const temporary_directory directory;
    toy_graph graph(100, 2, 2, 200, 1);
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    const serial_executor executor;
    memory_budget budget;
    edge_buffer edges(graph.source(), {.partitions = 2}, budget);
    any_link_model model = make_link_model("distmult", "softmax", 8);
    for (const std::uint32_t state : {0U, 8U}) { // nodes and relations; Adagrad needs 8
        CAPTURE(state);
        any_engine engine = engines();
        embedding_file::create(engine, directory / "rows", graph.partitioning, {8, state}, 2);
        embedding_file rows(engines, directory / "rows", graph.partitioning, {8, state}, 2);
        partition_buffer buffer(rows, {.resident_partitions = 2}, budget);
        embedding_table fitting(2, {8, state}), other(2, {8, 8 - state});
        const any_row_optimizer sgd = make_row_optimizer("sgd", .1F), adagrad = make_row_optimizer("adagrad", .1F);
        const auto make = [&](const any_row_optimizer& optimizer, embedding_table& relations) {
            return std::make_unique<marius_trainer>(make_marius(marius_options{},
                marius_parts{
                    .model = model, .optimizer = optimizer, .rows = buffer, .edges = edges, .relations = relations},
                executor, budget));
        };
        const any_row_optimizer &good = state == 0 ? sgd : adagrad, &bad = state == 0 ? adagrad : sgd;
        CHECK(test::code_of([&] { (void)make(bad, fitting); }) == errc::invalid_argument);
        CHECK(test::code_of([&] { (void)make(good, other); }) == errc::invalid_argument);
        const auto training = make(good, fitting);
        training->set_optimizers({.rows = good});
        CHECK_THROWS_WITH_AS(
            training->set_optimizers({.rows = bad}), doctest::Contains("rows of relations have"), error);
    }
}

TEST_CASE("edges bucketed for other partitions than the embeddings' are refused at construction, with both numbers") {
    const temporary_directory directory;
    toy_graph graph(2000, 16, 2, 200, 1);
    const row_partitioning eight{2000, 8};
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    const serial_executor executor;
    memory_budget budget;
    any_engine engine = engines();
    embedding_file::create(engine, directory / "rows", eight, {8, 0}, 2);
    embedding_file rows(engines, directory / "rows", eight, {8, 0}, 2);
    partition_buffer buffer(rows, {.resident_partitions = 2}, budget);
    edge_buffer edges(graph.source(), {.partitions = 16}, budget), mistaken(graph.source(), {.partitions = 8}, budget);
    any_link_model model = make_link_model("distmult", "softmax", 8);
    embedding_table relations(2, {8, 0});
    const auto make = [&](edge_buffer& from) {
        return std::make_unique<marius_trainer>(make_marius(marius_options{},
            marius_parts{.model = model, .optimizer = sgd{}, .rows = buffer, .edges = from, .relations = relations},
            executor, budget));
    };
    CHECK_THROWS_WITH_AS((void)make(edges), "edges are in 16 partitions, embeddings and graph in 8", error);
    rows.fill([](std::uint64_t, matrix_view<float>) {});
    const auto training = make(mistaken); // the loader differs, and its buffer does not know
    CHECK(test::code_of([&] { (void)training->run(make_order("beta", 8, 2, 1)(0), 0); }) == errc::invalid_argument);
    edge_buffer none({.size = [](edge_bucket) { return 0U; }, .load = {}}, {.partitions = 8}, budget);
    CHECK_THROWS_WITH_AS((void)make(none)->run(make_order("row-major", 16, 2, 1)(0), 0), doctest::Contains(" of 8"),
        error); // a plan of 16
}

TEST_CASE("an epoch without edges is refused, like one without training nodes") {
    const temporary_directory directory;
    const row_partitioning partitioning{100, 4};
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    const serial_executor executor;
    memory_budget budget;
    any_engine engine = engines();
    embedding_file::create(engine, directory / "rows", partitioning, {8, 0}, 2);
    embedding_file rows(engines, directory / "rows", partitioning, {8, 0}, 2);
    rows.fill([](std::uint64_t, matrix_view<float>) {});
    partition_buffer buffer(rows, {.resident_partitions = 2}, budget);
    edge_buffer none({.size = [](edge_bucket) { return 0U; }, .load = {}, .rows = partitioning}, {}, budget);
    any_link_model model = make_link_model("distmult", "softmax", 8);
    embedding_table relations(2, {8, 0});
    marius_trainer training = make_marius({},
        {.model = model, .optimizer = sgd{}, .rows = buffer, .edges = none, .relations = relations}, executor, budget);
    CHECK_THROWS_WITH_AS(
        (void)training.run(make_order("beta", 4, 2, 1)(0), 0), doctest::Contains("nothing to train"), error);
}

TEST_CASE("frozen nodes and relations keep their bits with their state, nothing of frozen nodes is written, and the "
          "rest trains") {
    const temporary_directory directory;
    toy_graph graph(120, 4, 3, 900, 5);
    std::uint64_t written = 0;
    set_up with;
    with.written_bytes = &written;
    with.training.pipeline.staleness = 0;
    const outcome trained = train(graph, with, directory / "rows");
    CHECK(written > 0);
    with.epochs = 0;
    const outcome first = train(graph, with, directory / "rows");
    with.epochs = 2;
    for (const step_place place : {step_place::update, step_place::compute})
        for (const bool late : {false, true})
            for (const std::uint32_t slots : {2U, 4U}) {
                CAPTURE(slots);
                with.buffer_slots = slots;
                with.training.step_at = place;
                with.training.async_relations = late;
                with.frozen = {.nodes = true, .relations = false, .weights = false};
                const outcome nodes = train(graph, with, directory / "rows");
                CHECK(nodes.rows == first.rows);
                CHECK(nodes.relations != first.relations);
                CHECK(written == 0);
                with.frozen = {.nodes = false, .relations = true, .weights = false};
                const outcome relations = train(graph, with, directory / "rows");
                CHECK(relations.rows != first.rows);
                CHECK(relations.relations == first.relations);
                CHECK(written > 0);
            }
    CHECK(trained.rows != first.rows);
    CHECK(trained.relations != first.relations);
    const auto elsewhere = [](const set_up&, embedding_table& table) {
        static auto model = make_link_model("complex", "softmax", 8);
        static const serial_executor one;
        return std::optional<any_backend>(
            std::in_place, std::in_place_type<cpu_embedding_backend<link_head>>, link_head(model, table), one);
    };
    CHECK_THROWS_AS((void)train(graph, with, directory / "rows", 0, elsewhere), error); // a device steps all parts
    with.frozen = {.nodes = false, .relations = false, .weights = true};
    CHECK_THROWS_WITH_AS((void)train(graph, with, directory / "rows"), doctest::Contains("train without one"), error);
}

TEST_CASE("rows and relations of another width than the model's are refused at construction") {
    const temporary_directory directory;
    toy_graph graph(60, 3, 2, 100, 3);
    const row_partitioning rows_of{60, 3};
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    const serial_executor executor;
    memory_budget budget;
    any_engine engine = engines();
    embedding_file::create(engine, directory / "rows", rows_of, {8, 0}, 2);
    embedding_file rows(engines, directory / "rows", rows_of, {8, 0}, 2);
    partition_buffer buffer(rows, {.resident_partitions = 2}, budget);
    edge_buffer edges(graph.source(), {.partitions = 3}, budget);
    embedding_table eight(2, {8, 0}), four(2, {4, 0});
    const auto code = [&](std::size_t dim, embedding_table& relations) {
        any_link_model model = make_link_model("distmult", "softmax", dim);
        return test::code_of([&] {
            (void)make_marius({.negatives = {.per_chunk = 10, .chunks = 1}},
                {.model = model, .optimizer = sgd{}, .rows = buffer, .edges = edges, .relations = relations}, executor,
                budget);
        });
    };
    CHECK_FALSE(code(8, eight));
    CHECK(code(4, four) == errc::invalid_argument);
    CHECK(code(8, four) == errc::invalid_argument);
}

} // namespace test_train_marius
