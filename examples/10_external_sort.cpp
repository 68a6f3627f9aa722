// Sorts two million numbers within 1 MiB of memory: sorted runs go to disk and are merged.
#include <gneiss/core/random.hpp>
#include <gneiss/storage/io/external_sort.hpp>

#include <cstdio>
#include <filesystem>

int main() {
    using namespace gneiss;
    constexpr std::uint64_t count = 2'000'000;
    const random_key draw(1, random_domain::user);

    //! [sort]
    external_sorter<std::uint64_t> sorter(std::filesystem::current_path(), /*memory*/ 1 << 20);
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        sorter.push(draw[i]);
        sum += draw[i];
    }

    std::uint64_t seen = 0, last = 0;
    bool ascending = true;
    sorter.for_each_block([&](std::span<const std::uint64_t> block) { // once, in ascending order
        for (const std::uint64_t x : block) {
            ascending = ascending && last <= x;
            last = x;
            sum -= x;
        }
        seen += block.size();
    });
    //! [sort]

    const external_sort_report& did = sorter.report();
    std::printf("%llu numbers in %llu runs, merged in %llu passes, %.1f MiB written\n",
        static_cast<unsigned long long>(did.records), static_cast<unsigned long long>(did.runs),
        static_cast<unsigned long long>(did.merge_passes) + 1, static_cast<double>(did.spilled_bytes) / (1 << 20));
    return ascending && seen == count && sum == 0 && did.runs > 1 ? 0 : 1;
}
