// Definitions of gneiss::compiled: the mariusgnn trainer.
#include <gneiss/train/trainers/detail/mariusgnn.hpp>

namespace gneiss {

template class trainer<mariusgnn_loop>;

} // namespace gneiss
