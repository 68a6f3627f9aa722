// Definitions of gneiss::compiled: the joestar trainer.
#include <gneiss/train/trainers/detail/joestar.hpp>

namespace gneiss {

template class trainer<joestar_loop>;

} // namespace gneiss
