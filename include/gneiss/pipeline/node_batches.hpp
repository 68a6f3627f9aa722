#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/order/batches.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// The training nodes of a state, shuffled by (seed, epoch, state), anew in each further pass, and cut into batches. Batch k
/// of a pass is a function of its number. Thread-safe.
class node_batches {
public:
    /// \param nodes  distinct
    node_batches(std::vector<node_id> nodes, std::uint64_t batch, std::uint64_t seed, std::uint64_t epoch, std::uint32_t state)
        : nodes_(std::move(nodes)), batch_(batch), key_(edge_shuffle_key(seed, epoch, state)), first_pass_(cut(0)) {}

    [[nodiscard]] std::uint64_t size() const noexcept { return first_pass_.size(); }

    /// The nodes of batch `index` of a pass, the seeds of its sample. O(batch).
    void choose(std::uint64_t index, std::vector<node_id>& seeds, std::uint32_t pass = 0) const {
        std::vector<edge_position> positions(static_cast<std::size_t>(first_pass_.batch_edges(index)));
        (pass == 0 ? first_pass_ : cut(pass)).fill(index, positions);
        seeds.resize(positions.size());
        for (std::size_t i = 0; i < positions.size(); ++i) seeds[i] = nodes_[positions[i].edge];
    }

private:
    [[nodiscard]] state_batches cut(std::uint32_t pass) const {
        const edge_index count = nodes_.size();
        return {std::span(&count, 1), batch_, pass == 0 ? key_ : key_.with(pass)};
    }

    std::vector<node_id> nodes_;
    std::uint64_t batch_;
    random_key key_;
    state_batches first_pass_;
};

/// Labels of a batch's seeds. Throws errc::out_of_range for a label that is no class, naming the node.
inline void labels_of(std::span<const node_id> seeds, std::span<const class_id> labels, std::size_t classes, std::vector<class_id>& to) {
    to.resize(seeds.size());
    for (std::size_t i = 0; i < seeds.size(); ++i) {
        to[i] = labels[seeds[i]];
        if (to[i] != unlabelled && to[i] >= classes)
            throw error(errc::out_of_range, "node " + std::to_string(seeds[i]) + " has the label " + std::to_string(to[i]) +
                                                " of " + std::to_string(classes) + " classes");
    }
}

/// The key of a batch's dropout masks; layers add to it.
[[nodiscard]] inline random_key dropout_key(std::uint64_t seed, const batch_key& batch) noexcept {
    return random_key{seed, random_domain::dropout}.with(batch.epoch).with(batch.number.state).with(batch.number.pass)
        .with(batch.number.index);
}

/// What trains the weights of a classifier.
struct classifier_step {
    encoder<float, eigen_backend>& encode;
    dense_parameters<>& weights;
    const dense_optimizer& dense;
    std::uint64_t seed;

    /// One batch: forward, softmax cross-entropy, backward, a step of the weights.
    /// \param nodes      of the first layer's input, distinct
    /// \param gradients  [nodes, dense columns], or empty: nothing is learned there
    classification_statistics operator()(const batch_key& key, std::uint64_t step, const layer_stack& layers,
        std::span<const node_id> nodes, std::span<const class_id> labels, const input_rows<float>& in, matrix_view<float> gradients,
        executor_ref on) const {
        const auto scores = encode.forward(weights, layers, in, {.training = dropout_key(seed, key), .sources = {.ids = nodes}}, on);
        const classification_statistics made = softmax_cross_entropy(scores, labels, on);
        encode.backward(weights, scores, gradients, on);
        dense.step(weights, step, 1, on);
        return made;
    }
};

} // namespace gneiss
