#include "gnn.hpp"

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/cpu_encoder.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace test_model_encoder {

using namespace gneiss;

namespace {

using late_attention = gneiss::detail::late_attention<double, gnn::naive_backend>;

void check_gradients(const std::string& text, bool last, std::size_t dense, std::size_t sparse, std::uint64_t seed) {
    CAPTURE(text);
    CAPTURE(last);
    const gradient_report report =
        gneiss::check_gradients(parse_layers(text), {.in = {dense, sparse}, .targets_last = last, .seed = seed});
    CAPTURE(report.where);
    CAPTURE(report.gradient);
    CAPTURE(report.slope);
    CHECK(report.error < 1e-6);
    CHECK(report.size > 0);
}

} // namespace

TEST_CASE("gradients of GraphSAGE equal finite differences, for each option") {
    for (const std::string reduce : {"mean", "sum", "max"})
        for (const std::string combine : {"concat", "add"})
            for (const bool last : {false, true})
                check_gradients(std::string("sage:4:").append(reduce).append(":").append(combine), last, 3, 0, 11);
    check_gradients("sage:2:sum", true, 9, 0, 12); // rows become shorter: multiplied first
    check_gradients("sage:9,sage:3:no-bias", false, 2, 0, 13);
    check_gradients("sage:9:product=first,sage:3:product=last", true, 2, 0, 14);
}

TEST_CASE("gradients of graph convolutions equal finite differences, for each option") {
    for (const std::string normalize : {"symmetric", "row"})
        for (const bool last : {false, true}) {
            check_gradients("gcn:4:" + normalize, last, 3, 0, 21);
            check_gradients("gcn:2:no-bias:" + normalize, last, 7, 0, 22);
            check_gradients("gcn:5,gcn:3:" + normalize, last, 4, 0, 23);
            check_gradients("gcn:9:product=first,gcn:3:product=last:" + normalize, last, 4, 0, 24);
        }
}

TEST_CASE("gradients with imputed neighbors equal finite differences") {
    for (const std::string text : {"sage:4", "sage:4:sum", "sage:3:max", "sage:2:add", "gcn:4:tanh", "gat:3x2",
             "sage:5:relu:norm,gcn:3", "linear:4:tanh,sage:3:elu,sage:2:residual"})
        for (const bool last : {false, true})
            for (const std::size_t sparse : {0U, 8U}) {
                if (sparse != 0 && text.find("max") != text.npos) continue;
                CAPTURE(text);
                const gradient_report report = gneiss::check_gradients(
                    parse_layers(text), {.in = {3, sparse}, .targets_last = last, .seed = 61, .coverage = true});
                CAPTURE(report.where);
                CHECK(report.error < 1e-6);
                CHECK(report.size > 0);
            }
}

TEST_CASE("gradients of graph attention equal finite differences, for each option") {
    for (const std::string heads : {"1", "4", "8"})
        for (const std::string merge : {"concat", "mean"})
            for (const bool last : {false, true})
                check_gradients(std::string("gat:3x").append(heads).append(":").append(merge), last, 4, 0, 31);
    check_gradients("gat:3x2:attention-dropout=.4:slope=.05", true, 4, 0, 32);
    check_gradients("gat:2x4,gat:3x2:mean:attention-dropout=.5:no-bias", false, 3, 0, 33);
    // Rows are shorter than a head: they are summed first.
    static_assert(late_attention::pays(2, 9, 3, 4, 4, 4));
    for (const std::string merge : {"concat", "mean:attention-dropout=.4:no-bias"})
        for (const bool last : {false, true}) check_gradients("gat:9x3:" + merge, last, 2, 0, 34);
    check_gradients("gat:3x2:product=last,gat:20x4:dropout=.3:product=last", true, 4, 0, 35);
    check_gradients("gat:20x2:product=first", true, 2, 0, 36);
}

TEST_CASE("gradients of activation, dropout, norm and residual equal finite differences") {
    for (const std::string then : {"none", "relu", "leaky", "elu", "tanh", "sigmoid"})
        check_gradients("sage:4:" + then, true, 3, 0, 41);
    check_gradients("sage:4:dropout=.4,sage:3:dropout=.5", false, 6, 0, 42);
    check_gradients("sage:4:norm:relu,gcn:3:norm:no-bias", true, 3, 0, 43);
    check_gradients("sage:4:residual:elu,sage:4:residual:norm", false, 3, 0, 44); // with a matrix, then without
    check_gradients(
        "gat:2x2:residual:norm:dropout=.2,linear:5:tanh,gcn:4:residual:dropout=.3,linear:2", true, 4, 0, 45);
}

TEST_CASE("gradients with sparse rows equal finite differences, alone and with dense ones") {
    for (const std::string layer : {"sage:3", "sage:3:sum:add", "gcn:3:symmetric", "gat:2x2", "linear:4,sage:3:max"})
        for (const std::size_t dense : {0U, 2U}) {
            check_gradients(layer + ":dropout=.3", true, dense, 8, 51);
            check_gradients(layer + ":residual", false, dense, 8, 52);
        }
}

TEST_CASE("sparse rows give the same as the rows in dense form") {
    const gnn::sample views({40, 12}, true, 5);
    const gnn::words<> words(40, 30, 6);
    gnn::matrix<> dense(40, 30);
    words.densify(dense.view);
    // Dense rows are multiplied after the sums by the last two, which sparse ones never are.
    static_assert(late_attention::pays(30, 20, 2, 40, 12, 40) && !late_attention::pays(30, 3, 4, 40, 12, 40));
    for (const std::string text : {"sage:7", "gcn:40", "gat:3x4", "gat:20x2", "gat:20x3:mean"}) {
        dense_parameters<double> a, b;
        gnn::double_encoder first(a, parse_layers(text), {.sparse = 30}), second(b, parse_layers(text), {.dense = 30});
        a.allocate(3);
        b.allocate(3);
        const auto x = first.forward(a, views, {.sparse = words.view()}, {}, serial_executor{});
        const auto y = second.forward(b, views, {.dense = dense.view}, {}, serial_executor{});
        for (std::size_t i = 0; i < x.rows(); ++i)
            for (std::size_t c = 0; c < x.columns(); ++c) CHECK(x(i, c) == doctest::Approx(y(i, c)).epsilon(1e-12));
    }
}

namespace {

struct outcome {
    std::vector<float> rows, gradients, inputs;
    friend bool operator==(const outcome& a, const outcome& b) {
        const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
            return x.size() == y.size() &&
                (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
        };
        return same(a.rows, b.rows) && same(a.gradients, b.gradients) && same(a.inputs, b.inputs);
    }
};

outcome run_floats(const std::string& text, std::size_t sparse, executor_ref executor) {
    const gnn::sample views({3000, 1500, 700}, true, 9);
    dense_parameters<> weights;
    encoder<float, eigen_backend> encode(weights, parse_layers(text), {.dense = 33, .sparse = sparse});
    weights.allocate(7);
    const gnn::matrix<float> rows(3000, 33, 8);
    gnn::matrix<float> grad_in(3000, 33), g(700, encode.outputs(), 4);
    const gnn::words<float> words(3000, sparse, 6);
    const input_rows<float> input{rows.view, sparse == 0 ? sparse_rows<float>{} : words.view()};
    const auto out =
        encode.forward(weights, views, input, {.training = random_key{1, random_domain::dropout}}, executor);
    outcome all;
    all.rows.assign(out.data(), out.data() + out.rows() * out.columns());
    encode.backward(weights, g.view, grad_in.view, executor);
    all.gradients.assign(weights.gradients().begin(), weights.gradients().end());
    all.inputs = grad_in.memory;
    return all;
}

} // namespace

TEST_CASE("rows and gradients have the same bits on one thread, on three threads and when repeated") {
    const tbb_executor three(3);
    for (const std::string text : {"sage:40:norm:dropout=.3,sage:70:max:residual",
             "gcn:40:symmetric:dropout=.5,gcn:70:row", "gat:12x4:attention-dropout=.3,gat:40x2:mean"})
        for (const std::size_t sparse : {0U, 50U}) {
            CAPTURE(text);
            const outcome one = run_floats(text, sparse, serial_executor{});
            CHECK(one == run_floats(text, sparse, three));
            CHECK(one == run_floats(text, sparse, three));
        }
}

TEST_CASE("Eigen's products give the same rows and gradients as naive ones") {
    const gnn::sample views({60, 30, 8}, false, 2);
    for (const std::string text : {"sage:20,sage:9", "gcn:5:symmetric:norm,gcn:30", "gat:6x4,gat:7x2:mean"}) {
        dense_parameters<float> a;
        dense_parameters<double> b;
        encoder<float, eigen_backend> fast(a, parse_layers(text), {.dense = 17});
        gnn::double_encoder slow(b, parse_layers(text), {.dense = 17});
        a.allocate(3);
        b.allocate(3);
        const gnn::matrix<float> rows(60, 17, 8);
        const gnn::matrix<double> same_rows(60, 17, 8);
        gnn::matrix<float> grad_in(60, 17), g(8, fast.outputs(), 4);
        gnn::matrix<double> grad_in2(60, 17), g2(8, fast.outputs(), 4);
        const auto x = fast.forward(a, views, {rows.view}, {}, serial_executor{});
        const auto y = slow.forward(b, views, {same_rows.view}, {}, serial_executor{});
        for (std::size_t i = 0; i < x.rows(); ++i)
            for (std::size_t c = 0; c < x.columns(); ++c)
                CHECK(std::abs(static_cast<double>(x(i, c)) - y(i, c)) < 1e-4);
        fast.backward(a, g.view, grad_in.view, serial_executor{});
        slow.backward(b, g2.view, grad_in2.view, serial_executor{});
        for (std::size_t i = 0; i < a.arrays().size(); ++i)
            for (std::size_t r = 0; r < a.arrays()[i].rows; ++r)
                for (std::size_t c = 0; c < a.arrays()[i].columns; ++c)
                    CHECK(std::abs(static_cast<double>(a.gradient(i)(r, c)) - b.gradient(i)(r, c)) < 1e-3);
        for (std::size_t i = 0; i < grad_in.memory.size(); ++i)
            CHECK(std::abs(static_cast<double>(grad_in.memory[i]) - grad_in2.memory[i]) < 1e-4);
    }
}

TEST_CASE("a layer computed in parts equals the whole, for any parts, without dropout") {
    const gnn::sample graph({40, 40}, false, 3);
    for (const std::string text :
        {"sage:4", "sage:9:sum:add", "sage:4:max:residual", "sage:4:mean:no-bias:norm", "gcn:9:symmetric", "gcn:4:row",
            "gcn:5:symmetric:residual:dropout=.5", "gat:2x3:residual:norm",
            "gat:4x2:mean:slope=.05:attention-dropout=.5", "gat:7:no-bias", "gat:40x3:mean:norm", "linear:3:tanh:norm"})
        for (const std::size_t sparse : {0U, 8U}) {
            if (sparse != 0 && text.find("max") != text.npos) continue;
            CAPTURE(text);
            CAPTURE(sparse);
            dense_parameters<double> weights;
            gnn::double_encoder encode(weights, parse_layers(text), {.dense = 5, .sparse = sparse});
            gnn::randomize(weights, 1);
            const gnn::matrix<> rows(40, 5, 3);
            const gnn::words<> words(40, sparse, 6);
            const input_rows<double> input{rows.view, sparse == 0 ? sparse_rows<double>{} : words.view()};
            std::vector<double> expected;
            if (encode.hops() == 0) {
                const auto out = encode.forward(weights, std::vector<layer_view>{}, input, {}, serial_executor{});
                expected.assign(out.data(), out.data() + 40 * encode.outputs());
            } else {
                const auto out = encode.forward(weights, graph, input, {}, serial_executor{});
                expected.assign(out.data(), out.data() + 40 * encode.outputs());
            }
            for (const std::size_t step : {1U, 7U, 40U}) {
                const auto found = gnn::in_parts(encode, weights, graph[0], input, step, serial_executor{});
                REQUIRE(found.size() == expected.size());
                for (std::size_t i = 0; i < found.size(); ++i)
                    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-6));
                CHECK(found == gnn::in_parts(encode, weights, graph[0], input, step, tbb_executor(3)));
            }
        }
}

TEST_CASE("products before sums equal products after them, and orders that rows do not allow are refused") {
    const gnn::sample views({60, 30}, false, 5);
    const gnn::matrix<> rows(60, 6, 3), g(30, 12, 4);
    for (const std::string text : {"sage:12:", "sage:12:sum:add:", "gcn:12:symmetric:", "gat:4x3:", "gat:12x2:mean:"}) {
        CAPTURE(text);
        const auto run = [&](const std::string& order) {
            dense_parameters<double> weights;
            gnn::double_encoder encode(weights, parse_layers(text + order), {.dense = 6});
            gnn::randomize(weights, 1);
            const auto out = encode.forward(weights, views, {rows.view}, {}, serial_executor{});
            std::vector<double> all(out.data(), out.data() + out.rows() * out.columns());
            gnn::matrix<> grad_in(60, 6);
            encode.backward(weights, g.view, grad_in.view, serial_executor{});
            all.insert(all.end(), grad_in.memory.begin(), grad_in.memory.end());
            for (std::size_t i = 0; i < weights.arrays().size(); ++i)
                for (std::size_t r = 0; r < weights.arrays()[i].rows; ++r)
                    for (const double x : weights.gradient(i)[r]) all.push_back(x);
            return all;
        };
        const std::vector<double> first = run("product=first"), last = run("product=last");
        REQUIRE(first.size() == last.size());
        for (std::size_t i = 0; i < first.size(); ++i) CHECK(first[i] == doctest::Approx(last[i]).epsilon(1e-9));
        if (text.find("sum") == text.npos) CHECK(first != last); // by rounding; short sums of floats are exact
        CHECK((run("none") == first || run("none") == last));
    }
    dense_parameters<double> weights;
    for (const std::string text : {"sage:4:product=last", "gcn:4:product=last", "gat:4:product=last"})
        CHECK_THROWS_WITH_AS(gnn::double_encoder(weights, parse_layers(text), {.dense = 2, .sparse = 3}),
            doctest::Contains("product=last"), error);
    CHECK_THROWS_WITH_AS(gnn::double_encoder(weights, parse_layers("sage:4:product=first:max"), {.dense = 2}),
        doctest::Contains("product=first"), error);
}

TEST_CASE("a mask depends on a node's name, not on its position in the batch") {
    const gnn::sample views({4, 4}, false, 1); // equal samples except for the order of their rows
    dense_parameters<double> weights;
    gnn::double_encoder encode(weights, parse_layers("linear:6:dropout=.5"), {.dense = 6});
    gnn::randomize(weights, 1);
    gnn::matrix<> rows(4, 6, 3), turned(4, 6);
    for (std::size_t i = 0; i < 4; ++i) std::copy_n(rows.view[3 - i].data(), 6, turned.view[i].data());
    const std::vector<node_id> names{7, 90, 4, 11}, backwards{11, 4, 90, 7};
    const auto run = [&](const gnn::matrix<>& x, const std::vector<node_id>& ids, std::uint64_t batch) {
        const auto out = encode.forward(weights, std::vector<layer_view>{}, {x.view},
            {.training = random_key{1, random_domain::dropout}.with(batch), .sources = {ids}}, serial_executor{});
        return std::vector<double>(out.data(), out.data() + 24);
    };
    const auto a = run(rows, names, 0), b = run(turned, backwards, 0);
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t c = 0; c < 6; ++c) CHECK(a[i * 6 + c] == b[(3 - i) * 6 + c]);
    CHECK(a != run(rows, names, 1));
    CHECK(a != run(rows, backwards, 0));
}

TEST_CASE("a hook sees the rows between layers and may replace them, and external rows get no gradient") {
    // The first layer computes three rows; two more come from the hook.
    const gnn::sample lower({6, 3}, false, 1), upper({5, 2}, false, 4);
    const std::vector<layer_view> views{lower[0], upper[0]};
    dense_parameters<double> weights;
    gnn::double_encoder encode(weights, parse_layers("sage:4:none,sage:3"), {.dense = 2});
    gnn::randomize(weights, 1);
    gnn::matrix<> rows(6, 2, 3), history(5, 4, 9), grad_in(6, 2), g(2, 3, 5);
    std::size_t seen = 0;
    encoder_pass<double> pass;
    pass.hook.rows = [&](std::size_t layer, matrix_view<double> all) {
        CHECK(layer == 1);
        CHECK(all.rows() == 5);
        for (std::size_t c = 0; c < 4; ++c) CHECK(all(4, c) == 0);
        for (std::size_t i = 3; i < 5; ++i) std::copy_n(history.view[i].data(), 4, all[i].data());
    };
    pass.hook.gradients = [&](std::size_t layer, matrix_view<double> computed) {
        CHECK(layer == 1);
        CHECK(computed.rows() == 3);
        ++seen;
        for (std::size_t i = 0; i < 3; ++i) std::fill_n(computed[i].data(), 4, 0.0);
    };
    const auto out = encode.forward(weights, views, {rows.view}, pass, serial_executor{});
    const std::vector<double> before(out.data(), out.data() + 6);
    encode.backward(weights, g.view, grad_in.view, serial_executor{});
    CHECK(seen == 1);
    for (const double x : grad_in.memory) CHECK(x == 0);
    for (double& x : history.memory) x += 1;
    const auto changed = encode.forward(weights, views, {rows.view}, pass, serial_executor{});
    CHECK(!std::equal(before.begin(), before.end(), changed.data()));
}

TEST_CASE("a sample without targets, edges or sources is valid and has no effect") {
    for (const std::string text : {"sage:3", "sage:3:max", "gcn:3:symmetric:norm", "gat:3x2:mean"}) {
        const gnn::sample views({5, 0}, false, 1), nothing({0, 0}, false, 1);
        dense_parameters<double> weights;
        gnn::double_encoder encode(weights, parse_layers(text), {.dense = 2});
        weights.allocate(1);
        gnn::matrix<> rows(5, 2, 3), grad_in(5, 2, 4), none(0, 2), g(0, encode.outputs());
        CHECK(encode.forward(weights, views, {rows.view}, {}, serial_executor{}).rows() == 0);
        encode.backward(weights, g.view, grad_in.view, serial_executor{});
        for (const double x : grad_in.memory) CHECK(x == 0);
        CHECK(encode.forward(weights, nothing, {none.view}, {}, serial_executor{}).rows() == 0);
        encode.backward(weights, g.view, {}, serial_executor{});
    }
}

TEST_CASE("inconsistent shapes are refused") {
    dense_parameters<double> weights;
    CHECK_THROWS_AS(gnn::double_encoder(weights, {}, {.dense = 3}), error);
    CHECK_THROWS_AS(gnn::double_encoder(weights, parse_layers("sage:3"), {}), error);
    CHECK_THROWS_AS(gnn::double_encoder(weights, parse_layers("sage:3:max"), {.sparse = 9}), error);
    dense_parameters<double> fresh;
    gnn::double_encoder encode(fresh, parse_layers("sage:3,sage:3"), {.dense = 2});
    fresh.allocate(1);
    const gnn::matrix<> rows(9, 2, 1), wide(9, 3, 1), few(8, 2, 1);
    const gnn::sample views({9, 5, 2}, true, 1), one_hop({9, 5}, true, 1);
    const serial_executor executor;
    CHECK_THROWS_WITH_AS(
        (void)encode.forward(fresh, one_hop, {rows.view}, {}, executor), doctest::Contains("1 hops for 2"), error);
    CHECK_THROWS_AS((void)encode.forward(fresh, views, {wide.view}, {}, executor), error);
    CHECK_THROWS_AS((void)encode.forward(fresh, views, {few.view}, {}, executor), error);
    CHECK_NOTHROW((void)encode.forward(fresh, views, {rows.view}, {}, executor));
    gnn::matrix<> g(3, 3);
    CHECK_THROWS_AS(encode.backward(fresh, g.view, {}, executor), error);
}

} // namespace test_model_encoder
