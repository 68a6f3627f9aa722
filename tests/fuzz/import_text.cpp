#include "fuzz/first_pass.hpp"

namespace test_fuzz_import_text {

GNEISS_FUZZ_TARGET("import_text", bytes) {
    std::string_view text = gneiss::fuzz::text_of(bytes);
    const gneiss::import_options options = gneiss::fuzz::take_options(text);
    gneiss::fuzz::check_first_pass(options, "graph.txt", text);
}

} // namespace test_fuzz_import_text
