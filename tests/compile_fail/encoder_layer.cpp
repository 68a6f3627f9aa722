// error: a layer of an encoder is a message_passing_layer (outputs, reduce, allocate, update, update_backward) or a layer_factory (make, outputs, memory)
#include <gneiss/model/backend/plain.hpp>
#include <gneiss/model/encoder.hpp>

using namespace gneiss;

struct half_a_layer { // lacks update_backward
    static constexpr message_reduction reduce = message_reduction::sum;
    std::size_t outputs() const { return 4; }
    void allocate(auto&, const std::string&, std::size_t) {}
    void update(auto&, auto, auto, auto) const {}
};

void f(dense_parameters<>& weights) {
    encoder<float, plain_backend<float>> encode(weights, {half_a_layer{}}, {.dense = 3});
}
