#include "io/import/support.hpp"

#include <gneiss/io/import/importer.hpp>

namespace gneiss::test {

import_report import_with(const import_options& options, executor_ref executor) { return import_dataset(options, executor); }

} // namespace gneiss::test
