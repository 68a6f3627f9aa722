// error: make_sampler: the graph must be a gneiss::neighbor_source, see gneiss/graph/concepts.hpp
// error: any_sampler: what is made must be a gneiss::storable_sampler_of<S, G>, see gneiss/sample/any_sampler.hpp
// error: any_order: the object must be a gneiss::edge_bucket_order, see gneiss/order/concepts.hpp
// error: executor_ref: the object must be a gneiss::executor, see gneiss/core/executor/concepts.hpp
#include <gneiss/graph/csr.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/sample/any_sampler.hpp>

using namespace gneiss;

struct nothing {
    using id_type = node_id;
};

any_order order("of mine", nothing{});
executor_ref serial(nothing{});
void f(const nothing& graph) { (void)make_sampler(graph, sampler_kind::neighbor, {}, 1); }
void f(const csr_graph<>& graph) {
    any_sampler sampler(graph, [] { return nothing{}; });
}
