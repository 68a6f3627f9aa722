#include <gneiss/cuda/model/link_model.cuh>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <tuple>

namespace gneiss::cuda {

// What is instantiated, and so goes through the gate.
[[maybe_unused]] constexpr std::tuple gated(
    &link_forward_backward<dot_decoder>, &link_forward_backward<distmult_decoder>,
    &link_forward_backward<complex_decoder>, &link_forward_backward<transe_decoder>);

} // namespace gneiss::cuda
