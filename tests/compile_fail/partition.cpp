// error: portfolio_partitioner: each of Candidates must be a gneiss::partitioner, see gneiss/partition/concepts.hpp
// error: grem: Stream must be a gneiss::edge_stream, see gneiss/graph/concepts.hpp
// error: grem: Scratch must be a gneiss::scratch, see gneiss/graph/concepts.hpp
// error: grem: Seed must be a gneiss::seed_bisector, see gneiss/partition/grem.hpp
#include <gneiss/partition/grem.hpp>
#include <gneiss/partition/portfolio.hpp>

using namespace gneiss;

struct nothing {};

template struct gneiss::portfolio_partitioner<nothing>;
void f(nothing& edges, nothing& place) { (void)grem(edges, place, {}, {}, nothing{}); }
