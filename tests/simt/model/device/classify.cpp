#include <gneiss/cuda/model/device/classify.cuh>

#include <simt/model/support.hpp>

namespace test_simt_model_device_classify {

using namespace simt_model;

namespace {

template <class T>
void check(std::uint32_t count, std::size_t classes, layout options, bool ties) {
    constexpr std::uint32_t spare = 3;
    rows<T> scores(count + spare, classes, options, 4);
    std::vector<class_id> labels(count);
    random_stream draw(random_key(5, random_domain::user));
    for (std::uint32_t i = 0; i < count; ++i) {
        labels[i] = i % 4 == 1 ? unlabeled : static_cast<class_id>(draw.below(classes));
        for (std::size_t c = 0; c < classes; ++c) {
            const float spread = std::is_same_v<T, bfloat16> ? 4 : 60;
            const auto x = static_cast<float>(std::as_const(scores)(i, c));
            scores(i, c) = rows<T>::stored(ties ? static_cast<float>(draw.below(3)) : x * spread);
        }
    }
    doubles want(count, classes);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t c = 0; c < classes; ++c) want.view(i, c) = std::as_const(scores)(i, c);
    const classification_statistics statistics = softmax_cross_entropy(want.view, labels, serial);
    doubles sizes(count, classes);
    std::ranges::fill(sizes.memory, statistics.labeled == 0 ? 0 : 1.0 / static_cast<double>(statistics.labeled));

    std::vector<float> losses(count + spare);
    std::vector<std::uint8_t> correct(count + spare);
    simt::for_each_seed(3, [&] {
        rows<T> out = scores;
        cuda::classification_outcome outcome;
        cuda::softmax_cross_entropy<T>(
            nullptr, &count, count + spare, out.view(), labels.data(), losses.data(), correct.data(), &outcome);
        CHECK(outcome.invalid == 0);
        CHECK(outcome.statistics.labeled == statistics.labeled);
        CHECK(outcome.statistics.correct == statistics.correct);
        CHECK(std::abs(outcome.statistics.loss - statistics.loss) <= 1e-5 * (1 + statistics.loss));
        check_rows<T>("gradient", out, count, want.view, sizes.view, 2e-6, &scores);
    });
}

} // namespace

TEST_CASE_TEMPLATE("simt.model.classify: loss, gradient and right answers equal those of the CPU", T, float, bfloat16) {
    check<T>(21, 7, layout::odd, false);
    check<T>(40, 47, layout::aligned, false);
    check<T>(30, 5, layout::aligned, true);
    check<T>(9, 172, layout::odd, true);
    check<T>(5, 349, layout::aligned, false);
    check<T>(1, 1, layout::aligned, false);
    check<T>(0, 4, layout::aligned, false);
}

TEST_CASE("simt.model.classify: an invalid label is counted, and nothing is written") {
    const std::uint32_t count = 6;
    const rows<float> scores(count, 4, layout::aligned, 4);
    std::vector<class_id> labels{0, 1, 2, 3, 4, unlabeled};
    std::vector<float> losses(count);
    std::vector<std::uint8_t> correct(count);
    rows<float> out = scores;
    cuda::classification_outcome outcome;
    cuda::softmax_cross_entropy<float>(
        nullptr, &count, count, out.view(), labels.data(), losses.data(), correct.data(), &outcome);
    CHECK(outcome.invalid == 1);
    CHECK(out.bits() == scores.bits());
}

} // namespace test_simt_model_device_classify
