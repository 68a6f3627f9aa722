// error: link_model: Decoder must be a gneiss::decoder, see gneiss/model/concepts.hpp
// error: link_model: Loss must be a gneiss::ranking_loss, see gneiss/model/concepts.hpp
// error: link_model: Backend must be a gneiss::gemm_backend, see gneiss/model/concepts.hpp
// error: make_link_model: the decoder must be a gneiss::decoder or a name, see gneiss/model/concepts.hpp
// error: make_link_model: the loss must be a gneiss::ranking_loss or a name, see gneiss/model/concepts.hpp
// error: any_loss: the object must be a gneiss::ranking_loss, see gneiss/model/concepts.hpp
// error: link_scorer: the object must be a gneiss::decoder, see gneiss/model/concepts.hpp
// error: any_row_optimizer: the object must be a gneiss::row_optimizer, see gneiss/model/concepts.hpp
// error: encoder: Backend must be a gneiss::gnn_kernels<Backend, T>, see gneiss/model/kernels.hpp
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/model/optimizer.hpp>

using namespace gneiss;

struct nothing {};

template class gneiss::link_model<nothing, softmax_loss, eigen_backend>;
template class gneiss::link_model<dot_decoder, nothing, eigen_backend>;
template class gneiss::link_model<dot_decoder, softmax_loss, nothing>;
any_link_model own_decoder = make_link_model(nothing{}, "softmax", 8);
any_link_model own_loss = make_link_model("dot", nothing{}, 8);
any_loss loss(nothing{});
link_scorer scorer(nothing{});
any_row_optimizer optimizer(nothing{});
template class gneiss::encoder<float, nothing>;
