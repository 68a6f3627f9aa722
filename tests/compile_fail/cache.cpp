// error: any_cache_policy: the object must be a gneiss::cache_policy, see gneiss/cache/concepts.hpp
// error: simulate: Policy must be a gneiss::cache_policy, see gneiss/cache/concepts.hpp
// error: simulate: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp
// error: belady_policy: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp
// error: change_set_replay: Source must be a gneiss::change_set_source, see gneiss/cache/concepts.hpp
#include <gneiss/cache/any_policy.hpp>
#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/serial.hpp>

using namespace gneiss;

struct nothing {};

any_cache_policy any(nothing{});
template class gneiss::change_set_replay<nothing>;
void f(nothing& policy, memory_trace& trace) { (void)simulate(policy, trace); }
void f(any_cache_policy& policy, nothing& trace) { (void)simulate(policy, trace); }
void f(nothing& trace) { belady_policy policy(trace, {}, serial_executor{}); }
