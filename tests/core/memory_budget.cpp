#include <gneiss/core/memory_budget.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <type_traits>

namespace test_core_memory_budget {

using namespace gneiss;

static_assert(!std::is_copy_constructible_v<memory_charge>);

TEST_CASE("bytes are printed in binary units with three digits") {
    CHECK(format_bytes(0) == "0 B");
    CHECK(format_bytes(1023) == "1023 B");
    CHECK(format_bytes(1024) == "1.00 KiB");
    CHECK(format_bytes(std::uint64_t{1536} << 20) == "1.50 GiB");
    CHECK(format_bytes(std::uint64_t{100} << 20) == "100 MiB");
    CHECK(format_bytes(std::uint64_t{100} << 20, true) == "100 MiB");
    CHECK(format_bytes((std::uint64_t{100} << 20) + 1) == "100 MiB");
    CHECK(format_bytes((std::uint64_t{100} << 20) + 1, true) == "101 MiB");
    CHECK(format_bytes(47'096'400, true) == "45.0 MiB"); // 44.914
    CHECK(format_bytes(memory_budget::unlimited).ends_with("EiB"));
}

TEST_CASE("a charge counts until it goes out of scope, even if moved") {
    memory_budget budget(100);
    memory_charge kept;
    {
        memory_charge charge = budget.charge({"buffer", 60});
        CHECK(budget.used() == 60);
        CHECK(budget.available() == 40);
        kept = std::move(charge);
    }
    CHECK(budget.used() == 60);
    kept = memory_charge{};
    CHECK(budget.used() == 0);
}

TEST_CASE("a charge that does not fit is refused with all its parts, and changes nothing") {
    memory_budget budget(100);
    const memory_charge first = budget.charge({"partition buffer", 70});
    const memory_charge second = budget.charge({"queues", 20});
    try {
        const memory_charge third = budget.charge({"prefetch", 11});
        FAIL("11 bytes do not fit in 10");
    } catch (const over_budget& refused) {
        CHECK(refused.code() == errc::over_budget);
        CHECK(refused.limit() == 100);
        CHECK(refused.needed() == 101);
        CHECK(refused.parts() == std::vector<memory_need>{{"partition buffer", 70}, {"queues", 20}, {"prefetch", 11}});
        CHECK(std::string(refused.what()) ==
            "needs 101 B of memory, the budget is 100 B: "
            "partition buffer 70 B + queues 20 B + prefetch 11 B");
    }
    CHECK(budget.used() == 90);
    const memory_charge exactly = budget.charge({"prefetch", 10});
    CHECK(budget.available() == 0);
}

TEST_CASE("a charge near 2^64 does not wrap around the limit") {
    memory_budget budget(100);
    const memory_charge some = budget.charge({"a", 50});
    CHECK_THROWS_AS((void)budget.charge({"b", memory_budget::unlimited}), over_budget);
    CHECK_THROWS_AS((void)budget.charge({"b", memory_budget::unlimited - 49}), over_budget);
}

TEST_CASE("host, pinned and device memory have separate limits") {
    memory_budget budget(100, 10, 20);
    const memory_charge host = budget.charge({"rows", 100});
    CHECK_THROWS_AS((void)budget.charge({"staging", 11, memory_kind::pinned}), over_budget);
    const memory_charge pinned = budget.charge({"staging", 10, memory_kind::pinned});
    CHECK(budget.used(memory_kind::pinned) == 10);
    CHECK(budget.available(memory_kind::device) == 20);
    CHECK(budget.parts(memory_kind::pinned) == std::vector<memory_need>{{"staging", 10, memory_kind::pinned}});
}

TEST_CASE("a raised charge keeps its name; one that does not fit is refused with its new size, and nothing changes") {
    memory_budget budget(100);
    const memory_charge edges = budget.charge({"edges", 30});
    const memory_charge others = budget.charge({"others", 40});
    budget.raise(edges, 60);
    budget.raise(edges, 20);
    CHECK(budget.parts() == std::vector<memory_need>{{"edges", 60}, {"others", 40}});
    for (const std::uint64_t bytes : {std::uint64_t{61}, memory_budget::unlimited}) {
        try {
            budget.raise(edges, bytes);
            FAIL("61 and 40 bytes do not fit in 100");
        } catch (const over_budget& refused) {
            CHECK(refused.parts() == std::vector<memory_need>{{"others", 40}, {"edges", bytes}});
        }
        CHECK(budget.used() == 100);
    }
}

TEST_CASE("any sequence of charges and releases keeps the sum, as a list does") {
    memory_budget budget(1000);
    std::deque<std::pair<memory_charge, std::uint64_t>> held;
    std::uint64_t sum = 0;
    random_stream random(random_key{3, random_domain::user});
    for (int step = 0; step < 3000; ++step) {
        if (random.below(2) == 0 || held.empty()) {
            const std::uint64_t bytes = random.below(300);
            if (sum + bytes <= 1000) {
                held.emplace_back(budget.charge({"part", bytes}), bytes);
                sum += bytes;
            } else {
                CHECK_THROWS_AS((void)budget.charge({"part", bytes}), over_budget);
            }
        } else {
            const auto at = held.begin() + static_cast<std::ptrdiff_t>(random.below(held.size()));
            sum -= at->second;
            std::swap(*at, held.back());
            held.pop_back();
        }
        CHECK(budget.used() == sum);
        CHECK(budget.parts().size() == held.size());
    }
}

TEST_CASE("threads together never hold more than the limit") {
    memory_budget budget(10);
    std::atomic<int> holding{0};
    std::atomic<bool> exceeded{false};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                for (int i = 0; i < 500; ++i) {
                    try {
                        const memory_charge charge = budget.charge({"part", 4});
                        if (++holding > 2) exceeded = true; // 10 / 4
                        --holding;
                    } catch (const over_budget&) {
                        std::this_thread::yield(); // others hold it
                    }
                }
            });
    }
    CHECK_FALSE(exceeded);
    CHECK(budget.used() == 0);
}

} // namespace test_core_memory_budget
