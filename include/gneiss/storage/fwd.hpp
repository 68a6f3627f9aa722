// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup storage storage
/// Data on disk and in memory: files, queues, buffers, stores and caches.
///
/// Stores read and write through an I/O engine chosen at run time, with direct reads where the file system can.
/// Datasets are verified by checksums as they are read. Buffers (`partition_buffer`, `edge_buffer`, `graph_buffer`,
/// `feature_buffer`) hold the data of a plan's current state and load the next one in the background. Memory is charged
/// to a budget. Errors name file, offset and length.

/// \defgroup storage_engine storage/engine
/// \ingroup storage
/// Asynchronous I/O: io_uring, threads, files in memory; injected faults, a simulated slow device.

/// \defgroup storage_io storage/io
/// \ingroup storage
/// Queues of requests, checked files, durable replacement, external sort, checkpoints, run files.

/// \defgroup storage_edge storage/edge
/// \ingroup storage
/// Edge buckets on disk, their builder, readers and buffer; temporary edges.

/// \defgroup storage_adjacency storage/adjacency
/// \ingroup storage
/// Graphs for samplers: CSC on disk and mapped, adjacency caches, the graph of resident partitions.

/// \defgroup storage_feature storage/feature
/// \ingroup storage
/// Feature rows: stores by partition, sources by row, caches.

/// \defgroup storage_embedding storage/embedding
/// \ingroup storage
/// Learned rows: embedding files, the partition buffer, scratch rows.

// Forward declarations, without default arguments of templates.
#include <cstdint>

#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

enum class fault_kind : std::uint8_t;
enum class feature_part : std::uint8_t;
enum class feature_type : std::uint8_t;
enum class graph_form : std::uint8_t;
enum class io_operation : std::uint8_t;
enum class lease_use : std::uint8_t;

class adjacency_file_stream;
class any_engine;
class any_row_source;
class block_reader;
class bucket_reader;
class bucket_store;
class bucketed_edges;
class change_set_file;
class change_set_writer;
class checksum_collector;
class checksum_table;
class csc_lists;
class directory_lock;
class disk_csc;
class disk_rows;
class disk_scratch;
class edge_buffer;
class embedding_file;
class fault_injector;
class feature_block;
class feature_buffer;
class feature_reader;
class feature_store;
class file;
class graph_buffer;
class io_queue;
class mapped_csc;
class mapped_file;
class mapped_rows;
class memory_csc;
class memory_engine;
class memory_file_system;
class memory_rows;
class neighbor_cache;
class neighbor_coverage;
class neighbor_pass;
class partition_buffer;
class plain_file;
class resident_block;
class resident_csr;
class resident_embeddings;
class resident_features;
class resident_graph;
class row_locks;
class row_slots;
class run_file_reader;
class run_file_writer;
class scratch_rows;
class sequential_writer;
class slot_map;
class state_edges;
class threads_engine;
class trace_file;
class trace_file_writer;
class uring_engine;
struct adjacency_file_stream_options;
struct aligned_range;
struct block_coalescing;
struct block_place;
struct bucket_bytes;
struct bucket_extent;
struct bucket_layout;
struct bucket_row;
struct bucketing;
struct byte_range;
struct calibrate_options;
struct checked_block;
struct checkpoint;
struct csc_block;
struct csc_files;
struct csc_stamp;
struct disk_csc_options;
struct disk_csc_stats;
struct edge_buffer_options;
struct edge_loader;
struct engine_candidate;
struct engine_choice;
struct engine_traits;
struct external_sort_report;
struct fault;
struct fault_targets;
struct feature_files;
struct gather_options;
struct gather_stats;
struct gather_target;
struct graph_buffer_options;
struct io_completion;
struct io_profile;
struct io_queue_options;
struct io_request;
struct io_stats;
struct loaded_block;
struct open_options;
struct partition_buffer_options;
struct removed_unless_renamed;
struct residency;
struct sparse_feature_rows;
struct steady_timer;
struct throttle_options;

template <executor E>
class bucket_builder;
template <class Array, class E>
class bucket_writer;
template <class Key>
struct by_key;
template <class Below>
class cached_rows;
template <class Engine>
class faulty;
template <class Engine, class Timer>
class throttled;
template <class Timer>
class throttled_device;
class unfinished_directory;

} // namespace gneiss
