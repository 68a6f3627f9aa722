#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/model/step/classifier_step.cuh>

#include <gneiss/sample/node_batches.hpp>

#include <simt/model/batch.hpp>

namespace test_simt_model_step_classifier_step {

using namespace simt_model;

namespace {

constexpr std::size_t columns = 12, classes = 5;
const std::vector<std::size_t> most_rows{60, 30, 12};

/// One batch on the host: sizes, rows, labels and key differ by number.
struct host_batch {
    explicit host_batch(std::uint64_t number)
        : views({most_rows[0] - number * 5, most_rows[1] - number * 3, most_rows[2] - number}, true, 20 + number),
          input(random_values<float>(views[0].sources * columns, 30 + number)),
          key(batch_key(number)) {
        for (std::size_t i = 0; i < views[0].sources; ++i) names.push_back(static_cast<node_id>(i * 3 + number));
        for (std::size_t t = 0; t < views[1].targets; ++t)
            labels.push_back(t % 4 == 3 ? unlabeled : static_cast<class_id>((t + number) % classes));
    }
    [[nodiscard]] static random_key batch_key(std::uint64_t number) {
        return random_key{9, random_domain::dropout}.with(number);
    }
    [[nodiscard]] gneiss::input_rows<float> rows() const { return {.dense = {input.data(), names.size(), columns}}; }

    gnn::sample views;
    std::vector<float> input;
    random_key key;
    std::vector<node_id> names;
    std::vector<class_id> labels;
};

/// Memory of a device's batch, with fixed addresses for all batches.
template <class T>
class batch_slot {
public:
    explicit batch_slot(device_memory& memory) : memory_(memory) {
        for (std::size_t i = 0; i + 1 < most_rows.size(); ++i) {
            most.hops.push_back(
                {static_cast<std::uint32_t>(most_rows[i + 1]), static_cast<std::uint32_t>(most_rows[i]), 400});
            layers_.emplace_back(memory, most.hops.back());
            views_.push_back(layers_.back().view);
        }
        most.rows = static_cast<std::uint32_t>(most_rows[0]);
        auto& arena = memory.arena();
        input_ = arena.template take<T>(most_rows[0] * columns);
        names_ = arena.template take<node_id>(most_rows[0]);
        labels_ = arena.template take<class_id>(most_rows.back());
        key_ = arena.template take<random_key>(1);
        at_ = arena.template take<cuda::step_state>(1);
        gradients_ = arena.template take<T>(most_rows[0] * columns);
    }
    void assign(const host_batch& of, std::uint64_t step) {
        for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i].assign(memory_, of.views[i]);
        std::vector<T> stored;
        for (const float x : of.input) stored.push_back(rows<T>::stored(x));
        memory_.set(input_, std::span<const T>(stored));
        memory_.set(names_, std::span<const node_id>(of.names));
        memory_.set(labels_, std::span<const class_id>(of.labels));
        memory_.set(key_, of.key);
        memory_.set(at_, cuda::step_state{.t = step, .factor = 1});
    }
    [[nodiscard]] cuda::classifier_batch<T> batch() const {
        return {.views = views_,
            .input = {.dense = {input_, columns, columns}},
            .pass = {key_, names_},
            .labels = labels_,
            .at = at_,
            .grad_in = {gradients_, columns, columns}};
    }
    [[nodiscard]] std::vector<double> gradients(std::size_t count) {
        return memory_.get(cuda::rows_view<const T>(gradients_, columns, columns), count).memory;
    }
    void set_label(std::size_t row, class_id label) { memory_.set(labels_ + row, label); }

    cuda::encoder_capacity most;

private:
    device_memory& memory_;
    std::vector<device_layer> layers_;
    std::vector<cuda::layer_view> views_;
    T *input_, *gradients_;
    node_id* names_;
    class_id* labels_;
    random_key* key_;
    cuda::step_state* at_;
};

/// Weights in the layout of the host's encoder, with an optimizer's state, and that encoder.
struct host_model {
    host_model(const std::string& text, const dense_optimizer& optimizer)
        : layers(parse_layers(text)),
          encode(weights, layers, {columns, 0}) {
        weights.allocate(5);
        optimizer.allocate_state(weights);
    }
    dense_parameters<float> weights;
    std::vector<layer_options> layers;
    encoder<float, eigen_backend> encode;
};

/// A classifier on the device and the memory of its batch.
template <class T>
struct device_model {
    device_model(const host_model& like, const dense_optimizer& optimizer)
        : memory(4U << 20),
          slot(memory),
          train(memory.arena(), like.weights, like.layers, {columns, 0}, slot.most, optimizer),
          outcome(memory.put(cuda::classifier_outcome{})) {
        train.parameters().upload(like.weights, memory.stream());
        memory.own_stream().synchronize();
    }
    [[nodiscard]] std::vector<float> values() {
        return memory.get(train.parameters().values().data(), train.parameters().size());
    }

    device_memory memory;
    batch_slot<T> slot;
    cuda::classifier_step<T> train;
    cuda::classifier_outcome* outcome;
};

/// `relative`: tolerance of losses; of gradients ten times that.
template <class T>
void follow(const std::string& text, const dense_optimizer& optimizer, double relative) {
    CAPTURE(text);
    host_model host(text, optimizer);
    device_model<T> device(host, optimizer);
    for (std::uint64_t step = 1; step <= 4; ++step) {
        const host_batch of(step % 3);
        std::vector<float> want_gradients(of.names.size() * columns);
        // the host's step, with scores separate from their gradient, as an activation after the last layer requires
        const auto scores = host.encode.forward(
            host.weights, of.views, of.rows(), {.training = of.key, .sources = {.ids = of.names}}, serial);
        std::vector<float> gradient(scores.data(), scores.data() + scores.rows() * classes);
        const matrix_view<float> g(gradient.data(), scores.rows(), classes);
        const classification_statistics want = softmax_cross_entropy<float>(g, of.labels, serial);
        host.encode.backward(host.weights, g, {want_gradients.data(), of.names.size(), columns}, serial);
        const double norm = optimizer.step(host.weights, step, 1, serial);

        device.slot.assign(of, step);
        device.train.step(device.memory.stream(), device.slot.batch(), device.outcome);
        const cuda::classifier_outcome outcome = device.memory.get(device.outcome, 1)[0];
        const classification_statistics got = outcome.checked();
        CHECK(got.loss == doctest::Approx(want.loss).epsilon(relative));
        CHECK(got.labeled == want.labeled);
        if (std::is_same_v<T, float>) CHECK(got.correct == want.correct); // rounded scores may be equal
        CHECK(outcome.norm.value == doctest::Approx(norm).epsilon(10 * relative));
        check_near("gradients of the input", device.slot.gradients(of.names.size()),
            std::vector<double>(want_gradients.begin(), want_gradients.end()), 10 * relative);
    }
    const auto got = device.values();
    check_near("weights", std::vector<double>(got.begin(), got.end()),
        std::vector<double>(host.weights.values().begin(), host.weights.values().end()), 20 * relative);

    // and back to the host, as for a checkpoint
    host_model other(text, optimizer);
    device.train.parameters().download(other.weights, device.memory.stream());
    device.memory.own_stream().synchronize();
    CHECK(std::vector<float>(other.weights.values().begin(), other.weights.values().end()) == got);
    CHECK(other.weights.state().size() == host.weights.state().size());
}

} // namespace

TEST_CASE("simt.model.classifier_step: losses, gradients and weights follow the host's, step by step") {
    follow<float>(
        "sage:16:dropout=.3,sage:5:dropout=.2", make_dense_optimizer("adam", .01F, {.weight_decay = .01}), 1e-4);
    follow<float>("gcn:16:residual,linear:8,gcn:5", make_dense_optimizer("sgd", .1F, {.clip_norm = .5}), 1e-4);
    follow<float>("gat:4x4:norm,sage:5:max:tanh", make_dense_optimizer("adamw", .01F, {.weight_decay = .1}), 1e-4);
    follow<bfloat16>("gcn:16:tanh:dropout=.3,sage:5:dropout=.2", make_dense_optimizer("sgd", .1F), .01);
}

TEST_CASE(
    "simt.model.classifier_step: a recorded step handles batches of other sizes, with the bits of unrecorded ones") {
    const dense_optimizer optimizer = make_dense_optimizer("adam", .01F);
    for (const std::string text :
        {"sage:16:dropout=.3,sage:5", "gat:4x4:norm:attention-dropout=.4:residual,gcn:5:dropout=.2"}) {
        CAPTURE(text);
        const host_model host(text, optimizer);
        device_model<float> plain(host, optimizer), recorded(host, optimizer);
        const auto step = cuda::graph::record(recorded.memory.own_stream(),
            [&] { recorded.train.step(recorded.memory.stream(), recorded.slot.batch(), recorded.outcome); });
        CHECK(step.nodes() > 10);
        for (std::uint64_t t = 1; t <= 3; ++t) {
            const host_batch of((t + 1) % 3);
            plain.slot.assign(of, t);
            plain.train.step(plain.memory.stream(), plain.slot.batch(), plain.outcome);
            recorded.slot.assign(of, t);
            step.launch(recorded.memory.stream());
            const auto want = plain.memory.get(plain.outcome, 1)[0].checked(),
                       got = recorded.memory.get(recorded.outcome, 1)[0].checked();
            CHECK(got.loss == want.loss);
            CHECK(got.correct == want.correct);
            CHECK(recorded.slot.gradients(of.names.size()) == plain.slot.gradients(of.names.size()));
        }
        CHECK(recorded.values() == plain.values());
    }
}

TEST_CASE("simt.model.classifier_step: evaluation neither drops nor steps") {
    const dense_optimizer optimizer = make_dense_optimizer("sgd", .1F);
    host_model host("sage:16:dropout=.5,sage:5:dropout=.5", optimizer);
    device_model<float> device(host, optimizer);
    const host_batch of(1);
    device.slot.assign(of, 1);
    auto batch = device.slot.batch();
    batch.pass.training = nullptr;
    const auto before = device.values();
    device.train.evaluate(device.memory.stream(), batch, device.outcome);
    const auto scores = host.encode.forward(host.weights, of.views, of.rows(), {}, serial);
    const classification_statistics want = softmax_cross_entropy<float>(scores, of.labels, serial);
    const auto got = device.memory.get(device.outcome, 1)[0].checked();
    CHECK(got.loss == doctest::Approx(want.loss).epsilon(1e-4));
    CHECK(got.correct == want.correct);
    CHECK(device.values() == before);
}

TEST_CASE("simt.model.classifier_step: an invalid label and NaN rows step nothing") {
    const dense_optimizer optimizer = make_dense_optimizer("adam", .01F);
    const host_model host("sage:16,sage:5", optimizer);
    for (const bool label : {true, false}) {
        device_model<float> device(host, optimizer);
        host_batch of(0);
        if (!label) std::ranges::fill(of.input, std::numeric_limits<float>::quiet_NaN());
        device.slot.assign(of, 1);
        if (label) device.slot.set_label(2, classes);
        const auto before = device.values();
        device.train.step(device.memory.stream(), device.slot.batch(), device.outcome);
        const auto outcome = device.memory.get(device.outcome, 1)[0];
        CHECK(device.values() == before);
        try {
            static_cast<void>(outcome.checked());
            FAIL("accepted as a step");
        } catch (const error& e) {
            CHECK(e.code() == (label ? errc::out_of_range : errc::not_finite));
        }
    }
}

namespace {

struct own_rule {
    float rate = .1F;

    static constexpr std::size_t state_floats(std::size_t) { return 0; }
    static constexpr float initial_state() { return 0; }
    void step(std::span<float>, std::span<float>, std::span<const float>, std::uint64_t) const {}
};

} // namespace

TEST_CASE("simt.model.classifier_step: inconsistent shapes are refused") {
    const dense_optimizer optimizer = make_dense_optimizer("sgd", .1F);
    const host_model host("sage:16,sage:5", optimizer);
    CHECK_THROWS_WITH(device_model<float>(host, dense_optimizer(own_rule{})),
        doctest::Contains("an optimizer of your own trains on the CPU"));
    device_memory memory(1U << 20);
    batch_slot<float> slot(memory);
    const auto make = [&](const std::string& layers, std::size_t input, cuda::encoder_capacity most) {
        cuda::device_arena counting;
        const cuda::encoder<float> result(counting, host.weights, parse_layers(layers), {input, 0}, std::move(most));
    };
    CHECK_NOTHROW(make("sage:16,sage:5", columns, slot.most));
    CHECK_THROWS_AS(make("sage:16,sage:6", columns, slot.most), error);      // arrays of other shapes
    CHECK_THROWS_AS(make("sage:16,sage:5:norm", columns, slot.most), error); // missing arrays
    CHECK_THROWS_AS(make("sage:16,linear:5", columns, slot.most), error);    // another number of hops
    CHECK_THROWS_AS(make("sage:16,sage:5", columns + 1, slot.most), error);
    cuda::encoder_capacity wider = slot.most;
    ++wider.hops[1].sources; // more than the first layer's targets
    CHECK_THROWS_AS(make("sage:16,sage:5", columns, wider), error);

    cuda::device_arena small(std::span(memory.arena().take<std::byte>(5000), 5000));
    CHECK_THROWS_AS(
        (cuda::classifier_step<float>(small, host.weights, host.layers, {columns, 0}, slot.most, optimizer)),
        over_budget);
    cuda::encoder_capacity fewer = slot.most;
    --fewer.hops[0].edges; // fewer than the batch's views hold
    cuda::encoder<float> result(memory.arena(), host.weights, host.layers, {columns, 0}, fewer);
    const auto batch = slot.batch();
    CHECK_THROWS_AS(static_cast<void>(result.forward(memory.stream(), {}, batch.views, batch.input, {})), error);
    CHECK_THROWS_AS(
        static_cast<void>(result.forward(memory.stream(), {}, batch.views.first(1), batch.input, {})), error);
}

} // namespace test_simt_model_step_classifier_step
