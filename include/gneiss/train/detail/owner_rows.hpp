// SPDX-License-Identifier: Apache-2.0
// Feature rows of a batch's nodes from the owners of their partitions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/group_sampler.hpp>
#include <gneiss/dist/hop_messages.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/feature/sparse_rows.hpp>

namespace gneiss::detail {

/// Feature rows, dense or sparse.
struct gathered_rows {
    std::vector<float> dense;
    sparse_feature_rows sparse;
};

/// Returns rows of resident nodes, in `memory`. `Features`: `resident_features`.
template <class Features>
[[nodiscard]] row_answer gather_rows(
    const Features& features, std::span<const node_id> nodes, executor_ref executor, gathered_rows& memory) {
    row_answer result;
    if (features.sparse()) {
        features.gather(executor, nodes, memory.sparse);
        result.offsets = memory.sparse.offsets;
        result.columns = memory.sparse.columns;
        result.values = memory.sparse.values;
    } else {
        const auto columns = static_cast<std::size_t>(features.columns());
        memory.dense.resize(nodes.size() * columns);
        features.gather(executor, nodes, matrix_view<float>(memory.dense.data(), nodes.size(), columns));
        result.dense = memory.dense;
    }
    return result;
}

[[nodiscard]] inline error foreign_row(node_id node, const batch_key& key) {
    return {errc::out_of_range,
        "node " + std::to_string(node) + " of " + to_string(key) + " is not of the owner that is asked"};
}

/// Returns the answer to the bytes of a question for rows, in `arena`. `owns(node)`: the node is resident.
template <class Features, class Owns>
[[nodiscard]] std::span<const std::byte> answer_rows(std::span<const std::byte> question, std::uint64_t run,
    const Features& features, const Owns& owns, executor_ref executor, gathered_rows& memory, mini_batch_arena& arena) {
    const row_question asked = read_row_question(question, run);
    for (const node_id node : asked.nodes)
        if (!owns(node)) throw foreign_row(node, asked.id.key);
    row_answer rows = gather_rows(features, asked.nodes, executor, memory);
    rows.id = asked.id;
    return write_message(rows, arena);
}

/// Gathers rows from their owners. Memory is kept: use one per thread.
class owner_rows {
public:
    /// Gathers the rows of nodes into `to`, by one message to each owner but `self`. Returns the messages.
    template <class Features>
    construction_traffic gather(const frame_id& id, std::span<const node_id> nodes, const partition_owners& owners,
        std::uint32_t workers, std::uint32_t self, const Features& features, executor_ref executor,
        const ask_owners& ask, gathered_rows& to) {
        split(id, nodes, owners, workers);
        const std::size_t columns = features.sparse() ? 0 : static_cast<std::size_t>(features.columns());
        std::vector<owner_message> questions, answers;
        construction_traffic sent;
        for (std::uint32_t w = 0; w < workers; ++w) {
            share& of = shares_[w];
            if (w == self) {
                of.answer = gather_rows(features, of.nodes, executor, own_);
                sent.local_rows += of.nodes.size();
            } else if (!of.nodes.empty()) {
                questions.push_back({w, write_message(row_question{id, of.nodes}, of.arena)});
                sent.question_bytes += questions.back().bytes.size();
                sent.remote_rows += of.nodes.size();
            }
        }
        if (!questions.empty()) answers = ask(questions);
        if (answers.size() != questions.size())
            throw error(errc::invalid_argument, "an owner does not answer a question for rows");
        for (std::size_t k = 0; k < questions.size(); ++k) {
            share& of = shares_[questions[k].owner];
            of.answer = read_from(
                questions[k].owner, [&] { return read_row_answer(answers[k].bytes, {id, of.nodes}, columns); });
            sent.answer_bytes += answers[k].bytes.size();
        }
        sent.messages = 2 * questions.size();
        if (columns == 0)
            join_sparse(nodes.size(), to.sparse);
        else
            join_dense(nodes.size(), columns, to.dense);
        return sent;
    }

private:
    /// Rows of the nodes of an owner.
    struct share {
        std::vector<node_id> nodes;
        std::vector<std::size_t> places; ///< among the nodes that are asked for
        row_answer answer;
        mini_batch_arena arena;
    };

    void split(
        const frame_id& id, std::span<const node_id> nodes, const partition_owners& owners, std::uint32_t workers) {
        shares_.resize(workers);
        for (share& of : shares_) {
            of.nodes.clear();
            of.places.clear();
            of.answer = {};
        }
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            const std::uint32_t owner = owners.of(nodes[i]);
            if (owner >= workers) throw foreign_row(nodes[i], id.key);
            shares_[owner].nodes.push_back(nodes[i]);
            shares_[owner].places.push_back(i);
        }
    }
    void join_dense(std::size_t rows, std::size_t columns, std::vector<float>& to) const {
        to.resize(rows * columns);
        for (const share& of : shares_)
            for (std::size_t k = 0; k < of.nodes.size(); ++k)
                std::ranges::copy(of.answer.dense.subspan(k * columns, columns),
                    to.begin() + static_cast<std::ptrdiff_t>(of.places[k] * columns));
    }
    void join_sparse(std::size_t rows, sparse_feature_rows& to) const {
        const auto for_each_row = [&](auto&& visit) {
            for (const share& of : shares_)
                for (std::size_t k = 0; k < of.nodes.size(); ++k)
                    visit(of.answer, of.places[k], static_cast<std::size_t>(of.answer.offsets[k]),
                        static_cast<std::size_t>(of.answer.offsets[k + 1]));
        };
        bool values = false;
        to.offsets.assign(rows + 1, 0);
        for_each_row([&](const row_answer& from, std::size_t place, std::size_t first, std::size_t last) {
            to.offsets[place + 1] = last - first;
            values = values || !from.values.empty();
        });
        std::partial_sum(to.offsets.begin(), to.offsets.end(), to.offsets.begin());
        to.columns.resize(static_cast<std::size_t>(to.offsets.back()));
        to.values.assign(values ? to.columns.size() : 0, 1.0F);
        for_each_row([&](const row_answer& from, std::size_t place, std::size_t first, std::size_t last) {
            const auto at = static_cast<std::ptrdiff_t>(to.offsets[place]);
            std::ranges::copy(from.columns.subspan(first, last - first), to.columns.begin() + at);
            if (!from.values.empty())
                std::ranges::copy(from.values.subspan(first, last - first), to.values.begin() + at);
        });
    }

    std::vector<share> shares_; // by owner
    gathered_rows own_;
};

} // namespace gneiss::detail
