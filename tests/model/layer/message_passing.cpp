#include <gneiss/model/layer/message_passing.hpp>

#include "../gnn.hpp"
#include "../own_layers.hpp"

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/cpu_encoder.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace test_model_layer_message_passing {

using namespace gneiss;
using own_layers::attending;
using own_layers::differences;
using own_layers::gated;
using own_layers::gin;
using own_layers::pool;

namespace {

using double_layers = std::vector<any_layer_factory<double, gnn::naive_backend>>;

constexpr message_reduction reductions[] = {message_reduction::sum, message_reduction::mean, message_reduction::max};

void check(const double_layers& layers, const gradient_check_options& options = {}) {
    const gradient_report report = check_gradients(layers, options);
    CAPTURE(report.where);
    CAPTURE(report.gradient);
    CAPTURE(report.slope);
    CHECK(report.error < 1e-6);
    CHECK(report.size > 0);
}

/// The mean, sum or maximum of neighbors' rows, times W: sage:add without the target's own row.
struct reduced_product {
    message_reduction reduce = message_reduction::sum;
    std::size_t width = 0, weight = 0;

    [[nodiscard]] std::size_t outputs() const { return width; }
    void allocate(auto& weights, const std::string& name, std::size_t inputs) {
        weight = weights.add(name + ".weight", inputs, width, initializer::glorot(inputs, width));
    }
    void update(auto& c, auto, auto reduced, auto out) const { c.multiply(reduced, c.value(weight), out); }
    void update_backward(auto& c, auto, auto reduced, auto g, auto grad_own, auto grad_reduced) const {
        c.add_tn(reduced, g, c.gradient(weight));
        if (grad_reduced.empty()) return;
        c.multiply_nt(g, c.value(weight), grad_reduced);
        c.apply_nodes(grad_own.rows(), [&](std::size_t i) { std::ranges::fill(grad_own[i], 0); });
    }
};

/// A layer that trains and does not support parts.
template <class T>
class doubled final : public graph_layer<T> {
public:
    explicit doubled(std::size_t width) : width_(width) {}
    [[nodiscard]] std::size_t outputs() const override { return width_; }
    void forward(const dense_parameters<T>&, const layer_input<T>& in, activation, matrix_view<T> out) override {
        for (std::size_t i = 0; i < out.rows(); ++i)
            for (std::size_t c = 0; c < width_; ++c) out(i, c) = 2 * in.own_rows().dense(i, c);
    }
    void backward(
        dense_parameters<T>&, const layer_input<T>& in, matrix_view<const T> g, matrix_view<T> grad_in) override {
        for (std::size_t i = 0; i < grad_in.rows(); ++i) std::ranges::fill(grad_in[i], T{0});
        for (std::size_t i = 0; i < g.rows() && !grad_in.empty(); ++i)
            for (std::size_t c = 0; c < width_; ++c) grad_in(in.view.first_target + i, c) = 2 * g(i, c);
    }

private:
    std::size_t width_;
};
struct doubled_factory {
    std::size_t width = 0, says = width;

    template <class T, class Backend>
    [[nodiscard]] std::unique_ptr<graph_layer<T>> make(
        dense_parameters<T>&, const std::string&, input_columns, const Backend&) const {
        return std::make_unique<doubled<T>>(width);
    }
    [[nodiscard]] std::size_t outputs() const { return says; }
    [[nodiscard]] static bool takes_hop() { return false; }
    [[nodiscard]] static std::uint64_t memory(const layer_sizes&) { return 0; }
};

} // namespace

TEST_CASE("gradients of message passing layers equal finite differences, alone and combined with the library's") {
    for (const bool last : {false, true}) {
        check({gin{.width = 4}}, {.targets_last = last, .seed = 61});
        check({attending{.width = 3}}, {.targets_last = last, .seed = 67});
        for (const message_reduction reduce : reductions) {
            check({pool{.reduce = reduce, .width = 3}}, {.targets_last = last, .seed = 62});
            check({gated{.reduce = reduce, .width = 3}}, {.targets_last = last, .seed = 63});
            check({differences{.reduce = reduce, .width = 3}}, {.targets_last = last, .seed = 68});
            check({reduced_product{.reduce = reduce, .width = 3}}, {.targets_last = last, .seed = 64});
        }
    }
    check({{gin{.width = 4}, {.then = activation::elu, .dropout = .3, .norm = true}}, parse_layers("sage:4")[0],
              {pool{.width = 5}, {.residual = true}}},
        {.seed = 65});
    check({parse_layers("linear:4")[0], {gated{.width = 4}, {.then = activation::tanh, .residual = true}},
              doubled_factory{4}},
        {.in = {.dense = 2, .sparse = 6}, .seed = 66});
}

TEST_CASE("a message passing layer gives the same rows as the library's layer of that formula") {
    const gnn::sample views({40, 12}, true, 7);
    const gnn::matrix<> rows(40, 5, 3);
    for (const message_reduction reduce : reductions) {
        const std::string names[] = {"sum", "mean", "max"};
        dense_parameters<double> a, b;
        gnn::double_encoder mine(a, {reduced_product{.reduce = reduce, .width = 4}}, {.dense = 5});
        gnn::double_encoder library(
            b, parse_layers("sage:4:no-bias:" + names[static_cast<std::size_t>(reduce)]), {.dense = 5});
        a.allocate(1);
        b.allocate(2);
        std::ranges::fill(b.values().first(20), 0); // the target's own row
        for (std::size_t i = 0; i < 20; ++i) b.values()[b.arrays()[1].offset + i] = a.values()[i];
        const auto got = mine.forward(a, views, {rows.view}, {}, serial_executor{}),
                   want = library.forward(b, views, {rows.view}, {}, serial_executor{});
        for (std::size_t i = 0; i < 12; ++i)
            for (std::size_t c = 0; c < 4; ++c) CHECK(got(i, c) == doctest::Approx(want(i, c)).epsilon(1e-12));
    }
}

TEST_CASE("a message passing layer computed in parts equals the whole, for any parts") {
    const gnn::sample graph({40, 40}, false, 3);
    const gnn::matrix<> rows(40, 5, 3);
    double_layers layers{{gin{.width = 4}, {.then = activation::relu, .residual = true}}, attending{.width = 3}};
    for (const message_reduction reduce : reductions) {
        layers.push_back({pool{.reduce = reduce, .width = 3}, {.norm = true}});
        layers.push_back(gated{.reduce = reduce, .width = 3});
        layers.push_back(differences{.reduce = reduce, .width = 3});
    }
    for (const auto& layer : layers) {
        dense_parameters<double> weights;
        gnn::double_encoder encode(weights, {layer}, {.dense = 5});
        gnn::randomize(weights, 1);
        const auto out = encode.forward(weights, graph, {rows.view}, {}, serial_executor{});
        const std::vector<double> expected(out.data(), out.data() + 40 * encode.outputs());
        for (const std::size_t step : {1U, 7U, 40U}) {
            const auto found = gnn::in_parts(encode, weights, graph[0], {rows.view}, step, serial_executor{});
            REQUIRE(found.size() == expected.size());
            for (std::size_t i = 0; i < found.size(); ++i)
                CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-9));
            CHECK(found == gnn::in_parts(encode, weights, graph[0], {rows.view}, step, tbb_executor(3)));
        }
    }
}

TEST_CASE("rows and gradients of message passing layers have the same bits on one thread, on three threads and when "
          "repeated") {
    const gnn::sample views({3000, 1500, 700}, true, 9);
    const gnn::matrix<float> rows(3000, 33, 8);
    const auto run = [&](executor_ref executor) {
        dense_parameters<> weights;
        encoder<float, eigen_backend> encode(weights, {gated{.width = 20}, pool{.width = 30}}, {.dense = 33});
        weights.allocate(7);
        gnn::matrix<float> grad_in(3000, 33), g(700, 30, 4);
        const auto out = encode.forward(weights, views, {rows.view}, {}, executor);
        std::vector<float> all(out.data(), out.data() + out.rows() * out.columns());
        encode.backward(weights, g.view, grad_in.view, executor);
        all.insert(all.end(), weights.gradients().begin(), weights.gradients().end());
        all.insert(all.end(), grad_in.memory.begin(), grad_in.memory.end());
        return all;
    };
    const tbb_executor three(3);
    const std::vector<float> one = run(serial_executor{});
    CHECK(one == run(three));
    CHECK(one == run(three));
}

TEST_CASE("an operation that a custom layer does not support is refused in a sentence") {
    struct greedy : gin {
        [[nodiscard]] std::uint64_t kept_floats(const layer_sizes& of) const { return of.targets; }
    };
    const gnn::sample views({13, 9}, false, 1);
    const gnn::matrix<> rows(13, 5, 3);
    dense_parameters<double> weights, other, third, fourth;
    gnn::double_encoder encode(weights, {greedy{{.width = 4}}}, {.dense = 5});
    weights.allocate(1);
    CHECK_THROWS_WITH((void)encode.forward(weights, views, {rows.view}, {}, serial_executor{}),
        doctest::Contains("kept_floats says 9"));
    CHECK_THROWS_WITH((void)library_layers(encode), doctest::Contains("layer 0 is your own and trains on the CPU"));
    CHECK_THROWS_WITH(gnn::double_encoder(other, {gin{.width = 4}}, {.dense = 5, .sparse = 3}),
        doctest::Contains("put a linear layer in front"));
    const gnn::double_encoder whole(third, {parse_layers("sage:5")[0], doubled_factory{5}}, {.dense = 5});
    CHECK(whole.hops() == 1);
    CHECK_THROWS_WITH((void)whole.parts(1), doctest::Contains("is not run over whole graphs"));
    CHECK_THROWS_WITH(
        gnn::double_encoder(fourth, {doubled_factory{5, 6}}, {.dense = 5}), doctest::Contains("its factory says 6"));
    CHECK(library_layers(gnn::double_encoder(other, parse_layers("sage:5,linear:3"), {.dense = 5}))[1].kind ==
        layer_kind::linear);
}

} // namespace test_model_layer_message_passing
