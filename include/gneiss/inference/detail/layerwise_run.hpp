// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/inference/detail/layerwise_hidden_rows.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/inference/layerwise_plan.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/detail/state_prefetcher.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss::detail {

/// Layer-wise inference by groups of target partitions, see `infer_layerwise`.
template <class Backend>
class layerwise_run {
public:
    layerwise_run(encoder<float, Backend>& encode, const dense_parameters<float>& weights, const layerwise_input& input,
        const bucket_store& graph, const layerwise_options& options, executor_ref executor, const std::stop_token& stop,
        const layerwise_progress& progress, layerwise_plan plan)
        : encode_(encode),
          weights_(weights),
          input_(input),
          graph_(graph),
          options_(options),
          executor_(executor),
          stop_(stop),
          progress_(progress),
          plan_(std::move(plan)),
          partitions_(graph.rows().partitions),
          stores_(encode.layers() + 1),
          reader_(graph, options.engines) {}

    layerwise_result run() {
        bool degrees = false;
        all_ = plan_.rereads[0] ? 0 : partitions_;
        for (std::size_t l = 0; l < encode_.layers(); ++l) {
            const part_columns columns = encode_.parts(l);
            degrees |= columns.source_degrees;
            all_ += partitions_ + (columns.messages == 0 ? 0 : groups(l) * partitions_);
        }
        if (plan_.in_memory)
            keep_edges();
        else
            loader_.emplace([this](const buffer_state& s) { return std::make_unique<arrival>(load(s)); });
        if (degrees) count_source_degrees();
        if (plan_.rereads[0])
            for (layerwise_reader& read : readers_) read = input_.open();
        else
            prepare_input();
        for (layer_ = 0; layer_ < encode_.layers(); ++layer_) run_layer();
        layerwise_result result;
        result.rows = std::move(stores_.back().own);
        result.plan = std::move(plan_);
        result.io =
            io_ + reader_.statistics() + result.rows->statistics() + (degrees_ ? degrees_->statistics() : io_stats{});
        result.edges = edges_;
        result.input_rows = input_rows_;
        return result;
    }

private:
    /// Input of a layer: messages, which are streamed, and rows that only the node itself needs; or its input rows, of
    /// which both are computed on arrival. After the last layer, the result.
    struct store {
        std::unique_ptr<scratch_rows> messages, own;
        std::unique_ptr<hidden_rows> rows; // only out of core
    };
    /// Source partition with its edges to the targets of a group, or a target's input rows for its own part.
    struct arrival {
        bool needed = false; // by a target of the group
        aligned_buffer<float> memory;
        matrix_view<const float> messages;
        input_rows<float> rows; // of which messages are to be computed
        std::vector<loaded_block> loaded;
        std::vector<std::pair<partition_id, edge_block>> edges; // with their target partition
    };

    [[nodiscard]] std::uint64_t groups(std::size_t layer) const noexcept {
        return ceil_div(partitions_, plan_.layer_targets[layer]);
    }
    [[nodiscard]] std::uint32_t targets() const noexcept { return plan_.layer_targets[layer_]; }
    [[nodiscard]] std::size_t size(partition_id p) const noexcept {
        return static_cast<std::size_t>(graph_.rows().size(p));
    }

    void throw_if_stopped() const {
        if (stop_.stop_requested()) throw error(errc::canceled, "stopped during inference");
    }
    void advance() {
        throw_if_stopped();
        if (progress_) progress_(++done_, all_);
    }

    [[nodiscard]] std::unique_ptr<scratch_rows> make_rows(std::size_t columns) const {
        if (columns == 0) return nullptr;
        return plan_.in_memory
            ? std::make_unique<scratch_rows>(graph_.rows(), columns)
            : std::make_unique<scratch_rows>(graph_.rows(), columns, options_.engines, options_.scratch);
    }
    void make_store(std::size_t layer) {
        if (layer == encode_.layers()) {
            stores_[layer].own = make_rows(encode_.outputs());
            return;
        }
        const part_columns columns = encode_.parts(layer);
        if (plan_.rereads[layer]) {
            if (layer != 0)
                stores_[layer].rows = std::make_unique<hidden_rows>(graph_.rows(),
                    encode_.factories()[layer - 1].outputs(), options_.hidden_rows, options_.engines, options_.scratch);
        } else {
            stores_[layer] = {make_rows(columns.messages), make_rows(columns.own), nullptr};
        }
    }
    void drop_store(std::size_t layer) {
        const auto drop = [this](auto& rows) {
            if (rows) io_ += rows->statistics();
            rows.reset();
        };
        drop(stores_[layer].messages);
        drop(stores_[layer].own);
        drop(stores_[layer].rows);
    }

    void keep_edges() {
        std::vector<block_place> places;
        for (partition_id i = 0; i < partitions_; ++i) {
            throw_if_stopped();
            places.clear();
            for (partition_id j = 0; j < partitions_; ++j) add_places(i, j, options_.direction, places);
            std::vector<loaded_block> loaded = reader_.read(places);
            for (std::size_t k = 0; k < places.size(); ++k) kept_.emplace(places[k], std::move(loaded[k]));
        }
    }
    void add_places(partition_id i, partition_id j, neighbor_direction d, std::vector<block_place>& to) const {
        for_each_side(d, [&](edge_direction side) {
            const block_place at = block_of(i, j, side, d);
            if (graph_.extent(at.bucket).edges != 0) to.push_back(at);
        });
    }

    void count_source_degrees() {
        degrees_ = make_rows(1);
        const neighbor_direction others = opposite(options_.direction);
        std::vector<block_place> places;
        std::vector<std::uint32_t> counts; // exact: a float would round beyond 2^24
        for (partition_id j = 0; j < partitions_; ++j) {
            throw_if_stopped();
            const matrix_view<float> degrees = degrees_->room(j);
            counts.assign(degrees.rows(), 0);
            for (partition_id i = 0; i < partitions_; ++i) {
                places.clear();
                add_places(j, i, others, places);
                for (const loaded_block& one : reader_.read(places))
                    for (std::size_t v = 0; v < one.block.nodes.size(); ++v)
                        counts[one.block.nodes[v]] += one.block.starts[v + 1] - one.block.starts[v];
            }
            for (std::size_t v = 0; v < counts.size(); ++v) degrees(v, 0) = static_cast<float>(counts[v]);
            degrees_->put(j);
        }
    }

    template <class Body>
    void for_each_chunk(partition_id p, Body&& body) const {
        for (std::size_t at = 0; at < size(p); at += layerwise_rows) body(at, std::min(layerwise_rows, size(p) - at));
    }

    /// Computes messages and own rows of a layer from rows of partition p, `first` … of them; either may have no
    /// columns.
    void prepare(std::size_t layer, partition_id p, std::size_t first, const input_rows<float>& rows,
        matrix_view<float> messages, matrix_view<float> own) {
        std::span<const float> degrees;
        if (encode_.parts(layer).source_degrees && messages.columns() != 0) {
            if (first == 0) degrees_now_ = degrees_->read(p, degree_buffer_);
            degrees = {degrees_now_.data() + first, messages.rows()};
        }
        encode_.prepare(weights_, layer, rows, degrees, messages, own, executor_);
    }

    /// Passes rows of partition p to a layer in chunks; `rows(first, count)` creates them.
    template <class Rows>
    void give(std::size_t layer, partition_id p, Rows&& rows) {
        store& to = stores_[layer];
        matrix_view<float> messages(nullptr, size(p), 0), own(nullptr, size(p), 0);
        if (to.messages) messages = to.messages->room(p);
        if (to.own) own = to.own->room(p);
        for_each_chunk(p, [&](std::size_t first, std::size_t count) {
            const input_rows<float> some = rows(first, count);
            if (to.rows) return to.rows->fill(p, first, some.dense, executor_);
            if (layer == encode_.layers())
                return copy_rows<float>(some.dense, own.middle_rows(first, count), executor_);
            prepare(layer, p, first, layer == 0 ? some : rounded(some), messages.middle_rows(first, count),
                own.middle_rows(first, count));
        });
        if (to.messages) to.messages->put(p);
        if (to.own) to.own->put(p);
        if (to.rows) to.rows->put(p);
        advance();
    }

    /// Returns rows between layers with the values of their type, as if they had been stored.
    [[nodiscard]] input_rows<float> rounded(const input_rows<float>& rows) {
        if (options_.hidden_rows == feature_type::f32) return rows;
        const std::size_t columns = rows.dense.columns();
        const matrix_view<float> to(rounded_.at_least(rows.rows() * columns), rows.rows(), columns);
        round_hidden_rows(rows.dense, options_.hidden_rows, to, executor_);
        return {.dense = to};
    }

    /// Reads rows of the input and checks their shape.
    [[nodiscard]] input_rows<float> read_input(const layerwise_reader& read, partition_id p) {
        const input_rows<float> rows = read(p, stop_);
        check_shape(rows, input_.columns, size(p));
        input_rows_ += size(p);
        return rows;
    }
    /// Reads input rows of the current layer again, on the loading thread: two readers of the first layer's take turns.
    [[nodiscard]] input_rows<float> read_again(partition_id p, aligned_buffer<float>& to) {
        if (layer_ == 0) return read_input(readers_[loads_++ % 2], p);
        return {.dense = stores_[layer_].rows->read(p, to)};
    }
    /// True if own rows are computed from input rows that are loaded again.
    [[nodiscard]] bool own_again(const part_columns& columns) const noexcept {
        return plan_.rereads[layer_] && columns.own != 0 && !plan_.keeps_own[layer_];
    }

    void prepare_input() {
        make_store(0);
        const layerwise_reader read = input_.open();
        for (partition_id p = 0; p < partitions_; ++p) {
            const input_rows<float> rows = read_input(read, p);
            give(0, p, [&](std::size_t first, std::size_t count) { return rows.middle_rows(first, count); });
        }
    }

    void run_layer() {
        const part_columns columns = encode_.parts(layer_);
        make_store(layer_ + 1);
        allocate_sums(columns);
        const std::uint64_t own = own_again(columns) ? 1U + columns.begins : 0;
        if (loader_ && columns.messages != 0)
            loader_->begin(
                (groups(layer_) + own) * partitions_, [this](std::uint64_t number) { return load_of(number); }, 0);
        next_load_ = 0;
        for (partition_id first = 0; first < partitions_; first += targets()) {
            const partition_id end = std::min(first + targets(), partitions_);
            for (partition_id i = first; i < end; ++i) begin(columns, i, i - first);
            own_arrival_.reset(); // only consecutive loads are in memory at once
            for (partition_id j = 0; j < partitions_ && columns.messages != 0; ++j) {
                if (loader_)
                    add(columns, first, end, j, *loader_->acquire(next_load_++, stop_));
                else
                    add(columns, first, end, j, load(load_of(next_load_++)));
                advance();
            }
            for (partition_id i = first; i < end; ++i) finish(columns, i, i - first);
            own_arrival_.reset();
        }
        drop_store(layer_);
        message_buffer_ = {};
        own_buffer_ = {};
    }

    void allocate_sums(const part_columns& columns) {
        const auto rows = static_cast<std::size_t>(graph_.rows().capacity());
        sums_.clear();
        seen_.clear();
        kept_own_.clear();
        for (std::uint32_t i = 0; i < targets(); ++i) {
            sums_.push_back(row_memory<float>(rows * columns.sums));
            seen_.emplace_back(rows);
            if (plan_.keeps_own[layer_]) kept_own_.emplace_back(rows * columns.own);
        }
    }

    /// Returns what is loaded at a place in the order of loads. Of each group: its own rows if they are loaded again
    /// and needed before messages, the sources with their edges, and own rows for the end. Own rows lead to no bucket.
    [[nodiscard]] buffer_state load_of(std::uint64_t number) const {
        const part_columns columns = encode_.parts(layer_);
        const std::uint64_t again = own_again(columns) ? 1 : 0, before = columns.begins ? again : 0;
        const std::uint64_t of_group = partitions_ + (again + before) * targets();
        const auto first = static_cast<partition_id>(number / of_group * targets());
        const partition_id end = std::min(first + targets(), partitions_);
        const auto own_before = static_cast<partition_id>(before * (end - first));
        const auto at = static_cast<partition_id>(number % of_group);
        if (at < own_before) return {{first + at}, {}};
        const partition_id j = at - own_before;
        if (j >= partitions_) return {{first + j - partitions_}, {}};
        buffer_state s{{j}, {}};
        for (partition_id i = first; i < end; ++i) s.edge_buckets.push_back({i, j});
        return s;
    }

    /// Loads a source, on the loading thread if there is one; nothing if the targets do not need it. `s.resident` is
    /// the source; the buckets lead from targets to it. Without buckets: its own rows.
    [[nodiscard]] arrival load(const buffer_state& s) {
        arrival result;
        if (s.edge_buckets.empty()) {
            result.rows = read_again(s.resident[0], result.memory);
            return result;
        }
        const bool themselves = encode_.parts(layer_).loops || plan_.keeps_own[layer_];
        result.needed = needs_source(graph_, options_.direction, s.edge_buckets.front().first,
            s.edge_buckets.back().first + 1, s.resident[0], themselves);
        if (!result.needed) return result;
        if (plan_.rereads[layer_])
            result.rows = read_again(s.resident[0], result.memory);
        else
            result.messages = stores_[layer_].messages->read(s.resident[0], result.memory);
        std::vector<block_place> places;
        for (const auto& [i, j] : s.edge_buckets) {
            add_places(i, j, options_.direction, places);
            result.edges.resize(places.size(), {i, {}});
        }
        if (!plan_.in_memory) result.loaded = reader_.read(places);
        for (std::size_t k = 0; k < places.size(); ++k)
            result.edges[k].second = plan_.in_memory ? kept_.at(places[k]).block : result.loaded[k].block;
        return result;
    }

    [[nodiscard]] matrix_view<float> sums(const part_columns& columns, partition_id i, std::size_t place) {
        return {sums_[place].data(), size(i), columns.sums};
    }

    void begin(const part_columns& columns, partition_id i, std::size_t place) {
        const matrix_view<float> to = sums(columns, i, place);
        parallel_for(executor_, size(i), 1024, [&](std::size_t v, std::size_t end) {
            std::fill(to.data() + v * columns.sums, to.data() + end * columns.sums, 0.0F);
            std::fill(seen_[place].begin() + static_cast<std::ptrdiff_t>(v),
                seen_[place].begin() + static_cast<std::ptrdiff_t>(end), 0U);
        });
        if (!columns.begins) return;
        const auto own = own_rows(columns, i, place);
        for_each_chunk(i, [&](std::size_t at, std::size_t count) {
            encode_.begin(layer_, own(at, count), to.middle_rows(at, count), executor_);
        });
    }

    /// Returns a function of (first, count) for own rows of a partition, valid until its next call.
    [[nodiscard]] auto own_rows(const part_columns& columns, partition_id p, std::size_t place) {
        matrix_view<const float> own(nullptr, size(p), 0);
        input_rows<float> rows;
        const bool again = own_again(columns);
        if (plan_.keeps_own[layer_])
            own = {kept_own_[place].data(), size(p), columns.own};
        else if (again)
            rows = (own_arrival_ = loader_->acquire(next_load_++, stop_))->rows;
        else if (stores_[layer_].own)
            own = stores_[layer_].own->read(p, own_buffer_);
        return [=, this](std::size_t first, std::size_t count) -> matrix_view<const float> {
            if (!again) return own.middle_rows(first, count);
            const matrix_view<float> some(own_chunk_.at_least(count * columns.own), count, columns.own);
            prepare(layer_, p, first, rows.middle_rows(first, count), {nullptr, count, 0}, some);
            return some;
        };
    }

    void add(
        const part_columns& columns, partition_id first, partition_id end, partition_id j, const arrival& arrived) {
        if (!arrived.needed) return;
        if (plan_.keeps_own[layer_] && first <= j && j < end) {
            const matrix_view<float> own(kept_own_[j - first].data(), size(j), columns.own);
            for_each_chunk(j, [&](std::size_t at, std::size_t count) {
                const input_rows<float> some = arrived.rows.middle_rows(at, count);
                prepare(layer_, j, at, some, {nullptr, count, 0}, own.middle_rows(at, count));
            });
        }
        matrix_view<const float> messages = arrived.messages;
        if (plan_.rereads[layer_] && columns.copies) {
            messages = arrived.rows.dense;
        } else if (plan_.rereads[layer_]) {
            const std::size_t most = scratch_rows::buffer_floats(graph_.rows(), columns.messages);
            if (message_buffer_.size() < most) message_buffer_ = row_memory<float>(most);
            const matrix_view<float> to(message_buffer_.data(), size(j), columns.messages);
            for_each_chunk(j, [&](std::size_t at, std::size_t count) {
                const input_rows<float> some = arrived.rows.middle_rows(at, count);
                prepare(layer_, j, at, some, to.middle_rows(at, count), {nullptr, count, 0});
            });
            messages = to;
        }
        for (const auto& [i, block] : arrived.edges) {
            std::vector<std::uint32_t>& seen = seen_[i - first];
            const edge_part part{{block.starts, block.neighbors}, block.nodes};
            encode_.add(layer_, part, seen, messages, sums(columns, i, i - first), executor_);
            for (std::size_t v = 0; v < block.nodes.size(); ++v)
                seen[block.nodes[v]] += block.starts[v + 1] - block.starts[v];
            edges_ += block.edges();
        }
        if (columns.loops && first <= j && j < end) {
            const matrix_view<float> to = sums(columns, j, j - first);
            for_each_chunk(j, [&](std::size_t at, std::size_t count) {
                encode_.add_loops(layer_, messages.middle_rows(at, count), to.middle_rows(at, count), executor_);
            });
        }
    }

    void finish(const part_columns& columns, partition_id i, std::size_t place) {
        const matrix_view<float> from = sums(columns, i, place);
        const auto rows = own_rows(columns, i, place);
        give(layer_ + 1, i, [&](std::size_t first, std::size_t count) {
            return input_rows<float>{encode_.finish(weights_, layer_, rows(first, count),
                std::span<const std::uint32_t>(seen_[place]).subspan(first, count), from.middle_rows(first, count),
                executor_)};
        });
    }

    encoder<float, Backend>& encode_;
    const dense_parameters<float>& weights_;
    const layerwise_input& input_;
    const bucket_store& graph_;
    const layerwise_options& options_;
    executor_ref executor_;
    std::stop_token stop_;
    const layerwise_progress& progress_;
    layerwise_plan plan_;
    std::uint32_t partitions_;

    std::size_t layer_ = 0;
    std::vector<store> stores_; // per layer, then the result
    std::unique_ptr<scratch_rows> degrees_;
    std::vector<aligned_buffer<float>> sums_, kept_own_; // per partition of a group
    std::vector<std::vector<std::uint32_t>> seen_;
    aligned_buffer<float> own_buffer_, degree_buffer_, message_buffer_;
    reusable_buffer<float> own_chunk_, rounded_;
    matrix_view<const float> degrees_now_{};
    layerwise_reader readers_[2]; // of an input that is read again
    std::size_t loads_ = 0;
    std::uint64_t next_load_ = 0; // of the layer
    std::map<block_place, loaded_block> kept_;
    block_reader reader_;
    io_stats io_;
    std::uint64_t edges_ = 0, done_ = 0, all_ = 0;
    std::atomic<std::uint64_t> input_rows_ = 0;

    std::optional<state_prefetcher<arrival>> loader_; // its thread uses the rest
    std::shared_ptr<const arrival> own_arrival_;      // after the loader, which outlives what it loaded
};

} // namespace gneiss::detail
