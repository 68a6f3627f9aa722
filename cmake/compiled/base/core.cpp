// Definitions of gneiss::compiled shared by link prediction and node classification.
#include <gneiss/detail/context.hpp>
#include <gneiss/io/detail/manifest_json.hpp>
#include <gneiss/io/detail/safetensors_json.hpp>
