// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/inference/detail/layerwise_records.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/inference/layerwise_plan.hpp>
#include <gneiss/inference/layerwise_stream_plan.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss::detail {

/// Layer-wise inference that reads each layer's inputs and edges once, in sequence. For each layer:
///
///     group targets by length of their lists, the longest first
///     for each source partition j, ascending:
///         read its rows; compute messages and own rows
///         finish targets without neighbors
///         add messages to the sums of the first group, which stay in memory
///         deal to each later group: messages of the sources that it needs, with its edges, and own rows of its targets
///     finish the first group
///     for each later group: add what was dealt to it, j ascending; finish it
///
/// A later group gets a row once per source partition, for however many edges. Sums add the same parts in the same
/// order as those of `layerwise_run`, so all bits are equal. Attention needs own rows before the first message: its
/// inputs are read twice. In graphs with a power law the first group has most edges, and few rows are dealt: of RMAT
/// with 16 edges a node, an eighth of the sums takes 0.91 of the edges, and a third of the rows is written and read
/// again. Source: ATLAS (arXiv 2605.09402), which merges evicted partial sums; dealing keeps order.
template <class Backend>
class streamed_run {
public:
    streamed_run(encoder<float, Backend>& encode, const dense_parameters<float>& weights, const layerwise_input& input,
        const bucket_store& graph, const layerwise_options& options, executor_ref executor, std::stop_token stop,
        const layerwise_progress& progress, const list_degrees& degrees, streamed_plan plan)
        : encode_(encode),
          weights_(weights),
          input_(input),
          graph_(graph),
          rows_(graph.rows()),
          options_(options),
          executor_(executor),
          stop_(std::move(stop)),
          progress_(progress),
          degrees_(degrees),
          plan_(std::move(plan)),
          reader_(graph, options.engines),
          directory_(options.scratch, "layers-") {}

    /// Runs all layers.
    [[nodiscard]] std::unique_ptr<scratch_rows> run() {
        for (std::size_t l = 0; l < encode_.layers(); ++l) {
            const std::uint64_t rows = plan_.layers[l].rows;
            const target_groups groups(degrees_, rows_.nodes, rows, encode_.parts(l).messages != 0);
            all_ += rows_.partitions * std::uint64_t{std::max(groups.groups, 1U)};
            if (groups.groups != 0) all_ += 1 + (encode_.parts(l).begins ? rows_.partitions : 0);
        }
        for (layer_ = 0; layer_ < encode_.layers(); ++layer_) run_layer();
        return std::move(result_);
    }
    [[nodiscard]] io_stats statistics() const {
        return io_ + reader_.statistics() + (result_ ? result_->statistics() : io_stats{});
    }
    [[nodiscard]] std::uint64_t edges() const noexcept { return edges_; }
    [[nodiscard]] std::uint64_t rows_read() const noexcept { return input_rows_; }

private:
    static constexpr std::uint8_t none = target_groups::none;

    /// Data for a later group from one source partition.
    struct dealt {
        std::size_t lists = 0;
        std::vector<std::size_t> messages{};
    };

    [[nodiscard]] std::size_t size(partition_id p) const noexcept { return static_cast<std::size_t>(rows_.size(p)); }
    [[nodiscard]] std::size_t begin(partition_id p) const noexcept { return static_cast<std::size_t>(rows_.begin(p)); }
    [[nodiscard]] std::size_t piece(std::size_t group, partition_id p) const noexcept {
        return group * rows_.partitions + p;
    }

    void advance() {
        if (stop_.stop_requested()) throw error(errc::canceled, "stopped during inference");
        if (progress_) progress_(++done_, all_);
    }
    void run_layer() {
        columns_ = encode_.parts(layer_);
        const std::size_t outputs = encode_.factories()[layer_].outputs();
        group_targets();
        const bool last = layer_ + 1 == encode_.layers();
        direct_ = last && (groups_.groups == 0 || groups_.all);
        if (last)
            result_ = std::make_unique<scratch_rows>(rows_, encode_.outputs(), options_.engines, options_.scratch);
        if (!direct_)
            out_ = std::make_unique<grouped_rows>(directory_.path() / ("rows-" + std::to_string(layer_)), rows_,
                outputs, groups_.groups, group_of_, last ? feature_type::f32 : options_.hidden_rows);
        if (groups_.groups > 1 || (groups_.groups != 0 && !keeps_own()))
            dealt_file_ = std::make_unique<scratch_records>(directory_.path() / "dealt");
        dealt_.assign(groups_.groups > 1 ? std::size_t{groups_.groups} * rows_.partitions : 0, {});
        dealt_own_.assign(groups_.groups, {});
        dealt_own_of_.assign(groups_.groups, {});
        stream();
        if (dealt_file_) dealt_file_->finish();
        if (groups_.groups != 0) finish_group(0);
        for (std::uint32_t k = 1; k < groups_.groups; ++k) run_group(k);
        for (partition_id p = 0; p < rows_.partitions && direct_; ++p)
            if (size(p) == 0) result_->put(p);
        if (dealt_file_) io_ += dealt_file_->statistics();
        dealt_file_.reset();
        message_memory_ = {};
        if (in_) io_ += in_->statistics();
        in_ = std::move(out_);
        if (in_) in_->finish();
        if (last && !direct_) assemble_result();
    }

    /// Gives each target a group, and a place in it, ascending by node.
    void group_targets() {
        groups_ = target_groups(degrees_, rows_.nodes, plan_.layers[layer_].rows, columns_.messages != 0);
        const auto nodes = static_cast<std::size_t>(rows_.nodes);
        group_of_.assign(nodes, none);
        place_of_.resize(nodes);
        borders_.assign(std::size_t{groups_.groups} * (rows_.partitions + 1), 0);
        std::vector<std::uint64_t> rank = groups_.first_rank, used(groups_.groups, 0);
        for (partition_id p = 0; p < rows_.partitions; ++p) {
            for (std::size_t v = begin(p); v < begin(p) + size(p) && groups_.groups != 0; ++v) {
                const std::uint16_t length = degrees_.targets[v];
                if (length == 0 && !groups_.all) continue;
                const std::uint64_t k =
                    std::min<std::uint64_t>(rank[length]++ / plan_.layers[layer_].rows, groups_.groups - 1);
                group_of_[v] = static_cast<std::uint8_t>(k);
                place_of_[v] = static_cast<std::uint32_t>(used[k]++);
            }
            for (std::uint32_t k = 0; k < groups_.groups; ++k)
                borders_[k * (rows_.partitions + std::size_t{1}) + p + 1] = used[k];
        }
        const std::uint64_t most = used.empty() ? 0 : *std::ranges::max_element(used);
        free_memory(seen_); // never two of each at once
        sums_memory_ = {};
        own_memory_ = {};
        sums_memory_ = row_memory<float>(static_cast<std::size_t>(most) * columns_.sums);
        own_memory_ = aligned_buffer<float>(keeps_own() ? static_cast<std::size_t>(most) * columns_.own : 0);
        seen_.assign(static_cast<std::size_t>(most), 0);
        if (groups_.groups != 0) start_group(0);
    }
    void start_group(std::uint32_t k) {
        const auto count = static_cast<std::size_t>(groups_.targets[k]);
        sums_ = {sums_memory_.data(), count, columns_.sums};
        own_ = {own_memory_.data(), count, keeps_own() ? columns_.own : 0};
        std::fill_n(sums_.data(), count * columns_.sums, 0.0F);
        std::fill_n(seen_.begin(), count, 0U);
    }
    void begin_group() {
        if (columns_.begins) encode_.begin(layer_, own_, sums_, executor_);
    }

    /// Reads the rows of a partition of the layer's input.
    [[nodiscard]] input_rows<float> read_input(partition_id p) {
        if (layer_ == 0) {
            const input_rows<float> rows = input_reader_(p, stop_);
            check_shape(rows, input_.columns, size(p));
            input_rows_ += size(p);
            return rows;
        }
        return {.dense = in_->read(p, input_memory_)};
    }
    void stream() {
        const bool twice = columns_.begins && groups_.groups != 0;
        if (twice) {
            if (layer_ == 0) input_reader_ = input_.open();
            for (partition_id j = 0; j < rows_.partitions; ++j) stream_own(j, read_input(j), {}, true, false);
            input_reader_ = {};
            begin_group();
        }
        if (layer_ == 0) input_reader_ = input_.open();
        for (partition_id j = 0; j < rows_.partitions; ++j) {
            const input_rows<float> rows = read_input(j);
            matrix_view<const float> messages = rows.dense;
            if (!columns_.copies) {
                const matrix_view<float> to = message_room(size(j));
                for_each_chunk(columns_.messages == 0 ? 0 : size(j), [&](std::size_t first, std::size_t count) {
                    prepare(
                        j, first, rows.middle_rows(first, count), to.middle_rows(first, count), {nullptr, count, 0});
                });
                messages = to;
            }
            stream_own(j, rows, messages, !twice, true);
            if (columns_.messages != 0) stream_edges(j, messages);
        }
        input_reader_ = {};
        input_memory_ = {};
    }
    [[nodiscard]] matrix_view<float> message_room(std::size_t rows) {
        if (message_memory_.size() < rows_.capacity() * columns_.messages)
            message_memory_ = row_memory<float>(static_cast<std::size_t>(rows_.capacity()) * columns_.messages);
        return {message_memory_.data(), rows, columns_.messages};
    }
    void prepare(partition_id p, std::size_t first, const input_rows<float>& rows, matrix_view<float> messages,
        matrix_view<float> own) {
        std::span<const float> degrees;
        if (columns_.source_degrees && messages.columns() != 0) {
            source_degrees_.resize(messages.rows());
            std::transform(degrees_.sources.begin() + static_cast<std::ptrdiff_t>(begin(p) + first),
                degrees_.sources.begin() + static_cast<std::ptrdiff_t>(begin(p) + first + messages.rows()),
                source_degrees_.begin(), [](std::uint32_t d) { return static_cast<float>(d); });
            degrees = source_degrees_;
        }
        encode_.prepare(weights_, layer_, rows, degrees, messages, own, executor_);
    }

    /// Computes own rows of a partition: stores those of groups if `deals`, and computes the results of other nodes if
    /// `finishes`.
    void stream_own(
        partition_id j, const input_rows<float>& rows, matrix_view<const float> messages, bool deals, bool finishes) {
        for_each_chunk(size(j), [&](std::size_t first, std::size_t count) {
            const std::span<const std::uint8_t> groups(group_of_.data() + begin(j) + first, count);
            const matrix_view<float> own(own_chunk_.at_least(count * columns_.own), count, columns_.own);
            const bool any = finishes && std::ranges::find(groups, none) != groups.end();
            if (columns_.own != 0 && (deals || any))
                prepare(j, first, rows.middle_rows(first, count), {nullptr, count, 0}, own);
            if (columns_.own != 0 && deals) deal_own(j, first, groups, own);
            if (any) finish_alone(j, first, groups, own, messages);
        });
        advance();
    }
    void deal_own(
        partition_id j, std::size_t first, std::span<const std::uint8_t> groups, matrix_view<const float> own) {
        for (std::size_t v = 0; v < groups.size() && keeps_own(); ++v)
            if (groups[v] == 0) std::ranges::copy(own[v], own_[place_of_[begin(j) + first + v]].begin());
        for (std::uint32_t k = keeps_own() ? 1 : 0; k < groups_.groups; ++k) {
            const matrix_view<float> some = gather(groups, static_cast<std::uint8_t>(k), own, selected_own_);
            if (some.rows() == 0) continue;
            dealt_own_[k].push_back(dealt_file_->append(bytes_of(some)));
            dealt_own_of_[k].push_back(j);
        }
    }
    /// Gathers the rows of a group.
    [[nodiscard]] matrix_view<float> gather(std::span<const std::uint8_t> groups, std::uint8_t k,
        matrix_view<const float> rows, reusable_buffer<float>& memory) {
        selected_.clear();
        for (std::size_t v = 0; v < groups.size(); ++v)
            if (groups[v] == k) selected_.push_back(static_cast<std::uint32_t>(v));
        const matrix_view<float> to(memory.at_least(groups.size() * rows.columns()), selected_.size(), rows.columns());
        for (std::size_t i = 0; i < selected_.size(); ++i) std::ranges::copy(rows[selected_[i]], to[i].begin());
        return to;
    }
    /// Computes results of nodes without neighbors.
    void finish_alone(partition_id j, std::size_t first, std::span<const std::uint8_t> groups,
        matrix_view<const float> own, matrix_view<const float> messages) {
        const matrix_view<float> some = gather(groups, none, own, selected_own_);
        const std::size_t count = selected_.size();
        const matrix_view<float> sums(alone_sums_.at_least(count * columns_.sums), count, columns_.sums);
        std::fill_n(sums.data(), count * columns_.sums, 0.0F);
        if (columns_.begins) encode_.begin(layer_, some, sums, executor_);
        if (columns_.loops) {
            loops_.clear();
            for (std::uint32_t i = 0; i < count; ++i) {
                const auto row = static_cast<std::uint32_t>(first + selected_[i]);
                loops_.add(i, std::span(&row, 1));
            }
            encode_.add(layer_, loops_.part(), {}, messages, sums, executor_);
        }
        zeros_.assign(count, 0);
        emit(groups_.groups, j, first, encode_.finish(weights_, layer_, some, zeros_, sums, executor_));
    }
    /// Stores results: of partition `p` from row `first` on, if all go to the result in order.
    void emit(std::uint32_t group, partition_id p, std::size_t first, matrix_view<const float> rows) {
        if (!direct_) {
            out_->append(group, p, rows, executor_);
            return;
        }
        copy_rows<float>(rows, result_->room(p).middle_rows(first, rows.rows()), executor_);
        if (first + rows.rows() == size(p)) result_->put(p);
    }

    void stream_edges(partition_id j, matrix_view<const float> messages) {
        if (groups_.groups == 0) return;
        lists_.resize(std::size_t{3} * groups_.groups);
        for (std::size_t side = 0; side < 2; ++side) {
            const edge_direction d = side == 0 ? edge_direction::out : edge_direction::in;
            if (d == edge_direction::out ? options_.direction == neighbor_direction::in
                                         : options_.direction == neighbor_direction::out)
                continue;
            std::vector<block_place> places;
            for (partition_id i = 0; i < rows_.partitions; ++i)
                if (const block_place at = block_of(i, j, d, options_.direction); graph_.extent(at.bucket).edges != 0)
                    places.push_back(at);
            for (std::size_t b = 0; b < places.size(); ++b) {
                if (b == 0) reader_.start(std::span(&places[0], 1));
                if (b + 1 < places.size()) reader_.start(std::span(&places[b + 1], 1));
                const std::vector<loaded_block> loaded = reader_.finish();
                const partition_id i = d == edge_direction::out ? places[b].bucket.first : places[b].bucket.second;
                collect(loaded.front().block, i, side);
                add(lists_[side].part(), messages, true); // of the first group
                lists_[side].clear();
            }
        }
        if (columns_.loops) {
            for (std::size_t v = 0; v < size(j); ++v) {
                const auto row = static_cast<std::uint32_t>(v);
                if (const std::uint8_t k = group_of_[begin(j) + v]; k != none)
                    lists_[std::size_t{3} * k + 2].add(place_of_[begin(j) + v], std::span(&row, 1));
            }
            add(lists_[2].part(), messages, false);
            lists_[2].clear();
        }
        for (std::uint32_t k = 1; k < groups_.groups; ++k) deal(k, j, messages);
    }
    /// Adds the lists of a block to those of their targets' groups.
    void collect(const edge_block& block, partition_id i, std::size_t side) {
        for (std::size_t v = 0; v < block.nodes.size(); ++v) {
            const std::size_t target = begin(i) + block.nodes[v];
            lists_[std::size_t{3} * group_of_[target] + side].add(
                place_of_[target], block.neighbors.subspan(block.starts[v], block.starts[v + 1] - block.starts[v]));
        }
    }
    /// Adds messages to the sums of the current group.
    void add(const edge_part& part, matrix_view<const float> messages, bool counts) {
        if (part.targets.empty()) return;
        encode_.add(layer_, part, counts ? std::span<const std::uint32_t>(seen_) : std::span<const std::uint32_t>{},
            messages, sums_, executor_);
        if (!counts) return;
        for (std::size_t t = 0; t < part.targets.size(); ++t)
            seen_[part.targets[t]] += part.edges.offsets[t + 1] - part.edges.offsets[t];
        edges_ += part.edges.rows.size();
    }
    /// Writes what a later group needs of partition j: messages of some sources, and its lists, which point to them.
    void deal(std::uint32_t k, partition_id j, matrix_view<const float> messages) {
        const std::span<collected_lists> lists(lists_.data() + std::size_t{3} * k, 3);
        number_of_.assign(size(j), 0);
        for (const collected_lists& some : lists)
            for (const std::uint32_t row : some.neighbors) number_of_[row] = 1;
        selected_.clear();
        for (std::size_t v = 0; v < size(j); ++v)
            if (number_of_[v] != 0) {
                number_of_[v] = static_cast<std::uint32_t>(selected_.size());
                selected_.push_back(static_cast<std::uint32_t>(v));
            }
        dealt& to = dealt_[piece(k, j)];
        for_each_chunk(selected_.size(), [&](std::size_t first, std::size_t count) {
            const matrix_view<float> some(chunk_.at_least(count * columns_.messages), count, columns_.messages);
            for (std::size_t i = 0; i < count; ++i) std::ranges::copy(messages[selected_[first + i]], some[i].begin());
            to.messages.push_back(dealt_file_->append_rows(some, message_type(), executor_));
        });
        std::size_t words = 1;
        for (const collected_lists& some : lists)
            words += 2 + some.targets.size() + some.starts.size() + some.neighbors.size();
        words_.clear();
        words_.reserve(words);
        words_.push_back(static_cast<std::uint32_t>(selected_.size()));
        for (collected_lists& some : lists) {
            words_.push_back(static_cast<std::uint32_t>(some.targets.size()));
            words_.push_back(static_cast<std::uint32_t>(some.neighbors.size()));
            words_.insert(words_.end(), some.targets.begin(), some.targets.end());
            words_.insert(words_.end(), some.starts.begin(), some.starts.end());
            for (const std::uint32_t row : some.neighbors) words_.push_back(number_of_[row]);
            some = {}; // the lists of another partition may be longer in another group
        }
        to.lists = dealt_file_->append(std::as_bytes(std::span(words_)));
    }

    /// Computes a later group from what was dealt to it.
    void run_group(std::uint32_t k) {
        start_group(k);
        if (columns_.own != 0 && keeps_own()) dealt_file_->read_rows(dealt_own_[k], own_);
        begin_group();
        for (partition_id j = 0; j < rows_.partitions; ++j) {
            const dealt& from = dealt_[piece(k, j)];
            words_.resize(dealt_file_->size(from.lists) / sizeof(std::uint32_t));
            dealt_file_->read(from.lists, std::as_writable_bytes(std::span(words_)));
            std::span<const std::uint32_t> words = words_;
            const auto take = [&](std::size_t count) {
                const auto some = words.first(count);
                words = words.subspan(count);
                return some;
            };
            const matrix_view<float> messages = message_room(take(1)[0]);
            dealt_file_->read_rows(from.messages, messages, message_type());
            for (std::size_t side = 0; side < 3; ++side) {
                const std::uint32_t targets = take(1)[0], entries = take(1)[0];
                edge_part part;
                part.targets = take(targets);
                part.edges.offsets = take(targets + std::size_t{1});
                part.edges.rows = take(entries);
                add(part, messages, side < 2);
            }
            advance();
        }
        finish_group(k);
    }
    [[nodiscard]] feature_type message_type() const noexcept { // rows between layers keep theirs
        return layer_ != 0 && columns_.copies ? options_.hidden_rows : feature_type::f32;
    }
    [[nodiscard]] bool keeps_own() const noexcept { return plan_.layers[layer_].keeps_own; }
    void finish_group(std::uint32_t k) {
        if (!keeps_own()) finish_with_dealt(k);
        for (partition_id p = 0; p < rows_.partitions && keeps_own(); ++p) {
            const auto border =
                borders_.begin() + static_cast<std::ptrdiff_t>(k * (rows_.partitions + std::size_t{1}) + p);
            const auto from = static_cast<std::size_t>(border[0]);
            for_each_chunk(static_cast<std::size_t>(border[1]) - from, [&](std::size_t first, std::size_t count) {
                emit(k, p, first, finish(own_.middle_rows(from + first, count), from + first, count));
            });
        }
        if (k == 0) advance();
    }
    /// The same with own rows that were dealt, record by record.
    void finish_with_dealt(std::uint32_t k) {
        std::size_t place = 0, first = 0;
        for (std::size_t r = 0; r < dealt_own_[k].size(); ++r) {
            const std::size_t count = dealt_file_->size(dealt_own_[k][r]) / (columns_.own * sizeof(float));
            const matrix_view<float> own(own_chunk_.at_least(count * columns_.own), count, columns_.own);
            dealt_file_->read_rows(std::span(&dealt_own_[k][r], 1), own);
            if (r != 0 && dealt_own_of_[k][r] != dealt_own_of_[k][r - 1]) first = 0;
            emit(k, dealt_own_of_[k][r], first, finish(own, place, count));
            first += count;
            place += count;
        }
    }
    /// Returns results of the current group's targets from `place` on.
    [[nodiscard]] matrix_view<const float> finish(matrix_view<const float> own, std::size_t place, std::size_t count) {
        return encode_.finish(weights_, layer_, own, std::span<const std::uint32_t>(seen_).subspan(place, count),
            sums_.middle_rows(place, count), executor_);
    }

    /// Writes the result partition by partition.
    void assemble_result() {
        for (partition_id p = 0; p < rows_.partitions; ++p) {
            copy_rows<float>(in_->read(p, input_memory_), result_->room(p), executor_);
            result_->put(p);
        }
        io_ += in_->statistics();
    }

    encoder<float, Backend>& encode_;
    const dense_parameters<float>& weights_;
    const layerwise_input& input_;
    const bucket_store& graph_;
    row_partitioning rows_;
    const layerwise_options& options_;
    executor_ref executor_;
    std::stop_token stop_;
    const layerwise_progress& progress_;
    const list_degrees& degrees_;
    streamed_plan plan_;
    block_reader reader_;
    scratch_directory directory_;

    // The current layer.
    std::size_t layer_ = 0;
    part_columns columns_;
    bool direct_ = false; // results go to the result in order
    std::unique_ptr<grouped_rows> in_, out_;
    target_groups groups_{};
    std::vector<std::uint8_t> group_of_;  // [nodes]
    std::vector<std::uint32_t> place_of_; // [nodes] row of its group
    std::vector<std::uint64_t> borders_;  // [groups, partitions + 1] places
    std::unique_ptr<scratch_records> dealt_file_;
    std::vector<dealt> dealt_;                            // [groups, partitions]
    std::vector<std::vector<std::size_t>> dealt_own_;     // [groups] records
    std::vector<std::vector<partition_id>> dealt_own_of_; // [groups] their partitions
    layerwise_reader input_reader_;

    // The current group.
    aligned_buffer<float> sums_memory_, own_memory_, input_memory_, message_memory_;
    matrix_view<float> sums_, own_;
    std::vector<std::uint32_t> seen_;

    std::vector<collected_lists> lists_; // [groups, out, in and loops]
    collected_lists loops_;
    reusable_buffer<float> chunk_, own_chunk_, selected_own_, alone_sums_;
    std::vector<float> source_degrees_;
    std::vector<std::uint32_t> selected_, zeros_, number_of_, words_;
    std::unique_ptr<scratch_rows> result_;
    io_stats io_;
    std::uint64_t edges_ = 0, input_rows_ = 0, done_ = 0, all_ = 0;
};

} // namespace gneiss::detail
