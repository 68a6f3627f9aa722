// error: simulate: Policy must be a gneiss::cache_policy, see gneiss/cache/concepts.hpp
// error: 'as_is.initial()'
// error: any_row_source: the object must be a gneiss::row_source, see gneiss/storage/feature/row_source.hpp
// error: 'c.statistics()'
// error: make_symmetric_csr: Stream must be a gneiss::edge_stream, see gneiss/graph/concepts.hpp
// error: 'stream.rewind()'
// error: any_order: the object must be a gneiss::edge_bucket_order, see gneiss/order/concepts.hpp
// error: 'order.resident_partitions()'
// no other error
// The compiler names the member that is missing.
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/storage/feature/row_source.hpp>

using namespace gneiss;

struct no_initial {
    std::size_t capacity() const;
    void next(std::span<const node_id>, change_set&);
};
struct no_statistics {
    std::uint64_t rows() const;
    std::size_t row_bytes() const;
    void gather(std::span<const node_id>, const gather_target&);
};
struct no_rewind {
    using edge_type = edge;
    std::span<const edge> next();
    std::uint64_t nodes() const;
    edge_index edges() const;
};
struct no_resident {
    std::uint32_t partitions() const;
    epoch_plan operator()(std::uint64_t) const;
};

void f(no_initial& policy, memory_trace& trace) { (void)simulate(policy, trace); }
any_row_source source(std::in_place_type<no_statistics>);
void f(no_rewind& edges) { make_symmetric_csr(edges); }
any_order order("mine", no_resident{});
