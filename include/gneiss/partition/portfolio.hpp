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
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/saved_parts.hpp>
#include <gneiss/partition/quality.hpp>
#include <gneiss/partition/semi.hpp>

namespace gneiss {

/// Runs several partitioners and keeps the parts that cut the fewest edges, counted over the stream; of equal ones the
/// first.
///
///     const std::vector<part_id> parts = portfolio_partitioner{}(stream, {.parts = 64}, on);
///
/// A step is one candidate. Where the stream can be copied and no journal is kept they run at once on the threads of
/// `on`, else in turn; the result is the same. request.progress is never called twice at once. Cost: that of all
/// candidates, and a pass for each. Memory: as much as all of them where they run at once, else as the one that takes
/// most, and 2 bytes a node. Errors: theirs.
template <class... Candidates>
struct portfolio_partitioner {
    std::tuple<Candidates...> candidates{};

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<part_id> operator()(Stream& stream, const partition_request& request, const E& on) const {
        check_request(request, stream.nodes());
        const detail::saved_parts journal(request, stream.nodes(), sizeof...(Candidates));
        partition_request one = request;
        one.journal = nullptr;
        std::mutex telling;
        if (request.progress)
            one.progress = [&](std::string_view phase, std::uint64_t done, std::uint64_t total) {
                const std::lock_guard lock(telling);
                request.progress(phase, done, total);
            };
        outcome best;
        if constexpr (std::copy_constructible<Stream>)
            if (request.journal == nullptr && on.concurrency() > 1) {
                std::vector<outcome> all(sizeof...(Candidates));
                on.run(all.size(), [&](std::size_t i) {
                    Stream mine = stream;
                    visit(static_cast<std::uint32_t>(i),
                        [&](const auto& candidate) { all[i] = run(candidate, mine, one, on); });
                });
                for (outcome& made : all) best.keep_better(std::move(made));
                return std::move(best.parts);
            }
        if (journal.done() != 0) {
            best.parts = journal.load();
            best.cut = measure_partition(stream, best.parts, request.parts).cut_edges;
        }
        for (std::uint32_t i = journal.done(); i < sizeof...(Candidates); ++i) {
            visit(i, [&](const auto& candidate) { best.keep_better(run(candidate, stream, one, on)); });
            journal.save(i + 1, best.parts);
        }
        return std::move(best.parts);
    }

    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request& request) const {
        return std::apply(
            [&](const auto&... candidate) { return 2 * nodes + (candidate.memory(nodes, arcs, request) + ...); },
            candidates);
    }

private:
    struct outcome {
        std::vector<part_id> parts{};
        edge_index cut = ~edge_index{0};

        void keep_better(outcome&& other) {
            if (other.cut < cut) *this = std::move(other);
        }
    };

    template <class Candidate, class Stream, class E>
    [[nodiscard]] static outcome run(
        const Candidate& candidate, Stream& stream, const partition_request& request, const E& on) {
        outcome made{candidate(stream, request, on)};
        made.cut = measure_partition(stream, made.parts, request.parts).cut_edges;
        return made;
    }
    template <class Visit>
    void visit(std::uint32_t number, Visit&& with) const {
        std::uint32_t i = 0;
        std::apply([&](const auto&... candidate) { ((i++ == number ? with(candidate) : void()), ...); }, candidates);
    }
};

/// Bands for graphs that hubs rule, clusters for all others: which one it is need not be known.
using default_portfolio = portfolio_partitioner<band_partitioner, semi_partitioner>;

static_assert(partitioner<default_portfolio>);

} // namespace gneiss
