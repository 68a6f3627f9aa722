#include <gneiss/train/macro_batch_reuse.hpp>

#include <doctest/doctest.h>

namespace test_train_macro_batch_reuse {

using namespace gneiss;

TEST_CASE("the first state is repeated while the next is not ready, up to a limit, and all others as often") {
    macro_batch_reuse reuse(3);
    CHECK(reuse.again(0, 0, 1, false));
    CHECK_FALSE(reuse.again(0, 0, 2, true)); // decides
    CHECK(reuse.again(0, 2, 1, true));       // state 1 had no batches
    CHECK_FALSE(reuse.again(0, 2, 2, false));
    CHECK(reuse.again(2, 0, 1, false));
    CHECK(reuse.record() == pass_record{{2, 0, 2}, {}, {1}});
    macro_batch_reuse slow(3);
    CHECK(slow.again(0, 0, 1, false));
    CHECK(slow.again(0, 0, 2, false));
    CHECK_FALSE(slow.again(0, 0, 3, false)); // the limit
    CHECK(slow.again(0, 1, 2, true));
    macro_batch_reuse off(1);
    CHECK_FALSE(off.again(0, 0, 1, false));
    CHECK_THROWS_AS(macro_batch_reuse(0), error);
}

TEST_CASE("after a resume the passes are those decided before it, also where it came within the first state") {
    macro_batch_reuse later(4, {{2, 2}, {1}});
    CHECK_FALSE(later.again(1, 0, 2, false));
    CHECK(later.again(1, 1, 1, true));
    macro_batch_reuse first(4, {{1}}); // in its second pass
    CHECK_FALSE(first.again(0, 0, 2, false));
    CHECK(first.again(0, 1, 1, true));
    CHECK_FALSE(first.again(0, 1, 2, false));
}

TEST_CASE("a replayed record decides alone, continues after a resume, and reports its end") {
    const pass_record record{{3, 1}, {2}};
    macro_batch_reuse replay(1, {{3}}, record);
    CHECK_FALSE(replay.again(0, 1, 1, false));
    CHECK(replay.again(1, 0, 1, true));
    CHECK_FALSE(replay.again(1, 0, 2, false));
    CHECK(replay.record() == record);
    CHECK_THROWS_AS((void)replay.again(1, 1, 1, false), error);
    CHECK_THROWS_AS((void)replay.again(2, 0, 1, false), error);
}

} // namespace test_train_macro_batch_reuse
