// error: grem: Scratch must be a gneiss::scratch, see gneiss/graph/concepts.hpp
// error: 'place.create(nodes)'
// error: any_sampler: what is made must be a gneiss::storable_sampler_of<S, G>, see gneiss/sample/any_sampler.hpp
// error: any_graph_sampler: what is made must be a gneiss::sampler_of<S, resident_graph>, see gneiss/sample/any_sampler.hpp
// error: 's.sample(key, graph, seeds, executor, arena, excluded)'
// error: sampled_batches: Task must be a gneiss::train_task, see gneiss/train/tasks.hpp
// error: 'c.cutter()
// error: sampled_batches: Topology must be a gneiss::topology, see gneiss/train/sampled_batches.hpp
// error: 'c.ready(i)'
// error: link_model: Decoder must be a gneiss::decoder, see gneiss/model/concepts.hpp
// error: link_scorer: the object must be a gneiss::decoder, see gneiss/model/concepts.hpp
// error: 'd.query_backward(corrupt_side, in, in, in, out, out)'
// error: any_link_model: the object must be a gneiss::link_batch_model, see gneiss/model/any_link_model.hpp
// error of g++: 'c.scores(rows, rows, out)'
// error: encoder: Backend must be a gneiss::gnn_kernels<Backend, T>, see gneiss/model/kernels.hpp
// error of g++: 'b.segment_total(s, heads, numbers, out, executor)'
// error: belady_policy: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp
// error: 'trace.read(batch, room)'
// error: rank_edges: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: rank_edges_sampled: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: top_k: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: similar_nodes: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: 's.for_each_block(visit)'
// error: rank_edges_given: Candidates must be a gneiss::candidate_source, see gneiss/eval/concepts.hpp
// error: rank_edges_given: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: 'source.read(position, position, visit)'
// no other error
// The compiler names the member that is missing: of several, clang the first and g++ the last.
#include <gneiss/cache/belady.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/eval/given_ranking.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/sampled_ranking.hpp>
#include <gneiss/eval/similar_nodes.hpp>
#include <gneiss/eval/top_k.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/partition/grem_partitioner.hpp>
#include <gneiss/sample/any_graph_sampler.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/train/sampled_batches.hpp>

using namespace gneiss;

struct no_create {};
struct no_sample {};
struct no_cutter {
    struct view {};
    static constexpr bool repeats = false;
    void begin_epoch(const epoch_start&);
    std::shared_ptr<const view> acquire(const epoch_start&, std::uint32_t);
    static std::uint64_t batches(const view&);
};
struct no_ready {
    struct view {};
    void begin_epoch(const epoch_start&);
    std::shared_ptr<const view> acquire(const epoch_start&, std::uint32_t);
    void enter(phase);
};
struct no_backward {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr std::size_t relation_floats(std::size_t) { return 0; }
    static void query(side, std::span<const float>, std::span<const float>, std::span<float>);
};
struct no_scores {
    std::size_t dim() const;
};
struct no_kernels {};
struct no_read {
    std::size_t batches() const;
    std::size_t size(std::size_t) const;
};
struct no_blocks {
    std::uint64_t rows() const;
    std::uint32_t dim() const;
};
struct no_lists {
    std::uint64_t size(std::size_t, side) const;
};

const serial_executor one;
void f(edge_list<>& edges, no_create& place) {
    (void)grem(edges, place, {}, {}, multilevel_bisector<serial_executor>{.on = &one});
}
void f(const csr_graph<>& graph) {
    any_sampler sampler(graph, [] { return no_sample{}; });
}
any_graph_sampler sampler([] { return no_sample{}; });
void f(no_cutter& task, no_topology& topology) { sampled_batches batches(task, topology, make_no_hops, one); }
void f(node_task& task, no_ready& topology) { sampled_batches batches(task, topology, make_no_hops, one); }
any_link_model own(std::in_place_type<link_model<no_backward, softmax_loss, eigen_backend>>, std::size_t{8});
any_link_model other(std::in_place_type<no_scores>);
link_scorer scorer(no_backward{});
void f(dense_parameters<>& weights) {
    encoder<float, no_kernels> encode(weights, parse_layers("sage:4"), {.dense = 3});
}
void f(no_read& trace) { belady_policy policy(trace, {}, one); }
void f(const link_scorer& score, no_blocks& rows, no_lists& lists, std::span<const edge> edges,
    std::span<const link_query> queries) {
    (void)rank_edges(score, rows, edges, {}, one);
    (void)rank_edges_sampled(score, rows, edges, {}, {}, one);
    (void)rank_edges_given(score, rows, edges, lists, one);
    (void)top_k(score, rows, queries, 1, {}, one);
    (void)similar_nodes(rows, std::span<const node_id>{}, 1, similarity_measure::dot, one);
}
