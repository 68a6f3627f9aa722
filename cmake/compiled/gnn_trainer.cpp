// Definitions of gneiss::compiled: gnn_trainer.
#include <gneiss/train/detail/gnn_trainer.hpp>
