#include <gneiss/cuda/model/link_step.cuh>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

namespace gneiss::cuda {

// What is instantiated, and so goes through the gate.
template class link_step<dot_decoder>;
template class link_step<distmult_decoder>;
template class link_step<complex_decoder>;
template class link_step<transe_decoder>;

} // namespace gneiss::cuda
