#include <gneiss/core/object_pool.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace test_core_object_pool {

using namespace gneiss;

TEST_CASE("the object used last is taken first, and an empty pool returns none") {
    object_pool<std::unique_ptr<int>> pool;
    CHECK_FALSE(pool.take());
    pool.put(std::make_unique<int>(1));
    pool.put(std::make_unique<int>(2));
    CHECK(**pool.take() == 2);
    CHECK(**pool.take() == 1);
    CHECK_FALSE(pool.take());
}

TEST_CASE("the pool makes one object per concurrent user, and threads never share one") {
    struct object {
        std::atomic<int> users = 0;
    };
    object_pool<std::unique_ptr<object>> pool;
    std::atomic<int> result = 0, wrong = 0;
    const auto make = [&] {
        ++result;
        return std::make_unique<object>();
    };
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i)
                pool.with(make, [&](std::unique_ptr<object>& mine) {
                    wrong += mine->users++ != 0;
                    --mine->users;
                });
        });
    threads.clear();
    CHECK(wrong == 0);
    CHECK(result <= 4);
    int idle = 0;
    while (pool.take()) ++idle;
    CHECK(idle == result);
}

TEST_CASE("an object whose use throws is discarded") {
    object_pool<int> pool;
    int seen = 0;
    pool.with([] { return 7; }, [&](int& mine) { seen = mine++; });
    CHECK(seen == 7);
    CHECK_THROWS_AS(pool.with([] { return 7; }, [](int& mine) { throw std::runtime_error(std::to_string(mine)); }),
        std::runtime_error);
    CHECK_FALSE(pool.take());
}

} // namespace test_core_object_pool
