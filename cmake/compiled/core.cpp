// Definitions of gneiss::compiled that both doors use.
#include <gneiss/detail/context.hpp>
#include <gneiss/io/detail/manifest_json.hpp>
