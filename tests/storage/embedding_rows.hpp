#pragma once

#include <doctest/doctest.h>

#include <gneiss/order/plan.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>

#include <cstdint>
#include <optional>

namespace storage_test {

/// Runs an epoch that adds one to every float: state p names partition p and trains it.
inline void add_one_to_all(gneiss::partition_buffer& buffer, const gneiss::epoch_plan& states) {
    const gneiss::row_partitioning& partitioning = buffer.file().partitioning();
    buffer.begin_epoch(states);
    for (gneiss::partition_id p = 0; p < partitioning.partitions; ++p) {
        const std::optional<gneiss::state_lease> lease = buffer.acquire(p);
        REQUIRE(lease);
        for (std::uint64_t i = 0; i < partitioning.size(p); ++i)
            for (float& x : (**lease)[static_cast<gneiss::node_id>(partitioning.begin(p) + i)]) x += 1;
    }
    buffer.end_epoch();
}

} // namespace storage_test
