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
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/hop_messages.hpp>
#include <gneiss/dist/hop_owner.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Messages of batch workers among each other: a question and its answer are two.
struct construction_traffic {
    std::uint64_t messages = 0;
    std::uint64_t question_bytes = 0, answer_bytes = 0;
    std::uint64_t local = 0, remote = 0;           ///< nodes whose draws were made here, and by other owners
    std::uint64_t local_rows = 0, remote_rows = 0; ///< the same for feature rows

    construction_traffic& operator+=(const construction_traffic& other) noexcept {
        messages += other.messages;
        question_bytes += other.question_bytes;
        answer_bytes += other.answer_bytes;
        local += other.local;
        remote += other.remote;
        local_rows += other.local_rows;
        remote_rows += other.remote_rows;
        return *this;
    }
    friend bool operator==(const construction_traffic&, const construction_traffic&) = default;
};

/// Owners of the partitions of one round: each resident partition has one.
class partition_owners {
public:
    static constexpr std::uint32_t no_owner = ~std::uint32_t{0}; ///< of a partition that is not resident

    partition_owners() = default;
    /// \param owners  [partitions] batch worker, or `no_owner`
    partition_owners(const row_partitioning& rows, std::vector<std::uint32_t> owners)
        : nodes_(rows.nodes),
          finder_(rows),
          owners_(std::move(owners)) {}

    [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_; }
    /// Returns the owner of a node; `no_owner` for one beyond the graph. O(1).
    [[nodiscard]] std::uint32_t of(node_id node) const noexcept {
        return node < nodes_ ? owners_[finder_.of(node)] : no_owner;
    }

private:
    std::uint64_t nodes_ = 0;
    row_finder finder_;
    std::vector<std::uint32_t> owners_;
};

/// Samples a group of batches hop by hop over the union of what all owners hold: draws for the nodes of its own worker,
/// and asks the other owners for theirs, each once a hop. A sample has the bits of a sampler over the union in one
/// process, whatever the group and the owners.
///
/// `Writer` is `neighbor_sample_writer` or `dense_sample_writer`. Cost: O(sampled edges), and a message to each owner
/// per hop. Memory is kept: use one per thread. Source: Armada, section 3 (distributed construction).
template <class Writer>
class group_sampler {
public:
    /// Samples batches of one round, valid until the next call, and returns the messages that it took.
    /// \param id       run and round
    /// \param batches  [b] their numbers within the round
    /// \param seeds    [b] nodes with an owner
    /// \param self     worker that samples; its nodes are drawn by `own` from `graph`
    /// \param ask      sends questions; not called if there are none
    /// Throws errc::out_of_range for a node without an owner; errors of `own`, `ask`, the messages and the writer.
    template <neighbor_source G, executor E>
    construction_traffic draw(const frame_id& id, std::span<const std::uint64_t> batches,
        std::span<const std::vector<node_id>> seeds, const partition_owners& owners, std::uint32_t workers,
        std::uint32_t self, hop_owner& own, const G& graph, const E& executor, const ask_owners& ask) {
        if (writers_.size() < batches.size()) writers_.resize(batches.size());
        shares_.resize(workers);
        traffic_ = {};
        frame_id of = id;
        if (!batches.empty()) of.key.number.index = batches.front();
        for (std::size_t b = 0; b < batches.size(); ++b) writers_[b].begin(owners.nodes(), seeds[b]);
        for (std::size_t hop = 0; hop < own.options().fanout.size(); ++hop) {
            split(of, static_cast<std::uint32_t>(hop), batches, owners);
            collect(self, own, graph, owners, executor, ask);
            for (std::size_t b = 0; b < batches.size(); ++b) merge(writers_[b], owners, own.options());
        }
        return traffic_;
    }

    /// Returns the writer of the b-th batch, which has its sample.
    [[nodiscard]] const Writer& sample(std::size_t b) const { return writers_.at(b); }

private:
    /// Question for an owner, and its answer.
    struct share {
        hop_question question;
        std::vector<std::uint64_t> batches;
        std::vector<std::uint32_t> offsets;
        std::vector<node_id> nodes;
        hop_answer answer;
        std::size_t next = 0; ///< node whose draws are merged next
        mini_batch_arena arena;
    };

    void split(
        const frame_id& id, std::uint32_t hop, std::span<const std::uint64_t> batches, const partition_owners& owners) {
        for (share& of : shares_) {
            of.batches.clear();
            of.offsets.assign(1, 0);
            of.nodes.clear();
            of.next = 0;
        }
        for (std::size_t b = 0; b < batches.size(); ++b) {
            for (const node_id node : writers_[b].nodes()) {
                const std::uint32_t owner = owners.of(node);
                if (owner >= shares_.size())
                    throw error(errc::out_of_range,
                        "node " + std::to_string(node) + " of " + to_string(id.key) + " has no owner");
                shares_[owner].nodes.push_back(node);
            }
            for (share& of : shares_) {
                if (of.nodes.size() == of.offsets.back()) continue;
                if (of.nodes.size() >> 32 != 0) throw error(errc::out_of_range, "a question has 2^32 nodes or more");
                of.batches.push_back(batches[b]);
                of.offsets.push_back(static_cast<std::uint32_t>(of.nodes.size()));
            }
        }
        for (share& of : shares_) of.question = {id, hop, of.batches, of.offsets, of.nodes};
    }

    template <neighbor_source G, executor E>
    void collect(std::uint32_t self, hop_owner& own, const G& graph, const partition_owners& owners, const E& executor,
        const ask_owners& ask) {
        std::vector<owner_message> questions;
        for (std::uint32_t w = 0; w < shares_.size(); ++w) {
            share& of = shares_[w];
            if (w == self || of.nodes.empty()) continue;
            questions.push_back({w, write_message(of.question, of.arena)});
            traffic_.question_bytes += questions.back().bytes.size();
            traffic_.remote += of.nodes.size();
        }
        answers_.clear();
        if (!questions.empty()) answers_ = ask(questions);
        if (answers_.size() != questions.size())
            throw error(errc::invalid_argument,
                std::to_string(answers_.size()) + " answers to " + std::to_string(questions.size()) + " questions");
        for (std::size_t k = 0; k < questions.size(); ++k) {
            share& of = shares_[questions[k].owner];
            of.answer =
                detail::read_from(questions[k].owner, [&] { return read_hop_answer(answers_[k].bytes, of.question); });
            if (!of.answer.neighbors.empty() &&
                (own.options().relations == of.answer.relations.empty() ||
                    own.options().edge_ids == of.answer.edge_ids.empty()))
                throw error(errc::corrupt, "the columns of a message are not those that were asked for");
            traffic_.answer_bytes += answers_[k].bytes.size();
        }
        traffic_.messages += 2 * questions.size();
        share& mine = shares_.at(self);
        mine.answer = own.draw(mine.question, graph, [&](node_id node) { return owners.of(node) == self; }, executor);
        traffic_.local += mine.nodes.size();
    }

    /// Adds a hop to a batch, in the order of its nodes.
    void merge(Writer& writer, const partition_owners& owners, const neighbor_options& options) {
        offsets_.assign(1, 0);
        neighbors_.clear();
        relations_.clear();
        edge_ids_.clear();
        for (const node_id node : writer.nodes()) {
            share& of = shares_[owners.of(node)];
            const std::size_t first = of.answer.offsets[of.next], count = of.answer.offsets[of.next + 1] - first;
            ++of.next;
            const auto append = [&](auto& to, const auto& from) {
                const auto part = from.subspan(first, count);
                to.insert(to.end(), part.begin(), part.end());
            };
            append(neighbors_, of.answer.neighbors);
            if (options.relations) append(relations_, of.answer.relations);
            if (options.edge_ids) append(edge_ids_, of.answer.edge_ids);
            offsets_.push_back(static_cast<std::uint32_t>(neighbors_.size()));
        }
        writer.add_hop(offsets_, neighbors_, relations_, edge_ids_);
    }

    std::vector<Writer> writers_;
    std::vector<share> shares_; // by owner
    std::vector<owner_message> answers_;
    std::vector<std::uint32_t> offsets_;
    std::vector<node_id> neighbors_;
    std::vector<relation_id> relations_;
    std::vector<edge_index> edge_ids_;
    construction_traffic traffic_; // of the last call
};

} // namespace gneiss
