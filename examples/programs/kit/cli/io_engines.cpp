// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/io_engines.hpp"

#include <gneiss/storage/engine/threads.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

namespace programs {

std::vector<gneiss::engine_candidate> io_engine_candidates() {
    std::vector<gneiss::engine_candidate> candidates;
#ifdef GNEISS_HAS_URING
    candidates.push_back(gneiss::uring_candidate());
#endif
    candidates.push_back(gneiss::threads_candidate());
    return candidates;
}

} // namespace programs
