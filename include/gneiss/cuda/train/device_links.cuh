// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/arena.cuh>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/model/step/link_step.cuh>
#include <gneiss/cuda/sample/link_batch.cuh>
#include <gneiss/cuda/train/device_rows.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/cuda/train/run_room.cuh>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/detail/nonzero_rows.hpp>
#include <gneiss/train/device_setup.hpp>

namespace gneiss::cuda {

/// Returns the loss of that name. Throws `invalid_argument`.
[[nodiscard]] inline link_loss loss_named(std::string_view name) {
    if (name == "softmax") return link_loss::softmax;
    if (name == "marius") return link_loss::marius;
    if (name == "logistic") return link_loss::logistic;
    if (name == "margin") return link_loss::margin;
    throw error(errc::invalid_argument,
        "no loss \"" + std::string(name) + "\" on a device: softmax, marius, logistic or margin");
}

/// Sizes of the decoder's part of a batch: see `batch_room`.
struct link_room {
    std::array<std::uint32_t, 12> lists{}; ///< of the batch's arrays, in their order in a slot
    link_capacities counts{};              ///< their `sides` are those of the run
    std::uint32_t list_positives = 0;      ///< most positives of a chunk

    /// As of `batch_room`.
    template <class A, class B, class F>
    static void for_each(A& a, B& b, F&& f) {
        for (std::size_t i = 0; i < a.lists.size(); ++i) f(a.lists[i], b.lists[i]);
        for (const auto of : {&link_capacities::nodes, &link_capacities::positives, &link_capacities::relations,
                 &link_capacities::chunks, &link_capacities::negatives})
            f(a.counts.*of, b.counts.*of);
        f(a.list_positives, b.list_positives);
    }
    /// Has room for more distinct nodes and relations; numbers that options set stay.
    [[nodiscard]] link_room roomier() const {
        link_room result = *this;
        for (std::uint32_t& size : result.lists) size = with_spare(size);
        result.counts.nodes = with_spare(counts.nodes);
        result.counts.relations = with_spare(counts.relations);
        return result;
    }
    /// Returns capacities of a batch: chunks have room for the most positives.
    [[nodiscard]] link_capacities capacities() const {
        link_capacities result = counts;
        if (list_positives <= counts.list_positives()) return result;
        result.positives = positives_of(list_positives, counts.chunks);
        return result;
    }
    /// Returns the positives of chunks of as many each. Throws errc::out_of_range.
    [[nodiscard]] static std::uint32_t positives_of(std::uint32_t each, std::uint32_t chunks) {
        const std::uint64_t positives = std::uint64_t{each} * chunks;
        if (positives > std::numeric_limits<std::uint32_t>::max())
            throw error(errc::out_of_range,
                "a chunk of " + std::to_string(each) + " positives where others have " + std::to_string(chunks) +
                    " chunks: too many for one batch on a device");
        return static_cast<std::uint32_t>(positives);
    }
};
static_assert(batch_room<link_room>);

/// Trains a decoder on a device: batches of edges are put into transfer slots, a `link_step` computes them, relations
/// and their optimizer state are stored and updated here.
///
/// Scratch fits the largest batch so far. Thread-safety: one thread calls `sizes_of`, `bytes_of` and `put`, another
/// all other functions.
class device_links {
public:
    /// Throws `invalid_argument` for an invalid decoder, loss or dimension; `over_budget`, `device_error`.
    device_links(memory_budget& budget, const decoder_setup& with)
        : budget_(budget),
          relations_(with.relations),
          table_(budget, "relations", with.relations.data().size()),
          table_view_{table_.data(), with.relations.layout().dim, with.relations.layout().floats()},
          most_(least(with)) {
        const auto dim = static_cast<std::uint32_t>(with.dim);
        const link_step_options by{.loss = loss_named(with.loss),
            .margin = with.margin,
            .reduce = with.options.reduce,
            .penalty = with.options.penalty,
            .reciprocal = with.options.reciprocal,
            .relations =
                static_cast<std::uint32_t>(with.options.reciprocal ? with.relations.rows() / 2 : with.relations.rows()),
            .shared_memory = shared_memory_of_block()};
        if (with.decoder == "dot")
            make_ = maker<dot_decoder>(dim, by);
        else if (with.decoder == "distmult")
            make_ = maker<distmult_decoder>(dim, by);
        else if (with.decoder == "complex")
            make_ = maker<complex_decoder>(dim, by);
        else if (with.decoder == "transe")
            make_ = maker<transe_decoder>(dim, by);
        else
            throw error(errc::invalid_argument, "no decoder \"" + with.decoder + "\" on a device");
        link_capacities none{};
        none.sides = 1;
        device_arena counts;
        path_ = make_(counts, none)->path(); // or throws for invalid options
    }

    /// Returns the path of scores; `link_path::scores` is the slow one, for wide rows.
    [[nodiscard]] link_path path() const noexcept { return path_; }

    /// Copies values and state of relations from the host, in `in`. Throws `invalid_argument` for a custom optimizer.
    void begin(const any_row_optimizer& optimizer, stream& in) {
        optimizer_ = optimizer;
        check_steps_on_device(optimizer);
        copy_async(table_.span(), std::span<const float>(relations_.data()), in);
    }
    /// Copies them back, in `in`; wait for the stream before reading them.
    void end(stream& in) { copy_to_host_async(relations_.data(), std::span<const float>(table_.span()), in); }

    /// Returns the sizes of a batch.
    [[nodiscard]] static link_room sizes_of(const link_batch& b) noexcept {
        link_room result;
        std::size_t i = 0;
        for_each_list(b, [&](const auto& list) { result.lists[i++] = static_cast<std::uint32_t>(list.size()); });
        const link_counts of = link_counts::of(b);
        result.counts = {
            of.nodes, of.positives, of.relations, of.chunks, of.negatives, static_cast<std::uint32_t>(b.sides.size())};
        result.list_positives = result.counts.list_positives();
        return result;
    }
    /// Returns the bytes of a batch in a transfer slot.
    /// \param room  at least its sizes
    [[nodiscard]] static std::uint64_t bytes_of(const link_batch& b, const link_room& room) noexcept {
        std::uint64_t sum = transfer_slot::array_bytes(1, sizeof(link_counts));
        std::size_t i = 0;
        for_each_list(
            b, [&](const auto& list) { sum += transfer_slot::array_bytes(room.lists[i++], sizeof(*list.data())); });
        return sum;
    }
    /// Puts a batch's arrays into a slot after its begin().
    /// \param room  at least its sizes: batches with the same room have the same addresses and capacities
    [[nodiscard]] static link_batch_view put(const link_batch& b, transfer_slot& to, const link_room& room) {
        link_batch_view result;
        const link_counts counts = link_counts::of(b);
        result.counts = to.put(std::span(&counts, 1)).device;
        result.capacity = room.capacities();
        for (std::size_t s = 0; s < b.sides.size(); ++s) result.sides[s] = b.side_at(s);
        std::size_t i = 0;
        const auto next = [&](const auto& list) {
            const std::uint32_t most = room.lists[i++];
            auto* const at = to.put(list, most).device;
            return most == 0 ? nullptr : at;
        };
        result.node_offsets = next(b.node_offsets); // in the order of for_each_list
        result.node_occurrences = next(b.node_occurrences);
        result.heads = next(b.heads);
        result.tails = next(b.tails);
        result.relation_of = next(b.relation_of);
        result.relation_offsets = next(b.relation_offsets);
        result.relation_occurrences = next(b.relation_occurrences);
        result.negatives = next(b.negatives);
        result.mask_columns = next(b.mask_columns);
        result.relations = next(b.relations);
        const auto if_any = [&](const auto& list) {
            const auto* const at = next(list);
            return list.empty() ? nullptr : at; // which kernels ask for
        };
        result.mask_offsets = if_any(b.mask_offsets);
        result.corrections = if_any(b.corrections);
        return result;
    }

    /// Computes loss and gradients of a batch whose nodes have `rows` [nodes, dim], in `in`.
    /// \param gradients   [nodes, dim], written
    /// \param statistics  in device memory
    void differentiate(stream& in, link_batch_view batch, rows_view<const float> rows, rows_view<float> gradients,
        link_statistics* statistics) {
        fit(batch.capacity, in);
        batch.capacity = most_;
        step_->differentiate(in, batch, rows, table_view_,
            {.rows = gradients,
                .relations = {},
                .relation_ids = nullptr,
                .relation_count = nullptr,
                .statistics = statistics});
    }
    /// Updates the relations of the last batch, in `in`.
    /// \param at  the step's number and factor, in device memory
    void step(stream& in, const step_state* at) {
        if (step_) step_->update(in, step_->gradients(), optimizer_, at, table_view_);
    }

    /// Returns how often scratch was replaced.
    [[nodiscard]] std::uint64_t growths() const noexcept { return growths_; }

    /// Sets whether several batches share a step: `sums` then has their gradients of relations, on the host.
    void share(bool shared) {
        const std::size_t floats = shared ? std::size_t{table_view_.columns} * relations_.rows() : 0;
        sums_.assign(floats, 0);
        used_ = {};
        if (floats != 0)
            used_ = device_buffer<float>(budget_, "relations' gradients",
                relations_.rows() * (round_up<std::size_t>(table_view_.columns, 4) + 1) + 1);
    }
    /// Adds the last batch's gradients to the sums; waits for them.
    void add_to_sums(stream& in) {
        if (sums_.empty()) return;
        const relation_gradients from = step_->gradients();
        if (from.rows.columns == 0) return;
        std::uint32_t count = 0;
        copy_to_host_async(std::span(&count, 1), std::span<const std::uint32_t>(from.count, 1), in);
        in.synchronize();
        std::vector<std::uint32_t> ids(count);
        std::vector<float> rows(std::size_t{count} * from.rows.stride);
        copy_to_host_async(std::span(ids), std::span<const std::uint32_t>(from.ids, count), in);
        copy_to_host_async(std::span(rows), std::span<const float>(from.rows.data, rows.size()), in);
        in.synchronize();
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t c = 0; c < from.rows.columns; ++c)
                sums_[std::size_t{ids[i]} * from.rows.columns + c] += rows[i * from.rows.stride + c];
    }
    /// Returns the sums [relations, dim]; empty unless shared.
    [[nodiscard]] std::span<float> sums() noexcept { return sums_; }
    /// Updates the relations whose sum is not zero, then zeroes the sums; waits for it.
    void step_sums(stream& in, const step_state* at) {
        const std::size_t dim = table_view_.columns, stride = round_up<std::size_t>(dim, 4);
        sparse_gradients used;
        gneiss::detail::take_nonzero_rows(sums_, dim, used);
        const std::span<const std::uint32_t> ids = used.ids();
        if (ids.empty() || !step_) return;
        std::vector<float> rows(ids.size() * stride);
        for (std::size_t i = 0; i < ids.size(); ++i)
            std::ranges::copy(used.rows()[i], rows.begin() + static_cast<std::ptrdiff_t>(i * stride));
        const auto count = static_cast<std::uint32_t>(ids.size());
        const std::size_t most = relations_.rows();
        auto* const ids_at = reinterpret_cast<std::uint32_t*>(used_.data() + most * stride);
        copy_async(std::span(used_.data(), rows.size()), std::span<const float>(rows), in);
        copy_async(std::span(ids_at, ids.size()), ids, in);
        copy_async(std::span(ids_at + most, 1), std::span<const std::uint32_t>(&count, 1), in);
        step_->update(in,
            {{used_.data(), static_cast<std::uint32_t>(dim), stride}, ids_at, ids_at + most,
                static_cast<std::uint32_t>(most)},
            optimizer_, at, table_view_);
        in.synchronize();
    }

private:
    /// Returns capacities of every batch, as far as they are known.
    [[nodiscard]] static link_capacities least(const decoder_setup& with) {
        link_capacities result;
        if (with.batch == 0) return result;
        result.positives = static_cast<std::uint32_t>(with.batch);
        if (with.negatives.all) return result; // one chunk, of as many negatives as there are resident nodes
        result.chunks = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(with_chunks(with.negatives, with.batch).chunks, with.batch));
        result.negatives = with.negatives.per_chunk;
        return result;
    }
    /// Gradients of relations in device memory.
    struct relation_gradients {
        rows_view<float> rows{};        ///< row i for ids[i]
        std::uint32_t* ids = nullptr;   ///< distinct
        std::uint32_t* count = nullptr; ///< of ids
        std::uint32_t most = 0;         ///< room for ids
    };
    /// A `link_step` and the update of relations, for any decoder.
    struct stepper {
        stepper() = default;
        stepper(const stepper&) = delete;
        stepper& operator=(const stepper&) = delete;
        virtual ~stepper() = default;
        [[nodiscard]] virtual link_path path() const noexcept = 0;
        [[nodiscard]] virtual relation_gradients gradients() const noexcept = 0;
        virtual void differentiate(stream& in, const link_batch_view& batch, rows_view<const float> rows,
            rows_view<float> relations, link_step_results out) const = 0;
        /// Does nothing for a decoder without relations.
        static void update(stream& in, const relation_gradients& by, const any_row_optimizer& optimizer,
            const step_state* at, rows_view<float> relations) {
            if (by.rows.columns != 0) step_rows_by(in, optimizer, at, by.count, by.most, by.ids, by.rows, relations);
        }
    };
    template <class D>
    struct stepper_of final : stepper {
        stepper_of(device_arena& arena, const link_capacities& most, std::uint32_t dim, const link_step_options& by)
            : step(arena, most, dim, by),
              of{.rows = {nullptr, static_cast<std::uint32_t>(D::relation_floats(dim)),
                     round_up<std::size_t>(D::relation_floats(dim), 4)},
                  .most = (by.reciprocal ? most.sides : 1) * most.relations} {
            if (of.rows.columns == 0) return;
            of.rows.data = arena.take<float>(std::size_t{of.most} * of.rows.stride);
            of.ids = arena.take<std::uint32_t>(of.most);
            of.count = arena.take<std::uint32_t>(1);
        }
        [[nodiscard]] link_path path() const noexcept override { return step.path(); }
        [[nodiscard]] relation_gradients gradients() const noexcept override { return of; }
        void differentiate(stream& in, const link_batch_view& batch, rows_view<const float> nodes,
            rows_view<float> relations, link_step_results out) const override {
            out.relations = of.rows;
            out.relation_ids = of.ids;
            out.relation_count = of.count;
            step(in, batch, nodes, relations, out);
        }

        link_step<D> step;
        relation_gradients of; ///< of the last batch
    };
    using make_stepper = std::function<std::unique_ptr<stepper>(device_arena&, const link_capacities&)>;
    template <class D>
    [[nodiscard]] static make_stepper maker(std::uint32_t dim, const link_step_options& by) {
        return [dim, by](device_arena& arena, const link_capacities& most) {
            return std::make_unique<stepper_of<D>>(arena, most, dim, by);
        };
    }

    template <class Visit>
    static void for_each_list(const link_batch& b, Visit&& visit) {
        for (const auto* list : {&b.node_offsets, &b.node_occurrences, &b.heads, &b.tails, &b.relation_of,
                 &b.relation_offsets, &b.relation_occurrences, &b.negatives, &b.mask_columns})
            visit(*list);
        visit(b.relations);
        visit(b.mask_offsets);
        visit(b.corrections);
    }

    /// Ensures scratch for a batch of that size.
    void fit(const link_capacities& batch, stream& in) {
        const auto enough = [&](std::uint32_t link_capacities::* of) { return batch.*of <= most_.*of; };
        bool fits = step_ != nullptr && batch.sides == most_.sides && enough(&link_capacities::chunks) &&
            batch.list_positives() <= most_.list_positives();
        for (const auto of : {&link_capacities::nodes, &link_capacities::positives, &link_capacities::relations,
                 &link_capacities::negatives})
            fits = fits && enough(of);
        if (fits) return;
        in.synchronize(); // the old scratch may be in use
        const auto most = [&](std::uint32_t link_capacities::* of) {
            if (!enough(of)) most_.*of = static_cast<std::uint32_t>(grown(batch.*of));
        };
        for (const auto of : {&link_capacities::nodes, &link_capacities::relations}) most(of);
        most_.positives = std::max(most_.positives, batch.positives);
        most_.negatives = std::max(most_.negatives, batch.negatives);
        most_.chunks = std::max(most_.chunks, batch.chunks);
        if (batch.list_positives() > most_.list_positives()) // a batch of fewer chunks has more positives in each
            most_.positives = link_room::positives_of(batch.list_positives(), most_.chunks);
        most_.sides = batch.sides;
        step_.reset();
        scratch_ = {};
        device_arena counting;
        (void)make_(counting, most_);
        scratch_ = device_buffer<std::byte>(budget_, "decoder", counting.used());
        device_arena arena(scratch_.span());
        step_ = make_(arena, most_);
        ++growths_;
    }

    memory_budget& budget_;
    embedding_table& relations_;
    device_buffer<float> table_;
    rows_view<float> table_view_; ///< [relation rows, dim], each followed by its state
    link_capacities most_;
    any_row_optimizer optimizer_{sgd{}};
    make_stepper make_;
    link_path path_ = link_path::tiles;
    std::vector<float> sums_;   // gradients of relations since the last step, if batches share it
    device_buffer<float> used_; // those that are not zero: rows, ids, count
    device_buffer<std::byte> scratch_;
    std::uint64_t growths_ = 0;
    std::unique_ptr<stepper> step_; // last: it uses the scratch
};

} // namespace gneiss::cuda
