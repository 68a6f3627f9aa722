// Definitions of gneiss::compiled: the check of gradients.
#include <gneiss/model/gradient_check.hpp>

namespace gneiss {

template gradient_report check_gradients<double>(
    std::vector<any_layer_factory<double, plain_backend<double>>>, const gradient_check_options&);

} // namespace gneiss
