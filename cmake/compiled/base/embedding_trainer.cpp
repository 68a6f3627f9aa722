// Definitions of gneiss::compiled: embedding_trainer.
#include <gneiss/train/detail/embedding_trainer.hpp>
