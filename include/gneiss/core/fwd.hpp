// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup core core
/// Types, errors, memory, executors, random numbers, checksums and traces.
///
/// All other modules build on it. Ids are integers, 32 or 64 bits wide (types.hpp). Errors name file, offset and field
/// (error.hpp). Memory is charged to a `memory_budget` before it is allocated, and refused with a full account.
/// Algorithms take an `executor`, serial or oneTBB, and give the same result for any number of threads. Random numbers
/// are functions of a `random_key`, never of time, thread or order. Needs oneTBB and xxHash.

/// \defgroup core_executor core/executor
/// \ingroup core
/// Executors: serial, oneTBB, by reference; and loops, sums, scans and sorts on them.

// Forward declarations, without default arguments of templates.
#include <cstdint>

namespace gneiss {

enum class bfloat16 : std::uint16_t;
enum class half : std::uint16_t;
enum class memory_kind : std::uint8_t;
enum class random_domain : std::uint32_t;

class bitmap;
class executor_ref;
class keyed_permutation;
class memory_budget;
class memory_charge;
class node_set;
class over_budget;
class random_key;
class random_stream;
class ranked_bitmap;
class row_borders;
class row_finder;
class tbb_executor;
class trace_recorder;
class trace_span;
class trace_track;
struct memory_part;
struct recorded_span;
struct row_layout;
struct row_partitioning;
struct serial_executor;
struct trace_arguments;
struct trace_options;

template <class T>
class matrix_view;
template <class T>
class object_pool;

} // namespace gneiss
