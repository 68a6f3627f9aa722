// error: a device steps by sgd, adagrad or adam: an optimizer of your own trains on the CPU
#define GNEISS_SIMT
#include <gneiss/cuda/model/device/optimizer.cuh>

using namespace gneiss;

struct own {
    float rate = .1F;
    static std::size_t state_floats(std::size_t) { return 0; }
    static float initial_state() { return 0; }
    void step(std::span<float>, std::span<float>, std::span<const float>, std::uint64_t) const {}
};

void f(cudaStream_t stream, const cuda::step_state* at, cuda::gradient_norm* norm) {
    cuda::step_dense(stream, own{}, at, {}, 0, nullptr, nullptr, nullptr, nullptr, norm);
}
