#include <gneiss/model/dense_optimizer.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/schedule.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace test_model_dense_optimizer {

using namespace gneiss;

namespace {

constexpr std::size_t rows = 37, columns = 61, biases = 5;

dense_parameters<> some_parameters() {
    dense_parameters<> p;
    p.add("w", rows, columns, initializer::uniform(-1, 1));
    p.add_constant("b", biases, 0.5F);
    p.allocate(3);
    return p;
}

double gradient_at(std::size_t i, int t) { return std::sin(static_cast<double>(i) + 3 * t); }

void set_gradients(dense_parameters<>& p, int t) {
    for (const auto& a : p.arrays())
        for (std::size_t i = 0; i < a.size(); ++i)
            p.gradients()[a.offset + i] = static_cast<float>(gradient_at(a.offset + i, t));
}

/// Reference: the textbook formula, one value at a time in double.
double expected(const std::string& name, double x, std::size_t i, bool decays, double decay, double rate, int steps) {
    double m = 0, v = 0;
    for (int t = 1; t <= steps; ++t) {
        double g = gradient_at(i, t);
        if (decays && name == "adamw")
            x -= rate * decay * x;
        else if (decays)
            g += decay * x;
        if (name == "sgd") {
            x -= rate * g;
        } else if (name == "adagrad") {
            v += g * g;
            x -= rate * g / (std::sqrt(v) + 1e-10);
        } else {
            m = .9 * m + .1 * g;
            v = .999 * v + .001 * g * g;
            x -= rate * (m / (1 - std::pow(.9, t))) / (std::sqrt(v / (1 - std::pow(.999, t))) + 1e-8);
        }
    }
    return x;
}

} // namespace

TEST_CASE("each optimizer follows the textbook, with decay of weights and not of biases") {
    for (const auto name : dense_optimizer_names)
        for (const double decay : {0.0, 0.02}) {
            CAPTURE(name);
            dense_parameters<> p = some_parameters();
            const std::vector<float> before(p.values().begin(), p.values().end());
            const dense_optimizer o = make_dense_optimizer(name, 0.03F, {.weight_decay = decay});
            o.allocate_state(p);
            for (int t = 1; t <= 5; ++t) {
                set_gradients(p, t);
                o.step(p, static_cast<std::uint64_t>(t), 1, serial_executor{});
            }
            for (const auto& a : p.arrays())
                for (std::size_t i = 0; i < a.size(); ++i) {
                    const std::size_t at = a.offset + i;
                    const double want = expected(std::string(name), static_cast<double>(before[at]), at, a.name == "w",
                        decay, static_cast<double>(0.03F), 5);
                    CHECK(std::abs(static_cast<double>(p.values()[at]) - want) < 2e-4);
                }
            for (const float g : p.gradients()) CHECK(g == 0);
        }
}

TEST_CASE("clipping scales long gradients to the norm, leaves short ones, and reports the norm before") {
    for (const double limit : {0.0, 1.0, 1e6}) {
        dense_parameters<> p = some_parameters();
        const std::vector<float> before(p.values().begin(), p.values().end());
        const dense_optimizer o = make_dense_optimizer("sgd", 1, {.clip_norm = limit});
        set_gradients(p, 1);
        double norm = 0;
        for (const float g : p.gradients()) norm += static_cast<double>(g) * static_cast<double>(g);
        norm = std::sqrt(norm);
        CHECK(o.step(p, 1, 1, serial_executor{}) == doctest::Approx(norm));
        double moved = 0;
        for (std::size_t i = 0; i < before.size(); ++i)
            moved += std::pow(static_cast<double>(p.values()[i] - before[i]), 2);
        CHECK(std::sqrt(moved) == doctest::Approx(limit == 1 ? 1 : norm).epsilon(1e-4));
    }
}

TEST_CASE("the schedule's factor multiplies the rate, the reduction sees all gradients, threads change nothing") {
    dense_parameters<> a = some_parameters(), b = some_parameters(), c = some_parameters();
    const dense_optimizer slow = make_dense_optimizer("adam", 0.005F), fast = make_dense_optimizer("adam", 0.01F);
    for (auto* p : {&a, &b, &c}) {
        fast.allocate_state(*p);
        set_gradients(*p, 1);
    }
    const double half = make_schedule("linear").factor(50, 100);
    slow.step(a, 1, 1, serial_executor{});
    fast.step(b, 1, half, tbb_executor(2));
    CHECK(std::equal(a.values().begin(), a.values().end(), b.values().begin()));
    CHECK(std::equal(a.state().begin(), a.state().end(), b.state().begin()));
    fast.step(c, 1, half, serial_executor{}, [&](std::span<float> g) {
        CHECK(g.size() == c.size());
        std::fill(g.begin(), g.end(), 0.0F);
    });
    const dense_parameters<> fresh = some_parameters();
    CHECK(std::equal(c.values().begin(), c.values().end(), fresh.values().begin()));
}

namespace {

/// Momentum, with the rate between its other members.
struct momentum {
    float keep = 0.9F, rate = 0.05F, first = 0.25F;

    static constexpr std::size_t state_floats(std::size_t dim) { return dim; }
    [[nodiscard]] float initial_state() const { return first; }
    void step(std::span<float> value, std::span<float> state, std::span<const float> gradient, std::uint64_t) const {
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            state[i] = keep * state[i] + gradient[i];
            value[i] -= rate * state[i];
        }
    }
};
static_assert(dense_update_rule<momentum>);

/// Adagrad with one sum of squares per row, as for embeddings.
struct row_adagrad {
    float rate = 0.1F;

    static constexpr std::size_t state_floats(std::size_t) { return 1; }
    static constexpr float initial_state() { return 0; }
    void step(std::span<float>, std::span<float>, std::span<const float>, std::uint64_t) const {}
};

} // namespace

TEST_CASE("a custom rule steps with decay, factor and threads like the library's") {
    dense_parameters<> p = some_parameters(), threads = some_parameters();
    const std::vector<float> before(p.values().begin(), p.values().end());
    const dense_optimizer o(momentum{.rate = 0.06F}, {.weight_decay = 0.02, .decoupled = true});
    CHECK(o.state_per_value() == 1);
    REQUIRE(o.get_if<momentum>() != nullptr);
    CHECK(o.get_if<momentum>()->rate == 0.06F);
    CHECK(o.get_if<adam>() == nullptr);
    o.allocate_state(p);
    o.allocate_state(threads);
    for (int t = 1; t <= 5; ++t) {
        set_gradients(p, t);
        set_gradients(threads, t);
        o.step(p, static_cast<std::uint64_t>(t), 0.5, serial_executor{});
        o.step(threads, static_cast<std::uint64_t>(t), 0.5, tbb_executor(3));
    }
    CHECK(std::equal(p.values().begin(), p.values().end(), threads.values().begin()));
    for (const auto& a : p.arrays())
        for (std::size_t i = a.offset; i < a.offset + a.size(); ++i) {
            double x = static_cast<double>(before[i]), m = 0.25;
            for (int t = 1; t <= 5; ++t) {
                if (a.name == "w") x -= 0.03 * 0.02 * x;
                m = .9 * m + gradient_at(i, t);
                x -= 0.03 * m;
            }
            CHECK(std::abs(static_cast<double>(p.values()[i]) - x) < 1e-5);
        }
    CHECK_THROWS_WITH((void)dense_optimizer(row_adagrad{}), doctest::Contains("keeps it for each row"));
}

TEST_CASE("a NaN gradient stops a step before any change; invalid settings are refused") {
    dense_parameters<> p = some_parameters();
    const dense_parameters<> fresh = some_parameters();
    p.gradients()[7] = std::numeric_limits<float>::infinity();
    const dense_optimizer o = make_dense_optimizer("adam", 0.1F);
    CHECK_THROWS_AS(o.step(p, 1, 1, serial_executor{}), error); // no state yet
    o.allocate_state(p);
    CHECK_THROWS_AS(o.step(p, 1, 1, serial_executor{}), error);
    CHECK(std::equal(p.values().begin(), p.values().end(), fresh.values().begin()));
    CHECK_THROWS_AS((void)make_dense_optimizer("adm", 0.1F), error);
    CHECK_THROWS_AS((void)make_dense_optimizer("adam", 0), error);
    CHECK_THROWS_AS((void)make_dense_optimizer("adam", 0.1F, {.weight_decay = -1}), error);
    CHECK_THROWS_AS((void)make_dense_optimizer("adam", 0.1F, {.clip_norm = std::nan("")}), error);
}

TEST_CASE("an array with a scale trains as that many times another array, with decay and clipping") {
    constexpr float scale = 4;
    for (const auto name : dense_optimizer_names)
        for (const double decay : {0.0, 0.02})
            for (const double clip : {0.0, 3.0}) {
                CAPTURE(name);
                dense_parameters<> p = some_parameters(), other = some_parameters();
                p.set_scale(0, scale);
                const dense_optimizer o = make_dense_optimizer(name, 0.03F, {.weight_decay = decay, .clip_norm = clip});
                o.allocate_state(p);
                o.allocate_state(other);
                for (int t = 1; t <= 5; ++t) {
                    set_gradients(p, t);
                    set_gradients(other, t);
                    for (float& g : other.gradient_list(0)) g *= scale;
                    const double norm = o.step(p, static_cast<std::uint64_t>(t), 1, serial_executor{});
                    CHECK(norm == o.step(other, static_cast<std::uint64_t>(t), 1, serial_executor{}));
                }
                for (std::size_t i = 0; i < rows * columns; ++i)
                    CHECK(p.list(0)[i] == doctest::Approx(scale * other.list(0)[i]).epsilon(1e-4));
                for (std::size_t i = 0; i < biases; ++i) CHECK(p.list(1)[i] == doctest::Approx(other.list(1)[i]));
            }
    dense_parameters<> p = some_parameters();
    const std::vector<float> before(p.values().begin(), p.values().end());
    p.set_scale(0, 8);
    p.set_scale(0, 1); // as before
    CHECK(std::vector<float>(p.values().begin(), p.values().end()) == before);
    CHECK_THROWS_WITH_AS(p.set_scale(0, 0), doctest::Contains("the scale of array w must be positive"), error);
}

} // namespace test_model_dense_optimizer
