// Tests prefix sums of <gneiss/cuda/core/prefix_sums.cuh>.
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <simt/support.hpp>

namespace test_simt_prefix_sums {

namespace {

using namespace gneiss::cuda;

struct scrambled {
    std::uint32_t bound;
    GNEISS_HD std::uint32_t operator()(std::uint32_t i) const {
        return static_cast<std::uint32_t>(gneiss::mix64(i) % bound);
    }
};
/// Keeps the total, and reverts the count if it is too large.
struct keep_total {
    std::uint64_t* to;
    std::uint32_t* count;
    std::uint64_t most;
    __device__ void operator()(std::uint64_t total) const {
        *to = total;
        if (total > most) *count = 0;
    }
};

} // namespace

TEST_CASE("simt.prefix_sums: they equal those of a loop, for any count within the capacity") {
    constexpr std::uint32_t capacity = 9000;
    gneiss::memory_budget budget;
    stream in;
    device_buffer<std::uint32_t> count(budget, "count", 1), sums(budget, "sums", capacity + 1);
    device_buffer<std::uint64_t> scratch(budget, "scratch", prefix_tiles::scratch(capacity)), total(budget, "total", 1);
    std::vector<std::uint32_t> got(capacity + 1);
    for (const std::uint32_t items : {0U, 1U, 31U, 32U, 33U, 1023U, 1024U, 1025U, 5000U, 9000U})
        simt::for_each_seed(items < 2000 ? 3 : 1, [&] {
            const std::uint32_t bound = items == 5000 ? ~std::uint32_t{0} : 9;
            copy_async(count.span(), std::span(&items, 1), in);
            prefix_sums(in, {count.data()}, capacity, scrambled{bound}, sums.data(), scratch.data(),
                keep_total{total.data(), count.data(), ~0ULL});
            std::uint64_t found = 0, want = 0;
            copy_async(std::span(got), sums.span(), in);
            copy_async(std::span(&found, 1), total.span(), in);
            in.synchronize();
            for (std::uint32_t i = 0; i < items; want += scrambled{bound}(i), ++i)
                REQUIRE(got[i] == static_cast<std::uint32_t>(want));
            CHECK(got[items] == static_cast<std::uint32_t>(want));
            CHECK(found == want); // more than 32 bits for large values
        });
}

TEST_CASE("simt.prefix_sums: in place, and for the number of items in a tile of others") {
    gneiss::memory_budget budget;
    stream in;
    const std::uint32_t of = 1001; // ⌈1001 / 100⌉ · 7 = 77
    device_buffer<std::uint32_t> count(budget, "count", 1), sums(budget, "sums", 101);
    device_buffer<std::uint64_t> scratch(budget, "scratch", prefix_tiles::scratch(100));
    const std::vector<std::uint32_t> values(101, 3);
    std::vector<std::uint32_t> got(101);
    copy_async(count.span(), std::span(&of, 1), in);
    copy_async(sums.span(), std::span(values), in);
    prefix_sums(in, {count.data(), 100, 7}, 100, sums.data(), scratch.data());
    copy_async(std::span(got), sums.span(), in);
    in.synchronize();
    for (std::uint32_t i = 0; i <= 100; ++i) CHECK(got[i] == (i <= 77 ? 3 * i : 3));
}

TEST_CASE("simt.prefix_sums: a callback that reduces the count prevents writing the sums") {
    gneiss::memory_budget budget;
    stream in;
    const std::uint32_t items = 50;
    device_buffer<std::uint32_t> count(budget, "count", 1), sums(budget, "sums", 51);
    device_buffer<std::uint64_t> scratch(budget, "scratch", prefix_tiles::scratch(50)), total(budget, "total", 1);
    std::vector<std::uint32_t> got(51);
    copy_async(count.span(), std::span(&items, 1), in);
    prefix_sums(
        in, {count.data()}, 50, scrambled{9}, sums.data(), scratch.data(), keep_total{total.data(), count.data(), 3});
    copy_async(std::span(got), sums.span(), in);
    in.synchronize();
    for (std::uint32_t i = 0; i < 50; ++i) CHECK(got[i] == scrambled{9}(i));
}

} // namespace test_simt_prefix_sums
