#include <gneiss/cuda/model/device/edge_functions.cuh>
#include <gneiss/cuda/model/layer/message_passing.cuh>

#include "../../../model/own_layers.hpp"

namespace gneiss::cuda {

// Instantiations that the gate checks: functions of rows, values and edges, written by users.
template class message_layer<own_layers::gin>;
template class message_layer<own_layers::pool>;
template class message_layer<own_layers::mean>;
template class message_layer<own_layers::gated>;
template class message_layer<own_layers::attending>;
template class message_layer<own_layers::differences>;

} // namespace gneiss::cuda
