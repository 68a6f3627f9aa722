#pragma once

#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/storage/engine/threads.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace storage_test {

/// Returns every engine of this machine by name, except those that the kernel refuses.
inline std::vector<std::pair<std::string, gneiss::engine_factory>> all_engines(std::size_t depth = 8) {
    using namespace gneiss;
    std::vector<std::pair<std::string, engine_factory>> engines;
    engines.emplace_back(
        "memory", [disk = memory_file_system{}, depth] { return any_engine(memory_engine(disk, depth)); });
    engines.emplace_back("threads", [depth] { return any_engine(threads_engine(depth)); });
#ifdef GNEISS_HAS_URING
    try {
        (void)choose_engine("uring");
        engines.emplace_back("uring", [depth] { return any_engine(uring_engine(depth)); });
    } catch (const error& refused) {
        std::fprintf(stderr, "io_uring is not tested: %s\n", refused.what());
    }
#endif
    return engines;
}

} // namespace storage_test
