// Refuses what exceeds a memory budget before it is allocated, with a full account.
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/memory.hpp>

#include <cstdio>

int main() {
    using namespace gneiss;
    // 64 MiB of rows in 16 partitions, in a file in memory.
    const row_partitioning partitioning{.nodes = 1 << 17, .partitions = 16};
    const row_layout layout{.dim = 64, .state = 64};
    const memory_file_system disk;
    const engine_factory engines = [&] { return any_engine(memory_engine(disk)); };
    any_engine engine = engines();
    embedding_file::create(engine, "rows", partitioning, layout, /*spare slots*/ 2);
    embedding_file rows(engines, "rows", partitioning, layout, 2);

    //! [budget]
    memory_budget budget(32 << 20);
    const memory_charge mine = budget.charge({"what the program holds itself", 8 << 20});
    //! [budget]
    std::uint32_t slots = 8;
    for (; slots >= 2; --slots) {
        try {
            const partition_buffer buffer(rows, {.resident_partitions = slots, .prefetch = 2}, budget);
            std::printf("%u slots and 2 to prefetch: %s of %s are in use\n", slots, format_bytes(budget.used()).c_str(),
                format_bytes(budget.limit()).c_str());
            break;
        } catch (const over_budget& refusal) {
            std::printf("%u slots: %s\n", slots, refusal.what());
            if (refusal.parts().size() != 2 || refusal.needed() <= refusal.limit()) return 1;
        }
    }
    // (4 + 2) partitions of 4 MiB and the 8 MiB fill the budget; destroying the buffer releases its charge.
    return slots == 4 && budget.used() == 8 << 20 ? 0 : 1;
}
