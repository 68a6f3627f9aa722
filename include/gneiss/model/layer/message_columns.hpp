// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/model/layer/graph_layer.hpp>

// Columns and memory of the messages of a `message_passing_layer`, by its optional functions.
namespace gneiss::detail {

/// A layer whose messages are functions of rows.
template <class L>
concept sends_messages = requires(const L& l) { l.message_columns(std::size_t{}); };

/// A layer whose messages are functions of edges.
template <class L, class T>
concept looks_at_edges = requires(const L& l, std::span<const T> in, std::span<T> out) { l.edge(in, in, out); };

/// Returns the columns of the message of a row.
template <class L>
[[nodiscard]] std::size_t sent_columns(const L& layer, std::size_t inputs) {
    if constexpr (sends_messages<L>)
        return layer.message_columns(inputs);
    else
        return inputs;
}
/// Returns the columns of the message along an edge, which are those of the reduced rows.
template <class T, class L>
[[nodiscard]] std::size_t edge_columns(const L& layer, std::size_t inputs) {
    if constexpr (looks_at_edges<L, T> && requires { layer.edge_columns(inputs); })
        return layer.edge_columns(inputs);
    else
        return sent_columns(layer, inputs);
}
/// Returns the most floats that a layer keeps between forward and backward.
template <class L>
[[nodiscard]] std::uint64_t kept_floats(const L& layer, const layer_sizes& of) {
    if constexpr (requires { layer.kept_floats(of); })
        return layer.kept_floats(of);
    else
        return 0;
}

} // namespace gneiss::detail
