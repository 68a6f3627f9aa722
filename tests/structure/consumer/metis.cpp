#include <gneiss/partition/metis.hpp>

int main() { return gneiss::metis_partition({{0, 1, 2}, {1, 0}, {}, {}}, {.parts = 2}).size() == 2 ? 0 : 1; }
