// Definitions of gneiss::compiled: reordering and rebucketing of datasets, adjacency files.
#include <gneiss/io/detail/build_csc.hpp>
#include <gneiss/io/detail/rebucket.hpp>
#include <gneiss/io/detail/reorder.hpp>
