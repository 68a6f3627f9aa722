// A small graph for the examples: communities are classes; features are noise and a weak signal of the class.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>

struct small_graph {
    gneiss::csr_graph<> edges;
    std::vector<gneiss::node_id> nodes;   // 0, 1, 2, …
    std::vector<gneiss::class_id> labels; // [nodes]
    std::vector<float> features;          // [nodes, columns]

    small_graph(const gneiss::planted_partition_options& options, std::size_t columns,
        gneiss::neighbor_direction direction = gneiss::neighbor_direction::both)
        : small_graph(gneiss::planted_partition<>(options), columns, direction) {}
    gneiss::matrix_view<const float> rows() const {
        return {features.data(), nodes.size(), features.size() / nodes.size()};
    }

private:
    using planted = gneiss::planted_partition<>;
    small_graph(const planted& made, std::size_t columns, gneiss::neighbor_direction direction)
        : small_graph(made, gneiss::generated_edges(made), columns, direction) {}
    small_graph(const planted& made, gneiss::generated_edges<planted> stream, std::size_t columns,
        gneiss::neighbor_direction direction)
        : edges(gneiss::make_csr_graph(stream, direction)),
          nodes(made.nodes()),
          features(made.nodes() * columns) {
        std::iota(nodes.begin(), nodes.end(), gneiss::node_id{0});
        for (const gneiss::node_id v : nodes) {
            labels.push_back(made.label(v));
            made.features(v, std::span(features).subspan(v * columns, columns));
        }
    }
};
