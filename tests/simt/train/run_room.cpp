#include <gneiss/cuda/train/run_room.cuh>

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

namespace test_simt_train_run_room {

using namespace gneiss;

namespace {

struct sizes {
    std::uint32_t nodes = 0, edges = 0;

    template <class A, class B, class F>
    static void for_each(A& a, B& b, F&& f) {
        f(a.nodes, b.nodes);
        f(a.edges, b.edges);
    }
    [[nodiscard]] sizes roomier() const { return {cuda::with_spare(nodes), cuda::with_spare(edges)}; }
    friend bool operator==(const sizes&, const sizes&) = default;
};

} // namespace

TEST_CASE("simt.train.run_room: the room is that of the largest batch of the first epoch and 2 %, and grows between "
          "epochs") {
    cuda::run_room<sizes> run;
    const auto batch = [&](std::uint64_t epoch, const sizes& of) {
        run.begin(epoch);
        const bool fits = run.room() && cuda::holds(*run.room(), of);
        run.add(of);
        return fits;
    };
    CHECK_FALSE(batch(3, {100, 20}));
    CHECK_FALSE(batch(3, {90, 500}));
    CHECK_FALSE(run.room());
    CHECK(batch(4, {102, 510})); // in each number
    CHECK((run.room() == sizes{102, 510}));
    CHECK_FALSE(batch(4, {103, 1}));
    CHECK((run.room() == sizes{102, 510})); // addresses stay within an epoch
    CHECK(batch(4, {1, 1}));
    CHECK(batch(5, {103, 1}));
    CHECK((run.room() == sizes{106, 521})); // of 103 and 510
    CHECK(batch(6, {106, 521}));
    CHECK((run.room() == sizes{106, 521}));
}

TEST_CASE("simt.train.run_room: spare room is rounded up, and nothing stays nothing") {
    CHECK(cuda::with_spare(0) == 0);
    CHECK(cuda::with_spare(1) == 2);
    CHECK(cuda::with_spare(50) == 51);
    CHECK(cuda::with_spare(51) == 53);
    constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
    CHECK(cuda::with_spare(most) == most);
}

} // namespace test_simt_train_run_room
