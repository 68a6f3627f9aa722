// Definitions of gneiss::compiled for node classification.
#include <gneiss/detail/node_classification.hpp>
