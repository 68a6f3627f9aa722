// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/node_file.hpp"

#include <string>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/integer_file.hpp>

namespace programs {

std::vector<gneiss::node_id> rows_in(
    const std::filesystem::path& file, const gneiss::dataset& data, std::uint64_t memory) {
    gneiss::integer_file in(file);
    const std::uint64_t nodes = data.manifest().nodes, count = in.size();
    if (count > nodes)
        throw gneiss::error(gneiss::errc::invalid_format,
            fmt::format("has {} entries, a list of nodes has at most {}", count, nodes), {.path = file});
    if (count > memory / sizeof(gneiss::node_id))
        throw gneiss::over_budget(memory, {{"a list of nodes", count * sizeof(gneiss::node_id)}});
    std::vector<gneiss::node_id> rows(static_cast<std::size_t>(count));
    (void)in.read(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto row = data.row_of(rows[i]);
        if (!row)
            throw gneiss::error(gneiss::errc::out_of_range,
                fmt::format("{} is not below {}, the number of nodes", rows[i], nodes),
                {.path = file, .field = fmt::format("entry {}", i)});
        rows[i] = static_cast<gneiss::node_id>(*row);
    }
    return rows;
}

} // namespace programs
