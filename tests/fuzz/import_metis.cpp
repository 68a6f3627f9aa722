#include "fuzz/first_pass.hpp"

namespace test_fuzz_import_metis {

GNEISS_FUZZ_TARGET("import_metis", bytes) {
    gneiss::fuzz::check_first_pass({}, "graph.metis", gneiss::fuzz::text_of(bytes));
}

} // namespace test_fuzz_import_metis
