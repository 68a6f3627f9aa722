// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup graph graph
/// Edges, their streams, CSR and edge buckets; the concept of a graph for samplers.
///
/// Three concepts separate algorithms from storage: an `edge_stream` gives edges in repeatable passes, an
/// `adjacency_stream` gives lists in order of nodes, and a `neighbor_source` answers batches of requests for neighbors
/// at positions. `csr_graph` is the graph in memory; module storage has those on disk. Edge buckets group edges by the
/// partitions of their ends.

/// \defgroup graph_generate graph/generate
/// \ingroup graph
/// Synthetic graphs whose edges are functions of their number: R-MAT, planted partitions, LFR, geometric, bipartite,
/// Kronecker products.

// Forward declarations, without default arguments of templates.
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

enum class edge_direction : std::uint8_t;
enum class neighbor_direction : std::uint8_t;

class any_adjacency;
class symmetric_stream;
struct adjacency_chunk;
struct bipartite_options;
struct csr_options;
struct edge_block;
struct edge_block_shape;
struct geometric_options;
struct lfr_options;
struct planted_partition_options;
struct rmat_options;
struct seed_graph;
struct symmetric_csr;

template <node_id_type NodeId>
struct basic_edge;
template <node_id_type NodeId>
class bipartite;
template <node_id_type NodeId>
class csr;
template <node_id_type NodeId>
class csr_graph;
template <node_id_type NodeId>
class edge_list;
template <class Generator, class Executor>
class generated_edges;
template <node_id_type NodeId>
class geometric;
template <edge_generator Graph>
class kronecker_product;
template <node_id_type NodeId>
class lfr;
template <node_id_type NodeId>
struct memory_scratch;
template <node_id_type NodeId>
struct neighbor_answer;
template <node_id_type NodeId>
class neighbor_lists;
template <node_id_type NodeId>
struct neighbor_request;
template <node_id_type NodeId>
class planted_partition;
template <node_id_type NodeId>
class rmat;
template <class G>
class visit_counter;

} // namespace gneiss
