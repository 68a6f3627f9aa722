// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/hop_messages.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor_drawer.hpp>

namespace gneiss {

/// Draws for the nodes that a batch worker owns, and answers the questions of others about them. Draws are keyed by
/// node, so the answer is that of any process that has the node's list: a question may be repeated, or put to another
/// owner of the same node.
///
/// Cost: O(drawn edges). Memory is kept: use one per thread. Source: Armada, section 3 (distributed construction).
class hop_owner {
public:
    /// Errors of `neighbor_drawer`.
    hop_owner(neighbor_options options, std::uint64_t seed) : drawer_(std::move(options), seed) {}

    [[nodiscard]] const neighbor_options& options() const noexcept { return drawer_.options(); }

    /// Returns the draws of a question, valid until the next one. `owns(node)`: the graph has the node's list. Throws
    /// errc::out_of_range for a node of another owner, and as `neighbor_drawer::draw`.
    template <neighbor_source G, class Owns, executor E>
    [[nodiscard]] hop_answer draw(const hop_question& question, const G& graph, const Owns& owns, const E& executor) {
        offsets_.assign(1, 0);
        neighbors_.clear();
        relations_.clear();
        edge_ids_.clear();
        for (const node_id node : question.nodes)
            if (node >= graph.nodes() || !owns(node))
                throw error(errc::out_of_range,
                    "node " + std::to_string(node) + " of " + to_string(question.id.key) +
                        " is not of the owner that is asked");
        batch_key key = question.id.key;
        for (std::size_t b = 0; b < question.batches.size(); ++b) {
            key.number.index = question.batches[b];
            drawer_.draw(key, question.hop, graph,
                question.nodes.subspan(question.offsets[b], question.offsets[b + 1] - question.offsets[b]), executor);
            const std::size_t before = neighbors_.size();
            if ((before + drawer_.neighbors().size()) >> 32 != 0)
                throw error(errc::out_of_range, "the draws of a question have 2^32 edges or more");
            for (const std::uint32_t offset : drawer_.offsets().subspan(1))
                offsets_.push_back(static_cast<std::uint32_t>(before + offset));
            neighbors_.insert(neighbors_.end(), drawer_.neighbors().begin(), drawer_.neighbors().end());
            relations_.insert(relations_.end(), drawer_.relations().begin(), drawer_.relations().end());
            edge_ids_.insert(edge_ids_.end(), drawer_.edge_ids().begin(), drawer_.edge_ids().end());
        }
        return {question.id, question.hop, offsets_, neighbors_, relations_, edge_ids_};
    }

    /// Returns the answer to the bytes of a question of run `run`, in `arena`. Errors: as above, and those of
    /// `read_hop_question`.
    template <neighbor_source G, class Owns, executor E>
    [[nodiscard]] std::span<const std::byte> answer(std::span<const std::byte> question, std::uint64_t run,
        const G& graph, const Owns& owns, const E& executor, mini_batch_arena& arena) {
        return write_message(draw(read_hop_question(question, run), graph, owns, executor), arena);
    }

private:
    neighbor_drawer<> drawer_;
    std::vector<std::uint32_t> offsets_;
    std::vector<node_id> neighbors_;
    std::vector<relation_id> relations_;
    std::vector<edge_index> edge_ids_;
};

} // namespace gneiss
