#include <gneiss/cuda/storage/uva_rows.cuh>

#include <simt/storage/support.hpp>

namespace test_simt_storage_uva_rows {

using namespace simt_storage;
using simt_model::layout;

TEST_CASE_TEMPLATE("simt.storage.uva_rows: rows read over the bus equal those of the source, with ids on either side",
    T, float, bfloat16) {
    for (const std::size_t columns : {1U, 8U, 37U, 200U}) {
        table_source source(70'000, columns * sizeof(T)); // more than one piece
        memory_budget budget;
        cuda::stream compute;
        cuda::uva_rows<T> rows(source, 50, budget);
        CHECK(budget.used(memory_kind::pinned) >= 70'000 * columns * sizeof(T));
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
            random_stream draw(random_key(seed, random_domain::user));
            std::vector<node_id> ids(static_cast<std::size_t>(seed == 0 ? 0 : draw.below(51)));
            for (node_id& id : ids) id = static_cast<node_id>(draw.below(70'000));
            if (!ids.empty()) ids.back() = 69'999;
            simt_model::rows<T> out(52, columns, layout::aligned), again = out;
            rows.gather(ids, out.view(), compute);
            const auto count = static_cast<std::uint32_t>(ids.size());
            cuda::gather_rows<T>(compute, &count, 50, ids.data(), rows.view(), again.view());
            compute.synchronize();
            CHECK(equal(out, source, ids));
            CHECK(equal(again, source, ids));
        }
        CHECK(rows.statistics().gathered.hits == 0);
        CHECK(rows.statistics().bus_bytes >= rows.statistics().gathered.rows * (columns * sizeof(T) + sizeof(node_id)));
    }
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.storage.uva_rows: only the rows' sectors of host memory are read") {
    table_source source(1000, 256);
    memory_budget budget;
    cuda::uva_rows<float> rows(source, 64, budget);
    alignas(32) node_id ids[64];
    for (std::uint32_t i = 0; i < 64; ++i) ids[i] = i * 13 + 1;
    simt_model::rows<float> out(64, 64, layout::aligned);
    const std::uint32_t count = 64;
    simt::traffic_counter counter;
    cuda::gather_rows<float>(nullptr, &count, count, ids, rows.view(), out.view());
    CHECK(counter.loads().sectors == 64 * 8 + 64 / 8 + 8); // the rows, the ids, and the count by each warp of the block
    CHECK(counter.stores().sectors == 64 * 8);
}

TEST_CASE("simt.storage.uva_rows: a row crosses the bus in as few lines as its bytes fill") {
    for (const std::size_t columns : {4U, 32U, 100U, 128U, 129U}) {
        CAPTURE(columns);
        table_source source(200, columns * sizeof(float));
        memory_budget budget;
        cuda::uva_rows<float> rows(source, 32, budget);
        std::vector<node_id> ids;
        for (std::uint32_t i = 0; i < 32; ++i) ids.push_back(i * 5 + 1);
        const auto* const begin = reinterpret_cast<const std::byte*>(rows.view().data);
        std::uint64_t lines = 0;
        for (const node_id id : ids) {
            const auto at = reinterpret_cast<std::uintptr_t>(begin + id * rows.view().stride * sizeof(float));
            lines += (at + columns * sizeof(float) - 1) / 128 - at / 128 + 1;
        }
        CHECK(lines == 32 * ceil_div(columns * sizeof(float), std::size_t{128}));
        simt_model::rows<float> out(32, columns, layout::aligned);
        const std::uint32_t count = 32;
        simt::traffic_counter counter;
        cuda::gather_rows<float>(nullptr, &count, count, ids.data(), rows.view(), out.view());
        // A request is at most a warp's 512 bytes of a row: no more lines, but for those of ids and count.
        CHECK(counter.loads().lines <= lines + 32);
        CHECK(counter.loads().lines >= lines);
    }
}
#endif

TEST_CASE("simt.storage.uva_rows: invalid gathers are reported") {
    table_source source(10, 16), odd(10, 6);
    memory_budget budget, small(memory_budget::unlimited, 100);
    cuda::stream compute;
    cuda::uva_rows<float> rows(source, 3, budget);
    simt_model::rows<float> out(4, 4, layout::aligned);
    CHECK_THROWS_AS(rows.gather(std::vector<node_id>{10}, out.view(), compute), error);
    CHECK_THROWS_AS(rows.gather(std::vector<node_id>{1, 2, 3, 4}, out.view(), compute), error);
    CHECK_THROWS_AS(cuda::uva_rows<float>(odd, 3, budget), error);
    CHECK_THROWS_AS(cuda::uva_rows<float>(source, 3, small), over_budget);
}

} // namespace test_simt_storage_uva_rows
