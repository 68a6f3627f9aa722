// error: link_batch_builder: Negatives must be a gneiss::negative_source, see gneiss/sample/negative.hpp
// error: any_negatives: the object must be a gneiss::negative_source, see gneiss/sample/negative.hpp
// error: link_task: Negatives must be a gneiss::negative_source, see gneiss/sample/negative.hpp
#include <gneiss/sample/link_batch_builder.hpp>
#include <gneiss/train/tasks.hpp>

using namespace gneiss;

struct no_draw {
    static std::uint64_t list_size(const negative_pool&) { return 1; }
};

template class gneiss::link_batch_builder<no_draw>;
template class gneiss::link_task<no_draw>;
any_negatives any(no_draw{});
