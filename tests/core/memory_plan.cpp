#include <gneiss/core/memory_plan.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace test_core_memory_plan {

using namespace gneiss;

TEST_CASE("a plan sums its parts, and charges what the caller reserves") {
    memory_plan plan;
    plan.add({"graph", 300});
    plan.reserve({"labels", 20});
    plan.add({"nothing", 0});
    plan.reserve({"tables", 5});
    CHECK(plan.bytes() == 325);
    CHECK(plan.parts() == std::vector<memory_need>{{"graph", 300}, {"labels", 20}, {"tables", 5}});

    memory_budget budget(325);
    {
        const std::vector<memory_charge> reserved = plan.charge_reserved(budget);
        CHECK(budget.parts() == std::vector<memory_need>{{"labels", 20}, {"tables", 5}});
        const memory_charge graph = budget.charge(plan.parts().front());
        CHECK(budget.used() == plan.bytes());
    }
    CHECK(budget.used() == 0);

    memory_budget small(22);
    CHECK_THROWS_AS((void)plan.charge_reserved(small), over_budget);
    CHECK(small.used() == 0); // nothing is left behind
}

TEST_CASE("a part of a plan is raised by its name, and never shrinks") {
    memory_plan plan;
    plan.add({"row gather", 100});
    plan.raise("row gather", 140);
    plan.raise("row gather", 50);
    CHECK(plan.parts() == std::vector<memory_need>{{"row gather", 140}});
    CHECK_THROWS_AS(plan.raise("graph", 1), error);
}

} // namespace test_core_memory_plan
