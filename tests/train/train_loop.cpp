#include <gneiss/train/train_loop.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/sum_of_replicas.hpp>
#include <gneiss/train/trainers/ginex.hpp>
#include <gneiss/train/trainers/hanoi.hpp>
#include <gneiss/train/trainers/marius.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include "graph_harness.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

namespace test_train_train_loop {

using namespace graph_harness;

namespace {

// The table of slots in docs/architecture/modules.md: what the four programs run. A slot is any_… only where a flag
// chooses it; "each choice of a design fills its slot with the type of the table" names the types behind it.
template <class Loop>
constexpr bool is_any_backend = std::is_same_v<typename Loop::backend_type, any_backend>;

static_assert(std::is_same_v<marius_trainer, trainer<marius_loop>>);
static_assert(
    std::is_same_v<marius_loop::batches_type, sampled_batches<link_task<any_negatives>, no_topology, no_hops>>);
static_assert(std::is_same_v<marius_loop::features_type, no_features>);
static_assert(std::is_same_v<marius_loop::embeddings_type, buffered_embeddings>);
static_assert(is_any_backend<marius_loop>); // --device

static_assert(std::is_same_v<mariusgnn_trainer, trainer<mariusgnn_loop>>);
static_assert(std::is_same_v<mariusgnn_loop::batches_type, any_batches>);       // --task, --sampler
static_assert(std::is_same_v<mariusgnn_loop::features_type, any_features>);     // --inputs
static_assert(std::is_same_v<mariusgnn_loop::embeddings_type, any_embeddings>); // --inputs
static_assert(is_any_backend<mariusgnn_loop>);                                  // --task, --device

static_assert(std::is_same_v<ginex_trainer, trainer<ginex_loop>>);
static_assert(std::is_same_v<ginex_loop::batches_type, any_batches>);   // --task
static_assert(std::is_same_v<ginex_loop::features_type, any_features>); // --feature-cache
static_assert(std::is_same_v<ginex_loop::embeddings_type, no_embeddings>);
static_assert(is_any_backend<ginex_loop>); // --node-task, --device

static_assert(std::is_same_v<hanoi_trainer, trainer<hanoi_loop>>);
static_assert(std::is_same_v<hanoi_loop::batches_type, any_batches>);   // --sample-on
static_assert(std::is_same_v<hanoi_loop::features_type, any_features>); // node_classifier_options::own_cache
static_assert(std::is_same_v<hanoi_loop::embeddings_type, no_embeddings>);
static_assert(is_any_backend<hanoi_loop>); // --node-task, --device

static_assert(std::is_same_v<any_train_loop::reducer_type, any_reducer>);

set_up with_classes() {
    set_up with;
    with.features = test::feature_form{};
    with.training.sampler = sampler_kind::neighbor;
    with.training.batch = 25;
    return with;
}

/// Parts of a loop over planted classes, with concrete slot types.
struct parts {
    gnn_harness all;
    memory_budget budget{};
    tbb_executor on;
    epoch_plan states;
    std::optional<partition_buffer> rows{};
    feature_buffer features;
    graph_buffer graph;
    node_task task;

    parts(const graph_data& data, const set_up& with)
        : all(data, with),
          on(with.threads),
          states(all.order()(0)),
          features(*all.features, with.engines, feature_buffer::need(states, *all.features).bytes, budget),
          graph(data.store, with.engines, all.direction(),
              graph_buffer::need(states, data.store, all.direction()).bytes, budget),
          task({with.training.batch, with.training.seed}, data.labels, all.encode->outputs(), data.rows,
              [this](std::uint32_t s, std::vector<node_id>& out) { training_nodes(all.data, states)(s, out); }) {
        if (all.rows)
            rows.emplace(*all.rows,
                partition_buffer_options{.resident_partitions = with.buffer_slots, .prefetch = with.prefetch}, budget);
    }
    [[nodiscard]] auto make_sampler() const {
        return [hops = all.with.training.neighbors, seed = all.with.training.seed] {
            return neighbor_sampler<>(hops, seed);
        };
    }
    [[nodiscard]] training_optimizers optimizers() const { return {all.optimizer, all.dense}; }
    [[nodiscard]] train_loop_options options() const { return {.pipeline = all.with.training.pipeline}; }
};

template <class Loop>
std::vector<training_statistics> epochs(Loop& loop, parts& of) {
    std::vector<training_statistics> result;
    for (std::uint64_t e = 0; e < of.all.with.epochs; ++e) {
        of.states = of.all.order()(e);
        result.push_back(loop.run(of.states, e).model);
    }
    return result;
}

} // namespace

TEST_CASE("a loop of concrete slots trains the same bits as one with slots chosen at run time") {
    const graph_data data = graph_data::planted(200, 4);
    for (const bool learned : {true, false}) {
        set_up with = with_classes();
        with.rows = learned;
        with.order = "memory";
        with.order_slots = with.buffer_slots = 4;
        const outcome expected = train(data, with);
        parts of(data, with);
        buffered_topology topology(of.graph, {.resident_partitions = 4});
        sampled_batches batches(of.task, topology, of.make_sampler(), of.on);
        buffered_features features(of.features, of.on);
        cpu_encoder_backend<classification_head> backend(*of.all.encode, of.all.weights, {}, with.training.seed, of.on);
        const auto finish = [&](auto& embeddings) {
            train_loop loop(of.options(), batches, features, embeddings, backend, of.optimizers(), of.budget);
            auto result = epochs(loop, of);
            if (of.rows) of.rows->flush();
            CHECK(of.all.end(std::move(result)) == expected);
        };
        no_embeddings none;
        if (!learned) {
            finish(none);
        } else {
            buffered_embeddings embeddings(*of.rows, {}, of.on);
            finish(embeddings);
        }
    }
}

// Large-batch sampling: a macro-batch is some training nodes and all nodes within the sampler's hops. Its states are
// not sets of partitions, and mini-batches are sampled in the macro-batch's own graph.
namespace lbs {

struct macro_task {
    using view = node_batches;
    static constexpr bool repeats = true;
    const graph_data& data;
    std::vector<node_id> nodes;
    std::uint64_t batch, seed;

    void begin_epoch(const epoch_start& /*at*/) {}
    [[nodiscard]] std::span<const node_id> part(const epoch_start& at, std::uint32_t i) const {
        const std::size_t count = at.states.size(), first = nodes.size() * i / count;
        return std::span(nodes).subspan(first, nodes.size() * (i + std::size_t{1}) / count - first);
    }
    [[nodiscard]] std::shared_ptr<const view> acquire(const epoch_start& at, std::uint32_t i) const {
        const auto mine = part(at, i);
        return std::make_shared<const view>(std::vector(mine.begin(), mine.end()), batch, seed, at.epoch, i);
    }
    static std::uint64_t batches(const view& v) { return v.size(); }
    [[nodiscard]] node_task::cutter_type cutter() const { return {data.labels, classes}; }
};
static_assert(train_task<macro_task>);

struct macro_graph {
    using view = csr_graph<>;
    macro_task& task;
    std::size_t hops;
    std::vector<std::size_t> edges{}; ///< by macro-batch

    void begin_epoch(const epoch_start& /*at*/) {}
    [[nodiscard]] std::shared_ptr<const view> acquire(const epoch_start& at, std::uint32_t i) {
        const bucket_store& store = task.data.store;
        std::vector<bool> reached(task.data.rows.nodes, false), expanded = reached;
        for (const node_id v : task.part(at, i)) reached[v] = true;
        for (std::size_t hop = 0; hop < hops; ++hop) { // the lists of all nodes reached before the last hop
            expanded = reached;
            store.for_each_edge([&](std::span<const edge> some) {
                for (const edge& e : some)
                    if (expanded[e.destination]) reached[e.source] = true;
            });
        }
        std::size_t count = 0;
        auto result = std::make_shared<const view>(csr<>::from_edges(task.data.rows.nodes, neighbor_direction::in, {},
                                                       [&](auto&& sink) {
                                                           count = 0;
                                                           store.for_each_edge([&](std::span<const edge> some) {
                                                               for (const edge& e : some)
                                                                   if (expanded[e.destination])
                                                                       sink(std::span(&e, 1)), ++count;
                                                           });
                                                       }),
            csr<>{});
        edges.push_back(count);
        return result;
    }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) { return true; }
    void enter(phase /*next*/) {}
};
static_assert(topology<macro_graph>);

/// Features of the macro-batch for the nodes of its batches.
struct macro_features {
    const graph_data& data;
    [[nodiscard]] static input_columns columns() { return {.dense = graph_data::columns}; }
    void begin_epoch(const epoch_start& /*at*/) {}
    [[nodiscard]] static lease acquire(std::uint32_t /*state*/) { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) { return true; }
    void gather(training_batch& b, matrix_view<float> dense) const {
        for (std::size_t i = 0; i < b.nodes.size(); ++i)
            std::ranges::copy(std::span(data.features).subspan(b.nodes[i] * graph_data::columns, graph_data::columns),
                dense[i].begin());
    }
    void enter(phase /*next*/) {}
};
static_assert(feature_source<macro_features>);

} // namespace lbs

TEST_CASE("states need not be sets of partitions: large-batch sampling with one macro-batch is training in memory") {
    const graph_data data = graph_data::planted(300, 2);
    set_up with = with_classes();
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    const outcome expected = train(data, with);
    const auto macro = [&](std::size_t count) {
        gnn_harness all(data, with);
        memory_budget budget;
        const serial_executor on;
        lbs::macro_task task{data, {}, with.training.batch, with.training.seed};
        for (node_id v = 0; v < data.rows.nodes; v += 3) task.nodes.push_back(v);
        lbs::macro_graph graph{task, 2};
        sampled_batches batches(
            task, graph, [&] { return neighbor_sampler<>(with.training.neighbors, with.training.seed); }, on);
        lbs::macro_features features{data};
        no_embeddings none;
        cpu_encoder_backend<classification_head> backend(*all.encode, all.weights, {}, with.training.seed, on);
        train_loop loop(
            {.pipeline = with.training.pipeline}, batches, features, none, backend, {all.optimizer, all.dense}, budget);
        std::vector<training_statistics> found;
        for (std::uint64_t e = 0; e < with.epochs; ++e) found.push_back(loop.run(epoch_plan(count), e).model);
        if (count > 1)
            for (const std::size_t edges : graph.edges) CHECK(edges < data.store.edges());
        return all.end(std::move(found));
    };
    CHECK(macro(1) == expected);
    const outcome several = macro(5);
    CHECK(several.epochs[0].examples == expected.epochs[0].examples);
    CHECK(several.epochs[1].loss < several.epochs[0].loss);
}

namespace {
namespace replicas {

/// Sums the gradients of replicas on separate threads, in their order.
class exchange {
public:
    explicit exchange(std::size_t replicas) : of_(replicas), steps_(replicas, 0) {}

    /// Waits until every replica has sent the gradients of the step; a message for a step that is over is dropped.
    void sum(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        if (turn.step <= steps_[turn.replica]) return; // repeated
        if (!changed_.wait(lock, stop, [&] { return of_[turn.replica].empty(); })) canceled();
        for (const std::span<float> part : gradients) of_[turn.replica].emplace_back(part.begin(), part.end());
        steps_[turn.replica] = turn.step;
        changed_.notify_all();
        const auto all = [&] { return std::ranges::all_of(steps_, [&](std::uint64_t s) { return s >= turn.step; }); };
        if (!changed_.wait(lock, stop, all)) canceled();
        for (std::size_t p = 0; p < gradients.size(); ++p)
            for (std::size_t i = 0; i < gradients[p].size(); ++i) {
                float total = of_[0][p][i];
                for (std::size_t r = 1; r < of_.size(); ++r) total += of_[r][p][i];
                gradients[p][i] = total;
            }
        if (++taken_ == of_.size()) {
            for (auto& each : of_) each.clear();
            taken_ = 0;
            changed_.notify_all();
        }
    }

private:
    [[noreturn]] static void canceled() { throw error(errc::canceled, "a replica waits for the others"); }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::vector<std::vector<std::vector<float>>> of_;
    std::vector<std::uint64_t> steps_;
    std::size_t taken_ = 0;
};
/// Sends each message `times` times.
struct on_threads {
    exchange* by;
    int times = 1;

    void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& stop) const {
        for (int i = 0; i < times; ++i) by->sum(gradients, turn, stop);
    }
};
static_assert(gradient_reducer<on_threads>);

/// Produces batches on two threads for any consumer. One may leave mid-state: the other takes over its work.
template <class Producer>
class two_producers {
public:
    explicit two_producers(Producer& by, std::uint64_t leaves_after) : by_(by), leaves_after_(leaves_after) {
        for (std::size_t t = 0; t < 2; ++t)
            threads_.emplace_back([this, t](const std::stop_token& stop) { work(t, stop); });
    }
    void begin_epoch(const epoch_start& at, const std::stop_token& stop) { by_.begin_epoch(at, stop); }
    [[nodiscard]] state_work acquire(const epoch_start& at, std::uint32_t i) { return by_.acquire(at, i); }
    [[nodiscard]] bool ready(std::uint32_t i) const { return by_.ready(i); }
    void produce(training_batch& b, const std::stop_token& /*stop*/) {
        std::promise<void> done;
        {
            const std::scoped_lock lock(mutex_);
            asked_.push_back({&b, &done});
            changed_.notify_all();
        }
        done.get_future().get();
    }
    void gathered(training_batch& b) { by_.gathered(b); }
    [[nodiscard]] bool in_order() const { return by_.in_order(); }
    [[nodiscard]] bool repeats() const { return by_.repeats(); }
    void enter(phase next) { by_.enter(next); }
    [[nodiscard]] std::uint64_t made(std::size_t thread) const { return made_[thread]; }

private:
    struct request {
        training_batch* batch;
        std::promise<void>* done;
    };
    void work(std::size_t self, const std::stop_token& stop) {
        for (;;) {
            request next{};
            {
                std::unique_lock lock(mutex_);
                // The leaving thread goes first, so that it leaves mid-state.
                const auto mine = [&] { return !asked_.empty() && (self == 1 || made_[1] == leaves_after_); };
                if (!changed_.wait(lock, stop, mine)) return;
                next = asked_.front();
                asked_.pop_front();
                ++made_[self];
            }
            try {
                by_.produce(*next.batch, stop);
                next.done->set_value();
            } catch (...) {
                next.done->set_exception(std::current_exception());
            }
            const std::scoped_lock lock(mutex_);
            changed_.notify_all();
            if (self == 1 && made_[1] == leaves_after_) return;
        }
    }

    Producer& by_;
    std::uint64_t leaves_after_, made_[2]{};
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<request> asked_;
    std::vector<std::jthread> threads_;
};

/// Fails to produce batch `at`.
template <class Producer>
struct failing {
    Producer& by;
    std::uint64_t at;
    void begin_epoch(const epoch_start& start, const std::stop_token& stop) { by.begin_epoch(start, stop); }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t i) { return by.acquire(start, i); }
    [[nodiscard]] bool ready(std::uint32_t i) const { return by.ready(i); }
    void produce(training_batch& b, const std::stop_token& stop) {
        if (b.key.number.index == at) throw error(errc::io, "the producer failed");
        by.produce(b, stop);
    }
    void gathered(training_batch& b) { by.gathered(b); }
    [[nodiscard]] bool in_order() const { return by.in_order(); }
    [[nodiscard]] bool repeats() const { return by.repeats(); }
    void enter(phase next) { by.enter(next); }
};

/// A loop over planted classes, whose batches two threads produce, one of which leaves after three.
template <class Reducer>
class replica {
public:
    replica(const graph_data& data, const set_up& with, train_loop_options options, Reducer by,
        std::uint64_t fails_at = std::uint64_t{0} - 1)
        : of_(data, with),
          topology_(of_.graph, {.resident_partitions = 2}),
          batches_(of_.task, topology_, of_.make_sampler(), of_.on),
          failing_{batches_, fails_at},
          made_(failing_, 3),
          features_(of_.features, of_.on),
          backend_(*of_.all.encode, of_.all.weights, {}, with.training.seed, of_.on),
          loop_(with_pipeline(std::move(options)), made_, features_, none_, backend_, of_.optimizers(), of_.budget,
              std::move(by)) {}

    training_epoch run(std::uint64_t epoch, const std::stop_token& stop = {}, const training_observer& observe = {}) {
        of_.states = of_.all.order()(epoch);
        return loop_.run(of_.states, epoch, {}, observe, stop);
    }
    outcome run_all() {
        auto result = epochs(loop_, of_);
        CHECK(made_.made(1) == 3); // it left mid-state
        return of_.all.end(std::move(result));
    }
    outcome resume(const resume_position& from, std::uint64_t epochs) {
        std::vector<training_statistics> result;
        for (std::uint64_t e = from.epoch; e < epochs; ++e) {
            of_.states = of_.all.order()(e);
            result.push_back((e == from.epoch ? loop_.run(of_.states, from) : loop_.run(of_.states, e)).model);
        }
        return of_.all.end(std::move(result));
    }
    [[nodiscard]] std::uint64_t steps() const { return loop_.steps(); }

private:
    [[nodiscard]] train_loop_options with_pipeline(train_loop_options options) const {
        options.pipeline = of_.all.with.training.pipeline;
        return options;
    }

    using sampled = sampled_batches<node_task, buffered_topology, neighbor_sampler<>>;
    using producer = two_producers<failing<sampled>>;
    using backend = cpu_encoder_backend<classification_head>;
    parts of_;
    buffered_topology topology_;
    sampled batches_;
    failing<sampled> failing_;
    producer made_;
    buffered_features features_;
    no_embeddings none_;
    backend backend_;
    train_loop<producer, buffered_features, no_embeddings, backend, Reducer> loop_;
};

set_up one_state(std::uint64_t batch) {
    set_up with = with_classes();
    with.training.batch = batch;
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    with.epochs = 3;
    return with;
}

} // namespace replicas
} // namespace

TEST_CASE("replicas on threads, one of whose producers leaves mid-state, train the bits of replicas in one process") {
    const graph_data data = graph_data::planted(300, 2); // 100 training nodes in one state
    const struct {
        std::uint64_t batch, sample_bytes;
        std::uint32_t replicas;
        std::uint64_t steps;
    } cases[] = {
        {25, 0, 2, 6},     // 4 batches
        {20, 0, 2, 9},     // 5: the last group has one
        {20, 3000, 2, 9},  // batches are drawn again, alone
        {10, 0, 4, 9},     // 10 batches: the last group has two
        {10, 3000, 3, 12}, // 10: one
        {20, 0, 3, 6},     // 5: two, and the last replica has no batch for the step
        {20, 3000, 3, 6},
    };
    for (const auto& now : cases) {
        CAPTURE(now.batch);
        CAPTURE(now.replicas);
        const set_up with = replicas::one_state(now.batch);
        const train_loop_options options{.sample_bytes = now.sample_bytes,
            .spare_bytes = now.sample_bytes == 0 ? 0 : 1U << 24U,
            .replicas = now.replicas};
        replicas::replica all(data, with, options, sum_of_replicas{});
        const outcome together = all.run_all();
        CHECK(all.steps() == now.steps);
        CHECK(together.weights != train(data, with).weights);
        CHECK(together.epochs.back().loss < together.epochs.front().loss);
        set_up erased = with; // slots chosen at run time, as in the programs
        erased.training.replicas.count = now.replicas;
        CHECK(train(data, erased).weights == together.weights);

        replicas::exchange by(now.replicas);
        std::vector<std::optional<outcome>> apart(now.replicas);
        {
            std::vector<std::jthread> threads;
            for (std::uint32_t r = 0; r < now.replicas; ++r)
                threads.emplace_back([&, r] {
                    train_loop_options mine = options;
                    mine.replica = r;
                    replicas::replica one(data, with, mine, replicas::on_threads{&by, r == 0 ? 2 : 1});
                    apart[r] = one.run_all();
                    CHECK(one.steps() == now.steps);
                });
        }
        training_statistics sum;
        for (const auto& replica : apart) {
            REQUIRE(replica.has_value());
            CHECK(replica->weights == together.weights);
            CHECK(replica->state == together.state);
            sum += replica->epochs.back();
        }
        CHECK(sum.examples == together.epochs.back().examples);
        CHECK(sum.correct == together.epochs.back().correct);
    }
}

TEST_CASE("an exception in a producer of a replica ends the run, and so does a stop while its reducer waits") {
    const graph_data data = graph_data::planted(300, 2);
    const set_up with = replicas::one_state(20);
    replicas::exchange by(2);
    replicas::replica fails(data, with, {.replicas = 2}, sum_of_replicas{}, 3);
    CHECK(test::code_of([&] { (void)fails.run(0); }) == errc::io);

    std::stop_source stop;
    replicas::replica waits(data, with, {.replicas = 2, .replica = 1}, replicas::on_threads{&by});
    const std::jthread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        stop.request_stop();
    });
    CHECK(test::code_of([&] { (void)waits.run(0, stop.get_token()); }) == errc::canceled);
}

TEST_CASE("a step of replicas is resumed at its first batch, and options that do not fit are refused") {
    const graph_data data = graph_data::planted(300, 2);
    const set_up with = replicas::one_state(20);
    const auto make = [&](train_loop_options options, auto reducer) {
        replicas::replica one(data, with, std::move(options), reducer);
        return one.steps();
    };
    CHECK(test::code_of([&] { (void)make({.replicas = 2}, identity_reducer{}); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { (void)make({.replicas = 0}, sum_of_replicas{}); }) == errc::invalid_argument);
    CHECK(
        test::code_of([&] { (void)make({.replicas = 2, .replica = 2}, sum_of_replicas{}); }) == errc::invalid_argument);

    const outcome whole = replicas::replica(data, with, {.replicas = 2}, sum_of_replicas{}).run_all();
    replicas::replica halves(data, with, {.replicas = 2}, sum_of_replicas{});
    std::stop_source stop;
    std::uint64_t seen = 0;
    const training_epoch first =
        halves.run(0, stop.get_token(), {.on_batch = [&](const batch_key&, const training_statistics&) {
            if (++seen == 2) stop.request_stop();
        }});
    REQUIRE(first.stopped);
    CHECK(first.position.next.index % 2 == 0);
    CHECK(halves.resume(first.position, 3).weights == whole.weights);
}

TEST_CASE("a stop inside reduce, between the turns of a step, ends the epoch after that step, and a resume continues") {
    struct stopping {
        std::stop_source* stop;
        std::uint64_t at;
        std::uint32_t replica;
        sum_of_replicas sum{};
        void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& ended) {
            if (turn.step == at && turn.replica == replica) stop->request_stop();
            sum.reduce(gradients, turn, ended);
        }
    };
    const graph_data data = graph_data::planted(300, 2);
    const set_up with = replicas::one_state(6); // 17 batches, more than are in flight: the last step has two
    const outcome whole = replicas::replica(data, with, {.replicas = 3}, sum_of_replicas{}).run_all();
    for (const std::uint64_t step : {1U, 2U})
        for (const std::uint32_t turn : {0U, 1U}) {
            CAPTURE(step);
            CAPTURE(turn);
            std::stop_source stop;
            replicas::replica some(data, with, {.replicas = 3}, stopping{&stop, step, turn});
            const training_epoch first = some.run(0, stop.get_token());
            CHECK(first.stopped);
            CHECK(first.position.next.index % 3 == 0);
            CHECK(first.position.steps >= step);
            CHECK(some.resume(first.position, 3).weights == whole.weights);
        }
}

// Rows with an owner on another thread: they travel as messages, and a batch delivered twice is applied once.
namespace remote {

class owner {
public:
    owner(std::vector<float> rows, std::size_t columns, any_row_optimizer by)
        : rows_(std::move(rows)),
          columns_(columns),
          by_(std::move(by)) {}

    std::vector<float> ask(std::vector<node_id> ids) {
        return call([this, ids = std::move(ids)] {
            std::vector<float> values;
            for (const node_id v : ids)
                values.insert(values.end(), row(v).begin(), row(v).begin() + static_cast<std::ptrdiff_t>(columns_));
            return values;
        });
    }
    void apply(std::uint64_t number, std::vector<node_id> ids, std::vector<float> gradients) {
        (void)call([this, number, ids = std::move(ids), gradients = std::move(gradients)] {
            if (number > applied_)
                for (std::size_t i = 0; i < ids.size(); ++i)
                    by_.step_row(row(ids[i]), std::span(gradients).subspan(i * columns_, columns_), number);
            applied_ = std::max(applied_, number);
            return std::vector<float>{};
        });
    }
    [[nodiscard]] const std::vector<float>& rows() const { return rows_; }

private:
    [[nodiscard]] std::span<float> row(node_id v) {
        const std::size_t width = columns_ + by_.state_floats(columns_);
        return std::span(rows_).subspan(v * width, width);
    }
    template <class Work>
    std::vector<float> call(Work work) {
        return std::async(std::launch::async, std::move(work)).get();
    }

    std::vector<float> rows_;
    std::size_t columns_;
    any_row_optimizer by_;
    std::uint64_t applied_ = 0;
};

struct embeddings {
    owner& at;
    std::size_t width;

    [[nodiscard]] std::size_t columns() const { return width; }
    [[nodiscard]] static std::size_t state_columns() { return 0; }
    [[nodiscard]] static bool keeps_all() { return true; }
    void set_optimizer(const any_row_optimizer& /*by*/) {}
    void begin_epoch(const epoch_plan& /*states*/, std::uint32_t /*first*/) {}
    [[nodiscard]] static std::optional<lease> acquire(std::uint32_t /*state*/, const std::stop_token& /*stop*/) {
        return lease{};
    }
    void end_epoch() {}
    [[nodiscard]] static bool commit_wanted() { return false; }
    void gather(training_batch& b, matrix_view<float> to) const {
        const std::vector<float> got = at.ask({b.nodes.begin(), b.nodes.end()});
        for (std::size_t i = 0; i < b.nodes.size(); ++i)
            std::ranges::copy(std::span(got).subspan(i * width, width), to[i].begin());
    }
    void computed(training_batch& /*batch*/) const {}
    void apply(training_batch& b) const {
        std::vector<float> gradients;
        for (std::size_t i = 0; i < b.nodes.size(); ++i)
            gradients.insert(
                gradients.end(), b.gradients[i].begin(), b.gradients[i].begin() + static_cast<std::ptrdiff_t>(width));
        for (int delivered = 0; delivered < 2; ++delivered)
            at.apply(b.step, {b.nodes.begin(), b.nodes.end()}, gradients);
    }
    [[nodiscard]] static const resident_embeddings* resident(const lease& /*of*/) { return nullptr; }
};
static_assert(embedding_source<embeddings>);

} // namespace remote

TEST_CASE("embeddings may belong to a remote owner, and messages may arrive twice") {
    const graph_data data = graph_data::planted(200, 2);
    set_up with = with_classes();
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    const outcome expected = train(data, with);
    parts of(data, with);
    remote::owner owner(of.all.all_rows(), with.dim, of.all.optimizer);
    buffered_topology topology(of.graph, {.resident_partitions = 2});
    sampled_batches batches(of.task, topology, of.make_sampler(), of.on);
    buffered_features features(of.features, of.on);
    remote::embeddings rows{owner, with.dim};
    cpu_encoder_backend<classification_head> backend(*of.all.encode, of.all.weights, {}, with.training.seed, of.on);
    train_loop loop(of.options(), batches, features, rows, backend, of.optimizers(), of.budget);
    const auto result = of.all.end(epochs(loop, of));
    CHECK(result.weights == expected.weights);
    CHECK(owner.rows() == expected.rows);
}

namespace failing {

/// Rows of another machine that does not answer for any state but the first.
struct silent_owner : no_embeddings {
    [[nodiscard]] std::optional<lease> acquire(std::uint32_t state, const std::stop_token& stop) {
        if (state == 0) return lease{};
        std::mutex mutex;
        std::condition_variable_any answered;
        std::unique_lock lock(mutex);
        answered.wait(lock, stop, [] { return false; });
        throw error(errc::canceled, "no answer");
    }
};
static_assert(embedding_source<silent_owner>);

struct broken_features : no_features {
    [[nodiscard]] static input_columns columns() { return {.dense = graph_data::columns}; }
    void gather(training_batch& /*batch*/, matrix_view<float> /*dense*/) const {
        throw error(errc::corrupt, "planted");
    }
};
static_assert(feature_source<broken_features>);

} // namespace failing

TEST_CASE("the failure of a stage ends a wait for the rows of a state, and its error is thrown") {
    const graph_data data = graph_data::planted(200, 4);
    set_up with = with_classes();
    with.rows = false;
    parts of(data, with);
    REQUIRE(of.states.size() > 1);
    buffered_topology topology(of.graph, {.resident_partitions = 4});
    sampled_batches batches(of.task, topology, of.make_sampler(), of.on);
    failing::broken_features features;
    failing::silent_owner rows;
    cpu_encoder_backend<classification_head> backend(*of.all.encode, of.all.weights, {}, with.training.seed, of.on);
    train_loop loop(of.options(), batches, features, rows, backend, of.optimizers(), of.budget);
    CHECK_THROWS_WITH_AS((void)loop.run(of.states, 0), doctest::Contains("planted"), error);
    CHECK_THROWS_WITH_AS((void)loop.run(of.states, 0), doctest::Contains("planted"), error); // and again
}

TEST_CASE("a phase releases data that the next epoch reads again") {
    const graph_data data = graph_data::planted(200, 2);
    set_up with = with_classes();
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    const outcome expected = train(data, with);
    for (const phase next : {phase::between_epochs, phase::evaluate}) {
        gnn_harness all(data, with);
        std::vector<training_statistics> found;
        all.run([&](mariusgnn_trainer& training, const auto& states) {
            for (std::uint64_t e = 0; e < with.epochs; ++e) {
                found.push_back(training.run(states(e), e).model);
                training.enter(next);
            }
        });
        CHECK(all.end(found) == expected);
    }
}

TEST_CASE("incompatible slots are refused at construction") {
    const graph_data data = graph_data::planted(100, 2);
    parts of(data, with_classes());
    buffered_topology topology(of.graph, {.resident_partitions = 2});
    sampled_batches batches(of.task, topology, of.make_sampler(), of.on);
    buffered_features features(of.features, of.on);
    buffered_embeddings stepped_in_compute(*of.rows, {.step_at = step_place::compute}, of.on);
    cpu_encoder_backend<classification_head> backend(*of.all.encode, of.all.weights, {}, 0, of.on);
    CHECK_THROWS_WITH_AS(
        (train_loop(of.options(), batches, features, stepped_in_compute, backend, of.optimizers(), of.budget)),
        doctest::Contains("only where nodes have no features"), error);
}

TEST_CASE("a plan without states, a position beyond it, and a node without features are refused") {
    const graph_data data = graph_data::planted(100, 2);
    set_up with = with_classes();
    with.rows = false;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    parts of(data, with);
    buffered_topology topology(of.graph, {.resident_partitions = 2});
    sampled_batches batches(of.task, topology, of.make_sampler(), of.on);
    no_embeddings none;
    cpu_encoder_backend<classification_head> backend(*of.all.encode, of.all.weights, {}, 0, of.on);
    matrix_features few({data.features.data(), 50, graph_data::columns});
    train_loop loop(of.options(), batches, few, none, backend, of.optimizers(), of.budget);
    CHECK(test::code_of([&] { (void)loop.run({}, 0); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { (void)loop.run(of.states, 0, {.state = 7}); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { (void)loop.run(of.states, 0); }) == errc::out_of_range);
}

TEST_CASE("weights or optimizer state without memory are refused before a batch is computed") {
    const graph_data data = graph_data::planted(100, 2);
    const serial_executor on;
    for (const bool weights_allocated : {false, true}) {
        dense_parameters<> weights;
        cpu_encoder encode(weights, parse_layers("sage:8,sage:4"), {.dense = graph_data::columns});
        if (weights_allocated) weights.allocate(1);
        cpu_encoder_backend<classification_head> backend(encode, weights, {}, 0, on),
            frozen(encode, weights, {}, 0, on, {.encoder = {}, .frozen = true});
        CHECK(test::code_of([&] { backend.upload({.dense = make_dense_optimizer("adam", .01F)}); }) ==
            errc::invalid_argument);
        CHECK(test::code_of([&] { frozen.upload({.dense = make_dense_optimizer("adam", .01F)}); }).has_value() ==
            !weights_allocated);
        if (weights_allocated) CHECK_THROWS_AS((void)weights.add("late", 2, 2, initializer::zeros()), error);
    }
}

} // namespace test_train_train_loop
