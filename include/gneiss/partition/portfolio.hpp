// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/band.hpp>
#include <gneiss/partition/combine.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/pass_checkpoint.hpp>
#include <gneiss/partition/quality.hpp>
#include <gneiss/partition/semi.hpp>

namespace gneiss {

/// Partitioner that runs several candidates and combines the two results with the fewest cut edges (`combine_parts`),
/// counted over the stream; ties go to the first. The result cuts no more edges than any candidate's.
///
///     const std::vector<partition_id16> parts = default_portfolio{}(stream, {.parts = 64}, executor);
///
/// A step is one candidate. Candidates run concurrently on the threads of `executor` if the stream can be copied and
/// there is no journal, else in turn, with the same result. Calls of request.progress never overlap. Cost: that of all
/// candidates, one pass for each, and the combination. Memory: the sum over the candidates, and 4 bytes per node.
/// Errors: those of the candidates.
template <class... Candidates>
struct portfolio_partitioner {
    static_assert(sizeof...(Candidates) != 0, "portfolio_partitioner: at least one of Candidates is needed");
    static_assert((partitioner<Candidates> && ...),
        "portfolio_partitioner: each of Candidates must be a gneiss::partitioner, see gneiss/partition/concepts.hpp");

    std::tuple<Candidates...> candidates{}; ///< partitioners to run, in order
    std::uint64_t most_edges = 0; ///< maximum edges of the graph that combines two results; 0: nodes + arcs / 4

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& stream, const partition_request& request, const E& executor) const {
        check_request(request, stream.nodes());
        if (stream.nodes() == 0) return {};
        const detail::pass_checkpoint journal(request, stream.nodes(), sizeof...(Candidates), 2);
        partition_request one = request;
        one.journal = nullptr;
        std::mutex reporting;
        if (request.progress)
            one.progress = [&](std::string_view phase, std::uint64_t done, std::uint64_t total) {
                const std::lock_guard lock(reporting);
                request.progress(phase, done, total);
            };
        two_best best;
        if (std::copy_constructible<Stream> && request.journal == nullptr && executor.concurrency() > 1)
            run_at_once(stream, one, executor, best);
        else
            run_in_turn(stream, one, executor, journal, best);
        outcome combined{best.first.parts};
        combine_parts(stream, combined.parts, best.second.parts, one, executor, most_edges);
        combined.cut = measure_partition(stream, combined.parts, request.parts).cut_edges;
        return std::move(combined.cut < best.first.cut ? combined.parts : best.first.parts);
    }

    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request& request) const {
        return std::apply(
            [&](const auto&... candidate) { return 4 * nodes + (candidate.memory(nodes, arcs, request) + ...); },
            candidates);
    }

private:
    struct outcome {
        std::vector<partition_id16> parts{};
        edge_index cut = ~edge_index{0};
    };
    struct two_best {
        outcome first{}, second{};

        void add(outcome&& other) {
            if (other.cut < first.cut) std::swap(other, first);
            if (other.cut < second.cut) second = std::move(other);
            if (second.parts.empty()) second.parts = first.parts;
        }
    };

    template <class Stream, class E>
    void run_at_once(Stream& stream, const partition_request& request, const E& executor, two_best& best) const {
        if constexpr (std::copy_constructible<Stream>) {
            std::vector<outcome> all(sizeof...(Candidates));
            executor.run(all.size(), [&](std::size_t i) {
                Stream mine = stream;
                visit(i, [&](const auto& candidate) { all[i] = run(candidate, mine, request, executor); });
            });
            for (outcome& result : all) best.add(std::move(result));
        }
    }
    template <class Stream, class E>
    void run_in_turn(Stream& stream, const partition_request& request, const E& executor,
        const detail::pass_checkpoint& journal, two_best& best) const {
        if (journal.done() != 0) {
            const std::vector<partition_id16> both = journal.load();
            const auto middle = both.begin() + static_cast<std::ptrdiff_t>(stream.nodes());
            best.add(measured({both.begin(), middle}, stream, request));
            if (journal.done() > 1)
                best.add(measured({middle, both.end()}, stream, request)); // else a copy of the first
        }
        for (std::size_t i = journal.done(); i < sizeof...(Candidates); ++i) {
            visit(i, [&](const auto& candidate) { best.add(run(candidate, stream, request, executor)); });
            std::vector<partition_id16> both = best.first.parts;
            both.insert(both.end(), best.second.parts.begin(), best.second.parts.end());
            journal.save(static_cast<std::uint32_t>(i + 1), both);
        }
    }
    template <class Stream>
    [[nodiscard]] static outcome measured(
        std::vector<partition_id16> parts, Stream& stream, const partition_request& request) {
        const edge_index cut = measure_partition(stream, parts, request.parts).cut_edges;
        return {std::move(parts), cut};
    }
    template <class Candidate, class Stream, class E>
    [[nodiscard]] static outcome run(
        const Candidate& candidate, Stream& stream, const partition_request& request, const E& executor) {
        return measured(candidate(stream, request, executor), stream, request);
    }
    template <class Visit>
    void visit(std::size_t number, Visit&& with) const {
        std::size_t i = 0;
        std::apply([&](const auto&... candidate) { ((i++ == number ? with(candidate) : void()), ...); }, candidates);
    }
};

/// Bands for graphs dominated by hubs, clusters for all others, without knowing the kind of graph in advance.
using default_portfolio = portfolio_partitioner<band_partitioner, semi_partitioner>;

static_assert(partitioner<default_portfolio>);

} // namespace gneiss
