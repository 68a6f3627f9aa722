#include "fuzz/target.hpp"

#include <set>
#include <string>

#include <gneiss/io/import/detail/name_table.hpp>

namespace test_fuzz_name_table {

using namespace gneiss;

GNEISS_FUZZ_TARGET("name_table", bytes) {
    const fuzz::memory_file file(bytes);
    std::set<std::uint64_t> ids;
    std::uint64_t count = 0;
    const auto meet = [&](std::uint64_t id, std::string_view name, const importing::line_place&) {
        fuzz::property(!name.empty(), "names are not empty");
        ids.insert(id);
    };
    if (fuzz::accepted([&] { count = importing::read_name_table(file.path(), meet); }))
        fuzz::property(ids.size() == count && *ids.rbegin() == count - 1, "ids are 0 ... n - 1");
}

} // namespace test_fuzz_name_table
