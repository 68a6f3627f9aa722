// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gneiss_python {

/// Lets exceptions of gneiss reach Python as those of gneiss_graph: ValueError for a value of a flag, else `Error` and
/// what derives from it, with path, field, offset and line.
void register_errors();

/// Throws `std::runtime_error`, RuntimeError in Python, in a process that was forked after the import: threads of the
/// parent, which this process lacks, may hold locks.
void refuse_forked_process();

} // namespace gneiss_python
