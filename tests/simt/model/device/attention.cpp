#include <gneiss/cuda/model/device/attention_backward.cuh>
#include <gneiss/model/layer/gat.hpp>

#include <simt/model/support.hpp>

#include <model/gnn.hpp>

namespace test_simt_model_device_attention {

using namespace simt_model;

namespace {

/// Width and number of heads, and the layout of rows.
struct shape {
    std::size_t heads, width;
    layout how = layout::aligned;
};

/// The CPU's layer in double with identity weights, so that its input is z and its output the sums.
class cpu_layer {
public:
    cpu_layer(const shape& of, double dropout)
        : columns(of.heads * of.width),
          options_{.heads = of.heads, .dropout = dropout, .bias = false},
          layer(weights, "gat", {columns, 0}, of.width, options_) {
        gnn::randomize(weights, 3);
        for (std::size_t i = 0; i < columns; ++i)
            for (std::size_t j = 0; j < columns; ++j) array("gat.weight")[i * columns + j] = i == j ? 1 : 0;
        for (double& x : array("gat.attention_target"))
            x = static_cast<double>(static_cast<float>(x)); // as the kernels get them
        for (double& x : array("gat.attention_source")) x = static_cast<double>(static_cast<float>(x));
    }
    [[nodiscard]] std::span<double> array(const std::string& name, bool gradient = false) {
        for (std::size_t i = 0;; ++i)
            if (weights.arrays().at(i).name == name) {
                const auto& a = weights.arrays()[i];
                return (gradient ? weights.gradients() : weights.values()).subspan(a.offset, a.size());
            }
    }
    [[nodiscard]] std::vector<float> floats(const std::string& name) {
        const auto values = array(name);
        return {values.begin(), values.end()};
    }

    dense_parameters<double> weights;
    std::size_t columns;

private:
    gat_options options_;

public:
    gat_layer<double, gnn::naive_backend> layer;
};

template <class T>
void check_attention(const random_layer& of, const shape& shape, double rate) {
    cpu_layer cpu(shape, rate);
    const std::size_t columns = cpu.columns, heads = shape.heads;
    const gneiss::layer_view& view = of.host();
    const rows<T> z(view.sources, columns, shape.how, 11), gradient(view.targets, columns, shape.how, 12);
    const random_key key = random_key(9, random_domain::dropout).with(3);
    const std::optional<random_key> training = rate > 0 ? std::optional(key) : std::nullopt;
    doubles z_values(z), want(view.targets, columns), want_z(view.sources, columns);
    layer_input<double> in{.view = view, .rows = {z_values.view, {}}, .on = serial};
    in.training = training;
    cpu.layer.forward(cpu.weights, in, activation::none, want.view);
    cpu.layer.backward(cpu.weights, in, doubles(gradient).view, want_z.view);

    // Sums of products of values up to 1 under weights that sum to 1, among them a softmax of bfloat16 sums.
    doubles ones(std::max(view.targets, view.sources), columns);
    std::ranges::fill(ones.memory, 1.0);
    const double forward = 2e-5, backward = std::is_same_v<T, bfloat16> ? 0.1 : 1e-3;

    const std::vector<float> a_target = cpu.floats("gat.attention_target"),
                             a_source = cpu.floats("gat.attention_source");
    cuda::attention_options options{.heads = static_cast<std::uint32_t>(heads)};
    if (rate > 0) options.dropout = {.rate = dropout_rate(rate), .key = &key};
    const cuda::layer_view layer = of.device();
    constexpr std::uint32_t spare = random_layer::spare;
    std::vector<T> first;
    simt::for_each_seed(3, [&] {
        rows<float> of_targets(view.targets + spare, 3 * heads, layout::odd),
            source_terms(view.sources + spare, heads, layout::odd);
        rows<T> sums(view.targets + spare, columns, shape.how);
        cuda::attention_terms<T>(nullptr, layer, true, options.heads, z.view(), a_target.data(), of_targets.view());
        cuda::attention_terms<T>(nullptr, layer, false, options.heads, z.view(), a_source.data(), source_terms.view());
        cuda::attend<T>(nullptr, cuda::incoming(layer, true), options, z.view(), std::as_const(source_terms).view(),
            of_targets.view(), sums.view());
        check_rows<T>("attention", sums, view.targets, want.view, ones.view, forward);

        std::vector<float> scores((layer.edge_capacity + layer.target_capacity) * heads, 55);
        rows<float> target_sums(view.targets + spare, heads, layout::odd),
            source_sums(view.sources + spare, heads, layout::odd);
        rows<T> grad_z(view.sources + spare, columns, shape.how);
        cuda::attend_backward<T>(nullptr, layer, options,
            {.z = z.view(),
                .sums = std::as_const(sums).view(),
                .source_terms = std::as_const(source_terms).view(),
                .of_targets = of_targets.view(),
                .of_target = a_target.data(),
                .of_source = a_source.data(),
                .gradient = gradient.view(),
                .scores = {scores.data(), layer.edge_capacity},
                .target_sums = target_sums.view(),
                .source_sums = source_sums.view(),
                .grad_z = grad_z.view()});
        doubles sizes(view.sources, columns); // a source of many edges gets that many gradients
        for (std::size_t s = 0; s < view.sources; ++s)
            for (std::size_t c = 0; c < columns; ++c)
                sizes.view(s, c) = 0.1 +
                    0.01 *
                        static_cast<double>(
                            of.host(true).by_source_offsets[s + 1] - of.host(true).by_source_offsets[s]);
        check_rows<T>("gradient of rows", grad_z, view.sources, want_z.view, sizes.view, backward);

        // the vectors' gradients, computed from the terms' gradients like their column sums
        for (const bool target : {true, false}) {
            const auto wanted = cpu.array(target ? "gat.attention_target" : "gat.attention_source", true);
            for (std::size_t c = 0; c < columns; ++c) {
                double sum = 0, size = 0.1;
                for (std::size_t r = 0; r < (target ? view.targets : view.sources); ++r) {
                    const double term = target ? std::as_const(target_sums)(r, c / shape.width)
                                               : std::as_const(source_sums)(r, c / shape.width);
                    sum += term * z(target ? r + view.first_target : r, c);
                    size += std::abs(term * z(target ? r + view.first_target : r, c));
                }
                CHECK(std::abs(sum - wanted[c]) <= backward * size);
            }
        }
        if (first.empty()) first = grad_z.bits();
        CHECK(first == grad_z.bits());
    });
}

} // namespace

TEST_CASE_TEMPLATE("simt.model.attention: sums and all gradients equal those of the CPU's layer", T, float, bfloat16) {
    const random_layer layer(13, 21, 60, 1);
    for (const shape& of : {shape{1, 8}, shape{4, 16}, shape{8, 8}, shape{2, 64}, shape{8, 64}})
        check_attention<T>(layer, of, 0);
    check_attention<T>(layer, {8, 8}, 0.4);
}

TEST_CASE_TEMPLATE("simt.model.attention: heads of any width work, aligned or not", T, float, bfloat16) {
    const random_layer layer(7, 11, 20, 2);
    for (const shape& of :
        {shape{1, 1}, shape{3, 7, layout::odd}, shape{8, 5}, shape{4, 8, layout::odd}, shape{1, 300}, shape{2, 24}})
        check_attention<T>(layer, of, of.heads == 8 ? 0.3 : 0);
}

TEST_CASE("simt.model.attention: targets and sources of thousands of edges work") {
    check_attention<float>(random_layer(4, 6, 3000, 3), {8, 8}, 0.5);
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.model.attention: each row is read once per edge") {
    const random_layer of(40, 60, 64, 8);
    const cuda::layer_view layer = of.device();
    const double edges = static_cast<double>(of.host(true).edges()), lists = edges / 8 + 8.0 * of.targets();
    const rows<float> z(of.sources(), 128, layout::aligned, 1), terms(of.sources(), 8, layout::aligned, 2);
    rows<float> of_targets(of.targets() + random_layer::spare, 24, layout::aligned, 3),
        sums(of.targets() + random_layer::spare, 128, layout::aligned);
    simt::traffic_counter counter;
    cuda::attend<float>(
        nullptr, cuda::incoming(layer, true), {.heads = 8}, z.view(), terms.view(), of_targets.view(), sums.view());
    const double sectors = static_cast<double>(counter.loads().sectors);
    CHECK(sectors >= 17 * edges); // 512 bytes of a row, 32 of its terms
    CHECK(sectors <= 17 * edges + lists);
}
#endif

} // namespace test_simt_model_device_attention
