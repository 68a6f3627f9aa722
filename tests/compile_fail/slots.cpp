// error: train_loop: Batches must be a gneiss::batch_producer, see gneiss/train/slots.hpp
// error: train_loop: Features must be a gneiss::feature_source, see gneiss/train/slots.hpp
// error: train_loop: Embeddings must be a gneiss::embedding_source, see gneiss/train/slots.hpp
// error: train_loop: Backend must be a gneiss::train_backend, see gneiss/train/slots.hpp
// error: train_loop: Reducer must be a gneiss::gradient_reducer, see gneiss/train/slots.hpp
// error: sampled_batches: Task must be a gneiss::train_task, see gneiss/train/tasks.hpp
// error: sampled_batches: Topology must be a gneiss::topology, see gneiss/train/sampled_batches.hpp
// error: sampled_batches: Sampler must be a gneiss::sampler_of<Sampler, Topology::view>, see gneiss/sample/any_sampler.hpp
// error: any_graph_sampler: takes a function without arguments that makes a gneiss::sampler_of<S, resident_graph>, see gneiss/sample/any_sampler.hpp
// error: any_graph_sampler: what is made must be a gneiss::sampler_of<S, resident_graph>, see gneiss/sample/any_sampler.hpp
// error: inspected_batches: Batches must be gneiss::inspectable_batches, see gneiss/train/inspected_batches.hpp
// error: remote_batches: Source must be a gneiss::frame_source, see gneiss/train/remote_batches.hpp
// error: cpu_encoder_backend: Head must be a gneiss::loss_head, see gneiss/train/cpu_backend.hpp
// error: cpu_embedding_backend: Head must be a gneiss::loss_head, see gneiss/train/cpu_backend.hpp
// error: training_pipeline: Batch must be a gneiss::pipeline_item, see gneiss/train/concepts.hpp
// error: any_batches: the object must be a gneiss::batch_producer, see gneiss/train/slots.hpp
// error: any_features: the object must be a gneiss::feature_source, see gneiss/train/slots.hpp
// error: any_embeddings: the object must be a gneiss::embedding_source, see gneiss/train/slots.hpp
// error: any_backend: the object must be a gneiss::train_backend, see gneiss/train/slots.hpp
// error: any_reducer: the object must be a gneiss::gradient_reducer, see gneiss/train/slots.hpp
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/inspected_batches.hpp>
#include <gneiss/train/remote_batches.hpp>
#include <gneiss/train/sampled_batches.hpp>

using namespace gneiss;

struct nothing {};
using backend = cpu_encoder_backend<classification_head>;
using batches_of_nodes = sampled_batches<node_task, no_topology, no_hops>;

template class gneiss::train_loop<nothing, no_features, no_embeddings, backend>;
template class gneiss::train_loop<batches_of_nodes, nothing, no_embeddings, backend>;
template class gneiss::train_loop<batches_of_nodes, no_features, nothing, backend>;
template class gneiss::train_loop<batches_of_nodes, no_features, no_embeddings, nothing>;
template class gneiss::train_loop<batches_of_nodes, no_features, no_embeddings, backend, nothing>;
template class gneiss::sampled_batches<nothing, buffered_topology, neighbor_sampler<>>;
template class gneiss::sampled_batches<node_task, nothing, neighbor_sampler<>>;
template class gneiss::sampled_batches<node_task, buffered_topology, nothing>;
template class gneiss::inspected_batches<nothing>;
template class gneiss::remote_batches<nothing>;
template class gneiss::cpu_encoder_backend<nothing>;
template class gneiss::cpu_embedding_backend<nothing>;
template class gneiss::training_pipeline<nothing>;
any_batches batches(std::in_place_type<nothing>);
any_features features(std::in_place_type<nothing>);
any_embeddings embeddings(std::in_place_type<nothing>);
any_backend any(std::in_place_type<nothing>);
any_reducer reducer(std::in_place_type<nothing>);
any_graph_sampler no_function(nothing{}), no_sampler([] { return nothing{}; });
