// SPDX-License-Identifier: Apache-2.0
// What a thread needs to make batches, or to answer questions about nodes.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/dist/group_sampler.hpp>
#include <gneiss/dist/grouped_rows.hpp>
#include <gneiss/dist/hop_owner.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/train/detail/owner_rows.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/tasks.hpp>
#include <gneiss/train/worker_options.hpp>

namespace gneiss::detail {

/// Answers questions; one per thread.
struct owner_answers {
    explicit owner_answers(const worker_options& options) : draws(options.neighbors, options.seed) {}
    hop_owner draws;
    gathered_rows rows;
};
/// A sampler, and the same over the partitions of all workers.
template <class Sampler, class Writer>
struct samplers {
    Sampler alone;
    group_sampler<Writer> group{};
};
/// Makes batches; one per thread.
struct batch_maker {
    using layered = samplers<neighbor_sampler<>, neighbor_sample_writer<>>;
    using dense = samplers<dense_sampler<>, dense_sample_writer<>>;
    using any_of_both = std::variant<layered, dense>;
    batch_maker(node_task::cutter_type by, const worker_options& options)
        : cutter(std::move(by)),
          sampler(options.sampler == sampler_kind::dense
                  ? any_of_both(dense{dense_sampler<>(options.neighbors, options.seed)})
                  : any_of_both(layered{neighbor_sampler<>(options.neighbors, options.seed)})),
          own(options) {}
    node_task::cutter_type cutter;
    any_of_both sampler;
    training_batch cut; ///< seeds, labels and targets
    mini_batch_arena sample;
    gathered_rows rows;
    gneiss::grouped_rows shared;
    std::vector<std::uint32_t> positions;
    // of remote construction:
    owner_answers own;
    std::vector<std::vector<node_id>> seeds; ///< of the batches of a group
    owner_rows of_owners;
};

} // namespace gneiss::detail
