// error: a dense optimizer takes a dense_update_rule: a row_optimizer whose float member `rate` is the learning rate
#include <gneiss/model/dense_optimizer.hpp>

using namespace gneiss;

struct no_rate {
    static std::size_t state_floats(std::size_t) { return 0; }
    static float initial_state() { return 0; }
    void step(std::span<float>, std::span<float>, std::span<const float>, std::uint64_t) const {}
};
static_assert(row_optimizer<no_rate>);

void f() { dense_optimizer optimizer(no_rate{}); }
