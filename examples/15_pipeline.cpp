// The pipeline alone: overlapping stages, and a bound on the staleness of the values that a batch reads.
#include <gneiss/train/training_pipeline.hpp>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

using namespace gneiss;

struct step { // a step of gradient descent on (x − 3)², one number instead of rows
    std::uint64_t number = 0;
    double seen = 0, gradient = 0;
    [[nodiscard]] std::uint64_t bytes() const { return sizeof *this; } // queues are bounded in bytes, too
};

int main() {
    for (const std::uint64_t staleness : {0U, 2U, 8U}) {
        double x = 0;
        //! [pipeline]
        const pipeline_stages<step> stages{.sample = [](step&) {},
            .gather = [&](step& s) { s.seen = x; },
            .compute =
                [](step& s) {
                    s.gradient = 2 * (s.seen - 3);
                }, // to_device and to_host are left out: they take no thread
            .update = [&](step& s) { x -= 0.02 * s.gradient; }};

        // At most this many updates are missing when a step reads x; with `deterministic`, always the same ones.
        std::vector<std::unique_ptr<step>> batches;
        for (std::uint64_t i = 0; i < staleness + 2; ++i) batches.push_back(std::make_unique<step>());
        training_pipeline<step> pipeline(stages, {.staleness = staleness, .deterministic = true}, std::move(batches));
        constexpr std::uint64_t steps = 500;
        for (std::uint64_t i = 0; i < steps; ++i) {
            auto s = pipeline.take();
            s->number = i;
            pipeline.submit(std::move(s), steps - 1 - i);
        }
        pipeline.drain();
        //! [pipeline]

        const pipeline_statistics statistics = pipeline.statistics();
        std::printf("staleness %llu: x = %.6f after %llu steps, which missed at most %llu updates\n",
            static_cast<unsigned long long>(staleness), x, static_cast<unsigned long long>(statistics.batches),
            static_cast<unsigned long long>(statistics.staleness.max()));
        if (statistics.batches != steps || statistics.staleness.max() > staleness || std::abs(x - 3) > 1e-3) return 1;
    }
}
