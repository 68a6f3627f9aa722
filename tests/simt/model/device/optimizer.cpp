#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/model/dense_optimizer.hpp>

#include <simt/model/support.hpp>

#include <cmath>
#include <limits>

namespace test_simt_model_device_optimizer {

using namespace simt_model;

namespace {

/// Compares results of the same arithmetic except for contractions: a few units in the last place of the terms.
bool near(float a, float b) { return std::abs(a - b) <= 1e-5F * (1 + std::abs(b)); }

template <class O>
void check_rows_of(const O& optimizer, std::size_t dim, layout options, bool by_id) {
    constexpr std::uint32_t count = 11, rows_of_table = 40, first = 100;
    const std::size_t width = dim + O::state_floats(dim);
    const rows<float> before(rows_of_table, width, options, 3), gradients(count + 2, dim, options, 4);
    rows<float> start = before;
    for (std::size_t i = 0; i < rows_of_table; ++i) // states are not negative
        for (std::size_t c = dim; c < width; ++c) start(i, c) = std::abs(start(i, c));
    std::vector<std::uint32_t> ids;
    for (std::uint32_t i = 0; i < count; ++i) ids.push_back(first + (i * 17 + 5) % rows_of_table);
    const cuda::step_state at{.t = 7, .factor = 0.6};
    O scaled = optimizer;
    scaled.rate = static_cast<float>(static_cast<double>(scaled.rate) * at.factor);
    rows<float> want = start;
    rows<float> g = gradients;
    for (std::uint32_t i = 0; i < count; ++i) {
        float* const row = &want(by_id ? ids[i] - first : i, 0);
        scaled.step({row, dim}, {row + dim, width - dim}, {&g(i, 0), dim}, at.t);
    }
    simt::for_each_seed(2, [&] {
        rows<float> table = start;
        cuda::step_rows<O, float>(nullptr, optimizer, &at, &count, count + 2, by_id ? ids.data() : nullptr,
            by_id ? &first : nullptr, gradients.view(), table.view());
        for (std::size_t i = 0; i < rows_of_table; ++i)
            for (std::size_t c = 0; c < width; ++c) CHECK(near(table(i, c), want(i, c)));
    });
}

template <class O>
void check_dense(const O& optimizer, const dense_optimizer_options& options) {
    dense_parameters<float> weights;
    weights.add("w", 40, 33, initializer::glorot(40, 33));
    weights.add_constant("b", 33, .5F);
    weights.add("v", 20, 7, initializer::glorot(20, 7));
    weights.allocate(3);
    const dense_optimizer host(optimizer, options);
    host.allocate_state(weights);
    std::vector<std::uint8_t> decays(weights.size() / 16, 0);
    for (const auto& a : weights.arrays())
        for (std::size_t i = a.offset; i < a.offset + a.size(); ++i) decays[i / 16] = a.decays;
    std::vector<float> values(weights.values().begin(), weights.values().end()), gradients(values.size()),
        state(weights.state().begin(), weights.state().end());
    std::vector<double> scratch(cuda::dense_step_scratch(values.size()));
    cuda::gradient_norm norm;
    for (std::uint64_t t = 1; t <= 3; ++t) {
        for (const auto& a : weights.arrays())
            for (std::size_t i = a.offset; i < a.offset + a.size(); ++i)
                gradients[i] = weights.gradients()[i] = to_unit_float(random_key(t, random_domain::user)[i]) - .5F;
        const cuda::step_state at{.t = t, .factor = .5};
        const double wanted = host.step(weights, t, at.factor, serial);
        cuda::step_dense(nullptr, optimizer, &at,
            {options.weight_decay, options.decoupled, options.clip_norm, decays.data()}, values.size(), values.data(),
            gradients.data(), state.data(), scratch.data(), &norm);
        CHECK(norm.value == doctest::Approx(wanted));
        for (std::size_t i = 0; i < values.size(); ++i) {
            CHECK(near(values[i], weights.values()[i]));
            CHECK(gradients[i] == 0);
        }
        for (std::size_t i = 0; i < state.size(); ++i) CHECK(near(state[i], weights.state()[i]));
    }
    gradients[5] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> before = values;
    const cuda::step_state at{.t = 4, .factor = 1};
    cuda::step_dense(nullptr, optimizer, &at, {}, values.size(), values.data(), gradients.data(), state.data(),
        scratch.data(), &norm);
    CHECK(std::isnan(norm.value));
    CHECK(values == before);
}

} // namespace

TEST_CASE_TEMPLATE(
    "simt.model.optimizer: rows are stepped as on the CPU, and only those of the ids", O, sgd, adagrad, adam) {
    for (const std::size_t dim : {1U, 8U, 50U, 128U, 200U})
        for (const layout options : {layout::aligned, layout::odd}) check_rows_of(O{}, dim, options, dim != 8);
}

TEST_CASE_TEMPLATE("simt.model.optimizer: an arena is clipped, decayed and stepped as on the CPU, except for NaN", O,
    sgd, adagrad, adam) {
    check_dense(O{}, {});
    check_dense(O{}, {.weight_decay = .1});
    check_dense(O{}, {.weight_decay = .1, .decoupled = true, .clip_norm = 3});
}

} // namespace test_simt_model_device_optimizer
