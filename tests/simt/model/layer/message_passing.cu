#include <gneiss/cuda/model/layer/message_passing.cuh>

#include "../../../model/own_layers.hpp"

namespace gneiss::cuda {

// Instantiations that the gate checks: functions of rows and values, written by users.
template class message_layer<own_layers::gin>;
template class message_layer<own_layers::pool>;
template class message_layer<own_layers::mean>;

} // namespace gneiss::cuda
