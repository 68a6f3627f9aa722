// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/cpu_encoder.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/targets.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/train/detail/nonzero_rows.hpp>
#include <gneiss/train/node_targets.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss {

/// The loss of a batch on the outputs of an encoder.
///
/// Meaning: `differentiate(batch, outputs, gradients, executor)` writes the gradient of each output [seeds, columns];
/// if `in_place`, `gradients` holds the outputs on entry. The backend passes gradients on as they are, so their scale
/// is the head's: those of `classification_head` and `target_head` are of the mean over the batch's labels or targets,
/// those of `link_head` of the sum over queries, or of their mean with `reduction::mean`. It adds to batch.statistics
/// the sum of losses (`loss`), the number of terms in it (`query_count`, the divisor of `mean_loss`) and of edges or
/// nodes that enter it (`examples`); `sampled_edges` and `input_nodes` are not the head's. `step` steps the head's own
/// parameters, if `has_parameters`, after each batch, or by shared gradients: after `share(true)`, `differentiate` adds
/// those of its parameters to `gradients()`, one contiguous part, by which `step` steps all, then zeroes them.
/// Cost: one call of each per batch, for which the compute stage waits.
/// Thread: the compute stage's, batch after batch. Errors: errc::not_finite for a loss that is not a number; any
/// exception ends the epoch and is rethrown by `run`.
///
/// From examples/22_own_task.cpp:
/// \snippet 22_own_task.cpp head
template <class H>
concept loss_head = requires(H& h, training_batch& batch, matrix_view<const float> outputs,
                        matrix_view<float> gradients, const any_row_optimizer& by, const executor_ref& executor) {
    { H::in_place } -> std::convertible_to<bool>;
    { H::has_parameters } -> std::convertible_to<bool>;
    h.differentiate(batch, outputs, gradients, executor);
    h.step(batch, by, executor);
} && (!H::has_parameters || requires(H& h) {
    h.share(true);
    { h.gradients() } -> std::same_as<std::span<float>>;
});

/// Softmax cross-entropy of batch.labels; outputs are class scores.
struct classification_head {
    std::vector<float> class_weights{}; ///< as in `softmax_cross_entropy`; empty: all 1

    /// Gradients replace outputs; no parameters of its own.
    static constexpr bool in_place = true, has_parameters = false;
    void differentiate(training_batch& b, matrix_view<const float> /*scores*/, matrix_view<float> gradients,
        executor_ref executor) const {
        b.statistics.add(softmax_cross_entropy(gradients, b.labels, executor, class_weights));
    }
    /// Does nothing: there are no parameters.
    void step(training_batch& /*batch*/, const any_row_optimizer& /*by*/, executor_ref /*executor*/) const noexcept {}
};
static_assert(loss_head<classification_head>);

/// Losses of rows of targets.
enum class target_loss : std::uint8_t {
    sigmoid, ///< several labels per node: `sigmoid_cross_entropy`; outputs are scores of the classes
    squared  ///< numbers: `squared_error`
};

/// Rows of targets and their loss: several labels per node, or numbers. The encoder's outputs are scores of the
/// classes, or the numbers.
struct target_task {
    node_targets targets;                    ///< of all nodes
    target_loss loss = target_loss::sigmoid; ///< loss of an output
    std::vector<float>
        positive_weights{}; ///< weights of the positives of each class, as in `sigmoid_cross_entropy`; empty: all 1
};

/// A loss of outputs against batch.targets.
struct target_head {
    target_loss loss = target_loss::sigmoid; ///< loss of an output
    std::vector<float> positive_weights{};   ///< as in `target_task`

    /// Gradients replace outputs; no parameters of its own.
    static constexpr bool in_place = true, has_parameters = false;
    void differentiate(training_batch& b, matrix_view<const float> /*outputs*/, matrix_view<float> gradients,
        executor_ref executor) const {
        if (b.targets.size() != gradients.rows() * gradients.columns())
            throw error(errc::invalid_argument, "every output needs a target, or NaN");
        const matrix_view<const float> targets(b.targets.data(), gradients.rows(), gradients.columns());
        b.statistics.add(loss == target_loss::sigmoid
                ? sigmoid_cross_entropy(gradients, targets, executor, positive_weights)
                : squared_error(gradients, targets, executor));
    }
    /// Does nothing: there are no parameters.
    void step(training_batch& /*batch*/, const any_row_optimizer& /*by*/, executor_ref /*executor*/) const noexcept {}
};
static_assert(loss_head<target_head>);

/// Options of `link_head`.
struct link_head_options {
    bool frozen = false; ///< leaves relations as they are
};

/// The loss of a link model: a decoder compares outputs of batch.links. Steps relations here unless batches carry their
/// own. Arguments outlive this.
class link_head {
public:
    /// Gradients are apart from outputs; relations are parameters.
    static constexpr bool in_place = false, has_parameters = true;

    /// Compares by `model` with `relations`.
    link_head(any_link_model& model, embedding_table& relations, const link_head_options& options = {})
        : model_(model),
          relations_(relations),
          options_(options) {}

    void differentiate(
        training_batch& b, matrix_view<const float> outputs, matrix_view<float> gradients, executor_ref executor) {
        const matrix_view<const float> relations =
            b.relations.rows() == 0 ? std::as_const(relations_).values() : b.relations;
        b.statistics.add(
            model_.forward_backward(*b.links, outputs, relations, gradients, b.relation_gradients, executor));
        if (!shared_ || !steps(b)) return;
        const matrix_view<const float> rows = b.relation_gradients.rows();
        for (std::size_t i = 0; i < rows.rows(); ++i) {
            float* const to = sums_.data() + b.relation_gradients.ids()[i] * rows.columns();
            for (std::size_t c = 0; c < rows.columns(); ++c) to[c] += rows[i][c];
        }
    }
    /// Sets whether `gradients` has those of relations, and whether `step` steps by them. Memory: a float for each
    /// value of a relation.
    void share(bool shared) {
        shared_ = shared;
        sums_.assign(shared && !options_.frozen ? relations_.rows() * relations_.layout().dim : 0, 0);
    }
    /// Returns the sums of relations' gradients [relations, dim]; empty unless shared.
    [[nodiscard]] std::span<float> gradients() noexcept { return sums_; }
    /// Steps the relations that the batch used or, if shared, those whose gradient is not zero.
    void step(training_batch& b, const any_row_optimizer& by, executor_ref executor) {
        if (shared_) return step_sums(b.step, by, executor);
        if (steps(b) && !b.relation_gradients.ids().empty())
            by.step_rows_at(
                relations_.table(), b.relation_gradients.ids(), b.relation_gradients.rows(), b.step, executor);
    }

private:
    /// False if the batch's owner steps relations, or they are frozen.
    [[nodiscard]] bool steps(const training_batch& b) const noexcept {
        return !options_.frozen && b.relations.rows() == 0;
    }
    void step_sums(std::uint64_t step, const any_row_optimizer& by, executor_ref executor) {
        detail::take_nonzero_rows(sums_, relations_.layout().dim, used_);
        if (!used_.ids().empty())
            by.step_rows_at(relations_.table(), used_.ids(), std::as_const(used_).rows(), step, executor);
    }

    any_link_model& model_;
    embedding_table& relations_;
    link_head_options options_;
    bool shared_ = false;
    std::vector<float> sums_; // of the gradients of all relations, if shared
    sparse_gradients used_;   // those that are not zero
};
static_assert(loss_head<link_head>);

/// Computes batches of learned rows on the CPU, without an encoder: `Head` compares the rows themselves (Marius).
template <class Head>
class cpu_embedding_backend : public host_backend {
    static_assert(
        loss_head<Head>, "cpu_embedding_backend: Head must be a gneiss::loss_head, see gneiss/train/cpu_backend.hpp");

public:
    /// Compares rows by `head`.
    cpu_embedding_backend(Head head, executor_ref executor) : head_(std::move(head)), executor_(executor) {}

    void prepare(std::size_t /*in_flight*/, bool shared) {
        if constexpr (Head::has_parameters) head_.share(shared);
    }
    void upload(const training_optimizers& by) { by_ = by; }
    void differentiate(training_batch& b) { head_.differentiate(b, b.in.dense, b.gradients, executor_); }
    [[nodiscard]] gradient_parts gradients() noexcept {
        if constexpr (!Head::has_parameters)
            return {};
        else
            part_[0] = head_.gradients();
        return part_;
    }
    void step(training_batch& b) { head_.step(b, by_.rows, executor_); }

private:
    Head head_;
    std::array<std::span<float>, 1> part_{};
    training_optimizers by_;
    executor_ref executor_;
};
static_assert(train_backend<cpu_embedding_backend<link_head>>);

/// Options of `cpu_encoder_backend`.
struct cpu_encoder_backend_options {
    memory_charge encoder{}; ///< holds the charge of the encoder's memory
    bool frozen = false;     ///< leaves the weights as they are
    /// called with each batch before its forward pass; returns the callbacks of that pass
    std::function<encoder_hook<float>(training_batch&)> hook{};
};

/// Computes batches of an encoder on the CPU: forward, the head's loss, backward, a step of the weights.
///
///     cpu_encoder encode(weights, parse_layers("sage:64,sage:16"), {.dense = 128});
///     weights.allocate(seed);
///     cpu_encoder_backend backend(encode, weights, classification_head{}, seed, executor);
///
/// Memory: the encoder's, charged by `options.encoder`. Arguments passed by reference outlive this.
template <class Head>
class cpu_encoder_backend : public host_backend {
    static_assert(
        loss_head<Head>, "cpu_encoder_backend: Head must be a gneiss::loss_head, see gneiss/train/cpu_backend.hpp");

public:
    /// Computes with `encode`; `seed` is that of dropout.
    cpu_encoder_backend(cpu_encoder& encode, dense_parameters<>& weights, Head head, std::uint64_t seed,
        executor_ref executor, cpu_encoder_backend_options options = {})
        : encode_(encode),
          weights_(weights),
          head_(std::move(head)),
          seed_(seed),
          executor_(executor),
          options_(std::move(options)) {}

    /// Throws errc::invalid_argument unless the weights and the optimizer's state are allocated.
    void upload(const training_optimizers& by) {
        encode_.check_weights(weights_);
        if (!options_.frozen) by.dense.check_state(weights_);
        by_ = by;
    }
    void prepare(std::size_t /*in_flight*/, bool shared) {
        if constexpr (Head::has_parameters) head_.share(shared);
    }

    /// Returns the memory of a batch [bytes], without its rows.
    [[nodiscard]] std::uint64_t memory_of(const training_batch& b) const {
        return encode_.memory_of(b.layers, b.nodes.size(), !b.coverage.empty());
    }
    /// Frees memory kept for the next batch.
    void release() { encode_.release(); }

    void differentiate(training_batch& b) {
        const matrix_view<float> outputs = encode_.forward(weights_, b.layers, b.in,
            {.training = dropout_key(seed_, b.key),
                .sources = {.ids = b.nodes},
                .hook = options_.hook ? options_.hook(b) : encoder_hook<float>{},
                .coverage = b.coverage},
            executor_);
        matrix_view<float> gradients = outputs; // in place, unless the backward pass of the last activation reads them
        const layer_surround& last = encode_.factories().back().around();
        if (!Head::in_place || (last.then != activation::none && !last.residual)) {
            gradients = encode_.output_gradients();
            if (Head::in_place)
                for (std::size_t i = 0; i < outputs.rows(); ++i) std::ranges::copy(outputs[i], gradients[i].begin());
        }
        head_.differentiate(b, outputs, gradients, executor_);
        encode_.backward(weights_, gradients, b.gradients, executor_);
    }
    [[nodiscard]] gradient_parts gradients() noexcept {
        parts_[0] = weights_.gradients();
        if constexpr (Head::has_parameters) parts_[1] = head_.gradients();
        return std::span(parts_).first(Head::has_parameters ? 2 : 1);
    }
    void step(training_batch& b) {
        head_.step(b, by_.rows, executor_);
        if (options_.frozen) return weights_.zero_gradients();
        by_.dense.step(weights_, b.step, 1, executor_);
    }

private:
    cpu_encoder& encode_;
    dense_parameters<>& weights_;
    Head head_;
    training_optimizers by_;
    std::uint64_t seed_;
    executor_ref executor_;
    cpu_encoder_backend_options options_;
    std::array<std::span<float>, 2> parts_{};
};
static_assert(train_backend<cpu_encoder_backend<classification_head>> && train_backend<cpu_encoder_backend<link_head>>);

} // namespace gneiss
