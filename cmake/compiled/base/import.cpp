// Definitions of gneiss::compiled: import of datasets.
#include <gneiss/io/detail/importer.hpp>
