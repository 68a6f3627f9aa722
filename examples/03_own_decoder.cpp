// A decoder of one's own: RotatE, where a relation turns the complex numbers of a head into those of its tail.
// Two functions are all the library asks for; batches, losses and optimizers are its own.
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/model/loss.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace gneiss;

struct rotate_decoder { // −‖head · e^(i·angle) − tail‖; a row is [real parts | imaginary parts]
    static constexpr similarity compare = similarity::negative_distance;
    static constexpr bool complex_rows = true;
    static constexpr std::size_t relation_floats(std::size_t dim) { return dim / 2; }

    void query(side missing, std::span<const float> known, std::span<const float> angle, std::span<float> q) const {
        const std::size_t n = angle.size();
        for (std::size_t i = 0; i < n; ++i) { // a missing head is the tail turned back
            const float turn = missing == side::tail ? angle[i] : -angle[i], c = std::cos(turn), s = std::sin(turn);
            q[i] = known[i] * c - known[n + i] * s;
            q[n + i] = known[i] * s + known[n + i] * c;
        }
    }
    void query_backward(side missing, std::span<const float> known, std::span<const float> angle,
        std::span<const float> grad_q, std::span<float> grad_known, std::span<float> grad_angle) const {
        const std::size_t n = angle.size();
        for (std::size_t i = 0; i < n; ++i) {
            const float sign = missing == side::tail ? 1.0F : -1.0F, c = std::cos(angle[i]), s = sign * std::sin(angle[i]);
            grad_known[i] += grad_q[i] * c + grad_q[n + i] * s;
            grad_known[n + i] += grad_q[n + i] * c - grad_q[i] * s;
            const float re = known[i] * c - known[n + i] * s, im = known[i] * s + known[n + i] * c;
            grad_angle[i] += sign * (grad_q[n + i] * re - grad_q[i] * im);
        }
    }
};
static_assert(decoder<rotate_decoder>);

int main() {
    constexpr std::uint32_t nodes = 24, dim = 8;
    std::vector<edge> edges; // a clock of 24 hours; the relations: one hour later, five hours later
    for (node_id hour = 0; hour < nodes; ++hour) {
        edges.push_back({hour, 0, (hour + 1) % nodes});
        edges.push_back({hour, 1, (hour + 5) % nodes});
    }
    link_model<rotate_decoder, softmax_loss, eigen_backend> model(dim);
    const any_row_optimizer optimizer = adagrad{.rate = 0.1F};
    embedding_table rows(nodes, {dim, dim}), angles(model.relation_rows(2), {dim / 2, dim / 2});
    const serial_executor executor;
    initialize_rows(initializer::normal(0, 1), 0, 1, embedding_kind::nodes, 0, dim, rows.table(), executor);
    initialize_rows(initializer::uniform(-3.14F, 3.14F), 0, 1, embedding_kind::relations, 0, dim / 2, angles.table(), executor);

    const id_range all{0, nodes};
    const negative_pool resident(resident_nodes({&all, 1}));
    link_batch_builder builder({.filtered = true, .all = true}, /*seed*/ 1);
    mini_batch_arena arena;
    embedding_table gradients(nodes, {dim, 0});
    sparse_gradients angle_gradients;
    double loss = 0;
    for (std::uint64_t step = 1; step <= 400; ++step) { // every node is a negative, so batch rows are the table
        const link_batch batch = builder.build({step, {}}, edges, resident, arena);
        loss = model.forward_backward(batch, rows.values(), angles.values(), gradients.table(), angle_gradients, executor).loss;
        optimizer.step_rows(rows.table(), gradients.table(), step, executor);
        optimizer.step_rows_at(angles.table(), angle_gradients.ids(), angle_gradients.rows(), step, executor);
        if (step == 1 || step % 100 == 0) std::printf("step %3d: loss %.3f per question\n", static_cast<int>(step), loss / 96);
    }
    return loss / 96 < 0.3 ? 0 : 1; // a guess costs log 24 = 3.2
}
