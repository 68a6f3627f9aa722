#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/linear.cuh>
#include <gneiss/cuda/model/partial_sums.cuh>
#include <gneiss/cuda/vocabulary.cuh>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/sample/mini_batch.hpp>

// Scores of questions against negatives that they share, their losses, and the way back, as `gneiss::link_model` has them.
namespace gneiss::cuda {

enum class link_loss : std::uint8_t { softmax, marius, logistic, margin };

/// Which questions share a list of negatives: `count` of them, the first of which is number `first` of the arrays of a
/// `link_questions`, and number `number` of its masks and corrections.
struct link_list {
    std::uint32_t count = 0, first = 0, number = 0;
};

/// Questions in device memory: whose other end is it, and what is right.
struct link_questions {
    const link_list* list = nullptr; ///< those that are asked
    std::uint32_t capacity = 0;      ///< of the list
    side missing = side::tail;       ///< as the decoder is asked
    const std::uint32_t *known = nullptr, *answers = nullptr; ///< [questions] rows of nodes
    const std::uint32_t* relations = nullptr;                 ///< [questions] rows of relations; null: the decoder has none
    const std::uint64_t* mask_offsets = nullptr;              ///< negatives that take no part; null: all do
    const std::uint32_t* mask_columns = nullptr;
    const negative_correction* corrections = nullptr; ///< [questions] or null
    const std::uint32_t* negatives = nullptr;         ///< how many of the columns there are; null: all
    const float* scale = nullptr;                     ///< what gradients are multiplied by; null: 1

    [[nodiscard]] const std::uint32_t* count() const noexcept { return &list->count; }
};

/// What one question gave.
struct question_outcome {
    float loss = 0;
    float grad_positive = 0; ///< scaled
    float score = 0;         ///< of the answer, not corrected
    float weight_sum = 0;    ///< Σ of the weights of its negatives
    std::uint32_t masked = 0;
};

/// Where the gradients of questions go: row `first + i` of each for question i of a list.
struct question_rows {
    rows_view<float> known, answers, relations; ///< relations may have no data
    bool add = false, add_relations = false;    ///< to what is there
};

namespace detail {

template <class D>
using decoder_number = typename D::template term<float>;
template <class D>
inline constexpr bool has_relations = D::relation_floats(D::parts) != 0;

template <class D>
__global__ void __launch_bounds__(256) queries(link_questions of, rows_view<const float> nodes, rows_view<const float> relations, rows_view<float> out) {
    const std::uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes, terms = nodes.columns / static_cast<std::uint32_t>(D::parts);
    if (i >= of.list->count) return;
    const std::uint32_t question = of.list->first + i;
    const float* const known = nodes[__ldg(of.known + question)];
    const float* const relation = of.relations == nullptr ? nullptr : relations[__ldg(of.relations + question)];
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < terms; c += warp_lanes)
        D::query_term(of.missing, decoder_number<D>::of(known, terms, c), decoder_number<D>::of(relation, terms, c)).write(out[i], terms, c);
}

/// Known, relation and answer gradients of a question, from that of its query by the negatives.
template <class D>
__global__ void __launch_bounds__(256) question_gradients(link_questions of, rows_view<const float> nodes, rows_view<const float> relations,
    rows_view<const float> query, rows_view<const float> grad_query, const question_outcome* outcomes, question_rows out) {
    using number = decoder_number<D>;
    const std::uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / warp_lanes, terms = nodes.columns / static_cast<std::uint32_t>(D::parts);
    if (i >= of.list->count) return;
    const std::uint32_t question = of.list->first + i;
    const question_outcome outcome = outcomes[question];
    const float *const known = nodes[__ldg(of.known + question)], *const answer = nodes[__ldg(of.answers + question)];
    const float* const relation = of.relations == nullptr ? nullptr : relations[__ldg(of.relations + question)];
    const auto put = [&](const number& x, const rows_view<float>& to, std::uint32_t c, bool add) {
        if (add) x.add_to(to[question], terms, c);
        else x.write(to[question], terms, c);
    };
    const float by = D::compare == similarity::inner_product ? outcome.grad_positive
                                                             : outcome.score < 0 ? outcome.grad_positive / -outcome.score : 0;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < terms; c += warp_lanes) {
        const number q = number::of(query[i], terms, c), right = number::of(answer, terms, c);
        number g = number::of(grad_query[i], terms, c), of_answer{};
        for (std::size_t p = 0; p < D::parts; ++p) {
            if constexpr (D::compare == similarity::inner_product) {
                g.part[p] += by * right.part[p];
                of_answer.part[p] = by * q.part[p];
            } else {
                of_answer.part[p] = by * (q.part[p] - right.part[p]);
                g.part[p] -= outcome.weight_sum * q.part[p] + of_answer.part[p];
            }
        }
        put(of_answer, out.answers, c, out.add);
        put(D::known_gradient(of.missing, number::of(relation, terms, c), g), out.known, c, out.add);
        if constexpr (has_relations<D>) put(D::relation_gradient(of.missing, number::of(known, terms, c), g), out.relations, c, out.add_relations);
    }
}

/// out[i] = ‖x[i]‖², a warp for a row.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) row_squares(std::uint32_t rows, rows_view<const float> x, float* out) {
    const std::uint32_t i = (blockIdx.x * Threads + threadIdx.x) / warp_lanes;
    if (i >= rows) return;
    float sum = 0;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < x.columns; c += warp_lanes) sum += read(x[i] + c) * read(x[i] + c);
    sum = warp_sum(sum);
    if (threadIdx.x % warp_lanes == 0) write(out + i, sum);
}
/// Zeros behind row *count, where there is one.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) gather_rows(
    std::uint32_t rows, const std::uint32_t* count, const std::uint32_t* ids, rows_view<const float> in, rows_view<float> out) {
    const std::uint32_t i = (blockIdx.x * Threads + threadIdx.x) / warp_lanes;
    if (i >= rows) return;
    const bool there = count == nullptr || i < __ldg(count);
    const float* const from = there ? in[__ldg(ids + i)] : nullptr;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < in.columns; c += warp_lanes) write(out[i] + c, there ? read(from + c) : 0);
}
/// out[i] −= by[i] · x[i].
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) subtract_scaled(std::uint32_t rows, const float* by, rows_view<const float> x, rows_view<float> out) {
    const std::uint32_t i = (blockIdx.x * Threads + threadIdx.x) / warp_lanes;
    if (i >= rows) return;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < x.columns; c += warp_lanes) write(out[i] + c, reread(out[i] + c) - read(by + i) * read(x[i] + c));
}

template <unsigned Threads>
__global__ void __launch_bounds__(Threads) write_zeros(std::uint32_t rows, rows_view<float> out) {
    const std::uint32_t i = (blockIdx.x * Threads + threadIdx.x) / warp_lanes;
    if (i >= rows) return;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < out.columns; c += warp_lanes) write(out[i] + c, 0);
}
inline void zero(cudaStream_t stream, std::uint32_t rows, rows_view<float> out) {
    launch(stream, write_zeros<256>, warp_grid(rows), 256, 0, rows, out);
}

[[nodiscard]] __device__ inline float warp_max(float x) {
    for (int apart = warp_lanes / 2; apart > 0; apart /= 2) x = fmaxf(x, __shfl_xor_sync(whole_warp, x, apart));
    return x;
}

/// A question's row of products with the negatives, read as scores and rewritten as weights, by a warp.
class question_row {
public:
    __device__ question_row(bool distances, float query_square, const float* squares, const negative_correction& by, float scale, float* row, std::uint32_t size)
        : distances_(distances), query_square_(query_square), squares_(squares), by_(by), scale_(scale), row_(row), size_(size) {}

    /// Not corrected. Masked ones are −∞.
    [[nodiscard]] __device__ float plain(std::uint32_t j) const {
        const float product = reread(row_ + j);
        if (!distances_ || product == -__builtin_inff()) return product;
        return -sqrtf(fmaxf(query_square_ + read(squares_ + j) - 2 * product, 0));
    }
    [[nodiscard]] __device__ float corrected(std::uint32_t j, float score) const {
        const bool own = (j >= by_.head_begin && j < by_.head_end) || (j >= by_.tail_begin && j < by_.tail_end);
        return own ? score + by_.own : score;
    }
    /// Σ f(score).
    template <class F>
    [[nodiscard]] __device__ float sum(F&& f) const {
        float all = 0;
        for (std::uint32_t j = threadIdx.x % warp_lanes; j < size_; j += warp_lanes) all += f(corrected(j, plain(j)));
        return warp_sum(all);
    }
    [[nodiscard]] __device__ float highest() const {
        float top = -__builtin_inff();
        for (std::uint32_t j = threadIdx.x % warp_lanes; j < size_; j += warp_lanes) top = fmaxf(top, corrected(j, plain(j)));
        return warp_max(top);
    }
    /// Replaces each score by its weight in the gradients, f(score) being the gradient of the score; returns their sum.
    template <class F>
    [[nodiscard]] __device__ float differentiate(F&& f) const {
        float all = 0;
        for (std::uint32_t j = threadIdx.x % warp_lanes; j < size_; j += warp_lanes) {
            const float score = plain(j);
            float weight = scale_ * f(corrected(j, score));
            if (distances_) weight = score * score > 1e-6F * (query_square_ + read(squares_ + j)) ? weight / -score : 0; // as the host's
            all += weight;
            write(row_ + j, weight);
        }
        return warp_sum(all);
    }

private:
    bool distances_;
    float query_square_;
    const float* squares_;
    negative_correction by_;
    float scale_;
    float* row_;
    std::uint32_t size_;
};

/// log(1 + eˣ).
[[nodiscard]] __device__ inline float soft_plus(float x) {
    return fmaxf(x, 0) + log1pf(gneiss::detail::exponential(-fabsf(x)));
}
[[nodiscard]] __device__ inline float sigmoid(float x) { return activate<activation::sigmoid>(x); }

/// Loss of a question, ∂loss/∂positive, and its row of weights.
[[nodiscard]] __device__ inline question_outcome lose(link_loss loss, float margin, float positive, const question_row& row) {
    constexpr float minus_infinity = -__builtin_inff();
    if (loss == link_loss::softmax || loss == link_loss::marius) {
        const bool inside = loss == link_loss::softmax; // whether the positive is one of the classes
        const float highest = row.highest();
        const float top = inside ? fmaxf(positive, highest) : highest == minus_infinity ? 0 : highest;
        const float rest = row.sum([top](float x) { return gneiss::detail::exponential(x - top); });
        const float all = inside ? rest + gneiss::detail::exponential(positive - top) : rest;
        const bool none = all == 0;
        const float weights = row.differentiate([=](float x) { return none ? 0 : gneiss::detail::exponential(x - top) / all; });
        if (none) return {.weight_sum = weights};
        return {.loss = logf(all) + top - positive, .grad_positive = inside ? -rest / all : -1, .weight_sum = weights};
    }
    const float count = row.sum([](float x) { return x == minus_infinity ? 0.0F : 1.0F; });
    const float share = count > 0 ? 1 / count : 0;
    if (loss == link_loss::logistic) {
        const float soft = row.sum([](float x) { return x == minus_infinity ? 0 : soft_plus(x); });
        const float weights = row.differentiate([share](float x) { return x == minus_infinity ? 0 : share * sigmoid(x); });
        return {.loss = soft_plus(-positive) + share * soft, .grad_positive = -sigmoid(-positive), .weight_sum = weights};
    }
    const float least = margin - positive;
    const float short_of = row.sum([least](float x) { return fmaxf(least + x, 0); });
    const float active = row.sum([least](float x) { return least + x > 0 ? 1.0F : 0.0F; });
    const float weights = row.differentiate([=](float x) { return least + x > 0 ? share : 0; });
    return {.loss = short_of * share, .grad_positive = -active * share, .weight_sum = weights};
}

template <unsigned Threads>
__global__ void __launch_bounds__(Threads) question_losses(link_questions of, bool distances, link_loss loss, float margin, rows_view<const float> nodes,
    rows_view<const float> query, const float* squares, rows_view<float> scores, question_outcome* outcomes) {
    const unsigned lane = threadIdx.x % warp_lanes;
    const std::uint32_t i = (blockIdx.x * Threads + threadIdx.x) / warp_lanes;
    if (i >= of.list->count) return;
    const std::uint32_t question = of.list->first + i, number = of.list->number + i;
    const std::uint32_t size = of.negatives == nullptr ? scores.columns : __ldg(of.negatives);
    const float *const q = query[i], *const answer = nodes[__ldg(of.answers + question)];
    float positive = 0, square = 0;
    for (std::uint32_t c = lane; c < query.columns; c += warp_lanes) {
        const float a = read(q + c), b = read(answer + c);
        positive += distances ? (a - b) * (a - b) : a * b;
        square += a * a;
    }
    positive = warp_sum(positive);
    if (distances) positive = -sqrtf(positive);
    square = warp_sum(square);
    if (of.mask_offsets != nullptr)
        for (std::uint64_t k = __ldg(of.mask_offsets + number) + lane; k < __ldg(of.mask_offsets + number + 1); k += warp_lanes)
            write(scores[i] + __ldg(of.mask_columns + k), -__builtin_inff());
    __syncwarp();
    const negative_correction by = of.corrections == nullptr ? negative_correction{} : of.corrections[number];
    const float scale = of.scale == nullptr ? 1 : __ldg(of.scale);
    const question_row row(distances, square, squares, by, scale, scores[i], size);
    const float masked = of.mask_offsets == nullptr ? 0 : row.sum([](float x) { return x == -__builtin_inff() ? 1.0F : 0.0F; });
    question_outcome outcome = lose(loss, margin, positive + by.positive, row);
    outcome.grad_positive *= scale;
    outcome.score = positive;
    outcome.masked = static_cast<std::uint32_t>(masked);
    if (lane == 0) outcomes[question] = outcome;
    for (std::uint32_t j = size + lane; j < scores.columns; j += warp_lanes) write(scores[i] + j, 0); // nobody's weights
}

} // namespace detail

/// Rows in device memory that a list of questions is worked out in: dim columns but for the scores.
struct link_scratch {
    rows_view<float> negatives;    ///< [negatives]
    rows_view<float> queries;      ///< [questions]
    rows_view<float> grad_queries; ///< [questions]
    rows_view<float> scores;       ///< [questions, negatives]
    float* squares = nullptr;      ///< [negatives]
    float* column_sums = nullptr;  ///< [negatives]
    float* partial = nullptr;      ///< partial_slices(questions.capacity).floats(negatives · dim)
};

/// What a list of questions gives: rows and outcomes of question i of the list at `first + i`.
struct link_gradients {
    question_rows questions; ///< [·, dim]
    rows_view<float> negatives;      ///< [negatives, dim], written
    question_outcome* outcomes = nullptr;
};

/// Loss and gradients of questions against the `negatives` rows negative_ids of `nodes`, by decoder D: what a task of
/// `gneiss::link_model` does. Decoders of the library, any loss and correction; the scores are made once, in memory.
///
/// nodes [·, dim], relations [·, dim]. Results do not depend on the order of threads. Cost: 6 · questions · negatives · dim
/// operations; scores are written twice and read seven times at most.
template <class D>
void link_forward_backward(cudaStream_t stream, const link_questions& of, link_loss loss, float margin, rows_view<const float> nodes,
    rows_view<const float> relations, const std::uint32_t* negative_ids, std::uint32_t negatives, const link_scratch& use, const link_gradients& out) {
    constexpr bool distances = D::compare == similarity::negative_distance;
    const row_range questions{of.count(), of.capacity};
    const rows_view<const float> rows = use.negatives, queries = use.queries, weights = use.scores;
    launch(stream, detail::gather_rows<256>, detail::warp_grid(negatives), 256, 0, negatives, of.negatives, negative_ids, nodes, use.negatives);
    launch(stream, detail::queries<D>, detail::warp_grid(of.capacity), 256, 0, of, nodes, relations, use.queries);
    linear_input_gradient<float>(stream, questions, queries, rows, use.scores);
    if (distances) launch(stream, detail::row_squares<256>, detail::warp_grid(negatives), 256, 0, negatives, rows, use.squares);
    launch(stream, detail::question_losses<256>, detail::warp_grid(of.capacity), 256, 0, of, distances, loss, margin, nodes, queries, use.squares,
        use.scores, out.outcomes);
    linear<float>(stream, questions, weights, rows, use.grad_queries);
    detail::zero(stream, negatives, out.negatives);
    linear_weight_gradient<float>(stream, questions, weights, queries, out.negatives, use.partial);
    if (distances) {
        detail::zero(stream, 1, rows_view<float>(use.column_sums, negatives, negatives));
        add_column_sums<float>(stream, questions, weights, use.partial, use.column_sums);
        launch(stream, detail::subtract_scaled<256>, detail::warp_grid(negatives), 256, 0, negatives, use.column_sums, rows, out.negatives);
    }
    launch(stream, detail::question_gradients<D>, detail::warp_grid(of.capacity), 256, 0, of, nodes, relations, queries, use.grad_queries,
        out.outcomes, out.questions);
}

} // namespace gneiss::cuda
