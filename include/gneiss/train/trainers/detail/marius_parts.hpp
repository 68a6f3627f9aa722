// SPDX-License-Identifier: Apache-2.0
// Checks and profile of Marius.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/marius.hpp>

namespace gneiss {

namespace detail {

[[nodiscard]] inline link_task<any_negatives> marius_task(
    const marius_options& options, edge_buffer& edges, const row_partitioning& rows) {
    return {{options.batch_edges, options.batch_from, options.negatives, options.seed},
        make_negatives(options.negatives, options.seed, options.own_negatives), edges, rows};
}

/// Throws errc::invalid_argument for parts that do not match.
inline void check(const marius_options& options, const marius_parts& parts) {
    const auto refuse = [](bool wrong, const std::string& what) {
        if (wrong) throw error(errc::invalid_argument, what);
    };
    const auto need_floats = [&](std::size_t model, std::size_t given, const char* what) {
        refuse(model != given,
            std::string(what) + " have " + std::to_string(given) + " floats, the model needs " + std::to_string(model));
    };
    need_floats(parts.model.dim(), parts.rows.dim(), "rows of nodes");
    if (const std::size_t floats = parts.model.relation_floats(); floats != 0)
        need_floats(floats, parts.relations.layout().dim, "rows of relations");
    refuse(parts.frozen.weights, "frozen weights are for an encoder, and embeddings train without one");
    refuse(parts.backend != nullptr && parts.frozen.any(), "frozen parts are for the CPU: a device steps all of them");
    refuse(parts.backend != nullptr && options.async_relations,
        "asynchronous relations are stepped on the host: not with a device");
}

} // namespace detail

GNEISS_INLINE batch_profile profile_marius(const marius_options& options, edge_buffer& edges,
    const row_partitioning& rows, const epoch_plan& states, std::uint64_t count, executor_ref executor,
    const std::stop_token& stop) {
    const epoch_plan first{states.at(0)};
    link_task<any_negatives> task = detail::marius_task(options, edges, rows);
    no_topology topology;
    marius_batches batches(task, topology, make_no_hops, executor);
    return profile_batches(
        batches, {.states = first}, count, [](const training_batch&) { return std::uint64_t{0}; }, stop);
}

} // namespace gneiss
