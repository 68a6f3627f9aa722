// Definitions of gneiss::compiled: the CPU's layers and encoder.
#include <gneiss/model/cpu_encoder.hpp>

namespace gneiss {

template class encoder<float, eigen_backend>;
template class any_layer_factory<float, eigen_backend>;
template class gat_layer<float, eigen_backend>;
template class gcn_layer<float, eigen_backend>;
template class linear_layer<float, eigen_backend>;
template class sage_layer<float, eigen_backend>;

} // namespace gneiss
