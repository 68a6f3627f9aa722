// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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

/// Model of link prediction, as `link_model`: members, costs and errors as there.
template <class M>
concept link_batch_model = requires(M& m, const M& c, std::size_t n, const link_batch& batch,
    matrix_view<const float> rows, matrix_view<float> out, gneiss::sparse_gradients& gradients,
    const executor_ref& executor, side corrupt_side, std::span<const relation_id> ids, std::span<const float> row) {
    { c.dim() } -> std::convertible_to<std::size_t>;
    { c.relation_floats() } -> std::convertible_to<std::size_t>;
    { c.relation_rows(n) } -> std::convertible_to<std::size_t>;
    { c.options() } -> std::same_as<const link_model_options&>;
    { m.forward_backward(batch, rows, rows, out, gradients, executor) } -> std::same_as<link_statistics>;
    c.queries(corrupt_side, rows, ids, rows, out);
    c.scores(rows, rows, out);
    { c.score(row, row) } -> std::convertible_to<float>;
    { c.scorer(rows) } -> std::same_as<link_scorer>;
};

/// A `link_model` whose types are chosen at run time, at one virtual call per batch. Members, costs and errors as
/// there.
class any_link_model {
public:
    /// Constructs `link_model<Decoder, Loss, Backend>` in place from its arguments; see `make_link_model`.
    template <link_batch_model Model, class... Arguments>
    explicit any_link_model(std::in_place_type_t<Model>, Arguments&&... arguments)
        : self_(std::make_unique<holder<Model>>(std::forward<Arguments>(arguments)...)) {}
    /// Says what is missing: any other type.
    template <class Model, class... Arguments>
        requires(!link_batch_model<Model>)
    explicit any_link_model(std::in_place_type_t<Model>, Arguments&&... /*arguments*/) {
        static_assert(link_batch_model<Model>,
            "any_link_model: the object must be a gneiss::link_batch_model, see gneiss/model/any_link_model.hpp");
    }

    [[nodiscard]] std::size_t dim() const { return self_->dim(); }
    /// Returns the floats of a relation's row.
    [[nodiscard]] std::size_t relation_floats() const { return self_->relation_floats(); }
    /// Returns the rows of the relation table.
    [[nodiscard]] std::size_t relation_rows(std::size_t relations) const { return self_->relation_rows(relations); }
    /// Returns the options of the model.
    [[nodiscard]] const link_model_options& options() const { return self_->options(); }

    /// Computes the loss of a batch and its gradients; see `link_model::forward_backward`.
    link_statistics forward_backward(const link_batch& batch, matrix_view<const float> rows,
        matrix_view<const float> relations, matrix_view<float> sparse_gradients,
        gneiss::sparse_gradients& relation_gradients, executor_ref executor) {
        return self_->forward_backward(batch, rows, relations, sparse_gradients, relation_gradients, executor);
    }
    /// Computes queries of (known end, relation) pairs.
    void queries(side corrupt_side, matrix_view<const float> known, std::span<const relation_id> ids,
        matrix_view<const float> relations, matrix_view<float> out) const {
        self_->queries(corrupt_side, known, ids, relations, out);
    }
    /// Computes similarities of queries and candidates.
    void scores(matrix_view<const float> queries, matrix_view<const float> candidates, matrix_view<float> out) const {
        self_->scores(queries, candidates, out);
    }
    /// Returns the similarity of one query and one candidate.
    [[nodiscard]] float score(std::span<const float> query, std::span<const float> candidate) const {
        return self_->score(query, candidate);
    }

    /// Returns the model of evaluation with these relations.
    [[nodiscard]] link_scorer scorer(matrix_view<const float> relations = {}) const { return self_->scorer(relations); }

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
        [[nodiscard]] virtual link_scorer scorer(matrix_view<const float>) const = 0;
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
        link_scorer scorer(matrix_view<const float> relations) const override { return model.scorer(relations); }

        Model model;
    };

    std::unique_ptr<base> self_;
};

/// Names of the library's decoders.
inline constexpr std::array<std::string_view, 4> decoder_names = {"dot", "distmult", "complex", "transe"};

namespace detail {

/// Calls make(decoder) with the library's decoder of that name.
template <class Make>
auto with_decoder(std::string_view name, Make&& make) {
    if (name == "dot") return make(dot_decoder{});
    if (name == "distmult") return make(distmult_decoder{});
    if (name == "complex") return make(complex_decoder{});
    if (name == "transe") return make(transe_decoder{});
    throw error(errc::invalid_argument, "no decoder \"" + std::string(name) + "\": dot, distmult, complex or transe");
}

} // namespace detail

/// Returns the model of a decoder and a loss, by name. `margin` is for the margin loss. Throws `invalid_argument` for
/// an unknown name, or a dimension that the decoder does not accept.
template <gemm_backend Backend = eigen_backend>
[[nodiscard]] any_link_model make_link_model(std::string_view decoder, std::string_view loss, std::size_t dim,
    const link_model_options& options = {}, float margin = 1, Backend multiply = {}) {
    return detail::with_decoder(decoder, [&]<class Decoder>(Decoder decode) {
        return any_link_model(std::in_place_type<link_model<Decoder, any_loss, Backend>>, dim, options, decode,
            make_loss(loss, margin), multiply);
    });
}

/// Returns the model of a custom decoder, a custom loss or both: each an object, or a name.
///
///     any_link_model model = make_link_model(my_decoder{}, "softmax", dim, {.reciprocal = true});
///     any_link_model other = make_link_model("complex", my_loss{}, dim);
///
/// \param decode  a `decoder`, or one of `decoder_names`
/// \param loss    a `ranking_loss`, or one of `loss_names`; for another margin than 1 pass margin_loss{.margin = …}
/// Throws `invalid_argument` for an unknown name, or a dimension that the decoder does not accept.
template <class Decoder, class Loss, gemm_backend Backend = eigen_backend>
    requires(!std::convertible_to<Decoder, std::string_view> || !std::convertible_to<Loss, std::string_view>)
[[nodiscard]] any_link_model make_link_model(const Decoder& decode, const Loss& loss, std::size_t dim,
    const link_model_options& options = {}, Backend multiply = {}) {
    const auto with = [&](const auto& own, const auto& by) {
        using own_type = std::remove_cvref_t<decltype(own)>;
        using loss_type = std::remove_cvref_t<decltype(by)>;
        static_assert(decoder<own_type>,
            "make_link_model: the decoder must be a gneiss::decoder or a name, see gneiss/model/concepts.hpp");
        static_assert(ranking_loss<loss_type>,
            "make_link_model: the loss must be a gneiss::ranking_loss or a name, see gneiss/model/concepts.hpp");
        if constexpr (decoder<own_type> && ranking_loss<loss_type>)
            return any_link_model(
                std::in_place_type<link_model<own_type, loss_type, Backend>>, dim, options, own, by, multiply);
    };
    if constexpr (std::convertible_to<Loss, std::string_view>) {
        return with(decode, make_loss(loss));
    } else if constexpr (std::convertible_to<Decoder, std::string_view>) {
        return detail::with_decoder(decode, [&](const auto& named) { return with(named, loss); });
    } else {
        return with(decode, loss);
    }
}

#ifdef GNEISS_COMPILED
extern template any_link_model make_link_model<eigen_backend>(
    std::string_view, std::string_view, std::size_t, const link_model_options&, float, eigen_backend);
#endif

} // namespace gneiss
