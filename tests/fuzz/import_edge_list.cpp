#include "fuzz/first_pass.hpp"

namespace test_fuzz_import_edge_list {

GNEISS_FUZZ_TARGET("import_edge_list", bytes) {
    gneiss::import_options options;
    for (const auto ids : {gneiss::id_kind::string, gneiss::id_kind::integer}) {
        options.ids = ids;
        gneiss::fuzz::check_first_pass(options, "graph.el", gneiss::fuzz::text_of(bytes));
    }
}

} // namespace test_fuzz_import_edge_list
