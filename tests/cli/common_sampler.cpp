#include "kit/cli/process_sampler.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

namespace test_cli_common_sampler {

using namespace programs;

TEST_CASE("a failed sample is left out, and the next one covers its time") {
    std::atomic<int> looks{0};
    std::atomic<bool> fails{false};
    run_sampler sampler(
        [&] {
            const int look = looks++;
            if (fails) throw std::bad_alloc();
            return activity{.read_bytes = 1000 * static_cast<std::uint64_t>(look)};
        },
        1, .001);
    const auto wait_for = [&](int count) {
        for (const int from = looks; looks < from + count;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    wait_for(3);
    fails = true;
    wait_for(3);
    const std::size_t before = sampler.samples().size();
    wait_for(3);
    CHECK(sampler.samples().size() == before);
    CHECK(sampler.missed() >= 3);
    fails = false;
    wait_for(2);
    sampler.stop();
    const auto samples = sampler.samples();
    CHECK(samples.size() > before);
    double bytes = 0, since = 0;
    for (const time_sample& s : samples) {
        bytes += s.read_rate * (s.seconds - since);
        since = s.seconds;
    }
    CHECK(bytes == doctest::Approx(1000.0 * (looks - 1)));
}

} // namespace test_cli_common_sampler
