// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup io io
/// Datasets on disk: manifests, arrays, names, attributes, reordering and export.
///
/// A dataset is a directory of .npy arrays that NumPy can open, with checksums and a manifest (docs/format.md).
/// `dataset` opens one, `dataset_writer` makes one atomically, `import_dataset` makes one from text, NumPy, SciPy or
/// GraphBolt files within a memory budget. `reorder` and `build_csc` prepare it for a trainer. `match_rows` and
/// `carry_rows` take embeddings from one dataset to another.

/// \defgroup io_import io/import
/// \ingroup io
/// Import of other formats: options, and the phases of an import.

// Forward declarations, without default arguments of templates.
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
struct carried_rows;
struct checked_array;
struct convert_options;
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
struct row_matches;
struct split_overlap;

template <class T>
class mapped_array;

} // namespace gneiss
