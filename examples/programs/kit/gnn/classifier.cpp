// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/classifier.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <gneiss/inference/layerwise_inference.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/machine.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/link_evaluation.hpp"

namespace trainers {

namespace {

constexpr std::uint64_t beside_rows = std::uint64_t{8} << 20; // for processing the rows of an evaluation

/// Returns the input of learned rows, which outlive it; without rows, its shape.
gneiss::layerwise_input input_of_rows(const classifier& net, const gneiss::row_partitioning& partitioning) {
    gneiss::layerwise_input result{.columns = {.dense = net.learned}, .repeatable = true};
    if (net.rows.rows() == 0) return result;
    result.open = [rows = std::as_const(net.rows).values(), partitioning] {
        return [rows, partitioning](gneiss::partition_id p, const std::stop_token&) {
            return gneiss::input_rows<float>{.dense = rows.middle_rows(static_cast<std::size_t>(partitioning.begin(p)),
                                                 static_cast<std::size_t>(partitioning.size(p)))};
        };
    };
    return result;
}

/// Returns the edges that an evaluation reads; an estimate if they are to be re-bucketed for `rows`.
gneiss::layerwise_edges edges_of(const graph_encoder& encode, const gneiss::bucket_store& buckets,
    gneiss::neighbor_direction direction, const gneiss::row_partitioning& rows) {
    gneiss::layerwise_edges edges(encode, buckets, direction);
    if (rows == buckets.rows()) return edges;
    // A pair of partitions shrinks by this factor; doubled, since pairs differ.
    const double fewer = static_cast<double>(buckets.rows().partitions) / rows.partitions;
    const auto most = static_cast<std::uint64_t>(2 * fewer * fewer * static_cast<double>(edges.most));
    edges.most = rows.partitions > buckets.rows().partitions ? std::min(edges.most, most) : most;
    edges.most += std::uint64_t{4} * gneiss::page_alignment;
    return edges;
}

} // namespace

std::vector<gneiss::layer_options> layers_of(const graph_encoder& encode) { return gneiss::library_layers(encode); }

gneiss::input_columns input_of(const gneiss::dataset& data, std::size_t learned, bool features) {
    if (!features) return {.dense = learned};
    const auto columns = static_cast<std::size_t>(data.manifest().node_attributes.features);
    return data.has("features.indptr") ? gneiss::input_columns{.dense = learned, .sparse = columns}
                                       : gneiss::input_columns{.dense = learned + columns, .sparse = 0};
}

gneiss::layerwise_input inputs_of(const classifier& net, const gneiss::node_features& features,
    const gneiss::row_partitioning& partitioning, const gneiss::engine_factory& engines) {
    if (features.empty()) return input_of_rows(net, partitioning);
    gneiss::layerwise_input fixed = gneiss::fixed_features(features, partitioning, engines);
    return net.learned == 0 ? fixed : gneiss::side_by_side(input_of_rows(net, partitioning), fixed, partitioning);
}

classifier::classifier(const gnn_options& how, const gneiss::dataset& data, std::size_t columns, bool features)
    : classifier(how, static_cast<std::size_t>(data.manifest().node_attributes.classes),
          input_of(data, columns, features), true, how.memory ? how.memory->bytes : 0) {
    learned = columns;
}

classifier::classifier(
    const gnn_options& how, std::size_t outputs, const gneiss::input_columns& in, bool exact, std::uint64_t most_bytes)
    : encode(weights, how.layer_options(outputs), in) {
    if (exact && encode.outputs() != outputs)
        throw programs::usage_error(fmt::format("--layers {} gives {} columns for {} classes: leave out the last width",
            *how.layers, encode.outputs(), outputs));
    if (const std::uint64_t bytes = 2 * sizeof(float) * weights.size(); most_bytes != 0 && bytes > most_bytes)
        throw gneiss::over_budget(most_bytes, {{"weights and gradients", bytes}});
    weights.allocate(how.seed);
    how.dense_optimizer(0).allocate_state(weights);
}

void classifier::keep_first(std::size_t layers) {
    if (layers == encode.layers()) return;
    gneiss::dense_parameters<> first;
    auto factories = encode.factories();
    factories.erase(factories.begin() + static_cast<std::ptrdiff_t>(layers), factories.end());
    graph_encoder shorter(first, std::move(factories), encode.inputs());
    first.allocate(0);
    std::ranges::copy(weights.values().first(first.size()), first.values().begin()); // layers are in their order
    weights = std::move(first);
    encode = std::move(shorter);
}

namespace {

gneiss::row_layout layout_of_rows(const gnn_options& how, std::size_t columns) {
    return {static_cast<std::uint32_t>(columns),
        static_cast<std::uint32_t>(how.any_row_optimizer(0).state_floats(columns))};
}

} // namespace

void classifier::add_rows(const gnn_options& how, std::uint64_t nodes) {
    if (learned != 0) rows = gneiss::embedding_table(static_cast<std::size_t>(nodes), layout_of_rows(how, learned));
}

void classifier::initialize_rows(const gnn_options& how, const gneiss::tbb_executor& executor) {
    if (rows.rows() == 0) return;
    const std::size_t columns = rows.layout().dim;
    gneiss::initialize_rows(parse_initializer("glorot", "node-init", columns), how.any_row_optimizer(0).initial_state(),
        how.seed, gneiss::embedding_kind::nodes, 0, columns, rows.table(), executor);
}

gneiss::memory_need classifier::rows_need(const gnn_options& how, std::uint64_t nodes, std::size_t columns) {
    return {"learned rows", columns == 0 ? 0 : 2 * nodes * layout_of_rows(how, columns).bytes()};
}

void classifier::schedule(const gneiss::layer_schedule& products) {
    gneiss::dense_parameters<> same; // arrays have the places of those of `weights`
    graph_encoder other(same, gneiss::scheduled(layers_of(encode), products), encode.inputs());
    encode = std::move(other);
}

void classifier::put(gneiss::checkpoint& to) const {
    to.sections["weights"] = to_bytes(weights.values());
    to.sections["weights.state"] = to_bytes(weights.state());
    if (rows.rows() != 0) to.sections["rows"] = to_bytes(rows.data());
}

void classifier::take(const gneiss::checkpoint& from) {
    from_bytes(from.sections.at("weights"), weights.values(), "weights");
    from_bytes(from.sections.at("weights.state"), weights.state(), "states of weights");
    if (rows.rows() != 0) from_bytes(from.sections.at("rows"), rows.data(), "learned rows");
}

network_outputs infer(const classifier_source& from) {
    auto budget = std::make_unique<gneiss::memory_budget>(from.memory);
    gneiss::make_directories(from.scratch);
    const gneiss::bucket_store buckets = from.data.buckets();
    const gneiss::layerwise_options options = inference_options(from.how, from.engines, from.scratch, from.net.streams);
    gneiss::layerwise_result result = gneiss::infer_layerwise(from.net.encode, from.net.weights,
        inputs_of(from.net, from.features, buckets.rows(), from.engines), buckets, options, from.on, *budget,
        from.stop);
    if (!result.plan.in_memory) from.net.streams = result.plan.streamed;
    return {std::move(budget), std::move(result)};
}

void for_each_block(const classifier_source& from, const gneiss::embedding_block_visitor& visit) {
    const network_outputs outputs = infer(from);
    stoppable_rows(outputs.rows(), from.stop).for_each_block(visit);
}

gneiss::layerwise_options inference_options(const gnn_options& how, gneiss::engine_factory engines,
    std::filesystem::path scratch, std::optional<bool> streamed) {
    return {.direction = how.neighbors(),
        .engines = std::move(engines),
        .scratch = std::move(scratch),
        .hidden_rows = *gneiss::parse_feature_type(how.hidden_rows),
        .streamed = streamed};
}

std::uint64_t least_evaluation(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, const gneiss::layerwise_options& options,
    const gneiss::row_partitioning& rows) {
    try {
        (void)gneiss::plan_layerwise(
            encode, input, rows, edges_of(encode, buckets, options.direction, rows), options, 0);
    } catch (const gneiss::over_budget& least) {
        return beside_rows + least.needed();
    }
    return beside_rows;
}

std::uint64_t evaluation_files(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, const gneiss::layerwise_options& options, const gneiss::row_partitioning& rows,
    std::uint64_t memory) {
    const gneiss::layerwise_edges edges = edges_of(encode, buckets, options.direction, rows);
    const auto plan_in = [&](std::uint64_t bytes) {
        return gneiss::plan_layerwise(encode, input, rows, edges, options, bytes);
    };
    gneiss::layerwise_plan plan;
    try {
        plan = plan_in(rows == buckets.rows() ? memory : 0);
    } catch (const gneiss::over_budget& least) {
        plan = plan_in(least.needed());
    }
    if (plan.in_memory) return 0;
    const auto file = [&](std::size_t columns) {
        return columns == 0 ? 0 : gneiss::scratch_rows::memory_bytes(rows, columns);
    };
    const auto input_files = [&](std::size_t l) { // of a layer; after the last one, the result
        if (l == encode.layers()) return file(encode.outputs());
        if (!plan.rereads[l]) return file(encode.parts(l).messages) + file(encode.parts(l).own);
        if (l == 0) return std::uint64_t{0};
        return file(gneiss::ceil_div(
            gneiss::row_bytes(options.hidden_rows, encode.factories()[l - 1].outputs()), sizeof(float)));
    };
    std::uint64_t most = 0;
    bool degrees = false;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        most = std::max(most, input_files(l) + input_files(l + 1));
        degrees |= encode.parts(l).source_degrees;
    }
    return most + (degrees ? file(1) : 0);
}

std::uint64_t evaluation_part(std::uint64_t least, std::uint64_t freed) {
    return std::max(least - std::min(least, freed), std::min(least, beside_rows));
}

bool evaluates_in_memory(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, const gneiss::layerwise_options& options, std::uint64_t memory) {
    try {
        return gneiss::plan_layerwise(encode, input, buckets, options, memory).in_memory;
    } catch (const gneiss::over_budget&) {
        return false;
    }
}

std::uint64_t least_evaluation(const gnn_options& how, const classifier& net, const gneiss::node_features& features,
    const gneiss::bucket_store& buckets) {
    if (how.no_eval) return 0;
    return least_evaluation(
        net.encode, inputs_of(net, features, buckets.rows()), buckets, inference_options(how), buckets.rows());
}

std::uint64_t evaluation_files(const gnn_options& how, const classifier& net, const gneiss::node_features& features,
    const gneiss::bucket_store& buckets, std::uint64_t memory) {
    if (how.no_eval) return 0;
    return evaluation_files(
        net.encode, inputs_of(net, features, buckets.rows()), buckets, inference_options(how), buckets.rows(), memory);
}

} // namespace trainers
