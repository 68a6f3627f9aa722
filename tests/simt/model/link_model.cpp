#include <gneiss/cuda/model/link_model.cuh>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>
#include <gneiss/model/loss.hpp>

#include <simt/model/support.hpp>

#include <limits>

using namespace simt_model;

namespace {

struct shape {
    std::uint32_t questions, negatives;
    std::size_t dim;
    layout how = layout::aligned;
    bool masks = false, corrections = false;
};

std::vector<double> row_of(const rows<float>& of, std::size_t i) {
    std::vector<double> row(of.columns());
    for (std::size_t c = 0; c < row.size(); ++c) row[c] = of(i, c);
    return row;
}

constexpr double margin = 0.7;
constexpr std::uint32_t spare = 3;
using loss_pair = std::pair<cuda::link_loss, any_loss>;

/// The kernels against one question and one negative at a time, in double, by the host's decoder and loss. Gradients are
/// sums of a few terms of magnitude 1, or of as many as there are questions.
template <class D>
void check(const shape& of, side missing, const loss_pair& loss) {
    const rows<float> nodes(50, of.dim, of.how, 1), relations(4, of.dim, of.how, 2);
    random_stream draw(random_key(of.questions, random_domain::user));
    const auto some = [&](std::size_t count, std::uint32_t below) {
        std::vector<std::uint32_t> list(count);
        for (std::uint32_t& x : list) x = static_cast<std::uint32_t>(draw.below(below));
        return list;
    };
    const auto known = some(of.questions, 50), answers = some(of.questions, 50), relation = some(of.questions, 4), ids = some(of.negatives, 50);
    std::vector<std::uint64_t> mask_offsets{0};
    std::vector<std::uint32_t> mask_columns;
    std::vector<negative_correction> corrections(of.questions);
    for (std::uint32_t i = 0; i < of.questions; ++i) {
        for (std::uint32_t j = 0; j < of.negatives; ++j)
            if (i == 0 || draw.below(5) == 0) mask_columns.push_back(j); // all of the first
        mask_offsets.push_back(mask_columns.size());
        corrections[i] = {i % 3, of.negatives / 3, of.negatives / 2, of.negatives, .4F, .2F};
    }

    const auto row = [&](const auto& matrix, std::size_t i) { return row_of(matrix, i); };
    doubles want_known(of.questions, of.dim), want_answer(of.questions, of.dim), want_relation(of.questions, of.dim), want_negatives(of.negatives, of.dim);
    double want_loss = 0;
    for (std::uint32_t i = 0; i < of.questions; ++i) {
        const auto k = row(nodes, known[i]), right = row(nodes, answers[i]), r = row(relations, relation[i]);
        const std::span<const double> related = D::relation_floats(of.dim) == 0 ? std::span<const double>{} : std::span<const double>(r);
        std::vector<double> q(of.dim), grad_q(of.dim), scores(of.negatives), plain(of.negatives), gradient(of.negatives);
        D{}.query(missing, std::span<const double>(k), related, std::span<double>(q));
        const auto compare = [&](const std::vector<double>& x) {
            double sum = 0;
            for (std::size_t c = 0; c < of.dim; ++c) sum += D::compare == similarity::inner_product ? q[c] * x[c] : (q[c] - x[c]) * (q[c] - x[c]);
            return D::compare == similarity::inner_product ? sum : -std::sqrt(sum);
        };
        /// Adds g · ∂score/∂(q, x).
        const auto back = [&](double g, double score, const std::vector<double>& x, std::span<double> grad_x) {
            for (std::size_t c = 0; c < of.dim; ++c)
                if (D::compare == similarity::inner_product) {
                    grad_q[c] += g * x[c];
                    grad_x[c] += g * q[c];
                } else if (score < -1e-4) {
                    grad_q[c] += g / score * (q[c] - x[c]);
                    grad_x[c] -= g / score * (q[c] - x[c]);
                }
        };
        for (std::uint32_t j = 0; j < of.negatives; ++j) {
            scores[j] = plain[j] = compare(row(nodes, ids[j]));
            const negative_correction& by = corrections[i];
            if (of.corrections && ((j >= by.head_begin && j < by.head_end) || (j >= by.tail_begin && j < by.tail_end))) scores[j] += static_cast<double>(by.own);
        }
        if (of.masks)
            for (std::uint64_t m = mask_offsets[i]; m < mask_offsets[i + 1]; ++m) scores[mask_columns[m]] = -std::numeric_limits<double>::infinity();
        const double positive = compare(right);
        const auto result = loss.second(positive + (of.corrections ? static_cast<double>(corrections[i].positive) : 0),
            std::span<const double>(scores), std::span<double>(gradient));
        want_loss += result.loss;
        back(result.grad_positive, positive, right, want_answer.view[i]);
        for (std::uint32_t j = 0; j < of.negatives; ++j)
            if (gradient[j] != 0) back(gradient[j], plain[j], row(nodes, ids[j]), want_negatives.view[j]);
        std::vector<double> no_relation;
        const auto to_relation = related.empty() ? std::span<double>(no_relation) : want_relation.view[i];
        D{}.query_backward(missing, std::span<const double>(k), related, std::span<const double>(grad_q), want_known.view[i], to_relation);
    }

    const auto sizes = [&](std::size_t count) {
        doubles made(count, of.dim);
        std::ranges::fill(made.memory, 1.0 + (count == of.negatives ? of.questions : 1));
        return made;
    };
    const std::uint32_t count = of.questions, capacity = count + spare;
    const bool related = D::relation_floats(of.dim) != 0;
    const cuda::link_list list{.count = count};
    const cuda::link_questions questions{.list = &list, .capacity = capacity, .missing = missing, .known = known.data(), .answers = answers.data(),
        .relations = related ? relation.data() : nullptr, .mask_offsets = of.masks ? mask_offsets.data() : nullptr, .mask_columns = mask_columns.data(),
        .corrections = of.corrections ? corrections.data() : nullptr};
    simt::for_each_seed(2, [&] {
        rows<float> negatives(of.negatives, of.dim, of.how), queries(capacity, of.dim, of.how), grad_queries(capacity, of.dim, of.how),
            scores(capacity, of.negatives, of.how), squares(1, of.negatives, layout::aligned), column_sums(1, of.negatives, layout::aligned),
            grad_known(capacity, of.dim, of.how), grad_answers(capacity, of.dim, of.how), grad_relations(capacity, of.dim, of.how),
            grad_negatives(of.negatives, of.dim, of.how);
        std::vector<cuda::question_outcome> outcomes(capacity);
        std::vector<float> partial(cuda::partial_slices(capacity).floats(of.negatives * of.dim));
        cuda::link_forward_backward<D>(nullptr, questions, loss.first, static_cast<float>(margin), nodes.view(), relations.view(), ids.data(), of.negatives,
            {negatives.view(), queries.view(), grad_queries.view(), scores.view(), squares.begin(), column_sums.begin(), partial.data()},
            {{grad_known.view(), grad_answers.view(), grad_relations.view()}, grad_negatives.view(), outcomes.data()});
        double got_loss = 0;
        for (std::uint32_t i = 0; i < count; ++i) got_loss += static_cast<double>(outcomes[i].loss);
        CHECK(std::abs(got_loss - want_loss) <= 1e-5 * (1 + std::abs(want_loss) + of.questions));
        check_rows<float>("known", grad_known, count, want_known.view, sizes(count).view, 2e-5);
        check_rows<float>("answers", grad_answers, count, want_answer.view, sizes(count).view, 2e-5);
        check_rows<float>("negatives", grad_negatives, of.negatives, want_negatives.view, sizes(of.negatives).view, 2e-5);
        if (related) check_rows<float>("relations", grad_relations, count, want_relation.view, sizes(count).view, 2e-5);
    });
}

} // namespace

TEST_CASE_TEMPLATE("simt.model.link_model: losses and gradients are those of one question and one negative at a time", D, dot_decoder, distmult_decoder,
    complex_decoder, transe_decoder) {
    const std::vector<loss_pair> losses = {{cuda::link_loss::softmax, softmax_loss{}}, {cuda::link_loss::marius, marius_loss{}},
        {cuda::link_loss::logistic, logistic_loss{}}, {cuda::link_loss::margin, margin_loss{static_cast<float>(margin)}}};
    for (const loss_pair& loss : losses) {
        check<D>({7, 40, 12, layout::aligned, true, true}, side::tail, loss);
        check<D>({5, 70, 10, layout::odd, true, false}, side::head, loss);
    }
    check<D>({130, 9, 64}, side::head, losses[0]);
    check<D>({1, 1, 2, layout::odd}, side::tail, losses[2]);
    check<D>({0, 4, 8}, side::tail, losses[0]);
}
