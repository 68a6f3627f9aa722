// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/model/loss.hpp>

namespace gneiss {

/// A `link_model` whose types are chosen at run time: one virtual call per batch. Members, costs and errors as there.
class any_link_model {
public:
    /// `model` is built in place from the arguments of `link_model<Decoder, Loss, Backend>`.
    template <class Model, class... Arguments>
    explicit any_link_model(std::in_place_type_t<Model>, Arguments&&... arguments)
        : self_(std::make_unique<holder<Model>>(std::forward<Arguments>(arguments)...)) {}

    [[nodiscard]] std::size_t dim() const { return self_->dim(); }
    [[nodiscard]] std::size_t relation_floats() const { return self_->relation_floats(); }
    [[nodiscard]] std::size_t relation_rows(std::size_t relations) const { return self_->relation_rows(relations); }
    [[nodiscard]] const link_model_options& options() const { return self_->options(); }

    link_statistics forward_backward(const link_batch& batch, matrix_view<const float> rows,
        matrix_view<const float> relations, matrix_view<float> sparse_gradients, gneiss::sparse_gradients& relation_gradients,
        executor_ref executor) {
        return self_->forward_backward(batch, rows, relations, sparse_gradients, relation_gradients, executor);
    }
    void queries(side corrupt_side, matrix_view<const float> known, std::span<const relation_id> ids,
        matrix_view<const float> relations, matrix_view<float> out) const {
        self_->queries(corrupt_side, known, ids, relations, out);
    }
    void scores(matrix_view<const float> queries, matrix_view<const float> candidates, matrix_view<float> out) const {
        self_->scores(queries, candidates, out);
    }
    [[nodiscard]] float score(std::span<const float> query, std::span<const float> candidate) const {
        return self_->score(query, candidate);
    }

private:
    struct base {
        virtual ~base() = default;
        [[nodiscard]] virtual std::size_t dim() const = 0;
        [[nodiscard]] virtual std::size_t relation_floats() const = 0;
        [[nodiscard]] virtual std::size_t relation_rows(std::size_t) const = 0;
        [[nodiscard]] virtual const link_model_options& options() const = 0;
        virtual link_statistics forward_backward(const link_batch&, matrix_view<const float>, matrix_view<const float>,
            matrix_view<float>, gneiss::sparse_gradients&, const executor_ref&) = 0;
        virtual void queries(side, matrix_view<const float>, std::span<const relation_id>, matrix_view<const float>,
            matrix_view<float>) const = 0;
        virtual void scores(matrix_view<const float>, matrix_view<const float>, matrix_view<float>) const = 0;
        [[nodiscard]] virtual float score(std::span<const float>, std::span<const float>) const = 0;
    };

    template <class Model>
    struct holder final : base {
        template <class... Arguments>
        explicit holder(Arguments&&... arguments) : model(std::forward<Arguments>(arguments)...) {}

        std::size_t dim() const override { return model.dim(); }
        std::size_t relation_floats() const override { return model.relation_floats(); }
        std::size_t relation_rows(std::size_t relations) const override { return model.relation_rows(relations); }
        const link_model_options& options() const override { return model.options(); }
        link_statistics forward_backward(const link_batch& batch, matrix_view<const float> rows,
            matrix_view<const float> relations, matrix_view<float> sparse_gradients,
            gneiss::sparse_gradients& relation_gradients, const executor_ref& executor) override {
            return model.forward_backward(batch, rows, relations, sparse_gradients, relation_gradients, executor);
        }
        void queries(side corrupt_side, matrix_view<const float> known, std::span<const relation_id> ids,
            matrix_view<const float> relations, matrix_view<float> out) const override {
            model.queries(corrupt_side, known, ids, relations, out);
        }
        void scores(matrix_view<const float> queries_in, matrix_view<const float> candidates,
            matrix_view<float> out) const override {
            model.scores(queries_in, candidates, out);
        }
        float score(std::span<const float> query, std::span<const float> candidate) const override {
            return model.score(query, candidate);
        }

        Model model;
    };

    std::unique_ptr<base> self_;
};

inline constexpr std::array<std::string_view, 4> decoder_names = {"dot", "distmult", "complex", "transe"};

/// The model of a decoder and a loss by their names. `margin` is the margin loss's. Throws `invalid_argument` for an
/// unknown name, or a dimension that the decoder cannot use.
template <gemm_backend Backend = eigen_backend>
[[nodiscard]] any_link_model make_link_model(std::string_view decoder, std::string_view loss, std::size_t dim,
    const link_model_options& options = {}, float margin = 1, Backend multiply = {}) {
    const auto with = [&]<class Decoder>(Decoder decode) {
        return any_link_model(std::in_place_type<link_model<Decoder, any_loss, Backend>>, dim, options, decode,
            make_loss(loss, margin), multiply);
    };
    if (decoder == "dot") return with(dot_decoder{});
    if (decoder == "distmult") return with(distmult_decoder{});
    if (decoder == "complex") return with(complex_decoder{});
    if (decoder == "transe") return with(transe_decoder{});
    throw error(errc::invalid_argument, "no decoder \"" + std::string(decoder) + "\": dot, distmult, complex or transe");
}

} // namespace gneiss
