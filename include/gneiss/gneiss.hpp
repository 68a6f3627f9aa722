#pragma once

// Everything that needs no optional dependency. Beside it: model/backend/eigen.hpp (gneiss::eigen),
// storage/engine/uring.hpp (gneiss::uring), and the parts of io/ that read JSON and gzip (gneiss::io).
// The list is kept complete by tests/structure/check.sh.
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/from_buckets.hpp>
#include <gneiss/order/hilbert.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/order/parse.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/order/row_major.hpp>
#include <gneiss/order/sequence.hpp>
#include <gneiss/order/to_string.hpp>
#include <gneiss/order/validate.hpp>
#include <gneiss/pipeline/concepts.hpp>
#include <gneiss/pipeline/queue.hpp>
#include <gneiss/pipeline/staleness.hpp>
#include <gneiss/pipeline/training_pipeline.hpp>
#include <gneiss/storage/checkpoint.hpp>
#include <gneiss/storage/concepts.hpp>
#include <gneiss/storage/external_sort.hpp>
#include <gneiss/storage/partition_buffer.hpp>
#include <gneiss/storage/plain_file.hpp>
#include <gneiss/storage/residency.hpp>
#include <gneiss/storage/row_access.hpp>
#include <gneiss/storage/row_file.hpp>
#include <gneiss/storage/slot_map.hpp>
