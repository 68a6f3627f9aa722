// Definitions of gneiss::compiled: the ginex trainer.
#include <gneiss/train/trainers/detail/ginex.hpp>

namespace gneiss {

template class trainer<ginex_loop>;

} // namespace gneiss
