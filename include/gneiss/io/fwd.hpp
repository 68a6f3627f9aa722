// SPDX-License-Identifier: Apache-2.0
// Module io: datasets on disk. It has the manifest, readers and writers of dataset directories (dataset, dataset_writer, npy),
// exports, reordering of rows, CSC construction, expansion by Kronecker products, and the import of other formats (import/).
// Forward declarations, without the default arguments of templates.
#pragma once

#include <cstdint>

namespace gneiss {

enum class assignment_format : std::uint8_t;
enum class dataset_ids : std::uint8_t;
enum class dataset_task : std::uint8_t;
enum class edge_split : std::uint8_t;
enum class node_split : std::uint8_t;
enum class npy_dtype : std::uint8_t;

class dataset;
class dataset_writer;
class mapped_edges;
class mapped_npy;
class name_table;
class node_features;
class npy_reader;
class npy_writer;
class partition_journal_file;
class partition_order;
class row_shuffle;
struct checked_array;
struct csc_build_options;
struct dataset_array;
struct dataset_manifest;
struct dataset_node_attributes;
struct dataset_provenance;
struct dataset_source;
struct expand_options;
struct expansion_size;
struct import_node_attributes;
struct import_node_list;
struct import_options;
struct import_progress;
struct import_report;
struct import_source;
struct npy_header;
struct reorder_options;
struct split_overlap;

template <class T>
class mapped_array;

} // namespace gneiss
