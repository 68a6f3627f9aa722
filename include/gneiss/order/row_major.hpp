#pragma once

#include <cstdint>
#include <vector>

#include <gneiss/order/from_buckets.hpp>

namespace gneiss {

/// All p² edge buckets row by row: (0, 0), (0, 1), … The baseline that anybody would write first. O(p²).
[[nodiscard]] inline std::vector<edge_bucket> row_major_buckets(std::uint32_t partitions) {
    std::vector<edge_bucket> buckets;
    buckets.reserve(std::size_t{partitions} * partitions);
    for (partition_id i = 0; i < partitions; ++i)
        for (partition_id j = 0; j < partitions; ++j) buckets.emplace_back(i, j);
    return buckets;
}

/// The order of `row_major_buckets`, with Belady's eviction. The same in every epoch.
class row_major_order : public bucket_list_order {
public:
    row_major_order(std::uint32_t partitions, std::uint32_t slots)
        : bucket_list_order(
              (detail::check_buffer(partitions, slots), row_major_buckets(partitions)), partitions, slots) {}
};

static_assert(edge_bucket_order<row_major_order>);

} // namespace gneiss
