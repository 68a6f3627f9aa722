// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/arena.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/model/layer/any_layer.cuh>
#include <gneiss/cuda/model/step/dense_parameters.cuh>
#include <gneiss/cuda/model/step/encoder.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/cuda/train/run_room.cuh>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss::cuda {

/// Sizes of the network's part of a batch: see `batch_room`.
struct network_room {
    std::uint32_t rows = 0;             ///< input rows
    std::uint32_t entries = 0;          ///< entries of a sparse input
    std::vector<layer_capacity> hops{}; ///< layers of the sample

    /// As of `batch_room`.
    template <class A, class B, class F>
    static void for_each(A& a, B& b, F&& f) {
        f(a.rows, b.rows);
        f(a.entries, b.entries);
        for (std::size_t i = 0; i < a.hops.size(); ++i)
            for (const auto of : {&layer_capacity::targets, &layer_capacity::sources, &layer_capacity::edges})
                f(a.hops[i].*of, b.hops[i].*of);
    }
    [[nodiscard]] network_room roomier() const {
        network_room result = *this;
        for_each(result, *this, [](std::uint32_t& to, std::uint32_t from) { to = with_spare(from); });
        return result;
    }
    /// Returns the number of targets of the last layer.
    [[nodiscard]] std::uint32_t outputs() const noexcept { return hops.back().targets; }
    /// Returns the sizes of the hops of a batch, that of the seeds first, beside those of room for it.
    [[nodiscard]] std::vector<hop_sizes> hops_in(const network_room& room) const {
        std::vector<hop_sizes> result;
        if (!hops.empty()) result.push_back({.nodes = outputs(), .node_capacity = room.outputs()});
        for (std::size_t i = hops.size(); i-- > 0;)
            result.push_back({hops[i].sources, hops[i].edges, room.hops[i].sources, room.hops[i].edges});
        return result;
    }
};
static_assert(batch_room<network_room>);

/// A GNN whose weights are trained on a device; batches come from the host through transfer slots.
///
/// Results are a function of the batch, for any capacities of it; scratch fits the largest batch so far.
/// Thread-safety: one thread calls `sizes_of`, `bytes_of` and `put`, another all other functions.
class device_network {
public:
    /// Arguments of kernels for a batch in a transfer slot.
    struct arguments {
        std::vector<layer_view> views{}; ///< layers of the sample
        encoder_input<float> input{};    ///< input rows
        rows_view<float> dense{};        ///< [nodes, dense columns] from the host
        const random_key* key = nullptr; ///< key of dropout; null: none
        const node_id* names = nullptr;  ///< ids of the input rows, for dropout and learned rows
        const std::uint32_t* places =
            nullptr;                    ///< of the input rows in a table of features: the ids, unless it has others
        const step_state* at = nullptr; ///< [2] number of the step and factor of the rate, of weights and of rows

        friend bool operator==(const arguments&, const arguments&) = default;

        /// Number of input rows.
        [[nodiscard]] const std::uint32_t* inputs() const noexcept { return &views.front().counts->sources; }
        /// Returns the maximum number of input rows.
        [[nodiscard]] std::uint32_t input_count() const noexcept { return views.front().source_capacity; }
        /// Number of targets of the last layer: the seeds.
        [[nodiscard]] const std::uint32_t* outputs() const noexcept { return &views.back().counts->targets; }
        /// Returns the maximum number of targets.
        [[nodiscard]] std::uint32_t output_count() const noexcept { return views.back().target_capacity; }
    };
    /// Numbers of a step and factors of rates, of weights and of rows.
    using step_states = std::array<step_state, 2>;
    /// A batch in a transfer slot.
    struct batch : arguments {
        layer_stack words{}; ///< entries of a sparse input by row and by column
    };

    /// Throws `invalid_argument` for weights of other layers, `over_budget`, `device_error`.
    /// \param lists_by_source  batches bring them; else they are made on the device
    device_network(memory_budget& budget, const network_setup& with, bool lists_by_source = true)
        : budget_(budget),
          setup_(with),
          parameters_memory_(budget, "weights", parameter_bytes()),
          arena_(parameters_memory_.span()),
          parameters_(arena_, with.weights, states()),
          lists_by_source_(lists_by_source),
          lists_of_inputs_(needs_lists_of_inputs(with, false)) {}

    /// True if batches whose input gets a gradient, or not, need lists by source in the layer of their first hop, where
    /// most edges are.
    [[nodiscard]] static bool needs_lists_of_inputs(const network_setup& of, bool gradient) {
        const std::vector<any_layer<float>> layers = layers_of(of);
        encoder_capacity least{.rows = 1, .hops = {}};
        for (const any_layer<float>& layer : layers)
            if (layer.takes_hop()) least.hops.push_back({1, 1, 1});
        device_arena counting;
        return encoder<float>(counting, of.weights, layers, of.in, least).needs_lists_of_inputs(gradient);
    }

    /// Returns the number of dense input columns.
    [[nodiscard]] std::size_t columns() const noexcept { return setup_.in.dense; }
    /// Returns the floats from one row of the dense input, or of its gradient, to the next: rows start at multiples of
    /// 16 bytes.
    [[nodiscard]] std::size_t stride() const noexcept { return round_up<std::size_t>(columns(), 4); }

    /// Copies weights and their state from the host, in `in`. Throws `invalid_argument` for an optimizer without a
    /// device implementation.
    void begin(const dense_optimizer& optimizer, stream& in) {
        check_steps_on_device(optimizer);
        optimizer_ = optimizer;
        parameters_.upload(setup_.weights, in);
    }
    /// Copies them back, in `in`; wait for the stream before reading them.
    void end(stream& in) { parameters_.download(setup_.weights, in); }

    /// Returns the sizes of a batch.
    /// \param drawn  views of layers sampled on the device; none: the batch has layers
    [[nodiscard]] network_room sizes_of(const training_batch& b, std::span<const layer_view> drawn) const {
        network_room result{.rows = size_of(b.nodes), .hops = {}};
        if (setup_.in.sparse != 0) result.entries = size_of(b.in.sparse.indices);
        for (const layer_view& v : drawn)
            result.hops.push_back({v.target_capacity, v.source_capacity, v.edge_capacity});
        if (drawn.empty())
            for (const gneiss::layer_view& v : b.layers)
                result.hops.push_back({static_cast<std::uint32_t>(v.targets), static_cast<std::uint32_t>(v.sources),
                    static_cast<std::uint32_t>(v.edges())});
        return result;
    }
    /// Returns the bytes of a batch in a transfer slot.
    /// \param room      of the batch
    /// \param gradient  whether its input gets one
    /// \param drawn     whether its layers were sampled on the device
    [[nodiscard]] std::uint64_t bytes_of(const network_room& room, bool gradient, bool drawn) const {
        const auto list = [](std::size_t size, std::size_t bytes = sizeof(std::uint32_t)) {
            return transfer_slot::array_bytes(size, bytes);
        };
        std::uint64_t sum = list(1, sizeof(random_key)) + transfer_slot::array_bytes(1, sizeof(step_states)) +
            list(room.rows, sizeof(node_id));
        const auto lists = [&](std::size_t targets, std::size_t sources, std::size_t edges, bool by_source) {
            return list(1, sizeof(layer_counts)) + list(targets + 1) + list(edges) +
                (by_source ? list(sources + 1) + 2 * list(edges) : 0);
        };
        bool by_source = gradient || lists_of_inputs_;
        if (!drawn)
            for (const layer_capacity& hop : room.hops) {
                sum += lists(hop.targets, hop.sources, hop.edges, by_source && lists_by_source_);
                by_source = true;
            }
        if (setup_.in.sparse != 0)
            sum += lists(room.rows, setup_.in.sparse, room.entries, true) + list(room.entries, sizeof(float));
        return sum;
    }
    /// Puts a batch into a slot after its begin().
    /// \param room  at least its sizes: batches with the same room have the same addresses and capacities
    /// \param gradient  whether its input gets one
    /// \param at     of the batch's step
    /// \param rows   [nodes, dense columns] on the device; without data if they are gathered there
    /// \param drawn  views of layers sampled on the device, and their nodes' ids there; none: the batch has layers
    void put(const training_batch& b, transfer_slot& to, batch& result, const network_room& room, bool gradient,
        const step_states& at, rows_view<float> rows, std::span<const layer_view> drawn, const node_id* names) const {
        const random_key key = dropout_key(setup_.seed, b.key);
        result.key = to.put(std::span(&key, 1)).device;
        result.at = to.put(std::span<const step_state>(at)).device;
        result.names = drawn.empty() ? to.put(b.nodes, room.rows).device : names;
        result.views.assign(drawn.begin(), drawn.end());
        for (std::size_t i = 0; i < drawn.size(); ++i) {
            result.views[i].target_capacity = room.hops[i].targets;
            result.views[i].source_capacity = room.hops[i].sources;
            result.views[i].edge_capacity = room.hops[i].edges;
        }
        if (drawn.empty())
            for (const gneiss::layer_view& v : b.layers) {
                const layer_capacity& most = room.hops[result.views.size()];
                result.views.push_back(
                    put(v, to, most, lists_by_source_ && (!result.views.empty() || gradient || lists_of_inputs_)));
            }
        result.input = {};
        result.dense = rows;
        result.input.dense = rows;
        if (setup_.in.sparse == 0) return;
        result.words.assign(entries(b.in.sparse), serial_executor{});
        const auto columns = static_cast<std::uint32_t>(setup_.in.sparse);
        result.input.sparse = {
            .columns = columns, .entries = put(result.words[0], to, {room.rows, columns, room.entries}, true)};
        if (!b.in.sparse.values.empty()) result.input.sparse.values = to.put(b.in.sparse.values, room.entries).device;
    }

    /// Rows of the seeds [seeds, outputs], valid until the next batch, and room for their gradients, the argument of
    /// `backward`.
    struct outputs {
        rows_view<float> rows, gradients; ///< rows and their gradients
    };
    /// Computes the outputs of a batch.
    /// \param between  gets rows between layers, here and in `backward`; null: none does
    [[nodiscard]] outputs forward(stream& in, const arguments& b, row_exchange<float>* between = nullptr) {
        fit(b, in);
        outputs result{.rows = encode_->forward(in, parameters_.weights(), b.views, b.input, {b.key, b.names}, between),
            .gradients = {}};
        result.gradients = {gradients_, result.rows.columns, result.rows.stride};
        return result;
    }
    /// \param to  [nodes, dense columns], written; without data if its rows are not learned
    void backward(stream& in, rows_view<float> gradients, rows_view<float> to) {
        encode_->backward(in, parameters_.weights(), gradients, to);
    }
    /// Returns how often scratch was replaced.
    [[nodiscard]] std::uint64_t growths() const noexcept { return growths_; }
    /// Returns the gradients of weights, sums since the last step, in device memory.
    [[nodiscard]] std::span<float> gradients() const noexcept { return parameters_.gradients(); }
    /// Updates the weights, unless the norm of their gradients, which is written to `norm`, is not finite.
    void step(stream& in, const step_state* at, gradient_norm* norm) { parameters_.step(in, optimizer_, at, norm); }

private:
    [[nodiscard]] static std::vector<any_layer<float>> layers_of(const network_setup& of) {
        return of.own ? of.own->layers : std::vector<any_layer<float>>(of.layers.begin(), of.layers.end());
    }
    [[nodiscard]] std::size_t states() const noexcept {
        return setup_.weights.size() == 0 ? 0 : setup_.weights.state().size() / setup_.weights.size();
    }
    [[nodiscard]] std::uint64_t parameter_bytes() const {
        device_arena counting;
        (void)device_parameters(counting, setup_.weights, states());
        return counting.used();
    }

    [[nodiscard]] static std::uint32_t size_of(const auto& list) noexcept {
        return static_cast<std::uint32_t>(list.size());
    }
    [[nodiscard]] static layer_view put(
        const gneiss::layer_view& v, transfer_slot& to, const layer_capacity& most, bool by_source) {
        const layer_counts counts{static_cast<std::uint32_t>(v.targets), static_cast<std::uint32_t>(v.sources),
            static_cast<std::uint32_t>(v.edges()), static_cast<std::uint32_t>(v.first_target)};
        layer_view result{.counts = to.put(std::span(&counts, 1)).device,
            .target_capacity = most.targets,
            .source_capacity = most.sources,
            .edge_capacity = most.edges};
        result.offsets = to.put(v.offsets, most.targets + std::size_t{1}).device;
        result.neighbors = to.put(v.neighbors, most.edges).device;
        if (!by_source) return result;
        result.by_source_offsets = to.put(v.by_source_offsets, most.sources + std::size_t{1}).device;
        result.by_source_edges = to.put(v.by_source_edges, most.edges).device;
        result.edge_target = to.put(v.edge_target, most.edges).device;
        return result;
    }

    /// A sparse matrix as a sample of one layer, whose edges lead from rows to columns.
    struct entries {
        explicit entries(const gneiss::sparse_rows<float>& of) : matrix(of) {}

        [[nodiscard]] static std::size_t layers() noexcept { return 1; }
        [[nodiscard]] gneiss::layer_view layer(
            std::size_t, std::vector<std::uint32_t>& offsets, std::vector<std::uint32_t>&) const {
            offsets.resize(matrix.offsets.size());
            std::ranges::transform(matrix.offsets, offsets.begin(),
                [&](std::uint64_t at) { return static_cast<std::uint32_t>(at - matrix.offsets.front()); });
            return {
                .targets = matrix.rows(), .sources = matrix.columns, .offsets = offsets, .neighbors = matrix.indices};
        }

        const gneiss::sparse_rows<float>& matrix;
    };

    /// Ensures an encoder for batches of that size.
    void fit(const arguments& b, stream& in) {
        encoder_capacity wanted{.rows = b.views.front().source_capacity, .hops = {}};
        for (const layer_view& v : b.views)
            wanted.hops.push_back({v.target_capacity, v.source_capacity, v.edge_capacity});
        bool fits = encode_.has_value() && wanted.rows <= most_.rows;
        const auto each = [&](auto visit) {
            for (std::size_t i = 0; i < wanted.hops.size(); ++i)
                for (const auto of : {&layer_capacity::targets, &layer_capacity::sources, &layer_capacity::edges})
                    visit(wanted.hops[i].*of, most_.hops[i].*of);
        };
        if (fits) each([&](std::uint32_t need, std::uint32_t have) { fits = fits && need <= have; });
        if (fits) return;
        in.synchronize(); // the old scratch may be in use
        most_.hops.resize(wanted.hops.size());
        const auto more = [](std::uint32_t need, std::uint32_t& have) {
            if (need > have) have = static_cast<std::uint32_t>(std::min<std::uint64_t>(grown(need), 0xffffffffU));
        };
        more(wanted.rows, most_.rows);
        each(more);
        for (std::size_t i = 0; i < most_.hops.size(); ++i) // a layer reads the output of the previous one
            most_.hops[i].sources = std::min(most_.hops[i].sources, i == 0 ? most_.rows : most_.hops[i - 1].targets);
        encode_.reset();
        memory_ = {};
        device_arena counting;
        make(counting);
        encode_.reset();
        memory_ = device_buffer<std::byte>(budget_, "network", counting.used());
        device_arena arena(memory_.span());
        make(arena);
        ++growths_;
    }
    void make(device_arena& arena) {
        encode_.emplace(arena, setup_.weights, layers_of(setup_), setup_.in, most_);
        gradients_ =
            arena.take<float>(std::size_t{most_.hops.back().targets} * round_up<std::size_t>(encode_->outputs(), 4));
    }

    memory_budget& budget_;
    network_setup setup_;
    device_buffer<std::byte> parameters_memory_;
    device_arena arena_;
    device_parameters parameters_;
    bool lists_by_source_; ///< batches bring them
    bool lists_of_inputs_; ///< without a gradient of the input, too
    dense_optimizer optimizer_{sgd{}};
    encoder_capacity most_{};
    device_buffer<std::byte> memory_;
    std::optional<encoder<float>> encode_; // last: it uses the memory
    float* gradients_ = nullptr;
    std::uint64_t growths_ = 0;
};

} // namespace gneiss::cuda
