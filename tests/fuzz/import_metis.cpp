#include "fuzz/first_pass.hpp"

GNEISS_FUZZ_TARGET("import_metis", bytes) {
    gneiss::fuzz::check_first_pass({}, "graph.metis", gneiss::fuzz::text_of(bytes));
}
