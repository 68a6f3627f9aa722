// Definitions of gneiss::compiled for link prediction, and the trainers of the library's decoders.
#include <gneiss/detail/link_prediction.hpp>

namespace gneiss {

template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const dot_decoder&, const link_trainer_options&);
template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const dot_decoder&, const link_trainer_options&);
template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const distmult_decoder&, const link_trainer_options&);
template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const distmult_decoder&, const link_trainer_options&);
template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const complex_decoder&, const link_trainer_options&);
template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const complex_decoder&, const link_trainer_options&);
template link_trainer::link_trainer(
    context&, const bucketed_edges&, node_embeddings&, const transe_decoder&, const link_trainer_options&);
template training_plan link_trainer::plan(
    context&, const bucketed_edges&, const node_embeddings&, const transe_decoder&, const link_trainer_options&);

} // namespace gneiss
