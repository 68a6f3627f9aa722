// error: any_engine: the object must be a gneiss::io_engine, see gneiss/storage/engine/concepts.hpp
// error: throttled: Engine must be a gneiss::io_engine, see gneiss/storage/engine/concepts.hpp
// error: faulty: Engine must be a gneiss::io_engine, see gneiss/storage/engine/concepts.hpp
// error: any_row_source: the object must be a gneiss::row_source, see gneiss/storage/feature/row_source.hpp
// error: cached_rows: Below must be a gneiss::row_source, see gneiss/storage/feature/row_source.hpp
// error: bucket_writer: Array must be a gneiss::word_array, see gneiss/storage/edge/bucket_builder.hpp
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/throttled.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>

using namespace gneiss;

struct nothing {};

any_engine engine(nothing{});
template class gneiss::throttled<nothing>;
template class gneiss::faulty<nothing>;
any_row_source rows(std::in_place_type<nothing>);
template class gneiss::cached_rows<nothing>;
template class gneiss::bucket_writer<nothing>;
