#include <gneiss/dist/cluster_model.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include <gneiss/core/random.hpp>

namespace test_dist_cluster_model {

using namespace gneiss;

namespace {

/// A cluster whose durations are whole ticks: links carry a byte a tick, from batch workers and into machines.
cluster_shape shape_of(std::uint32_t batch, std::uint32_t compute) {
    return {.batch_workers = batch, .compute_workers = compute, .batch_link = 1, .compute_link = 1};
}

/// The same cluster, tick by tick: the state of every worker and link is kept, and moves by one tick at a time.
class ticking_cluster {
public:
    ticking_cluster(const cluster_shape& of, const std::vector<batch_cost>& costs, std::uint64_t batches)
        : of_(of),
          costs_(costs),
          batches_(batches),
          received_(batches),
          makers_(of.batch_workers == 0 ? of.machines() : of.batch_workers),
          outlets_(makers_.size()),
          inlets_(of.machines()),
          workers_(of.compute_workers) {
        for (std::uint32_t m = 0; m < of.machines(); ++m)
            for (std::uint64_t i = 0; i < batches; ++i)
                if (machine(i) == m) {
                    inlets_[m].waiting.push_back(i);
                    if (of.batch_workers == 0) makers_[m].waiting.push_back(i);
                }
        for (std::uint64_t i = 0; of.batch_workers != 0 && i < batches; ++i)
            makers_[i % of.batch_workers].waiting.push_back(i);
    }

    /// Returns the ticks of an epoch, and counts those of each kind of work.
    std::uint64_t run() {
        begin_step();
        while (true) {
            settle();
            if (steps * of_.batches_per_step() >= batches_) return now_;
            work();
            ++now_;
        }
    }

    std::uint64_t steps = 0, making = 0, sending = 0, computing = 0, exchanging = 0;

private:
    struct server {
        std::deque<std::uint64_t> waiting{};
        std::optional<std::uint64_t> batch{};
        std::uint64_t left = 0;
    };
    [[nodiscard]] const batch_cost& cost(std::uint64_t i) const { return costs_[i % costs_.size()]; }
    [[nodiscard]] std::uint32_t worker(std::uint64_t i) const {
        return static_cast<std::uint32_t>(i % of_.batches_per_step() % of_.compute_workers);
    }
    [[nodiscard]] std::uint32_t machine(std::uint64_t i) const { return worker(i) / of_.workers_per_machine; }
    static std::uint64_t ticks(double value) { return static_cast<std::uint64_t>(std::llround(value)); }

    void begin_step() {
        const std::uint64_t first = steps * of_.batches_per_step();
        for (std::uint64_t i = first; i < std::min(first + of_.batches_per_step(), batches_); ++i)
            workers_[worker(i)].waiting.push_back(i);
        exchange_.reset();
    }
    [[nodiscard]] bool granted(std::uint64_t i) const { return i < of_.in_flight() + steps * of_.batches_per_step(); }
    static void start(server& s, std::uint64_t i, double duration) {
        s.batch = i;
        s.left = ticks(duration);
    }
    [[nodiscard]] static bool finished(const server& s) { return s.batch && s.left == 0; }
    /// Ends what is over and starts what may start, until nothing changes.
    void settle() {
        for (bool changed = true; changed;) {
            changed = false;
            for (std::size_t m = 0; m < makers_.size(); ++m)
                if (finished(makers_[m])) {
                    const std::uint64_t i = *makers_[m].batch;
                    if (of_.batch_workers == 0) received_[i] = true;
                    outlets_[m].waiting.push_back(i);
                    makers_[m].batch.reset();
                    changed = true;
                }
            for (server& link : outlets_)
                if (finished(link)) {
                    sent_.push_back(*link.batch);
                    link.batch.reset();
                    changed = true;
                }
            for (server& link : inlets_)
                if (finished(link)) {
                    received_[*link.batch] = true;
                    link.batch.reset();
                    changed = true;
                }
            for (server& w : workers_)
                if (finished(w)) {
                    w.batch.reset();
                    ++computed_;
                    changed = true;
                }
            const std::uint64_t end = std::min((steps + 1) * of_.batches_per_step(), batches_);
            if (steps * of_.batches_per_step() < batches_ && computed_ == end) {
                if (!exchange_) exchange_ = exchange_ticks(end - steps * of_.batches_per_step());
                if (*exchange_ == 0) {
                    ++steps;
                    begin_step();
                    changed = true;
                }
            }
            changed = start_work() || changed;
        }
    }
    bool start_work() {
        bool changed = false;
        for (server& m : makers_) {
            if (m.batch || m.waiting.empty() || !granted(m.waiting.front())) continue;
            const batch_cost& next = cost(m.waiting.front());
            start(m, m.waiting.front(), of_.batch_workers == 0 ? next.own : next.make);
            m.waiting.pop_front();
            changed = true;
        }
        for (server& link : outlets_)
            if (of_.batch_workers != 0 && !link.batch && !link.waiting.empty()) {
                start(link, link.waiting.front(), cost(link.waiting.front()).frame / of_.batch_link);
                link.waiting.pop_front();
                changed = true;
            }
        for (server& link : inlets_)
            if (!link.batch && !link.waiting.empty() && std::ranges::count(sent_, link.waiting.front()) == 1) {
                start(link, link.waiting.front(), cost(link.waiting.front()).frame / of_.compute_link);
                link.waiting.pop_front();
                changed = true;
            }
        for (server& w : workers_)
            if (!w.batch && !w.waiting.empty() && received_[w.waiting.front()]) {
                start(w, w.waiting.front(), cost(w.waiting.front()).compute);
                w.waiting.pop_front();
                changed = true;
            }
        return changed;
    }
    void work() {
        for (server& m : makers_)
            if (m.batch) --m.left, ++making;
        for (server& link : outlets_)
            if (link.batch) --link.left, ++sending;
        for (server& w : workers_)
            if (w.batch) --w.left, ++computing;
        if (exchange_ && *exchange_ > 0) {
            --*exchange_;
            ++exchanging;
            return; // frames wait
        }
        for (server& link : inlets_)
            if (link.batch) --link.left;
    }
    [[nodiscard]] std::uint64_t exchange_ticks(std::uint64_t count) const {
        std::uint64_t most = 0;
        for (std::uint32_t m = 0; m < of_.machines(); ++m) {
            std::uint64_t here = 0;
            for (std::uint64_t r = 0; r < count; ++r) here += machine(r) == m ? 1 : 0;
            most = std::max({most, count - here, here * (of_.machines() - 1)});
        }
        return of_.machines() == 1 ? 0 : most * ticks(of_.gradients / of_.compute_link);
    }

    cluster_shape of_;
    const std::vector<batch_cost>& costs_;
    std::uint64_t batches_, now_ = 0, computed_ = 0;
    std::vector<bool> received_;
    std::vector<std::uint64_t> sent_;
    std::vector<server> makers_, outlets_, inlets_, workers_;
    std::optional<std::uint64_t> exchange_;
};

batch_cost random_cost(random_stream& draw, std::uint64_t most) {
    const auto one = [&] { return static_cast<double>(1 + draw.below(most)); };
    return {.make = one(), .own = one(), .frame = one(), .compute = one()};
}

} // namespace

TEST_CASE("the model equals a simulation that moves every worker and link tick by tick") {
    random_stream draw(random_key{7, random_domain::plan});
    for (int round = 0; round < 600; ++round) {
        cluster_shape of =
            shape_of(static_cast<std::uint32_t>(draw.below(5)), static_cast<std::uint32_t>(1 + draw.below(5)));
        of.workers_per_machine = static_cast<std::uint32_t>(1 + draw.below(3));
        of.replicas = static_cast<std::uint32_t>(draw.below(7));
        of.credits = draw.below(3) == 0 ? 0 : of.batches_per_step() + draw.below(8);
        of.gradients = static_cast<double>(draw.below(4));
        std::vector<batch_cost> costs;
        for (std::uint64_t i = 1 + draw.below(5); i != 0; --i) costs.push_back(random_cost(draw, 9));
        const std::uint64_t batches = 1 + draw.below(40);
        CAPTURE(round);
        const cluster_epoch got = model_cluster(of, costs, batches);
        ticking_cluster oracle(of, costs, batches);
        const auto ticks = static_cast<double>(oracle.run());
        REQUIRE(got.seconds == ticks);
        CHECK(got.batches == batches);
        CHECK(got.steps == oracle.steps);
        const double makers = of.batch_workers == 0 ? of.machines() : of.batch_workers;
        CHECK(got.making * ticks * makers == doctest::Approx(static_cast<double>(oracle.making)));
        CHECK(got.sending * ticks * makers == doctest::Approx(static_cast<double>(oracle.sending)));
        CHECK(got.computing * ticks * of.compute_workers == doctest::Approx(static_cast<double>(oracle.computing)));
        CHECK(got.exchanging * ticks == doctest::Approx(static_cast<double>(oracle.exchanging)));
    }
}

TEST_CASE("one worker of each kind is a pipeline: the first batch passes all stages, then the slowest sets the pace") {
    random_stream draw(random_key{8, random_domain::plan});
    for (int round = 0; round < 100; ++round) {
        const batch_cost cost = random_cost(draw, 50);
        const std::uint64_t batches = 1 + draw.below(200);
        const double slowest = std::max({cost.make, cost.frame, cost.compute});
        CHECK(model_cluster({.credits = batches, .batch_link = 1, .compute_link = 1}, {&cost, 1}, batches).seconds ==
            cost.make + 2 * cost.frame + cost.compute + static_cast<double>(batches - 1) * slowest);
        // Without a batch worker, the machine makes its own batches, and sends nothing.
        CHECK(model_cluster({.batch_workers = 0, .credits = batches}, {&cost, 1}, batches).seconds ==
            cost.own + cost.compute + static_cast<double>(batches - 1) * std::max(cost.own, cost.compute));
    }
}

TEST_CASE("busy seconds are the batches times their cost, and bytes those of all frames and gradients") {
    random_stream draw(random_key{9, random_domain::plan});
    for (int round = 0; round < 200; ++round) {
        const batch_cost cost = random_cost(draw, 30);
        cluster_shape of =
            shape_of(static_cast<std::uint32_t>(1 + draw.below(6)), static_cast<std::uint32_t>(1 + draw.below(6)));
        of.gradients = 3;
        const std::uint64_t steps = 1 + draw.below(30), batches = steps * of.compute_workers;
        const auto count = static_cast<double>(batches);
        const cluster_epoch got = model_cluster(of, {&cost, 1}, batches);
        CHECK(got.making * got.seconds * of.batch_workers == doctest::Approx(count * cost.make));
        CHECK(got.sending * got.seconds * of.batch_workers == doctest::Approx(count * cost.frame));
        CHECK(got.computing * got.seconds * of.compute_workers == doctest::Approx(count * cost.compute));
        CHECK(got.frame_bytes == count * cost.frame);
        CHECK(got.gradient_bytes == count * 3 * (of.compute_workers - 1)); // each of a step to all other machines
        CHECK(
            got.receiving * got.seconds * of.compute_workers == doctest::Approx(got.frame_bytes + got.gradient_bytes));
        CHECK(got.steps == steps);
        for (const double share : {got.making, got.sending, got.receiving, got.computing, got.starved()}) {
            CHECK(share >= 0);
            CHECK(share <= 1 + 1e-12);
        }
        CHECK(got.starved() + got.computing + got.exchanging == doctest::Approx(1)); // all steps are full
    }
}

TEST_CASE("more batch workers never lower the throughput, and so do wider links and more batches in flight") {
    random_stream draw(random_key{10, random_domain::plan});
    for (int round = 0; round < 3000; ++round) {
        const batch_cost cost = random_cost(draw, 40);
        cluster_shape of = shape_of(1, static_cast<std::uint32_t>(1 + draw.below(6)));
        of.workers_per_machine = static_cast<std::uint32_t>(1 + draw.below(3));
        of.gradients = static_cast<double>(draw.below(6));
        if (draw.below(2) == 0) of.credits = of.compute_workers + draw.below(12);
        const std::uint64_t batches = 1 + draw.below(120);
        CAPTURE(round);
        double before = std::numeric_limits<double>::infinity();
        for (of.batch_workers = 1; of.batch_workers <= 12; ++of.batch_workers) {
            const double seconds = model_cluster(of, {&cost, 1}, batches).seconds;
            CHECK(seconds <= before);
            before = seconds;
            cluster_shape more = of;
            more.credits = of.in_flight() + 1;
            CHECK(model_cluster(more, {&cost, 1}, batches).seconds <= seconds);
            more = of;
            more.batch_link *= 2;
            CHECK(model_cluster(more, {&cost, 1}, batches).seconds <= seconds);
        }
    }
}

TEST_CASE("with stages far apart, the throughput is that of the slowest, and the other side waits") {
    constexpr std::uint64_t batches = 4000;
    const auto pace = [](const cluster_shape& of, const batch_cost& cost) {
        return batches / model_cluster(of, {&cost, 1}, batches).seconds;
    };
    const auto limit = [](const cluster_shape& of, const batch_cost& cost) {
        return model_cluster(of, {&cost, 1}, batches).limit();
    };
    const cluster_shape of = shape_of(3, 2);
    const batch_cost make{.make = 900, .frame = 1, .compute = 2}, send{.make = 1, .frame = 100, .compute = 2},
        compute{.make = 1, .frame = 1, .compute = 500};
    CHECK(pace(of, make) == doctest::Approx(3.0 / 900).epsilon(0.01));
    CHECK(limit(of, make) == cluster_limit::batch_workers);
    CHECK(pace(of, send) == doctest::Approx(2.0 / 100).epsilon(0.01)); // two links in, three out
    CHECK(limit(of, send) == cluster_limit::compute_links);
    cluster_shape narrow = shape_of(1, 2);
    CHECK(pace(narrow, send) == doctest::Approx(1.0 / 100).epsilon(0.01));
    narrow.compute_link = 10;
    CHECK(limit(narrow, send) == cluster_limit::batch_links);
    CHECK(pace(of, compute) == doctest::Approx(2.0 / 500).epsilon(0.01));
    CHECK(limit(of, compute) == cluster_limit::compute_workers);
    // Gradients of 20 machines: each machine receives 19.
    cluster_shape wide = shape_of(20, 20);
    wide.gradients = 100;
    CHECK(pace(wide, {.make = 1, .frame = 1, .compute = 100}) == doctest::Approx(20.0 / 2000).epsilon(0.02));
}

TEST_CASE("the least number of batch workers is that of a linear search") {
    random_stream draw(random_key{11, random_domain::plan});
    int found = 0, none = 0;
    for (int round = 0; round < 100; ++round) {
        const batch_cost cost = random_cost(draw, 40);
        cluster_shape of = shape_of(1, static_cast<std::uint32_t>(1 + draw.below(5)));
        of.workers_per_machine = static_cast<std::uint32_t>(1 + draw.below(2));
        std::uint32_t expected = 0;
        for (std::uint32_t workers = 1; expected == 0 && workers <= 24; ++workers) {
            of.batch_workers = workers;
            if (model_cluster(of, {&cost, 1}, 300).starved() <= 0.05) expected = workers;
        }
        CHECK(least_batch_workers(of, cost, 300, 0.05, 24) == expected);
        ++(expected == 0 ? none : found);
    }
    CHECK(found > 10);
    CHECK(none > 10);
    CHECK(least_batch_workers(shape_of(1, 1), {.make = 1, .compute = 1}, 300, 0.05, 0) == 0);
}

TEST_CASE("a model without workers, batches or links is refused") {
    const batch_cost cost{.make = 1, .own = 1, .frame = 1, .compute = 1};
    const auto refused = [&](auto change, const batch_cost& of = {.make = 1, .own = 1, .frame = 1, .compute = 1}) {
        cluster_shape shape = shape_of(2, 2);
        change(shape);
        return test::code_of([&] { (void)model_cluster(shape, {&of, 1}, 10); }) == errc::invalid_argument;
    };
    CHECK(!refused([](cluster_shape&) {}));
    CHECK(refused([](cluster_shape& s) { s.compute_workers = 0; }));
    CHECK(refused([](cluster_shape& s) { s.workers_per_machine = 0; }));
    CHECK(refused([](cluster_shape& s) { s.batch_link = 0; }));
    CHECK(refused([](cluster_shape& s) { s.compute_link = -1; }));
    CHECK(refused([](cluster_shape& s) { s.credits = 1; })); // a step has two
    CHECK(refused([](cluster_shape& s) { s.gradients = -1; }));
    CHECK(refused([](cluster_shape& s) { s.gradients = 1, s.compute_link = 0; }, {.make = 1, .compute = 1}));
    CHECK(!refused([](cluster_shape& s) { s.batch_link = s.compute_link = 0; }, {.make = 1, .compute = 1}));
    CHECK(!refused([](cluster_shape& s) { s.batch_workers = 0, s.batch_link = s.compute_link = 0; }));
    CHECK(refused([](cluster_shape&) {}, {.make = -1}));
    CHECK(refused([](cluster_shape&) {}, {.compute = std::numeric_limits<double>::infinity()}));
    CHECK(refused([](cluster_shape&) {}, {.frame = std::nan("")}));
    CHECK(test::code_of([&] { (void)model_cluster(shape_of(1, 1), {&cost, 1}, 0); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { (void)model_cluster(shape_of(1, 1), {}, 10); }) == errc::invalid_argument);
}

} // namespace test_dist_cluster_model
