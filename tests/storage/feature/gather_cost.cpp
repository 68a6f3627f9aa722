#include <gneiss/storage/feature/gather_cost.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>

#include "storage/rows.hpp"

#include <algorithm>
#include <vector>

namespace test_storage_feature_gather_cost {

using namespace gneiss;
using storage_test::gathers;
using storage_test::rows_file;
using storage_test::some_rows;

TEST_CASE("the counter gives the requests and bytes of a gather, for any gap, longest request and share of the rows") {
    const engine_factory engines = [disk = memory_file_system{}] { return any_engine(memory_engine(disk, 8)); };
    memory_budget budget;
    for (const std::size_t row_bytes : {512U, 1024U, 2560U}) {
        const std::uint64_t rows = 3000;
        const rows_file file(engines, "rows", rows, row_bytes);
        for (const std::size_t gap : {0U, 600U, 5000U, 60'000U})
            for (const std::size_t longest : {512U, 8192U, 256U << 10})
                for (const std::size_t count : {0U, 1U, 50U, 900U, 9000U}) {
                    CAPTURE(row_bytes);
                    CAPTURE(gap);
                    CAPTURE(longest);
                    CAPTURE(count);
                    const gather_options how{.coalesce_bytes = gap, .run_bytes = longest};
                    std::vector<node_id> ids = some_rows(count, rows, count + gap);
                    disk_rows source(engines, file.stored, how, serial_executor{}, budget);
                    REQUIRE(gathers(source, file, ids));
                    std::ranges::sort(ids);
                    request_counter counter(row_bytes, how);
                    for (const node_id id : ids) counter.add(id);
                    CHECK(
                        counter.cost() == gather_cost{source.statistics().io.reads, source.statistics().io.read_bytes});
                }
    }
}

TEST_CASE("two requests take longer than one exactly if the gap between them is shorter than the device's") {
    const io_profile device{.bandwidth = 1e9, .iops = 1e5, .coalesce_bytes = 10'000, .spread = 1};
    const gather_cost two{2, 1024};
    CHECK(gather_cost{1, 1024 + 9'999}.seconds(device) < two.seconds(device));
    CHECK(gather_cost{1, 1024 + 10'001}.seconds(device) > two.seconds(device));
    CHECK((two + two).seconds(device) == doctest::Approx(2 * two.seconds(device)));
}

} // namespace test_storage_feature_gather_cost
