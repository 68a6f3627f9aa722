// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/sample/link_batch.hpp>

namespace gneiss {

/// Options of a `query_log`.
struct query_log_options {
    std::uint64_t capacity = 16384;  ///< queries that it keeps
    std::uint64_t per_list = 100;    ///< drawn from it for each list of negatives
    std::uint64_t epoch_queries = 0; ///< queries of an epoch: edges times sides
    std::uint64_t seed = 0;

    friend bool operator==(const query_log_options&, const query_log_options&) = default;
};

/// A uniform sample of the queries of the last epoch, from which negatives get the gradients that they missed.
///
/// Out of core a query trains against resident negatives only: other nodes are not pushed away from it, which is most
/// of what negatives cost in accuracy (docs/results/marius.md). The log keeps the query vector, the log-sum of its loss
/// and the partitions that were resident. When a negative of another partition is resident later, it gets the gradient
/// of old queries drawn from the log: a write-behind queue of queries instead of gradients, since one query stands for
/// the gradients of all nodes that missed it.
///
/// Each pair of query and node trains at the rate of training in memory: with the query's batch if both are resident,
/// at the weight of the resident share of nodes, else from the log. Old queries are up to an epoch stale, negatives are
/// not. Old queries and their relations get no gradient.
///
/// Use, batch by batch in order: `begin`, then `keep` and `draw` from any thread, then `end`. Contents are a function
/// of the batches and the seed. Memory: `bytes_needed`. Cost: a copy of each kept query. Ours.
class query_log {
public:
    /// Returns the memory of a log of queries of `dim` floats over a graph in `partitions` partitions [bytes].
    [[nodiscard]] static constexpr std::uint64_t bytes_needed(
        const query_log_options& options, std::uint64_t dim, std::uint64_t partitions) noexcept {
        return options.capacity * (record_floats(dim, partitions) * sizeof(float) + sizeof(staged)) +
            3 * partitions * sizeof(std::uint64_t);
    }

    /// Constructs an empty log. Throws errc::invalid_argument for options that are zero.
    query_log(const query_log_options& options, std::size_t dim, const row_partitioning& nodes)
        : options_(options),
          dim_(dim),
          nodes_(nodes),
          finder_(nodes),
          words_(set_words(nodes.partitions)),
          width_(record_floats(dim, nodes.partitions)),
          present_(words_) {
        if (options.capacity == 0 || options.per_list == 0 || options.epoch_queries == 0)
            throw error(errc::invalid_argument,
                "a query log needs room for a query, queries per list, and queries in an epoch");
        records_.resize(options.capacity * width_);
    }

    [[nodiscard]] const query_log_options& options() const noexcept { return options_; }
    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    /// Returns the partitions of the nodes.
    [[nodiscard]] const row_partitioning& partitioning() const noexcept { return nodes_; }
    /// Returns the number of queries in the log.
    [[nodiscard]] std::uint64_t size() const noexcept { return std::min(kept_, options_.capacity); }

    /// Starts a batch of `queries` queries. Chooses which of them it will keep; none if all nodes are resident. Throws
    /// errc::out_of_range if nodes beyond those of the log are resident.
    void begin(const link_batch& batch, std::uint64_t queries) {
        key_ = random_key(options_.seed, random_domain::replay)
                   .with(batch.key.epoch)
                   .with(batch.key.number.state)
                   .with(batch.key.number.pass)
                   .with(batch.key.number.index);
        chosen_.clear();
        std::ranges::fill(present_, 0);
        resident_nodes_ = 0;
        for (const id_range& range : batch.resident) {
            if (range.end > nodes_.nodes || range.begin >= range.end)
                throw error(errc::out_of_range,
                    "nodes [" + std::to_string(range.begin) + ", " + std::to_string(range.end) +
                        ") are resident, the query log has " + std::to_string(nodes_.nodes) + " nodes");
            const partition_id p = finder_.of(static_cast<node_id>(range.begin));
            present_[p / 64] |= std::uint64_t{1} << p % 64;
            resident_nodes_ += range.end - range.begin;
        }
        partial_ = !batch.resident.empty();
        if (!partial_) return;
        const std::uint64_t before = due();
        seen_ += queries;
        for (std::uint64_t i = 0, n = std::min(due() - before, options_.capacity); i < n; ++i)
            chosen_.push_back({below(key_[i], queries), i});
        std::ranges::sort(chosen_, {}, &staged::row);
        staging_.resize(chosen_.size() * width_);
    }
    /// Keeps query `row` [dim] of the batch if it was chosen. Thread-safe for different rows. Sizes are not checked
    /// here.
    /// \param log_sum  log Σ e^score of the loss, at the scale of uncorrected scores of nodes that are not resident
    void keep(std::uint64_t row, std::span<const float> query, float log_sum) noexcept {
        for (auto at = std::ranges::lower_bound(chosen_, row, {}, &staged::row); at != chosen_.end() && at->row == row;
            ++at) {
            float* const to = staging_.data() + at->place * width_;
            std::copy_n(query.data(), dim_, to);
            to[dim_] = log_sum;
            std::memcpy(to + dim_ + 1, present_.data(), words_ * sizeof(std::uint64_t));
        }
    }
    /// Ends the batch: its chosen queries enter the log and replace the oldest ones.
    void end() {
        for (std::uint64_t i = 0; i < chosen_.size(); ++i)
            std::copy_n(staging_.data() + i * width_, width_, records_.data() + kept_++ % options_.capacity * width_);
    }

    /// True if the batch's negatives get gradients of old queries.
    [[nodiscard]] bool replays() const noexcept { return partial_ && kept_ != 0; }
    /// Returns the share of all nodes that is resident: the weight of the batch's own queries in the gradients of
    /// negatives.
    [[nodiscard]] float live_share() const noexcept {
        return static_cast<float>(static_cast<double>(resident_nodes_) / static_cast<double>(nodes_.nodes));
    }
    /// Returns the i-th of `per_list` draws for list `list` of the batch: a position in the log, uniform, with
    /// replacement.
    [[nodiscard]] std::uint64_t draw(std::uint64_t list, std::uint64_t i) const noexcept {
        return below(key_.with(list)[i], size());
    }
    /// Returns a query of the log [dim].
    [[nodiscard]] std::span<const float> query(std::uint64_t position) const noexcept {
        return {records_.data() + position * width_, dim_};
    }

    /// A run of a list's columns whose nodes belong to one partition.
    struct column_run {
        std::size_t end = 0;        ///< end of the columns
        partition_id partition = 0; ///< their partition
    };
    /// Finds the runs of a list of nodes.
    void runs_of(const link_batch& batch, std::span<const std::uint32_t> columns, std::vector<column_run>& runs) const {
        runs.clear();
        for (std::size_t j = 0; j < columns.size(); ++j) {
            const partition_id p = finder_.of(batch.nodes[columns[j]]);
            if (runs.empty() || runs.back().partition != p) runs.push_back({0, p});
            runs.back().end = j + 1;
        }
    }
    /// Replaces scores of a query of the log against a list by their gradients times `weight`: e^s / (e^s + e^log-sum),
    /// 0 for nodes that were resident with it.
    void differentiate(std::uint64_t position, std::span<const column_run> runs, float weight,
        std::span<const float> scores, std::span<float> gradient) const noexcept {
        const float* const record = records_.data() + position * width_;
        const std::size_t n = scores.size();
        float* const x = gradient.data();
        for (std::size_t j = 0; j < n; ++j) x[j] = -scores[j];
        detail::shifted_exponentials(x, n, -record[dim_]);
        for (std::size_t j = 0; j < n; ++j) x[j] = weight / (1.0F + x[j]);
        std::size_t begin = 0;
        for (const column_run& run : runs) {
            if (contains(record, run.partition)) std::fill(x + begin, x + run.end, 0.0F);
            begin = run.end;
        }
    }

    /// Returns the content of a checkpoint, between batches.
    [[nodiscard]] std::vector<std::byte> save() const {
        const std::uint64_t counts[2] = {seen_, kept_};
        const std::size_t floats = static_cast<std::size_t>(size()) * width_;
        std::vector<std::byte> bytes(sizeof counts + floats * sizeof(float));
        std::memcpy(bytes.data(), counts, sizeof counts);
        std::memcpy(bytes.data() + sizeof counts, records_.data(), floats * sizeof(float));
        return bytes;
    }
    /// Restores what `save` returned. Throws errc::corrupt if it has another size.
    void load(std::span<const std::byte> bytes) {
        std::uint64_t counts[2] = {};
        if (bytes.size() >= sizeof counts) std::memcpy(counts, bytes.data(), sizeof counts);
        const std::size_t floats = static_cast<std::size_t>(std::min(counts[1], options_.capacity)) * width_;
        if (bytes.size() != sizeof counts + floats * sizeof(float))
            throw error(errc::corrupt,
                "the query log of the checkpoint has " + std::to_string(bytes.size()) + " bytes, not " +
                    std::to_string(sizeof counts + floats * sizeof(float)));
        seen_ = counts[0];
        kept_ = counts[1];
        std::memcpy(records_.data(), bytes.data() + sizeof counts, floats * sizeof(float));
    }

private:
    struct staged {
        std::uint64_t row, place; ///< query of the batch, its record among those of the batch
    };

    [[nodiscard]] static constexpr std::size_t set_words(std::uint64_t partitions) noexcept {
        return static_cast<std::size_t>((partitions + 63) / 64);
    }
    /// A record: query, log-sum, set of partitions.
    [[nodiscard]] static constexpr std::size_t record_floats(std::uint64_t dim, std::uint64_t partitions) noexcept {
        return static_cast<std::size_t>(dim) + 1 + 2 * set_words(partitions);
    }
    [[nodiscard]] bool contains(const float* record, partition_id p) const noexcept {
        std::uint64_t word = 0;
        std::memcpy(&word, record + dim_ + 1 + 2 * (p / 64), sizeof word);
        return (word >> p % 64 & 1U) != 0;
    }
    /// Returns the number of queries to keep of those seen so far: `capacity` an epoch.
    [[nodiscard]] std::uint64_t due() const noexcept {
        return static_cast<std::uint64_t>(static_cast<double>(seen_) * static_cast<double>(options_.capacity) /
            static_cast<double>(options_.epoch_queries));
    }

    query_log_options options_;
    std::size_t dim_;
    row_partitioning nodes_;
    row_finder finder_;
    std::size_t words_, width_;
    std::vector<float> records_; // a ring of `capacity` records
    std::uint64_t seen_ = 0, kept_ = 0;

    random_key key_{0, random_domain::replay}; // of the batch, as is everything below
    std::vector<std::uint64_t> present_;
    std::uint64_t resident_nodes_ = 0;
    bool partial_ = false;
    std::vector<staged> chosen_; // ascending
    std::vector<float> staging_;
};

} // namespace gneiss
