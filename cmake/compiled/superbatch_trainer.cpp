// Definitions of gneiss::compiled: superbatch_trainer.
#include <gneiss/train/detail/superbatch_trainer.hpp>
