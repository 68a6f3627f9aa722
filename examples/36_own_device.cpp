// A custom device: logistic regression on its own copy of the weights. A GPU or another library would keep that copy in
// its memory; batches, features and loop are the library's.
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/train_loop.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
using namespace gneiss;

constexpr std::size_t columns = 4;

//! [device]
class logistic_device : public host_backend { // with defaults for what only other devices do
public:
    explicit logistic_device(std::vector<float>& weights) : host_(weights) {}

    void upload(const training_optimizers&) { device_ = host_; } // at the begin of an epoch, and after each checkpoint
    void download() { host_ = device_; }                         // at its end, and before each checkpoint

    void differentiate(training_batch& batch) { // batch after batch: loss, gradient
        gradient_.assign(device_.size(), 0);
        for (std::size_t i = 0; i < batch.seeds.size(); ++i) {
            const std::span<const float> row = batch.in.dense[i];
            const float score = std::inner_product(row.begin(), row.end(), device_.begin(), device_.back());
            const float wanted = batch.labels[i] == 1 ? 1.0F : 0.0F, off = 1 / (1 + std::exp(-score)) - wanted;
            for (std::size_t c = 0; c < columns; ++c) gradient_[c] += off * row[c];
            gradient_.back() += off;
            batch.statistics.loss += std::log1p(std::exp(wanted == 1 ? -score : score));
            batch.statistics.correct += (score > 0) == (wanted == 1) ? 1U : 0U;
        }
        batch.statistics.examples += batch.seeds.size();
        batch.statistics.query_count += batch.seeds.size();
    }
    void step(training_batch& batch) {
        const float rate = .5F / static_cast<float>(batch.seeds.size());
        for (std::size_t c = 0; c < device_.size(); ++c) device_[c] -= rate * gradient_[c];
    }

private:
    std::vector<float>& host_; // [columns + 1], the last is the bias
    std::vector<float> device_, gradient_;
};
static_assert(train_backend<logistic_device>);
//! [device]

int main() {
    constexpr node_id nodes = 2000;
    std::vector<float> features(nodes * columns);
    std::vector<class_id> labels(nodes);
    for (node_id v = 0; v < nodes; ++v) {
        for (std::size_t c = 0; c < columns; ++c)
            features[v * columns + c] = std::sin(static_cast<float>(v * columns + c));
        labels[v] = features[v * columns] - 2 * features[v * columns + 1] > .1F ? 1 : 0;
    }
    const tbb_executor executor;
    memory_budget budget;
    const auto all = [](std::uint32_t, std::vector<node_id>& out) {
        out.resize(nodes);
        std::iota(out.begin(), out.end(), node_id{0});
    };
    node_task task({.batch = 100, .seed = 1}, labels, /*classes*/ 2, {nodes, 1}, all);
    no_topology none_sampled;
    sampled_batches batches(task, none_sampled, make_no_hops, executor);
    matrix_features inputs({features.data(), nodes, columns});
    no_embeddings none;
    std::vector<float> weights(columns + 1);
    logistic_device backend(weights);
    train_loop loop({}, batches, inputs, none, backend, {}, budget);
    double accuracy = 0;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) accuracy = loop.run({{.resident = {0}}}, epoch).model.accuracy();
    std::printf("accuracy %.3f\n", accuracy);
    return accuracy > .95 ? 0 : 1;
}
