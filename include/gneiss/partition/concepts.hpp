// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>

namespace gneiss {

using partition_id16 = std::uint16_t; ///< the part of a node; two bytes, since most partitioners keep one for every node

inline constexpr partition_id16 no_partition = 0xffff;           ///< of a node that has none yet
inline constexpr std::uint32_t max_partition_count = 65534;

/// What parts are to have alike.
enum class balance_by : std::uint8_t {
    nodes, ///< every node weighs 1
    edges  ///< a node weighs the length of its list, and 1
};

/// Where an interrupted run goes on. A partitioner is a sequence of steps, mostly passes, numbered from 1; when one ends it
/// may save what the following ones need.
///
/// Meaning: a run that finds a state in its journal begins behind that step, and its result is that of a run that was not
/// interrupted, bit for bit. That graph, request and options are those of the saved run is the caller's business.
struct partition_journal {
    virtual ~partition_journal() = default;
    /// Replaces what was saved before. `state` is read before the call returns.
    virtual void save(std::uint32_t step, std::span<const std::byte> state) = 0;
    /// The last step saved; 0: none.
    [[nodiscard]] virtual std::uint32_t step() const = 0;
    [[nodiscard]] virtual std::span<const std::byte> state() const = 0;
};

/// What is asked of a partitioner, whichever it is.
struct partition_request {
    std::uint32_t parts = 2; ///< k, 1 … max_partition_count; more than nodes leaves parts empty
    /// No part is heavier than max(⌈W/k⌉, ⌊(1 + imbalance) W/k⌋), W the weight of all nodes (`max_weight`); infinity: any.
    double imbalance = .03;
    balance_by balance = balance_by::nodes;
    std::span<const class_id> labels{}; ///< [nodes] or empty; `unlabeled`: not a training node
    /// No part has more than max(⌈n/k⌉, ⌊label_cap · n/k⌋) of the n nodes of a label (`label_caps`); 0: any number.
    double label_cap = 0;
    std::uint64_t seed = 0;
    std::stop_token stop{};               ///< ends the run with errc::canceled at the next chunk
    partition_journal* journal = nullptr; ///< null: starts anew and saves nothing
    /// Told now and then how far a phase is; `total` in the same unit as `done`.
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress{};
};

/// Gives every node a part.
///
/// Meaning: `p(stream, request, on)` is the part of each node, [nodes], below request.parts: a function of graph, request and
/// options alone, the same whatever the chunks of the stream and the threads of `executor`. `p.memory(nodes, arcs, request)` is
/// the most memory it takes beside the stream [bytes].
/// Errors: errc::invalid_argument for a request that makes no sense (`check_request`), errc::unsupported for what this
/// partitioner cannot promise, errc::canceled. A graph without nodes gives an empty vector.
template <class P>
concept partitioner = requires(const P& p, any_adjacency& stream, const partition_request& request,
    const serial_executor& executor, std::uint64_t nodes, edge_index arcs) {
    { p(stream, request, executor) } -> std::same_as<std::vector<partition_id16>>;
    { p.memory(nodes, arcs, request) } -> std::convertible_to<std::uint64_t>;
};

} // namespace gneiss
