// Compares edge-bucket orders when 8 of 32 partitions fit into memory.
#include <gneiss/order/any_order.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/to_string.hpp>
#include <gneiss/order/validate.hpp>

#include <cstdio>

int main() {
    using namespace gneiss;
    constexpr std::uint32_t partitions = 32, slots = 8;
    constexpr std::uint64_t partition_bytes = 64 << 20; // rows: values and optimizer state

    //! [orders]
    // A plan is a value: its cost and validity are known before any I/O.
    std::printf("%-18s %6s %10s %10s\n", "order", "swaps", "read GiB", "write GiB");
    for (const char* name : {"row-major", "hilbert", "hilbert-symmetric", "beta"}) {
        const any_order order = make_order(name, partitions, slots, /*seed*/ 1);
        const epoch_plan epoch = order(0);
        validate(epoch, partitions, slots);
        const plan_cost cost = cost_of(epoch, partition_bytes);
        std::printf("%-18s %6llu %10.2f %10.2f\n", name, static_cast<unsigned long long>(cost.swaps),
            static_cast<double>(cost.read_bytes) * 0x1p-30, static_cast<double>(cost.written_bytes) * 0x1p-30);
    }
    //! [orders]
    const std::uint64_t bound = swap_lower_bound(partitions, slots);
    std::printf("%-18s %6llu\n\n", "lower bound", static_cast<unsigned long long>(bound));

    const epoch_plan epoch = make_order("beta", partitions, slots, 1)(0);
    std::printf("%s", to_string(epoch, {.states = 6, .buckets = 4}).c_str());
    return cost_of(epoch, 1).swaps == beta_swaps(partitions, slots) && beta_swaps(partitions, slots) == 78 ? 0 : 1;
}
