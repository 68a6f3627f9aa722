// A custom decoder, trained and evaluated: RotatE, where a relation rotates the complex numbers of a head into those of
// its tail. The library needs two functions; it supplies batches, losses, optimizers and ranking.
#include <gneiss/gneiss.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/train/trainers/marius.hpp>

#include <cmath>
#include <cstdio>
using namespace gneiss;

//! [decoder]
struct rotate_decoder { // −‖head · e^(i·angle) − tail‖; a row is [real parts | imaginary parts]
    static constexpr similarity compare = similarity::negative_distance;
    static constexpr bool complex_rows = true; // so odd dimensions are refused
    static constexpr std::size_t relation_floats(std::size_t dim) { return dim / 2; }

    void query(side missing, std::span<const float> known, std::span<const float> angle, std::span<float> q) const {
        for (std::size_t i = 0, n = angle.size(); i < n; ++i) { // a head query rotates the tail backwards
            const float turn = missing == side::tail ? angle[i] : -angle[i], c = std::cos(turn), s = std::sin(turn);
            q[i] = known[i] * c - known[n + i] * s;
            q[n + i] = known[i] * s + known[n + i] * c;
        }
    }
    void query_backward(side missing, std::span<const float> known, std::span<const float> angle,
        std::span<const float> grad_q, std::span<float> grad_known, std::span<float> grad_angle) const {
        for (std::size_t i = 0, n = angle.size(); i < n; ++i) {
            const float sign = missing == side::tail ? 1.0F : -1.0F, c = std::cos(angle[i]),
                        s = sign * std::sin(angle[i]);
            grad_known[i] += grad_q[i] * c + grad_q[n + i] * s;
            grad_known[n + i] += grad_q[n + i] * c - grad_q[i] * s;
            const float re = known[i] * c - known[n + i] * s, im = known[i] * s + known[n + i] * c;
            grad_angle[i] += sign * (grad_q[n + i] * re - grad_q[i] * im);
        }
    }
};
static_assert(decoder<rotate_decoder>);
//! [decoder]

int main() {
    constexpr std::uint32_t hours = 24, dim = 8;
    std::vector<edge> graph, test; // a clock; relations: one hour later, five hours later. Some edges are held out
    for (node_id h = 0; h < hours; ++h)
        for (const edge e : {edge{h, 0, (h + 1) % hours}, edge{h, 1, (h + 5) % hours}})
            (h % 8 == e.relation ? test : graph).push_back(e);
    const edge_loader source{.size = [&](edge_bucket) { return graph.size(); },
        .load = [&](edge_bucket, std::span<edge> to) { std::ranges::copy(graph, to.begin()); }};
    //! [file]
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    any_engine engine = engines();
    embedding_file::create(engine, "clock.rows", {hours, 1}, {dim, dim}, 1);
    embedding_file rows(engines, "clock.rows", {hours, 1}, {dim, dim}, 1);
    const tbb_executor executor;
    rows.fill([&](auto at, auto to) {
        initialize_rows(initializer::normal(0, 1), 0, 1, embedding_kind::nodes, at, dim, to, executor);
    });
    //! [file]
    any_link_model model = make_link_model(rotate_decoder{}, "softmax", dim);
    embedding_table angles(model.relation_rows(2), {dim / 2, dim / 2});
    initialize_rows(
        initializer::uniform(-3.14F, 3.14F), 0, 1, embedding_kind::relations, 0, dim / 2, angles.table(), executor);
    memory_budget budget(8 << 20);
    partition_buffer buffer(rows, {.resident_partitions = 1}, budget);
    edge_buffer edges(source, {.partitions = 1, .cache_all = true}, budget);
    marius_trainer training = make_marius({.negatives = {.chunks = 1, .filtered = true, .all = true}},
        {.model = model, .optimizer = adagrad{.rate = .1F}, .rows = buffer, .edges = edges, .relations = angles},
        executor, budget);
    for (std::uint64_t e = 0; e < 400; ++e) (void)training.run(in_memory_order(1)(0), e);
    const link_metrics ranks =
        rank_edges(model.scorer(angles.values()), buffer, test, [&](const auto& show) { show(graph); }, executor);
    std::printf("MRR %.3f on held-out edges\n", ranks.both().mrr());
    return ranks.both().mrr() > .8 ? 0 : 1;
}
