// SPDX-License-Identifier: Apache-2.0
// Module core: types, errors, memory (budget, buffers, views, row layout), executors, random numbers, checksums and traces. All
// other modules build on it. Forward declarations, without default template arguments.
#pragma once

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
