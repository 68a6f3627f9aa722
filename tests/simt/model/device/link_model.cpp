#include <gneiss/cuda/model/device/link_model.cuh>
#include <gneiss/cuda/model/device/link_tiles.cuh>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>
#include <gneiss/model/loss.hpp>

#include <simt/model/support.hpp>
#if defined(GNEISS_SIMT)
#include <simt/shared_bytes.hpp>
#endif

#include <limits>

namespace test_simt_model_device_link_model {

using namespace simt_model;

namespace {

struct shape {
    std::uint32_t query_list, negatives;
    std::size_t dim;
    layout how = layout::aligned;
    bool masks = false, corrections = false;
};

template <class T>
std::vector<double> row_of(const rows<T>& of, std::size_t i) {
    std::vector<double> row(of.columns());
    for (std::size_t c = 0; c < row.size(); ++c) row[c] = of(i, c);
    return row;
}

constexpr double margin = 0.7;
constexpr std::uint32_t spare = 3;
using loss_pair = std::pair<cuda::link_loss, any_loss>;

/// Device memory for a list of queries with rows stored as T, and both ways to compute it.
template <class D, class T>
struct worked_out {
    rows<float> known, answers, relations, negatives;
    std::vector<cuda::query_outcome> outcomes;

    worked_out(std::uint32_t capacity, const shape& of)
        : known(capacity, of.dim, of.how),
          answers(capacity, of.dim, of.how),
          relations(capacity, of.dim, of.how),
          negatives(of.negatives, of.dim, of.how),
          outcomes(capacity) {}

    void run(bool tiles, const shape& of, const cuda::query_batch& query_list, cuda::link_loss loss,
        const rows<T>& nodes, const rows<float>& table, const std::vector<std::uint32_t>& ids) {
        const cuda::link_negatives to{.ids = ids.data(), .capacity = of.negatives};
        const cuda::link_gradients out{
            {known.view(), answers.view(), relations.view()}, negatives.view(), outcomes.data()};
        rows<float> grad_queries(query_list.capacity, of.dim, of.how);
        if (tiles) {
            rows<T> queries(query_list.capacity, of.dim, layout::aligned);
            std::vector<cuda::detail::scored_query> met(query_list.capacity);
            cuda::link_by_tiles<D, T>(nullptr, query_list, to, loss, static_cast<float>(margin), nodes.view(),
                table.view(), {queries.view(), grad_queries.view(), met.data()}, out);
            return;
        }
        rows<float> queries(query_list.capacity, of.dim, of.how), gathered(of.negatives, of.dim, of.how),
            scores(query_list.capacity, of.negatives, of.how), squares(1, of.negatives, layout::aligned),
            column_sums(1, of.negatives, layout::aligned);
        std::vector<float> partial(cuda::partial_slices(query_list.capacity).floats(of.negatives * of.dim));
        cuda::link_by_scores<D, T>(nullptr, query_list, to, loss, static_cast<float>(margin), nodes.view(),
            table.view(),
            {queries.view(), grad_queries.view(), gathered.view(), scores.view(), squares.begin(), column_sums.begin(),
                partial.data()},
            out);
    }
};

/// Compares the kernels with one query and one negative at a time, in double, by the host's decoder and loss. Gradients
/// are sums of a few terms of magnitude 1, or of one per query.
template <class D, class T>
void check(const shape& of, side missing, const loss_pair& loss, bool tiles) {
    CAPTURE(tiles);
    CAPTURE(static_cast<int>(loss.first));
    const rows<T> nodes(50, of.dim, of.how, 1);
    const rows<float> relations(4, of.dim, of.how, 2);
    random_stream draw(random_key(of.query_list, random_domain::user));
    const auto some = [&](std::size_t count, std::uint32_t below) {
        std::vector<std::uint32_t> list(count);
        for (std::uint32_t& x : list) x = static_cast<std::uint32_t>(draw.below(below));
        return list;
    };
    const auto known = some(of.query_list, 50), answers = some(of.query_list, 50), relation = some(of.query_list, 4),
               ids = some(of.negatives, 50);
    std::vector<std::uint64_t> mask_offsets{0};
    std::vector<std::uint32_t> mask_columns;
    std::vector<negative_correction> corrections(of.query_list);
    for (std::uint32_t i = 0; i < of.query_list; ++i) {
        for (std::uint32_t j = 0; j < of.negatives; ++j)
            if (i == 0 || draw.below(5) == 0) mask_columns.push_back(j); // all of the first
        mask_offsets.push_back(mask_columns.size());
        corrections[i] = {i % 3, of.negatives / 3, of.negatives / 2, of.negatives, .4F, .2F};
    }

    const auto row = [&](const auto& matrix, std::size_t i) { return row_of(matrix, i); };
    doubles want_known(of.query_list, of.dim), want_answer(of.query_list, of.dim), want_relation(of.query_list, of.dim),
        want_negatives(of.negatives, of.dim);
    double want_loss = 0;
    for (std::uint32_t i = 0; i < of.query_list; ++i) {
        const auto k = row(nodes, known[i]), right = row(nodes, answers[i]), r = row(relations, relation[i]);
        const std::span<const double> related =
            D::relation_floats(of.dim) == 0 ? std::span<const double>{} : std::span<const double>(r);
        std::vector<double> q(of.dim), grad_q(of.dim), scores(of.negatives), plain(of.negatives),
            gradient(of.negatives);
        D{}.query(missing, std::span<const double>(k), related, std::span<double>(q));
        const auto compare = [&](const std::vector<double>& x) {
            double sum = 0;
            for (std::size_t c = 0; c < of.dim; ++c)
                sum += D::compare == similarity::inner_product ? q[c] * x[c] : (q[c] - x[c]) * (q[c] - x[c]);
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
            if (of.corrections && ((j >= by.head_begin && j < by.head_end) || (j >= by.tail_begin && j < by.tail_end)))
                scores[j] += static_cast<double>(by.own);
        }
        if (of.masks)
            for (std::uint64_t m = mask_offsets[i]; m < mask_offsets[i + 1]; ++m)
                scores[mask_columns[m]] = -std::numeric_limits<double>::infinity();
        const double positive = compare(right);
        const auto result = loss.second(positive + (of.corrections ? static_cast<double>(corrections[i].positive) : 0),
            std::span<const double>(scores), std::span<double>(gradient));
        want_loss += result.loss;
        back(result.grad_positive, positive, right, want_answer.view[i]);
        for (std::uint32_t j = 0; j < of.negatives; ++j)
            if (gradient[j] != 0) back(gradient[j], plain[j], row(nodes, ids[j]), want_negatives.view[j]);
        std::vector<double> no_relation;
        const auto to_relation = related.empty() ? std::span<double>(no_relation) : want_relation.view[i];
        D{}.query_backward(missing, std::span<const double>(k), related, std::span<const double>(grad_q),
            want_known.view[i], to_relation);
    }

    const auto sizes = [&](std::size_t count) {
        doubles created(count, of.dim);
        std::ranges::fill(created.memory, 1.0 + (count == of.negatives ? of.query_list : 1));
        return created;
    };
    const std::uint32_t count = of.query_list, capacity = count + spare;
    const bool related = D::relation_floats(of.dim) != 0;
    const cuda::link_list list{.count = count};
    const cuda::query_batch query_list{.lists = &list,
        .capacity = capacity,
        .missing = missing,
        .known = known.data(),
        .answers = answers.data(),
        .relations = related ? relation.data() : nullptr,
        .mask_offsets = of.masks ? mask_offsets.data() : nullptr,
        .mask_columns = mask_columns.data(),
        .corrections = of.corrections ? corrections.data() : nullptr,
        .negatives = &of.negatives};
    // queries and weights are rounded to the type of rows
    const double allowed = std::is_same_v<T, bfloat16> ? 1e-2 : 2e-5;
    std::vector<float> bits;
    simt::for_each_seed(2, [&] {
        worked_out<D, T> got(capacity, of);
        got.run(tiles, of, query_list, loss.first, nodes, relations, ids);
        double got_loss = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            got_loss += static_cast<double>(got.outcomes[i].loss);
            CHECK(got.outcomes[i].masked == (of.masks ? mask_offsets[i + 1] - mask_offsets[i] : 0));
        }
        CHECK(std::abs(got_loss - want_loss) <= allowed / 2 * (1 + std::abs(want_loss) + of.query_list));
        check_rows<float>("known", got.known, count, want_known.view, sizes(count).view, allowed);
        check_rows<float>("answers", got.answers, count, want_answer.view, sizes(count).view, allowed);
        check_rows<float>("negatives", got.negatives, count == 0 ? 0 : of.negatives, want_negatives.view,
            sizes(of.negatives).view, allowed);
        if (related)
            check_rows<float>("relations", got.relations, count, want_relation.view, sizes(count).view, allowed);
        if (bits.empty()) bits = got.negatives.bits();
        CHECK(bits == got.negatives.bits());
    });
}

} // namespace

TEST_CASE_TEMPLATE("simt.model.link_model: losses and gradients equal a loop over queries and negatives", D,
    dot_decoder, distmult_decoder, complex_decoder, transe_decoder) {
    const std::vector<loss_pair> losses = {{cuda::link_loss::softmax, softmax_loss{}},
        {cuda::link_loss::marius, marius_loss{}}, {cuda::link_loss::logistic, logistic_loss{}},
        {cuda::link_loss::margin, margin_loss{static_cast<float>(margin)}}};
    for (const bool tiles : {false, true}) {
        for (const loss_pair& loss : losses) {
            check<D, float>({7, 40, 12, layout::aligned, true, true}, side::tail, loss, tiles);
            check<D, float>({5, 70, 10, layout::odd, true, false}, side::head, loss, tiles);
        }
        check<D, float>({70, 9, 64}, side::head, losses[0], tiles);
        check<D, float>({1, 1, 2, layout::odd}, side::tail, losses[2], tiles);
        check<D, bfloat16>({9, 70, 12, layout::aligned, true, true}, side::tail, losses[0], tiles);
    }
    check<D, float>({0, 4, 8}, side::tail, losses[0], true);
    check<D, float>({67, 130, 200, layout::aligned, true, true}, side::tail, losses[1], true);
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.model.link_model: tiles have the shared memory that the gate counts") {
    cuda::recorder calls;
    for (const std::size_t dim : {64U, 128U, 256U}) {
        check<dot_decoder, float>({1, 1, dim}, side::tail, {cuda::link_loss::softmax, softmax_loss{}}, true);
        check<dot_decoder, bfloat16>({1, 1, dim}, side::tail, {cuda::link_loss::softmax, softmax_loss{}}, true);
    }
    simt::check_shared_bytes(calls.take(), "model/step/link_step.cu");
}

TEST_CASE("simt.model.link_model: tiles move a row of a negative for each 64 queries, and no scores") {
    const shape of{128, 192, 64};
    const rows<float> nodes(192, of.dim, layout::aligned, 1), table(1, of.dim, layout::aligned, 2);
    std::vector<std::uint32_t> ids(of.negatives), known(of.query_list), answers(of.query_list);
    for (std::uint32_t i = 0; i < of.negatives; ++i) ids[i] = i;
    for (std::uint32_t i = 0; i < of.query_list; ++i) known[i] = i, answers[i] = i + 1;
    const cuda::link_list list{.count = of.query_list};
    const cuda::query_batch query_list{.lists = &list,
        .capacity = of.query_list,
        .known = known.data(),
        .answers = answers.data(),
        .negatives = &of.negatives};
    const auto moved = [&](bool tiles) {
        worked_out<dot_decoder, float> out(of.query_list, of);
        simt::traffic_counter counter;
        out.run(tiles, of, query_list, cuda::link_loss::softmax, nodes, table, ids);
        return std::pair(counter.loads().bytes, counter.stores().bytes);
    };
    const auto by_tiles = moved(true), by_scores = moved(false);
    const std::uint64_t row = of.dim * sizeof(float),
                        score_bytes = std::uint64_t{of.query_list} * of.negatives * sizeof(float);
    // of tiles: negatives for each 64 queries, queries for each 64 negatives, both once more; ends, gradients and row
    // numbers
    const std::uint64_t floor = row * (of.query_list / 64 * of.negatives + of.negatives / 64 * of.query_list);
    const std::uint64_t ends = row * (of.query_list * 12 + of.negatives * 2) +
        4 * (of.query_list / 64 + 1) * of.negatives * (of.dim / 4) + 64 * of.query_list;
    MESSAGE("bytes loaded and stored by tiles: ", by_tiles.first, " + ", by_tiles.second,
        ", with scores in memory: ", by_scores.first, " + ", by_scores.second);
    CHECK(by_tiles.first >= floor);
    CHECK(by_tiles.first <= floor + ends);
    CHECK(by_tiles.second == row * (4 * of.query_list + of.negatives)); // queries, their gradients, ends, negatives
    CHECK(by_scores.second >= by_tiles.second + 2 * score_bytes);
    CHECK(by_scores.first >= by_tiles.first + 5 * score_bytes);
}
#endif

} // namespace test_simt_model_device_link_model
