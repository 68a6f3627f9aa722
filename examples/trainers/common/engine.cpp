#include "trainers/common/engine.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/engine/throttled.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

namespace trainers {

gneiss::engine_choice choose_engine(const run_options& how) {
    std::vector<gneiss::engine_candidate> candidates;
#ifdef GNEISS_HAS_URING
    candidates.push_back(gneiss::uring_candidate());
#endif
    candidates.push_back(gneiss::threads_candidate());
    gneiss::engine_choice chosen = gneiss::choose_engine(how.io_engine, candidates);
    if (how.throttle) {
        const gneiss::throttle_options slow{.bytes_per_second = static_cast<double>(std::max<std::uint64_t>(how.throttle->bytes, 1))};
        const auto device = std::make_shared<gneiss::throttled_device<>>(slow);
        chosen.make = [make = chosen.make, device] { return gneiss::any_engine(gneiss::throttled<gneiss::any_engine>(make(), device)); };
        chosen.reason += "; throttled to " + gneiss::format_bytes(how.throttle->bytes) + "/s";
    }
    return chosen;
}

void require_device(const run_options& how) {
    if (how.device == "cuda")
        throw gneiss::error(gneiss::errc::unsupported, "--device cuda: this build has no CUDA backend; leave the flag out to train on the CPU");
}

} // namespace trainers
