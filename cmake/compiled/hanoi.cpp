// Definitions of gneiss::compiled: the hanoi trainer.
#include <gneiss/train/trainers/detail/hanoi.hpp>

namespace gneiss {

template class trainer<hanoi_loop>;

} // namespace gneiss
