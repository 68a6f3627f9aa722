#include "fuzz/first_pass.hpp"

namespace test_fuzz_import_mtx {

GNEISS_FUZZ_TARGET("import_mtx", bytes) {
    gneiss::fuzz::check_first_pass({}, "graph.mtx", gneiss::fuzz::text_of(bytes));
}

} // namespace test_fuzz_import_mtx
