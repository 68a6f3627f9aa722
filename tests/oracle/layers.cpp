#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/cpu_encoder.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "cases.hpp"
#include "model/gnn.hpp"

namespace oracle {
using namespace gneiss;

/// Runs one forward and backward pass of each stack of layers, over samples with targets first, last, and everywhere.
void write_layers(const std::filesystem::path& root) {
    case_writer cases(root);
    tbb_executor executor(2);
    constexpr std::size_t columns = 6;
    const char* const stacks[] = {"sage:4", "sage:4:sum", "sage:4:max", "sage:4:add", "sage:4:sum:add",
        "sage:4:max:add", "sage:9:no-bias", "gcn:4", "gcn:4:symmetric", "gcn:9:row", "gcn:9:symmetric:no-bias",
        "gat:3x1", "gat:3x4", "gat:3x4:mean", "gat:5x8:slope=.05", "gat:3x2:mean:no-bias", "linear:4", "sage:8,sage:3",
        "gcn:8:symmetric,gcn:3:symmetric", "gat:4x2,gat:3x1:mean", "sage:6:norm:elu,sage:6:norm:residual:tanh,gcn:3",
        "gat:3x2:residual:norm:leaky,linear:5:sigmoid,sage:4:max:residual"};
    const std::vector<std::size_t> funnel = {61, 40, 23, 11};
    for (const std::string stack : stacks)
        for (const std::string shape : {"square", "targets first", "targets last"}) {
            const auto layers = parse_layers(stack);
            const std::size_t hops = hops_of(layers);
            const std::vector<std::size_t> sizes = shape == "square"
                ? std::vector<std::size_t>(hops + 1, 37)
                : std::vector<std::size_t>(funnel.end() - static_cast<std::ptrdiff_t>(hops + 1), funnel.end());
            const std::uint64_t seed = 100 + cases.count();
            const gnn::sample views(sizes, shape == "targets last", seed);
            dense_parameters<float> weights;
            encoder<float, eigen_backend> encode(weights, layers, {.dense = columns});
            gnn::randomize(weights, seed);

            const gnn::matrix<float> input(sizes.front(), columns, seed + 1);
            const auto output = encode.forward(weights, views, input_rows<float>{input.view}, {}, executor);
            cases.begin({{"layers", stack}, {"shape", shape}, {"hops", hops}});
            cases.put("input", matrix_view<const float>(input.view));
            cases.put("output", output);
            gnn::matrix<float> gradient(output.rows(), output.columns(), seed + 2),
                input_gradient(sizes.front(), columns);
            cases.put("output_gradient", matrix_view<const float>(gradient.view)); // backward consumes it
            encode.backward(weights, gradient.view, input_gradient.view, executor);
            cases.put("input_gradient", matrix_view<const float>(input_gradient.view));
            for (std::size_t i = 0; i < weights.arrays().size(); ++i) {
                cases.put("weight." + weights.arrays()[i].name, weights.value(i));
                cases.put("gradient." + weights.arrays()[i].name, weights.gradient(i));
            }
            for (std::size_t i = 0; i < hops; ++i) {
                const std::string hop = "hop" + std::to_string(i);
                const layer_view& view = views[i];
                cases.put(hop + ".offsets", view.offsets);
                cases.put(hop + ".neighbors", view.neighbors);
                cases.put(hop + ".sizes", std::vector<std::uint64_t>{view.sources, view.targets, view.first_target});
            }
        }
}

/// Writes the weights of a run by name.
void write_weights(const std::filesystem::path& checkpoint, const std::string& layers, std::size_t columns, bool sparse,
    const std::filesystem::path& root) {
    dense_parameters<float> weights;
    const encoder<float, eigen_backend> encode(
        weights, parse_layers(layers), sparse ? input_columns{.sparse = columns} : input_columns{.dense = columns});
    weights.allocate(0);
    const auto stored = load_checkpoint(checkpoint).sections.at("weights");
    if (stored.size() != weights.values().size_bytes())
        throw error(errc::invalid_format, "weights of other layers than " + layers, {.path = checkpoint});
    std::memcpy(weights.values().data(), stored.data(), stored.size());
    std::filesystem::create_directories(root);
    for (std::size_t i = 0; i < weights.arrays().size(); ++i) {
        const auto& array = weights.arrays()[i];
        const std::string name = array.name + (array.decays ? ".decays" : "") + ".npy";
        write_array(root / name, weights.list(i), {array.rows, array.columns});
    }
}

} // namespace oracle
