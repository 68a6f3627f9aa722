// error: any_adjacency: the object must be a gneiss::adjacency_stream, see gneiss/graph/adjacency_stream.hpp
// error: make_csr_graph: Stream must be a gneiss::edge_stream, see gneiss/graph/concepts.hpp
// error: make_symmetric_csr: Stream must be a gneiss::edge_stream, see gneiss/graph/concepts.hpp
// error: generated_edges: Generator must be a gneiss::edge_generator, see gneiss/graph/concepts.hpp
// error: generated_edges: Executor must be a gneiss::executor, see gneiss/core/executor/concepts.hpp
// error: visit_counter: G must be a gneiss::neighbor_source, see gneiss/graph/concepts.hpp
// no other error
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/graph/visit_counter.hpp>

using namespace gneiss;

struct nothing {
    using edge_type = edge;
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 1;
};

any_adjacency lists(nothing{});
template class gneiss::generated_edges<nothing>;
template class gneiss::generated_edges<rmat<>, nothing>;
template class gneiss::visit_counter<nothing>;
void f(nothing& edges) { (void)make_csr_graph(edges, neighbor_direction::in); }
void g(nothing& edges) { (void)make_symmetric_csr(edges); }
