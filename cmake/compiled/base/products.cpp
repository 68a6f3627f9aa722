// Definitions of gneiss::compiled: Eigen's products.
#include <gneiss/model/detail/eigen_products.hpp>
