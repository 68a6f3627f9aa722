#pragma once

// Compares the dynamic shared memory of recorded launches with what the gate counts for the occupancy of their kernels.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <gneiss/cuda/core/recorder.cuh>

#include <cxxabi.h>
#include <dlfcn.h>
#include <doctest/doctest.h>

namespace simt {

/// Checks that the most dynamic shared memory of each kernel is that of its line "// shared KERNEL: BYTES" in `gate`, a
/// file of tests/simt.
inline void check_shared_bytes(const std::vector<gneiss::cuda::recorded_call>& calls, const std::string& gate) {
    std::map<std::string, std::size_t> most; // by the name of a kernel
    for (const gneiss::cuda::recorded_call& one : calls) {
        if (one.dynamic_bytes == 0) continue;
        Dl_info found{};
        REQUIRE(dladdr(one.kernel, &found) != 0);
        REQUIRE(found.dli_sname != nullptr);
        int status = 0;
        const std::unique_ptr<char, void (*)(void*)> name(
            abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), std::free);
        REQUIRE(status == 0);
        std::size_t& bytes = most[name.get()];
        bytes = std::max(bytes, one.dynamic_bytes);
    }
    REQUIRE_FALSE(most.empty());
    std::ifstream file(std::filesystem::path(GNEISS_TEST_DATA).parent_path() / "simt" / gate);
    REQUIRE(file.good());
    std::map<std::string, std::size_t> counted;
    static const std::regex shared("// shared (.+): ([0-9]+)");
    std::smatch parts;
    for (std::string line; std::getline(file, line);)
        if (std::regex_match(line, parts, shared)) counted[parts[1]] = std::stoul(parts[2]);
    for (const auto& [name, bytes] : most) {
        CAPTURE(name);
        std::size_t there = 0;
        for (const auto& [kernel, up_to] : counted)
            if (std::regex_search(name, std::regex(kernel))) there = up_to;
        CHECK(bytes == there);
    }
}

} // namespace simt
