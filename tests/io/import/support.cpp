#include "io/import/support.hpp"

#include <gneiss/io/import/importer.hpp>

namespace gneiss::test {

import_report import_with(const import_options& options, executor_ref on) { return import_dataset(options, on); }

} // namespace gneiss::test
