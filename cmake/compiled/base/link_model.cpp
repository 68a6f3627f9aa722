// Definitions of gneiss::compiled: link models by name.
#include <gneiss/model/any_link_model.hpp>

namespace gneiss {

template any_link_model make_link_model<eigen_backend>(
    std::string_view, std::string_view, std::size_t, const link_model_options&, float, eigen_backend);

} // namespace gneiss
