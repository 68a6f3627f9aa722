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

using partition_id16 = std::uint16_t; ///< part of a node; 16 bits, because most partitioners keep one per node

inline constexpr partition_id16 no_partition = 0xffff;      ///< part of a node not yet placed
inline constexpr std::uint32_t max_partition_count = 65534; ///< maximum number of parts

/// Quantity balanced among parts.
enum class balance_by : std::uint8_t {
    nodes, ///< every node weighs 1
    edges  ///< a node weighs the length of its list plus 1
};

/// State from which an interrupted run resumes. A partitioner is a sequence of steps, mostly passes, numbered from 1;
/// after each it may save the input of the following ones.
///
/// Meaning: a run whose journal holds a state begins after that step, and its result equals that of an uninterrupted
/// run, bit for bit. The caller ensures that graph, request and options are those of the saved run.
struct partition_journal {
    virtual ~partition_journal() = default;
    /// Replaces the saved state. `state` is read before the call returns.
    virtual void save(std::uint32_t step, std::span<const std::byte> state) = 0;
    /// Number of the last saved step; 0: none.
    [[nodiscard]] virtual std::uint32_t step() const = 0;
    /// Returns the last saved state.
    [[nodiscard]] virtual std::span<const std::byte> state() const = 0;
};

/// Request to a partitioner.
struct partition_request {
    std::uint32_t parts = 2; ///< k, 1 … max_partition_count; more than nodes leaves parts empty
    /// No part exceeds max(⌈W/k⌉, ⌊(1 + imbalance) W/k⌋), where W is the weight of all nodes (`max_weight`); infinity:
    /// unlimited.
    double imbalance = .03;
    balance_by balance = balance_by::nodes; ///< quantity that the bound holds for
    std::span<const class_id> labels{};     ///< [nodes] or empty; `unlabeled`: not a training node
    /// No part exceeds max(⌈n/k⌉, ⌊label_cap · n/k⌋) of the n nodes of a label (`label_caps`); 0: unlimited. Balanced
    /// by edges, the bound on weight holds before this one.
    double label_cap = 0;
    std::uint64_t seed = 0;
    std::stop_token stop{};               ///< ends the run with errc::canceled at the next chunk
    partition_journal* journal = nullptr; ///< null: starts from scratch and saves nothing
    /// Called now and then with the progress of a phase; `total` has the unit of `done`.
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress{};
};

/// Assigns a part to every node.
///
///     const std::vector<partition_id16> parts = ldg_partitioner{}(stream, {.parts = 64}, executor);
///
/// Meaning: `p(stream, request, executor)` returns the part of each node, [nodes], below request.parts. It is a
/// function of graph, request and options only, independent of the chunks of the stream and the threads of `executor`.
/// `p.memory(nodes, arcs, request)` is its maximum memory, without the stream [bytes].
/// Cost: sequential passes of the stream, O(arcs) each or more; each partitioner states their number and time. `memory`
/// reads no stream.
/// Thread-safety: calls with different streams may run at once; one uses a stream at a time.
/// Errors: errc::invalid_argument for an invalid request (`check_request`), errc::unsupported for a guarantee that this
/// partitioner cannot give, errc::canceled. A graph without nodes gives an empty vector.
///
/// From examples/28_partition.cpp:
/// \snippet 28_partition.cpp partition
template <class P>
concept partitioner = requires(const P& p, any_adjacency& stream, const partition_request& request,
    const serial_executor& executor, std::uint64_t nodes, edge_index arcs) {
    { p(stream, request, executor) } -> std::same_as<std::vector<partition_id16>>;
    { p.memory(nodes, arcs, request) } -> std::convertible_to<std::uint64_t>;
};

} // namespace gneiss
