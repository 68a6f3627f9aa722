// A custom source of feature rows: rows of bytes, expanded to floats on read, with a cache above it.
#include <gneiss/storage/feature/cached_rows.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
using namespace gneiss;

class byte_rows { // features of one byte each; 255 stands for 1
public:
    byte_rows(std::vector<std::uint8_t> values, std::size_t columns) : values_(std::move(values)), columns_(columns) {}

    std::uint64_t rows() const { return values_.size() / columns_; }
    std::size_t row_bytes() const { return columns_ * sizeof(float); }
    void gather(std::span<const node_id> ids, const gather_target& to) {
        check_rows(ids, rows());
        for (std::size_t i = 0; i < ids.size(); ++i)
            for (std::size_t c = 0; c < columns_; ++c) {
                const float value = static_cast<float>(values_[ids[i] * columns_ + c]) / 255;
                std::memcpy(to.row(i) + c * sizeof(float), &value, sizeof value);
            }
        statistics_.rows += ids.size();
        statistics_.bytes_wanted += ids.size() * columns_;
    }
    gather_stats statistics() const { return statistics_; }

private:
    std::vector<std::uint8_t> values_;
    std::size_t columns_;
    gather_stats statistics_;
};
static_assert(row_source<byte_rows>);

int main() {
    constexpr std::size_t columns = 16, nodes = 1000;
    std::vector<std::uint8_t> values(columns * nodes);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i / columns % 256);
    //! [cache]
    any_row_source below(std::in_place_type<byte_rows>, std::move(values), columns);

    const tbb_executor executor;
    memory_budget budget;
    cached_rows<any_row_source> cache(below, /*capacity*/ 100, slot_table_kind::hashed, executor, budget);
    const std::vector<node_id> first{3, 5, 7};
    cache.fill(first); // a policy or change sets would decide
    std::vector<float> rows(3 * columns);
    cache.gather(std::vector<node_id>{7, 900, 5}, gather_target::of(matrix_view<float>(rows.data(), 3, columns)));
    //! [cache]
    std::printf("%zu of %zu rows were in the cache\n", std::size_t{cache.statistics().hits},
        std::size_t{cache.statistics().rows});
    return rows[0] == 7.F / 255 && rows[columns] == 900 % 256 / 255.F && cache.statistics().hits == 2 ? 0 : 1;
}
