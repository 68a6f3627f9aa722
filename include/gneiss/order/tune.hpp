// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/detail/check.hpp>

namespace gneiss {

/// Input of `tune`.
struct tuning_input {
    std::uint64_t nodes = 0;       ///< number of nodes
    std::uint64_t row_bytes = 0;   ///< per node in the buffer: value and optimizer state, or features; 0: without rows
    std::uint64_t edge_bytes = 0;  ///< all blocks that a run keeps resident, as measured on disk; 0: without a graph
    std::uint32_t edge_files = 2;  ///< number of files that hold these blocks: by source, by destination
    std::uint64_t memory = 0;      ///< total
    std::uint64_t other_bytes = 0; ///< share for everything except rows and graph: batches, parameters, the program
    std::uint64_t read_bytes = 128 << 10; ///< D: smallest read at about the full rate of the device
    bool prefetch = true;                 ///< load the next state while one trains
    std::uint32_t logical = 0;            ///< l, at least 2; 0: the fewest that fit
    row_use access = row_use::updated;    ///< rows are only read, or read and written
};

/// Partitions and buffer for COMET, and their cost.
struct tuned_partitions {
    std::uint32_t partitions = 1;                    ///< p
    std::uint32_t logical = 1;                       ///< l; 1: everything is resident
    std::uint32_t resident_partitions = 1;           ///< c, without the prefetched ones
    std::uint32_t prefetch = 0;                      ///< slots for the partitions of the next state
    std::uint64_t row_memory = 0, edge_memory = 0;   ///< [bytes]
    std::uint64_t states = 1;                        ///< per epoch
    std::uint64_t read_bytes = 0, written_bytes = 0; ///< per epoch, including first fill and final flush, expected
    std::uint64_t smallest_read = 0;                 ///< expected, for a partition's rows or a bucket's block [bytes]
    std::vector<std::string> reasons{};              ///< one line each, human-readable
};

namespace detail {

/// Up to this number, more partitions improve accuracy, which justifies smaller blocks: where reads of D reach 4/5 of
/// the device's rate, those of D/16 reach 1/5, still many times the training rate of edges. Measured:
/// docs/results/mariusgnn.md.
inline constexpr double few_partitions = 64;
inline constexpr double small_block = 1. / 16;

/// Returns total · n / d without overflow unless the result overflows. Precondition: d · n < 2⁶⁴.
[[nodiscard]] constexpr std::uint64_t share(std::uint64_t total, std::uint64_t n, std::uint64_t d) noexcept {
    return total / d * n + total % d * n / d;
}

/// Resources of `logical` logical partitions of `group` partitions: rows and blocks of two of them, plus those of the
/// prefetched state. 1: all.
[[nodiscard]] inline tuned_partitions sized(const tuning_input& input, std::uint32_t logical, std::uint32_t group) {
    tuned_partitions t;
    t.logical = logical;
    t.partitions = logical * group;
    const std::uint64_t l = logical, p = t.partitions, rows = ceil_div(input.nodes, p);
    const bool all = logical == 1, ahead = input.prefetch && !all;
    t.resident_partitions = all ? group : 2 * group;
    t.prefetch = ahead ? group : 0;
    t.row_memory = (std::uint64_t{t.resident_partitions} + t.prefetch) *
        round_up(rows * input.row_bytes, std::uint64_t{page_alignment});
    // A state has four of the l² squares of blocks; the next state shares one of them.
    t.edge_memory = all ? input.edge_bytes : ceil_div(input.edge_bytes * (ahead ? 7 : 4), l * l);
    const std::uint64_t swaps = all ? 0 : l * (l - 1) / 2 - 1;
    t.states = swaps + 1;
    const std::uint64_t row_reads =
        all ? input.nodes * input.row_bytes : share(input.nodes * input.row_bytes, 2 + swaps, l);
    t.read_bytes = row_reads + (all ? input.edge_bytes : share(input.edge_bytes, 4 + 3 * swaps, l * l));
    t.written_bytes = input.access == row_use::updated ? row_reads : 0;
    const std::uint64_t row_read = rows * input.row_bytes, block_read = input.edge_bytes / input.edge_files / (p * p);
    t.smallest_read = input.row_bytes == 0 ? block_read
        : input.edge_bytes == 0            ? row_read
                                           : std::min(row_read, block_read);
    return t;
}

/// Numbers of partitions by the sizes of reads.
struct partition_limits {
    double rows = 0, full_reads = 0, edges = 0;
    std::uint32_t most = 0, wanted = 0;
};
[[nodiscard]] inline partition_limits limits_of(const tuning_input& input) {
    if (input.nodes == 0 || input.row_bytes + input.edge_bytes == 0 || input.read_bytes == 0 || input.edge_files == 0)
        throw error(errc::invalid_argument, "tuning needs nodes, rows or edges, and a size of reads");
    const auto d = static_cast<double>(input.read_bytes);
    partition_limits result;
    result.rows = static_cast<double>(input.nodes) * static_cast<double>(input.row_bytes) / d;
    result.full_reads = std::sqrt(static_cast<double>(input.edge_bytes) / input.edge_files / d);
    result.edges = std::max(result.full_reads, std::min(result.full_reads / std::sqrt(small_block), few_partitions));
    const double limit = input.row_bytes == 0 ? result.edges
        : input.edge_bytes == 0               ? result.rows
                                              : std::min(result.rows, result.edges);
    result.most = static_cast<std::uint32_t>(std::min<std::uint64_t>(input.nodes, max_partitions));
    result.wanted = static_cast<std::uint32_t>(std::clamp(limit, 1.0, static_cast<double>(result.most)));
    return result;
}

/// Returns the bytes of a plan.
[[nodiscard]] inline std::uint64_t total_of(const tuning_input& input, const tuned_partitions& t) {
    return t.row_memory + t.edge_memory + input.other_bytes;
}

/// Adds the reasons; `logical` says why there are so many logical partitions.
inline void add_reasons(
    tuned_partitions& chosen, const tuning_input& input, const partition_limits& of, const std::string& logical) {
    const auto fixed = [](double value) {
        std::string text = std::to_string(value);
        return text.substr(0, text.find('.') + 2);
    };
    const std::string p = std::to_string(chosen.partitions), c = std::to_string(chosen.resident_partitions),
                      l = std::to_string(chosen.logical);
    auto& why = chosen.reasons;
    why.push_back("p = " + p + ": reads of " + format_bytes(input.read_bytes) + " or more" +
        (of.edges > of.full_reads ? ", of edges a sixteenth of it," : "") + " allow " + std::to_string(of.wanted) +
        " partitions (rows " + (input.row_bytes == 0 ? "none" : fixed(of.rows)) + ", edge buckets " +
        (input.edge_bytes == 0 ? "none" : fixed(of.edges)) + "), rounded to a multiple of l" +
        (chosen.partitions > of.wanted ? "; memory asks for more, so reads are smaller" : ""));
    why.push_back("c = " + c + ": rows " + format_bytes(chosen.row_memory) + " + graph " +
        format_bytes(chosen.edge_memory) + " + everything else " + format_bytes(input.other_bytes) + " of " +
        format_bytes(input.memory) +
        (chosen.prefetch != 0 ? ", with " + std::to_string(chosen.prefetch) + " partitions loaded ahead" : ""));
    why.push_back(chosen.logical == 1
            ? "l = 1: everything fits, nothing is swapped"
            : "l = " + l + " = 2p/c: " + logical + "; " + std::to_string(chosen.states) + " states an epoch");
    why.push_back("an epoch reads " + format_bytes(chosen.read_bytes) + " and writes " +
        format_bytes(chosen.written_bytes) + ", at least " + format_bytes(chosen.smallest_read) + " at once");
}

} // namespace detail

/// Chooses the numbers of partitions and logical partitions and the slots of the buffer for COMET.
///
///     const tuned_partitions t = tune({.nodes = nodes, .row_bytes = 800, .edge_bytes = blocks, .memory = 2ULL << 30});
///     const comet_order order(t.partitions, t.resident_partitions, seed);
///
/// More partitions make the order less biased, at no cost until a read is smaller than D: p is about min(NO / D, √(EO /
/// D)), where NO is the size of all rows with their optimizer state and EO that of one block file. If that is less than
/// 64, p grows up to 64 as far as blocks of D/16 allow. A larger buffer, i.e. fewer logical partitions, lowers bias,
/// states and traffic: l is the smallest for which the rows and blocks of two logical partitions, those loaded ahead
/// and everything else fit in memory. p is a multiple of l, and c = 2p/l.
///
/// The choice is monotonic in memory: more memory never gives more logical partitions or fewer slots. If all fits,
/// everything stays resident: l = 1, c = p. If l exceeds what D allows, reads are smaller than D, and a reason says so.
/// Blocks are assumed to be of equal size, as measured with another number of partitions; very many partitions make
/// them larger. O(p). Throws over_budget if not even two partitions of p = 4096 (or of one node each) fit;
/// errc::invalid_argument for zero nodes, neither rows nor edges, or D = 0. Source: MariusGNN, EuroSys'23, §6,
/// corrected: includes optimizer state, measured blocks, and the next state.
[[nodiscard]] inline tuned_partitions tune(const tuning_input& input) {
    const detail::partition_limits limits = detail::limits_of(input);
    const auto with = [&](std::uint32_t logical) {
        return detail::sized(input, logical, std::max(limits.wanted / logical, 1U));
    };
    const auto refuse = [&](const tuned_partitions& t) -> void {
        throw over_budget(
            input.memory, {{"rows", t.row_memory}, {"graph", t.edge_memory}, {"everything else", input.other_bytes}});
    };
    const auto fits = [&](const tuned_partitions& t) { return detail::total_of(input, t) <= input.memory; };
    tuned_partitions chosen = with(std::max(input.logical, 1U)), larger = chosen;
    if (!fits(chosen) && input.logical != 0) refuse(chosen);
    for (std::uint32_t logical = 3; !fits(chosen); ++logical) { // two are resident, so two would be everything
        larger = std::move(chosen);
        if (logical > limits.most) refuse(larger);
        chosen = with(logical);
    }
    detail::add_reasons(chosen, input, limits,
        input.logical != 0 ? std::string("as asked")
                           : "the fewest that fit (" + std::to_string(larger.logical) + " would take " +
                format_bytes(detail::total_of(input, larger)) + ")");
    return chosen;
}

/// Returns the partitions and the buffer for a number of logical partitions, at least 2, whether they fit or not. O(1).
/// Errors as in `tune`.
[[nodiscard]] inline tuned_partitions tune_for(const tuning_input& input, std::uint32_t logical) {
    const detail::partition_limits limits = detail::limits_of(input);
    tuned_partitions chosen = detail::sized(input, logical, std::max(limits.wanted / logical, 1U));
    detail::add_reasons(chosen, input, limits, "of those that fit, it reads little");
    return chosen;
}

} // namespace gneiss
