// A custom loss and a custom optimizer. Each is one function; the rest is the library's.
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace gneiss;

/// Squared loss: (1 − s⁺)² + the mean of s⁻² over the negatives that are not masked (−∞).
//! [loss]
struct square_loss {
    loss_and_gradient<float> operator()(
        float positive, std::span<const float> negatives, std::span<float> gradient) const {
        double sum = 0;
        const float weight = 1 / static_cast<float>(negatives.size());
        for (std::size_t i = 0; i < negatives.size(); ++i) {
            const float s = std::isinf(negatives[i]) ? 0 : negatives[i];
            sum += static_cast<double>(weight * s * s);
            gradient[i] = 2 * weight * s;
        }
        return {static_cast<double>((1 - positive) * (1 - positive)) + sum, -2 * (1 - positive)};
    }
};
static_assert(ranking_loss<square_loss>);
//! [loss]

/// Momentum: the state is the running direction, one float per value.
//! [optimizer]
struct momentum {
    float rate = 0.05F, keep = 0.9F;
    static constexpr std::size_t state_floats(std::size_t dim) { return dim; }
    static constexpr float initial_state() { return 0; }
    void step(std::span<float> value, std::span<float> state, std::span<const float> gradient, std::uint64_t) const {
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            state[i] = keep * state[i] + gradient[i];
            value[i] -= rate * state[i];
        }
    }
};
static_assert(row_optimizer<momentum>);
//! [optimizer]

int main() {
    constexpr std::uint32_t nodes = 40, dim = 16, relations = 2;
    std::vector<edge> edges; // two ways to pair the nodes
    for (node_id v = 0; v < nodes; ++v) {
        edges.push_back({v, 0, v ^ 1U});
        edges.push_back({v, 1, nodes - 1 - v});
    }
    link_model<distmult_decoder, square_loss, eigen_backend> model(dim, {.reduce = reduction::mean});
    const any_row_optimizer optimizer = momentum{.rate = 0.5F};
    embedding_table rows(nodes, {dim, dim}), relation_rows(relations, {dim, dim}), gradients(nodes, {dim, 0});
    sparse_gradients relation_gradients;
    const tbb_executor executor(2); // results are bit-identical for any number of threads
    initialize_rows(initializer::normal(0, 0.5F), 0, 1, embedding_kind::nodes, 0, dim, rows.table(), executor);
    initialize_rows(
        initializer::normal(0, 0.5F), 0, 1, embedding_kind::relations, 0, dim, relation_rows.table(), executor);

    const id_range all{0, nodes};
    const negative_pool resident(resident_nodes({&all, 1}));
    link_batch_builder builder({.filtered = true, .all = true}, /*seed*/ 1);
    mini_batch_arena arena;
    double first = 0, last = 0;
    for (std::uint64_t step = 1; step <= 300; ++step) { // every node is a negative, so batch rows are the table
        const link_batch batch = builder.build({step, {}}, edges, resident, arena);
        last = model
                   .forward_backward(
                       batch, rows.values(), relation_rows.values(), gradients.table(), relation_gradients, executor)
                   .mean_loss();
        if (step == 1) first = last;
        optimizer.step_rows(rows.table(), gradients.table(), step, executor);
        optimizer.step_rows_at(
            relation_rows.table(), relation_gradients.ids(), relation_gradients.rows(), step, executor);
    }
    std::printf("loss %.3f, then %.3f\n", first, last);
    return last < 0.3 * first ? 0 : 1;
}
