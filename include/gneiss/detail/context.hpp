// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gneiss/context.hpp>
#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/storage/engine/probe.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

namespace gneiss {

GNEISS_INLINE engine_factory context::working_engine() {
    std::vector<engine_candidate> candidates;
#ifdef GNEISS_HAS_URING
    candidates.push_back(uring_candidate());
#endif
    candidates.push_back(threads_candidate());
    return choose_engine("auto", candidates).make;
}

} // namespace gneiss
