#include "fuzz/target.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <gneiss/io/import/detail/node_tables.hpp>

namespace test_fuzz_node_table {

using namespace gneiss;

GNEISS_FUZZ_TARGET("node_table", bytes) {
    const fuzz::memory_file file(bytes);
    for (const bool integer : {true, false}) {
        const importing::node_keys keys{
            .integer = integer, .nodes = 1000, .hash = importing::default_name_hash, .seed = 1};
        (void)fuzz::accepted([&] {
            const importing::node_text text(file.path(), keys, 4096);
            const std::vector<std::size_t> columns = text.value_columns();
            importing::scan_dense_text(
                text, columns, false, [&](std::uint64_t key, std::uint64_t line, std::span<const float> values) {
                    fuzz::property(!integer || key < 1000, "integers are node ids");
                    fuzz::property(line != 0 && values.size() == columns.size(), "every line has all columns");
                    fuzz::property(std::ranges::all_of(values, [](float x) { return std::isfinite(x); }), "finite");
                });
        });
        (void)fuzz::accepted([&] {
            const importing::node_text text(file.path(), keys, 4096);
            importing::scan_sparse_text(text, 50, false,
                [&](std::uint64_t, std::uint64_t, std::span<const std::uint32_t> columns,
                    std::span<const float> values) {
                    fuzz::property(columns.size() == values.size(), "each column has a value");
                    fuzz::property(
                        std::ranges::adjacent_find(columns, std::greater_equal<>{}) == columns.end(), "columns ascend");
                    fuzz::property(columns.empty() || columns.back() < 50, "columns are in range");
                });
        });
    }
}

} // namespace test_fuzz_node_table
