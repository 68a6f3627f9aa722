// Definitions of gneiss::compiled: memory and profile of a GNN.
#include <gneiss/train/trainers/detail/gnn_parts.hpp>
