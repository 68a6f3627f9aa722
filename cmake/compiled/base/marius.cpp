// Definitions of gneiss::compiled: the marius trainer.
#include <gneiss/train/trainers/detail/marius.hpp>

namespace gneiss {

template class trainer<marius_loop>;

} // namespace gneiss
