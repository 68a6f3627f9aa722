#include <gneiss/gneiss.hpp>

#include <all_headers.hpp>

std::uint64_t second(std::uint64_t seed);

int main() {
    const auto draw = gneiss::random_key{1, gneiss::random_domain::user}[0];
    return draw == second(1) ? 0 : 1; // both units see the same functions
}
