#include <all_headers.hpp>

#include <gneiss/gneiss.hpp>

std::uint64_t second(std::uint64_t seed) { return gneiss::random_key{seed, gneiss::random_domain::user}[0]; }
