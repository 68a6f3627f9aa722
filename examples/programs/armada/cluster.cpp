// SPDX-License-Identifier: Apache-2.0
#include "cluster.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "kit/cli/exit_codes.hpp"

namespace armada {

namespace {

cluster_engine& engine() {
    static cluster_engine of_process;
    return of_process;
}

} // namespace

void set_cluster_engine(cluster_engine of_process) { engine() = std::move(of_process); }

const cluster_engine& engine_of_clusters() {
    if (!engine().start)
        throw programs::usage_error(
            "--local and --address need Ray, which drives the workers: pip install gneiss-graph[armada], whose "
            "gneiss-armada takes them");
    return engine();
}

process_counts parse_counts(const std::string& text) {
    const auto number = [&](const char* from, const char* to, std::uint32_t least) {
        std::uint32_t value = 0;
        const auto [end, failed] = std::from_chars(from, to, value);
        if (failed != std::errc() || end != to || value < least || value > 1024)
            throw programs::usage_error(fmt::format(
                "--local {}: two numbers up to 1024, of batch and of compute workers: 3x2; 0x2: compute workers "
                "make the batches",
                text));
        return value;
    };
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const std::size_t cross = text.find('x');
    const char* const middle = cross == std::string::npos ? end : begin + cross;
    return {number(begin, middle, 0), number(middle == end ? end : middle + 1, end, 1)};
}

} // namespace armada
