// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/any_layer_factory.hpp>
#include <gneiss/model/layer_options.hpp>

namespace gneiss {

/// Callbacks that inspect or replace rows between layers.
///
/// `rows(i, m)` is called with all source rows [sources, columns] of layer i ≥ 1 before it runs: first the rows that
/// layer i − 1 computed, then external ones (from a history, a cache, another machine), zero until the hook fills them.
/// `gradients(i, g)` gets the gradient of the computed ones in backward: set it to 0 for a replaced row.
template <class T>
struct encoder_hook {
    std::function<void(std::size_t layer, matrix_view<T> rows)> rows{};           ///< called before a layer runs
    std::function<void(std::size_t layer, matrix_view<T> gradients)> gradients{}; ///< called in backward
};

/// Parameters of one pass over a batch.
template <class T>
struct encoder_pass {
    /// random_key{seed, random_domain::dropout}.with(epoch).with(state).with(pass).with(batch); none: evaluation. Masks
    /// add the layer, a stage, the row's name and the column.
    std::optional<random_key> training{};
    logical_rows sources{}; ///< names of the first layer's source rows: ids of their nodes
    encoder_hook<T> hook{}; ///< callbacks between layers
    /// [sources of the first layer] chance of each row's neighbors to be resident; `sage_layer` imputes the others.
    /// Empty: all are.
    std::span<const float> coverage{};
};

/// Says what is missing: another backend than the encoder below takes.
template <class T, class Backend>
class encoder {
    static_assert(gnn_kernels<Backend, T>,
        "encoder: Backend must be a gneiss::gnn_kernels<Backend, T>, see gneiss/model/kernels.hpp");

public:
    /// Takes what an encoder takes.
    template <class Layers>
    encoder(
        dense_parameters<T>& /*weights*/, const Layers& /*layers*/, input_columns /*in*/, const Backend& /*by*/ = {}) {}
};

/// A stack of graph layers chosen at run time.
///
///     dense_parameters<> weights;
///     encoder<float, eigen_backend> encode(weights, parse_layers("sage:128,sage:128"), {.dense = 50});
///     weights.allocate(seed);
///     const auto rows = encode.forward(weights, layers, {inputs}, {}, executor);   // [targets, outputs]
///     encode.backward(weights, grad_rows, grad_inputs, executor);                  // adds to weights.gradients()
///
/// Custom layers mix with the library's, as in `any_layer_factory`:
///
///     encoder<float, eigen_backend> encode(weights,
///         {{gin{.width = 32}, {.then = activation::relu}}, parse_layers("sage:8")[0]}, {.dense = 50});
///
/// Layers are objects behind one virtual call per batch. Rows between layers are kept for backward; memory is reused
/// between batches. One batch at a time per object; several encoders of the same structure may share the weights.
/// Results do not depend on the executor.
///
/// From examples/19_own_layer.cpp:
/// \snippet 19_own_layer.cpp encoder
template <class T, gnn_kernels<T> Backend>
class encoder<T, Backend> {
public:
    /// Adds its arrays to `weights`. Throws `invalid_argument` without layers, without columns, or for options that do
    /// not fit.
    encoder(dense_parameters<T>& weights, std::vector<any_layer_factory<T, Backend>> layers, input_columns in,
        Backend by = {})
        : by_(by),
          in_(in),
          factories_(std::move(layers)),
          stages_(factories_.size()) {
        if (factories_.empty() || in.total() == 0)
            throw error(errc::invalid_argument, "an encoder needs layers, and columns of input");
        for (std::size_t i = 0; i < stages_.size(); ++i) {
            make(stages_[i], weights, "layer" + std::to_string(i), factories_[i], in);
            in = {.dense = stages_[i].outputs};
            hops_ += stages_[i].takes_hop;
        }
        arena_ = weights.size();
    }
    /// The same for the library's layers, as returned by `parse_layers`.
    template <std::same_as<layer_options> Options>
    encoder(dense_parameters<T>& weights, const std::vector<Options>& layers, input_columns in, Backend by = {})
        : encoder(weights, std::vector<any_layer_factory<T, Backend>>(layers.begin(), layers.end()), in, by) {}

    /// Returns the number of layers.
    [[nodiscard]] std::size_t layers() const noexcept { return stages_.size(); }
    /// Returns the number of layers that read neighbors.
    [[nodiscard]] std::size_t hops() const noexcept { return hops_; }
    /// Returns the factories of the layers.
    [[nodiscard]] const std::vector<any_layer_factory<T, Backend>>& factories() const noexcept { return factories_; }
    [[nodiscard]] std::size_t outputs() const noexcept { return stages_.back().outputs; }

    /// Throws errc::invalid_argument unless `weights` are allocated, with those of this encoder. O(1).
    void check_weights(const dense_parameters<T>& weights) const {
        if (!weights.allocated() || weights.size() < arena_)
            throw error(errc::invalid_argument,
                "the weights were not allocated: call allocate(seed) after all layers are made");
    }

    /// Returns the rows of the last layer's targets, valid until the next call. `views` has `size()` = hops() and
    /// `operator[]`, as `layer_stack`; the views must stay valid until `backward`. Throws `invalid_argument` for shapes
    /// that do not fit, and for weights that are not allocated.
    template <class Views>
    [[nodiscard]] matrix_view<T> forward(const dense_parameters<T>& weights, const Views& views,
        const input_rows<T>& input, const encoder_pass<T>& pass, executor_ref executor) {
        check_weights(weights);
        if (views.size() != hops_) {
            throw error(errc::invalid_argument,
                "a sample of " + std::to_string(views.size()) + " hops for " + std::to_string(hops_) +
                    " layers with neighbors");
        }
        make_room(views, input.rows(), !pass.coverage.empty());
        pass_ = pass;
        logical_rows names = pass.sources;
        std::span<const float> coverage = pass.coverage;
        input_rows<T> rows = input;
        matrix_view<T> out;
        for (std::size_t i = 0, hop = 0; i < stages_.size(); ++i) {
            stage& s = stages_[i];
            s.view = s.takes_hop ? views[hop++] : rows_alone(rows.rows());
            const std::size_t computed = rows.rows();
            if (i != 0) {
                const matrix_view<T> all = with_external(s, out);
                if (pass.hook.rows) pass.hook.rows(i, all);
                rows.dense = all;
            }
            check(s, rows, i == 0 ? in_ : input_columns{.dense = out.columns()}, computed);
            s.names = names;
            if (!coverage.empty()) coverage = coverage.subspan(s.view.first_target, s.view.targets);
            s.coverage = coverage;
            out = run(s, weights, i, rows, executor);
            names = target_names(s);
            rows = {.dense = out};
        }
        return out;
    }

    /// Computes the gradients of the batch of the last `forward`. `grad_out` [targets, outputs] is overwritten.
    /// `grad_in` [sources, dense columns] is overwritten; pass an empty one to skip that work if the input needs no
    /// gradient.
    void backward(
        dense_parameters<T>& weights, matrix_view<T> grad_out, matrix_view<T> grad_in, executor_ref executor) {
        check_weights(weights);
        if (grad_out.rows() != stages_.back().view.targets || grad_out.columns() != outputs())
            throw error(errc::invalid_argument, "gradients of the outputs must be [targets, outputs]");
        matrix_view<T> g = grad_out;
        for (std::size_t i = stages_.size(); i-- > 0;) {
            stage& s = stages_[i];
            matrix_view<T> to = grad_in;
            if (i != 0)
                to = {
                    gradients_[i % 2].at_least(s.view.sources * s.input.columns()), s.view.sources, s.input.columns()};
            run_backward(s, weights, i, g, to, executor);
            if (i == 0) break;
            g = to.middle_rows(0, stages_[i - 1].view.targets);
            if (pass_.hook.gradients) pass_.hook.gradients(i, g);
        }
    }

    /// Returns memory for the gradients of the last `forward`'s outputs [targets, outputs], valid until the next one.
    [[nodiscard]] matrix_view<T> output_gradients() {
        const std::size_t targets = stages_.back().view.targets;
        return {output_gradients_.at_least(targets * outputs()), targets, outputs()};
    }

    static constexpr std::uint64_t packed_products = std::uint64_t{1}
        << 20; ///< most memory of the tiles of matrix products [bytes]

    /// Returns an upper bound of the memory of a batch with `views` of a sample, and `rows` input rows [bytes]: with
    /// the gradients of the outputs, without weights and sparse entries. O(layers).
    /// \param corrected  the pass has a `coverage`
    template <class Views>
    [[nodiscard]] std::uint64_t memory_of(const Views& views, std::size_t rows, bool corrected = false) const {
        std::uint64_t sum = packed_products;
        for_each_memory(views, rows, corrected, [&](std::size_t, std::uint64_t bytes) { sum += bytes; });
        return sum;
    }
    /// Bounds the memory that batches leave for the next one [bytes]; 0: no bound. Each layer keeps what its largest
    /// batch needed; where that sum with the next batch exceeds the bound, `forward` frees it first. So a batch of
    /// `memory_of` at most `bytes` never has more.
    void bound_memory(std::uint64_t bytes) noexcept { memory_bound_ = bytes; }
    /// Returns an upper bound of the memory that the batches since the last release left [bytes]. O(layers).
    [[nodiscard]] std::uint64_t memory_kept() const noexcept {
        std::uint64_t sum = packed_products + kept_outputs_;
        for (const stage& s : stages_) sum += s.kept;
        return sum;
    }
    /// Frees memory kept for the next batch; between batches.
    void release() {
        for (stage& s : stages_) {
            s.layer->release();
            for (reusable_buffer<T>* memory : {&s.dropped, &s.dropped_values, &s.plain_memory, &s.activated_memory,
                     &s.output_memory, &s.kept_gradient, &s.with_external})
                *memory = {};
            s.kept = 0;
        }
        for (reusable_buffer<T>& memory : gradients_) memory = {};
        output_gradients_ = {};
        kept_outputs_ = 0;
    }

    // One layer in parts without dropout, as in `graph_layer`, with norm and residual: for inference over whole graphs.
    // Precondition: no batch waits for its `backward`.

    /// Returns the columns of the input.
    [[nodiscard]] input_columns inputs() const noexcept { return in_; }
    /// Returns the columns of a layer's pass in parts.
    [[nodiscard]] part_columns parts(std::size_t layer) const {
        const stage& s = stages_[layer];
        part_columns columns = s.layer->parts();
        if (s.around.residual) columns.own += s.outputs;
        return columns;
    }
    /// Writes messages and own data of nodes; see `graph_layer::prepare`.
    void prepare(const dense_parameters<T>& weights, std::size_t layer, const input_rows<T>& rows,
        std::span<const float> source_degrees, matrix_view<T> messages, matrix_view<T> own, executor_ref executor) {
        check_weights(weights);
        const stage& s = stages_[layer];
        const std::size_t columns = s.layer->parts().own;
        s.layer->prepare(weights, rows, source_degrees, messages,
            own.columns() == 0 ? own : own.middle_columns(0, columns), executor);
        if (!s.around.residual || own.columns() == 0) return;
        const matrix_view<T> rest = own.middle_columns(columns, s.outputs);
        if (s.residual)
            rows.multiply(by_, weights.value(*s.residual), rest, {}, executor);
        else
            detail::copy_rows<T>(rows.dense, rest, executor);
    }
    /// Starts the sums of targets; see `graph_layer::begin`.
    void begin(std::size_t layer, matrix_view<const T> own, matrix_view<T> sums, executor_ref executor) {
        stages_[layer].layer->begin(own.middle_columns(0, stages_[layer].layer->parts().own), sums, executor);
    }
    /// Adds edges to the sums; see `graph_layer::add`.
    void add(std::size_t layer, const edge_part& edges, std::span<const std::uint32_t> seen,
        matrix_view<const T> messages, matrix_view<T> sums, executor_ref executor) {
        stages_[layer].layer->add(edges, seen, messages, sums, executor);
    }
    /// Adds the edge of each target to itself, if the layer uses it: row i of the messages belongs to row i of the
    /// sums.
    void add_loops(std::size_t layer, matrix_view<const T> messages, matrix_view<T> sums, executor_ref executor) {
        if (!stages_[layer].layer->parts().loops) return;
        for (std::size_t i = counting_.size(); i <= messages.rows(); ++i)
            counting_.push_back(static_cast<std::uint32_t>(i));
        const std::span<const std::uint32_t> numbers = std::span(counting_).first(messages.rows() + 1),
                                             rows = numbers.first(messages.rows());
        add(layer, {{numbers, rows}, rows}, {}, messages, sums, executor);
    }
    /// Returns the new rows [n, outputs], valid until the next call.
    [[nodiscard]] matrix_view<T> finish(const dense_parameters<T>& weights, std::size_t layer, matrix_view<const T> own,
        std::span<const std::uint32_t> seen, matrix_view<T> sums, executor_ref executor) {
        stage& s = stages_[layer];
        const std::size_t columns = s.layer->parts().own;
        const matrix_view<T> out = surround(s, weights, seen.size(), executor, [&](activation then, matrix_view<T> to) {
            s.layer->finish(weights, own.middle_columns(0, columns), seen, sums, then, to, executor);
        });
        if (s.around.residual) by_.add_rows(own.middle_columns(columns, s.outputs), out, executor);
        return out;
    }

private:
    struct stage {
        layer_surround around;
        std::size_t outputs = 0;
        bool takes_hop = true;
        std::unique_ptr<graph_layer<T>> layer;
        std::optional<std::size_t> gain, shift, residual; // numbers of arrays
        layer_view view;
        logical_rows names;              // names of its sources
        std::span<const float> coverage; // of its targets
        input_rows<T> input;             // as passed to the layer
        reusable_buffer<T> dropped, dropped_values, plain_memory, activated_memory, output_memory, kept_gradient,
            with_external;
        matrix_view<T> plain{}, activated{}; // before the norm, before the residual
        std::uint64_t kept = 0;              // memory of the largest batch since the last release [bytes]
    };

    static constexpr T epsilon = T(1e-5); // layer norm: added to the variance

    /// Calls f(layer, bytes) with the memory of each layer for a batch, and f(layers(), bytes) with that of the
    /// gradients of the outputs.
    template <class Views, class F>
    void for_each_memory(const Views& views, std::size_t rows, bool corrected, F&& f) const {
        layer_sizes at{.in = in_, .sources = rows, .first = true, .corrected = corrected};
        for (std::size_t i = 0, hop = 0; i < stages_.size(); ++i) {
            const layer_view view = stages_[i].takes_hop && hop < views.size() ? views[hop++] : rows_alone(at.sources);
            at.sources = view.sources;
            at.targets = view.targets;
            at.edges = view.edges();
            f(i, factories_[i].memory(at));
            at = {.in = {.dense = stages_[i].outputs}, .sources = view.targets, .corrected = corrected};
        }
        f(stages_.size(), at.sources * outputs() * sizeof(T));
    }
    /// Counts the memory of a batch; frees that of earlier ones first where the sum would exceed the bound.
    template <class Views>
    void make_room(const Views& views, std::size_t rows, bool corrected) {
        const auto kept = [&](std::size_t i) -> std::uint64_t& {
            return i == stages_.size() ? kept_outputs_ : stages_[i].kept;
        };
        std::uint64_t sum = packed_products;
        for_each_memory(
            views, rows, corrected, [&](std::size_t i, std::uint64_t bytes) { sum += std::max(kept(i), bytes); });
        if (memory_bound_ != 0 && sum > memory_bound_) release();
        for_each_memory(
            views, rows, corrected, [&](std::size_t i, std::uint64_t bytes) { kept(i) = std::max(kept(i), bytes); });
    }

    void make(stage& s, dense_parameters<T>& weights, const std::string& name, const any_layer_factory<T, Backend>& of,
        input_columns in) {
        s.around = of.around();
        s.takes_hop = of.takes_hop();
        s.layer = of.make(weights, name, in, by_);
        const std::size_t width = s.outputs = s.layer->outputs();
        if (width != of.outputs())
            throw error(errc::invalid_argument,
                name + " makes rows of " + std::to_string(width) + " columns, and its factory says " +
                    std::to_string(of.outputs()));
        if (s.around.norm) {
            s.gain = weights.add_constant(name + ".gain", width, T{1});
            s.shift = weights.add_constant(name + ".shift", width);
        }
        if (s.around.residual && (in.sparse != 0 || in.dense != width))
            s.residual = weights.add(name + ".residual", in.total(), width, initializer::glorot(in.total(), width));
    }

    /// Returns a view in which every row is its own target.
    [[nodiscard]] static layer_view rows_alone(std::size_t rows) noexcept {
        layer_view view;
        view.targets = view.sources = rows;
        return view;
    }

    /// Returns the last layer's rows followed by room for external ones.
    [[nodiscard]] static matrix_view<T> with_external(stage& s, matrix_view<T> computed) {
        if (s.view.sources <= computed.rows()) return computed;
        const matrix_view<T> all(
            s.with_external.at_least(s.view.sources * computed.columns()), s.view.sources, computed.columns());
        std::copy_n(computed.data(), computed.rows() * computed.columns(), all.data());
        std::fill_n(
            all.data() + computed.rows() * computed.columns(), (all.rows() - computed.rows()) * all.columns(), T{0});
        return all;
    }

    static void check(const stage& s, const input_rows<T>& rows, input_columns expected, std::size_t computed) {
        const layer_view& v = s.view;
        if (rows.rows() != v.sources || rows.dense.columns() != expected.dense ||
            rows.sparse.columns != expected.sparse || (expected.dense != 0 && rows.dense.rows() != v.sources))
            throw error(errc::invalid_argument,
                "rows of " + std::to_string(rows.rows()) + " by " + std::to_string(rows.columns()) +
                    " for a layer of " + std::to_string(v.sources) + " sources and " +
                    std::to_string(expected.total()) + " columns");
        if (v.first_target + v.targets > computed)
            throw error(errc::invalid_argument, "a layer's targets must be among the rows computed before");
    }

    [[nodiscard]] bool drops(const stage& s) const noexcept { return pass_.training && s.around.dropout > 0; }
    [[nodiscard]] dropout_mask mask(const stage& s, std::size_t i, std::uint64_t part) const {
        return {pass_.training->with(i).with(part), s.around.dropout, s.names};
    }
    [[nodiscard]] layer_input<T> input_of(const stage& s, std::size_t i, executor_ref executor) const {
        layer_input<T> in{s.view, s.input, executor};
        in.coverage = s.coverage;
        if (!pass_.training) return in;
        in.training = pass_.training->with(i).with(2);
        in.targets = target_names(s);
        return in;
    }
    /// Returns the names of a stage's targets, which are among its sources. External rows come after all named ones.
    [[nodiscard]] static logical_rows target_names(const stage& s) noexcept {
        return s.names.middle(s.view.first_target, s.view.targets);
    }

    void drop(stage& s, std::size_t i, executor_ref executor) {
        input_rows<T>& in = s.input;
        if (in.dense.columns() != 0) {
            const matrix_view<T> to(
                s.dropped.at_least(in.dense.rows() * in.dense.columns()), in.dense.rows(), in.dense.columns());
            by_.dropout(mask(s, i, 0), in.dense, to, executor);
            in.dense = to;
        }
        if (in.has_sparse()) {
            const std::span<T> to(s.dropped_values.at_least(in.sparse.indices.size()), in.sparse.indices.size());
            by_.sparse_dropout(mask(s, i, 1), in.sparse, to, executor);
            in.sparse.values = to;
        }
    }

    matrix_view<T> run(
        stage& s, const dense_parameters<T>& weights, std::size_t i, const input_rows<T>& rows, executor_ref executor) {
        s.input = rows;
        if (drops(s)) drop(s, i, executor);
        const layer_input<T> in = input_of(s, i, executor);
        const matrix_view<T> out = surround(s, weights, s.view.targets, executor,
            [&](activation then, matrix_view<T> to) { s.layer->forward(weights, in, then, to); });
        if (s.residual)
            in.own_rows().multiply(by_, weights.value(*s.residual), out, {.accumulate = true}, executor);
        else if (s.around.residual)
            by_.add_rows(in.own_rows().dense, out, executor);
        return out;
    }

    /// Returns the rows of `core(activation, out)` with norm and activation; a residual is yet to be added.
    template <class Core>
    matrix_view<T> surround(
        stage& s, const dense_parameters<T>& weights, std::size_t targets, executor_ref executor, Core&& core) {
        const std::size_t width = s.outputs, size = targets * width;
        const bool residual = s.around.residual;
        const matrix_view<T> out(s.output_memory.at_least(size), targets, width);
        s.activated = residual ? matrix_view<T>(s.activated_memory.at_least(size), targets, width) : out;
        if (s.around.norm) {
            s.plain = {s.plain_memory.at_least(size), targets, width};
            core(activation::none, s.plain);
            by_.layer_norm(s.plain, weights.list(*s.gain), weights.list(*s.shift), epsilon, s.activated, executor);
            by_.bias_activate({}, s.around.then, s.activated, executor);
        } else {
            core(s.around.then, s.activated);
        }
        if (residual) std::copy_n(s.activated.data(), size, out.data());
        return out;
    }

    void run_backward(stage& s, dense_parameters<T>& weights, std::size_t i, matrix_view<T> g, matrix_view<T> grad_in,
        executor_ref executor) {
        const layer_input<T> in = input_of(s, i, executor);
        matrix_view<T> kept;
        if (s.around.residual) {
            if (s.residual) in.own_rows().add_weight_gradient(by_, g, weights.gradient(*s.residual), executor);
            if (!grad_in.empty()) {
                kept = {s.kept_gradient.at_least(g.rows() * g.columns()), g.rows(), g.columns()};
                for (std::size_t r = 0; r < g.rows(); ++r) std::copy_n(g[r].data(), g.columns(), kept[r].data());
            }
        }
        by_.activate_backward(s.around.then, s.activated, g, executor);
        if (s.around.norm)
            by_.layer_norm_backward(s.plain, weights.list(*s.gain), epsilon, g, weights.gradient_list(*s.gain),
                weights.gradient_list(*s.shift), executor);
        s.layer->backward(weights, in, g, grad_in);
        if (grad_in.empty()) return;
        const matrix_view<T> own = grad_in.middle_rows(s.view.first_target, s.view.targets);
        if (s.residual)
            by_.multiply_nt(kept, weights.value(*s.residual).middle_rows(0, grad_in.columns()), own, true, executor);
        else if (s.around.residual)
            by_.add_rows(kept, own, executor);
        if (drops(s)) by_.dropout(mask(s, i, 0), grad_in, grad_in, executor);
    }

    Backend by_;
    input_columns in_;
    std::size_t hops_ = 0;
    std::size_t arena_ = 0; // elements of the weights, up to its own
    std::vector<any_layer_factory<T, Backend>> factories_;
    std::vector<stage> stages_;
    encoder_pass<T> pass_;
    reusable_buffer<T> gradients_[2], output_gradients_;
    std::uint64_t memory_bound_ = 0;      // of what batches leave [bytes]; 0: none
    std::uint64_t kept_outputs_ = 0;      // as `stage::kept`, of output_gradients_
    std::vector<std::uint32_t> counting_; // 0, 1, 2, …
};

/// Returns the layers of an encoder for a device, which supports only the library's. Throws `invalid_argument` for
/// another layer.
template <class T, gnn_kernels<T> Backend>
[[nodiscard]] std::vector<layer_options> library_layers(const encoder<T, Backend>& encode) {
    std::vector<layer_options> result;
    for (const auto& factory : encode.factories()) {
        const layer_options* const options = factory.options();
        if (options == nullptr)
            throw error(errc::invalid_argument,
                "a device runs the library's layers: layer " + std::to_string(result.size()) +
                    " is your own and trains on the CPU");
        result.push_back(*options);
    }
    return result;
}

} // namespace gneiss
