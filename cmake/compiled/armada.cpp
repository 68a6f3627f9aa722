// Definitions of gneiss::compiled: the armada trainer.
#include <gneiss/train/trainers/detail/armada.hpp>

namespace gneiss {

template class trainer<armada_loop>;

} // namespace gneiss
