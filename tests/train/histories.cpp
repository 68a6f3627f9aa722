#include <gneiss/train/histories.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/train/trainers/ginex.hpp>
#include <gneiss/train/trainers/joestar.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/own_layers.hpp"
#include "stored_graph.hpp"

namespace test_train_histories {

using namespace gneiss;
using namespace gneiss::test::stored_graph;

namespace {

constexpr std::uint32_t partitions = 8;
constexpr std::array modes{sampled_ahead::off, sampled_ahead::reach, sampled_ahead::exact};

/// A loss that keeps the outputs of each node, and steps by softmax cross-entropy.
struct recording_head {
    std::map<node_id, std::vector<float>>* seen;
    static constexpr bool in_place = false, has_parameters = false;
    void differentiate(training_batch& b, matrix_view<const float> outputs, matrix_view<float> gradients,
        executor_ref executor) const {
        for (std::size_t i = 0; i < outputs.rows(); ++i) {
            (*seen)[b.nodes[i]].assign(outputs[i].begin(), outputs[i].end());
            std::ranges::copy(outputs[i], gradients[i].begin());
        }
        b.statistics.add(softmax_cross_entropy(gradients, b.labels, executor, {}));
    }
    void step(training_batch& /*batch*/, const any_row_optimizer& /*by*/, executor_ref /*executor*/) const noexcept {}
};
static_assert(loss_head<recording_head>);

struct set_up {
    std::string layers = "sage:8,sage:8,sage:4", fanout = "4,3,3";
    std::uint32_t macro = 2;
    history_options past{};
    sampled_ahead ahead = sampled_ahead::off;
    float dropout = .2F;
    bool frozen = false, all_train = false, on_disk = false;
    std::size_t threads = 1, sample_workers = 1, in_flight = 2;
    layer_factories own{}; ///< in place of `layers`

    [[nodiscard]] layer_factories network() const {
        if (!own.empty()) return own;
        const std::vector<layer_options> parsed = parse_layers(layers, {.dropout = dropout});
        return layer_factories(parsed.begin(), parsed.end());
    }
};

/// Training by partitions, and what it gives.
struct trainer {
    const graph_data& data;
    set_up with;
    memory_budget budget{};
    tbb_executor on;
    memory_csc graph;
    dense_parameters<> weights{};
    cpu_encoder encode;
    dense_optimizer dense;
    std::shared_ptr<macro_batch_border> border;
    std::optional<histories> kept;
    any_row_source source;
    std::map<node_id, std::vector<float>> outputs{};
    std::optional<joestar_trainer> training{};

    /// \param versions  of the file of histories; none: a new one
    trainer(const graph_data& of, const set_up& options, std::optional<std::string> versions = {})
        : data(of),
          with(options),
          on(options.threads),
          graph(csc_files{.in = data.directory / "csc", .out = {}}, budget),
          encode(weights, with.network(), {.dense = columns}),
          dense(make_dense_optimizer("sgd", .01F)),
          border(std::make_shared<macro_batch_border>(parts(of.rows.nodes), partitions)),
          source(std::in_place_type<disk_rows>, test::stored_graph::threads(), data.stored(), gather_options{}, on,
              budget) {
        weights.allocate(3);
        dense.allocate_state(weights);
        if (with.on_disk)
            kept.emplace(hidden_rows_of(encode),
                history_store{.path = data.directory / "histories",
                    .parts = border->parts(),
                    .partitions = partitions,
                    .most_inside = data.rows.nodes,
                    .most_halo = data.rows.nodes,
                    .versions = std::move(versions)},
                with.past, on, budget);
        else
            kept.emplace(hidden_rows_of(encode), of.rows.nodes, with.past, on, budget);
        const std::vector<hop_fanout> first = parse_fanout(with.ahead == sampled_ahead::off ? "all"
                : with.ahead == sampled_ahead::reach                                        ? "all,all,all"
                                                                                            : with.fanout);
        const bool drawn = with.ahead == sampled_ahead::exact;
        training.emplace(make_joestar({.batch = 10,
                                          .second = {.fanout = parse_fanout(with.fanout)},
                                          .ahead = with.ahead,
                                          .macro_batches = {.form = drawn ? second_stage::drawn : second_stage::lists},
                                          .seed = 9,
                                          .rows_in_flight = with.in_flight,
                                          .sample_workers = with.sample_workers},
            {.first_stage = any_sampler(
                 graph, [border = border, first] { return bordered_sampler(border, {.fanout = first}, 9); }),
                .features = feature_rows{.source = source, .columns = columns},
                .task = classified_nodes{data.labels,
                    [this](std::uint32_t, std::vector<node_id>& out) {
                        out = data.train;
                        if (!with.all_train) return;
                        out.clear();
                        for (node_id v = 0; v < data.rows.nodes; ++v) out.push_back(v);
                    },
                    {}, any_loss_head(recording_head{&outputs})},
                .encode = encode,
                .weights = weights,
                .optimizer = dense,
                .frozen = {.weights = with.frozen},
                .border = border,
                .past = &*kept},
            on, budget));
    }
    [[nodiscard]] histories& past() { return *kept; }
    /// Partitions that do not follow communities, so that there are halos.
    static std::shared_ptr<const std::vector<std::uint16_t>> parts(std::uint64_t nodes) {
        std::vector<std::uint16_t> result;
        for (std::uint64_t v = 0; v < nodes; ++v) result.push_back(static_cast<std::uint16_t>(v / 7 % partitions));
        return std::make_shared<const std::vector<std::uint16_t>>(std::move(result));
    }
    [[nodiscard]] epoch_plan states(std::uint64_t epoch) const {
        return macro_batches(partitions, 0, with.macro, 9, epoch).states;
    }
    double epoch(std::uint64_t e) { return training->run(states(e), e).model.loss; }
    [[nodiscard]] outcome end(std::vector<double> losses) const {
        return {{weights.values().begin(), weights.values().end()}, {weights.state().begin(), weights.state().end()},
            std::move(losses)};
    }
    outcome operator()(std::uint64_t epochs = 3) {
        std::vector<double> losses;
        for (std::uint64_t e = 0; e < epochs; ++e) losses.push_back(epoch(e));
        return end(std::move(losses));
    }
};

outcome train(const graph_data& data, const set_up& options) { return trainer(data, options)(); }

/// The same network trained in one stage, batches in the whole graph.
outcome single(const graph_data& data, const set_up& options, std::map<node_id, std::vector<float>>& outputs) {
    memory_budget budget;
    const tbb_executor on(1);
    const memory_csc graph(csc_files{.in = data.directory / "csc", .out = {}}, budget);
    dense_parameters<> weights;
    cpu_encoder encode(weights, options.network(), {.dense = columns});
    weights.allocate(3);
    dense_optimizer dense = make_dense_optimizer("sgd", .01F);
    dense.allocate_state(weights);
    any_row_source source(
        std::in_place_type<disk_rows>, test::stored_graph::threads(), data.stored(), gather_options{}, on, budget);
    std::vector<node_id> train = data.train;
    if (options.all_train) {
        train.clear();
        for (node_id v = 0; v < data.rows.nodes; ++v) train.push_back(v);
    }
    ginex_trainer training =
        make_ginex({.batch = 10, .seed = 9, .superbatches = {.schedule = superbatch_schedule::conventional}},
            {.sampler = make_sampler(graph, sampler_kind::neighbor, {.fanout = parse_fanout(options.fanout)}, 9),
                .features = feature_rows{.source = source, .columns = columns},
                .task = classified_nodes{data.labels, [&](std::uint32_t, std::vector<node_id>& out) { out = train; },
                    {}, any_loss_head(recording_head{&outputs})},
                .nodes = data.rows.nodes,
                .encode = encode,
                .weights = weights,
                .optimizer = dense,
                .frozen = {.weights = options.frozen}},
            on);
    std::vector<double> losses;
    for (std::uint64_t e = 0; e < 3; ++e) losses.push_back(training.run(whole_graph(), e).model.loss);
    return {{weights.values().begin(), weights.values().end()}, {weights.state().begin(), weights.state().end()},
        std::move(losses)};
}

/// Returns the largest difference of outputs of a node.
double difference(const std::map<node_id, std::vector<float>>& a, const std::map<node_id, std::vector<float>>& b) {
    REQUIRE(a.size() == b.size());
    double most = 0;
    for (const auto& [node, row] : a)
        for (std::size_t c = 0; c < row.size(); ++c)
            most = std::max(most, std::abs(double{row[c]} - double{b.at(node)[c]}));
    return most;
}

} // namespace

TEST_CASE("a macro-batch of all partitions trains as one stage does, bit for bit") {
    const graph_data data(400);
    std::map<node_id, std::vector<float>> outputs;
    const outcome expected = single(data, {}, outputs);
    for (const bool features : {false, true})
        for (const sampled_ahead ahead : modes) {
            trainer all(data, {.macro = partitions, .past = {.halo_features = features}, .ahead = ahead});
            CHECK(all() == expected);
            CHECK(all.past().counts().pulled == 0);
            CHECK(all.past().counts().absent == 0);
            CHECK(all.past().counts().pushed != 0);
        }
    CHECK(train(data, {}) != expected);
}

TEST_CASE(
    "frozen weights, fresh histories, all neighbors and features of the halo give the outputs of the whole graph") {
    const graph_data data(400);
    for (const std::string layers : {"sage:8,sage:8,sage:4", "gcn:8,gat:4x2,sage:4", "linear:5,sage:8,sage:8,gcn:4"}) {
        CAPTURE(layers);
        set_up frozen{.layers = layers,
            .fanout = "all,all,all",
            .past = {.halo_features = true},
            .dropout = 0,
            .frozen = true,
            .all_train = true};
        std::map<node_id, std::vector<float>> expected;
        (void)single(data, frozen, expected);
        trainer by_parts(data, frozen);
        (void)by_parts.epoch(0);
        CHECK(difference(by_parts.outputs, expected) > 1e-3); // rows of the halo are absent
        (void)by_parts.epoch(1);
        (void)by_parts.epoch(2); // the second hidden layer is that of fresh rows of the first
        CHECK(difference(by_parts.outputs, expected) < 2e-5);
        const std::uint64_t absent = by_parts.past().counts().absent;
        (void)by_parts.epoch(3);
        CHECK(by_parts.past().counts().absent == absent); // all rows are there
        frozen.past.halo_features = false;
        trainer drops(data, frozen);
        for (std::uint64_t e = 0; e < 4; ++e) (void)drops.epoch(e);
        CHECK(difference(drops.outputs, expected) > 1e-3);
        frozen.past = {.type = feature_type::f16, .halo_features = true};
        trainer half(data, frozen);
        for (std::uint64_t e = 0; e < 4; ++e) (void)half.epoch(e);
        CHECK(difference(half.outputs, expected) < 2e-2);
        CHECK(difference(half.outputs, expected) > 1e-6);
    }
}

/// Returns three layers of your own, the first two with ReLU.
template <class First, class Second, class Third>
layer_factories own_network(const First& first, const Second& second, const Third& third, double dropout = .2) {
    const layer_surround hidden{.then = activation::relu, .dropout = dropout};
    return {{first, hidden}, {second, hidden}, {third, {.dropout = dropout}}};
}

TEST_CASE("layers of your own read histories, and train by partitions as in one stage") {
    const graph_data data(400);
    const auto networks = [](double dropout) {
        return std::vector{own_network(own_layers::gin{.width = 8}, own_layers::mean{.width = 8},
                               own_layers::pool{.width = 4}, dropout),
            own_network(
                own_layers::pool{.width = 8}, own_layers::gated{.width = 8}, own_layers::mean{.width = 4}, dropout)};
    };
    for (const layer_factories& own : networks(.2)) {
        std::map<node_id, std::vector<float>> outputs;
        const outcome expected = single(data, {.own = own}, outputs);
        for (const sampled_ahead ahead : modes) {
            CHECK(train(data, {.macro = partitions, .ahead = ahead, .own = own}) == expected);
            for (const bool features : {false, true}) {
                const set_up like{.past = {.halo_features = features}, .ahead = ahead, .own = own};
                trainer by_parts(data, like);
                const outcome found = by_parts();
                CHECK(by_parts.past().counts().pulled != 0);
                CHECK(found != expected);
                set_up wide = like;
                wide.on_disk = true, wide.threads = 3, wide.sample_workers = 2, wide.in_flight = 4;
                CHECK(train(data, wide) == found);
            }
        }
    }
    for (const layer_factories& own : networks(0)) {
        const set_up frozen{
            .fanout = "all,all,all", .past = {.halo_features = true}, .frozen = true, .all_train = true, .own = own};
        std::map<node_id, std::vector<float>> expected;
        (void)single(data, frozen, expected);
        trainer by_parts(data, frozen);
        (void)by_parts.epoch(0);
        CHECK(difference(by_parts.outputs, expected) > 1e-3); // rows of the halo are absent
        for (std::uint64_t e = 1; e < 4; ++e) (void)by_parts.epoch(e);
        CHECK(difference(by_parts.outputs, expected) < 2e-5);
    }
}

TEST_CASE("a layer of your own that copies GraphSAGE has its losses, with histories in every mode") {
    const graph_data data(400);
    const layer_factories own =
        own_network(own_layers::mean{.width = 8}, own_layers::mean{.width = 8}, own_layers::mean{.width = 4});
    for (const sampled_ahead ahead : modes)
        for (const bool features : {false, true}) {
            set_up like{.layers = "sage:8:product=last,sage:8:product=last,sage:4:product=last",
                .past = {.halo_features = features},
                .ahead = ahead};
            const outcome copied = train(data, like);
            like.own = own;
            const outcome found = train(data, like);
            for (std::size_t e = 0; e < found.losses.size(); ++e)
                CHECK(found.losses[e] == doctest::Approx(copied.losses[e]).epsilon(1e-4));
            like.past.most_age = 0;
            CHECK(train(data, like).losses.back() != doctest::Approx(copied.losses.back()).epsilon(1e-4));
        }
}

TEST_CASE("histories give the same bits for any threads, and where an epoch is resumed from their file") {
    const graph_data data(400);
    for (const sampled_ahead ahead : modes)
        for (const feature_type type : {feature_type::f32, feature_type::f16}) {
            const set_up like{.past = {.type = type}, .ahead = ahead};
            const outcome expected = train(data, like);
            set_up wide = like;
            wide.threads = 3, wide.sample_workers = 2, wide.in_flight = 4;
            CHECK(train(data, wide) == expected);
            set_up stored = like;
            stored.on_disk = true;
            CHECK(train(data, stored) == expected);
            wide.on_disk = true;
            CHECK(train(data, wide) == expected);
            for (const std::uint64_t at : {0U, 2U, 5U, 9U, 17U}) { // within macro-batches, and at their ends
                const auto file = data.directory / "past";
                std::optional<std::string> versions;
                const set_up& with = at % 2 == 0 ? like : stored;
                resume_position from;
                std::optional<outcome> between;
                {
                    trainer first(data, with);
                    std::stop_source stop;
                    std::uint64_t seen = 0;
                    training_observer observer;
                    observer.on_batch = [&](const batch_key&, const training_statistics&) {
                        if (++seen > at) stop.request_stop();
                    };
                    for (std::uint64_t e = 0; e < 3 && !stop.stop_requested(); ++e)
                        from = first.training
                                   ->run(first.states(e), {e, {}, first.training->steps()}, observer, stop.get_token())
                                   .position;
                    between = first.end({});
                    if (with.on_disk) {
                        versions = first.past().flush();
                        if (from.epoch < 3) (void)first.training->run(first.states(from.epoch), from); // is lost
                    } else {
                        first.past().save(file);
                    }
                }
                trainer second(data, with, versions);
                std::ranges::copy(between->weights, second.weights.values().begin());
                std::ranges::copy(between->state, second.weights.state().begin());
                if (!with.on_disk) second.past().load(file);
                for (std::uint64_t e = from.epoch; e < 3; ++e) {
                    if (e == from.epoch)
                        (void)second.training->run(second.states(e), from);
                    else
                        (void)second.training->run(second.states(e), e);
                    second.training->enter(phase::evaluate);
                }
                CAPTURE(at);
                CHECK(second.end(expected.losses) == expected);
                trainer forgets(data, like);
                std::ranges::copy(between->weights, forgets.weights.values().begin());
                std::ranges::copy(between->state, forgets.weights.state().begin());
                (void)forgets.training->run(forgets.states(from.epoch), from);
                if (at == 9) CHECK(forgets.end({}).weights != second.end({}).weights);
            }
        }
}

TEST_CASE("nodes within reach of training nodes, or drawn ahead, give the bits of all nodes, and move less") {
    const graph_data data(2000);
    for (const bool features : {false, true}) {
        set_up like{.fanout = "2,2,2", .past = {.halo_features = features}};
        trainer off(data, like);
        like.ahead = sampled_ahead::reach;
        trainer reach(data, like);
        const outcome expected = off();
        CHECK(reach() == expected);
        like.ahead = sampled_ahead::exact;
        trainer exact(data, like);
        CHECK(exact() == expected);
        CHECK(staged(*exact.training).rows < staged(*reach.training).rows);
        CHECK(staged(*reach.training).rows <= staged(*off.training).rows);
        CHECK(staged(*reach.training).edges < staged(*off.training).edges);
    }
}

TEST_CASE("rows drawn ahead are those that batches read, no more and no fewer") {
    const graph_data data(1200);
    for (const bool features : {false, true}) {
        trainer of(data,
            {.layers = "sage:8,sage:4",
                .fanout = "3,2",
                .past = {.halo_features = features},
                .ahead = sampled_ahead::exact});
        (void)of.epoch(0);
        std::uint64_t rows = 0, edges = 0;
        macro_batch_border inside(trainer::parts(1200), partitions);
        neighbor_sampler<> sampler({.fanout = parse_fanout("3,2")}, 9);
        mini_batch_arena arena;
        std::set<node_id> before;
        for (std::uint32_t s = 0; s < of.states(0).size(); ++s) {
            inside.enter(of.states(0)[s].resident);
            std::vector<node_id> nodes, seeds;
            std::ranges::copy_if(data.train, std::back_inserter(nodes), [&](node_id v) { return inside[v]; });
            const node_batches batches(nodes, 10, 9, 0, s);
            std::set<node_id> read;
            for (std::uint64_t k = 0; k < batches.size(); ++k) {
                batches.choose(k, seeds);
                const auto drawn = sampler.sample({0, {s, 0, k}}, bordered_graph(of.graph, inside),
                    std::span<const node_id>(seeds), serial_executor{}, arena);
                edges += drawn.edges();
                for (std::size_t t = 0; t < drawn.node_counts[1]; ++t) // targets of the first layer
                    if (inside[drawn.nodes[t]]) read.insert(drawn.nodes[t]);
                for (std::size_t e = drawn.edge_counts[1]; e < drawn.edges(); ++e)
                    if (const node_id v = drawn.nodes[drawn.neighbors[e]]; inside[v] || features) read.insert(v);
            }
            for (const node_id v : read) rows += !before.contains(v);
            before = std::move(read);
        }
        CHECK(staged(*of.training).rows == rows);
        CHECK(staged(*of.training).edges == edges);
    }
}

namespace {

/// Tables of one layer of three columns for six nodes in three partitions, and batches made by hand.
struct by_hand {
    memory_budget budget{};
    serial_executor on{};
    macro_batch_border border{
        std::make_shared<const std::vector<std::uint16_t>>(std::vector<std::uint16_t>{0, 0, 1, 1, 2, 2}), 3};
    histories past;
    training_batch b{};
    std::vector<node_id> nodes{};
    mini_batch_arena arena{};
    neighbor_sample_writer<> writer{};

    explicit by_hand(const history_options& options) : past({{1, 3}}, 6, options, on, budget) {}
    by_hand(const history_options& options, const std::filesystem::path& file)
        : past({{1, 3}}, {.path = file, .parts = border.parts(), .partitions = 3, .most_inside = 2, .most_halo = 4},
              options, on, budget) {}

    /// Names the halo of a macro-batch of partition `inside`; returns the bytes read so far.
    std::uint64_t expect(std::uint32_t macro_batch, partition_id inside, std::vector<node_id> halo) {
        border.enter(std::vector<partition_id>{inside});
        past.expect(0, macro_batch, std::move(halo), border);
        return past.io().read_bytes;
    }

    /// Runs a batch of one seed and its neighbors in two hops; returns the rows of the second layer, after those given.
    std::vector<float> run(std::vector<node_id> of, partition_id inside, std::uint64_t macro_batch, float value) {
        writer.begin(6, std::span<const node_id>(of).first(1));
        const std::vector<node_id> others(of.begin() + 1, of.end());
        const auto count = static_cast<std::uint32_t>(others.size());
        writer.add_hop(std::vector<std::uint32_t>{0, count}, others);
        std::vector<std::uint32_t> lists(of.size() + 1, count);
        lists[0] = 0;
        writer.add_hop(lists, others);
        const neighbor_sample<> sample = writer.write({}, arena);
        b.layers.assign(sample, on);
        nodes.assign(sample.nodes.begin(), sample.nodes.end());
        b.nodes = nodes;
        b.key = {0, {static_cast<std::uint32_t>(macro_batch), 0, 0}};
        border.enter(std::vector<partition_id>{inside});
        const encoder_hook<float> hook = past.begin(b, border, macro_batch);
        std::vector<float> rows(of.size() * 3, value);
        hook.rows(1, matrix_view<float>(rows.data(), of.size(), 3));
        std::vector<float> gradients(of.size() * 3, 1);
        hook.gradients(1, matrix_view<float>(gradients.data(), of.size(), 3));
        for (std::size_t v = 0; v < of.size(); ++v) CHECK(gradients[3 * v] == (border[of[v]] ? 1 : 0));
        return rows;
    }
    [[nodiscard]] std::size_t edges(std::size_t layer) const { return b.layers[layer].edges(); }
};

} // namespace

TEST_CASE("a row that was never pushed, or too long ago, is absent: its edges are gone, and it is no zero in a mean") {
    by_hand of({.most_age = 2});
    const auto first = of.run({0, 1, 2, 4}, 0, 0, 5); // 2 and 4 were never pushed
    CHECK(first == std::vector<float>{5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0});
    CHECK(of.edges(0) == 1); // only that from 1; the halo is dropped
    CHECK(of.edges(1) == 1);
    CHECK(of.past.counts().absent == 2);
    CHECK(of.past.counts().pushed == 2);
    CHECK(of.past.counts().read_bytes == 0);
    CHECK(of.past.counts().push_bytes == 2 * 12);
    (void)of.run({2, 3, 0}, 1, 1, 7); // 0 was pushed one macro-batch ago
    CHECK(of.edges(0) == 1);
    CHECK(of.past.counts().read_bytes == 12);
    CHECK(of.past.counts().push_bytes == 4 * 12);
    (void)of.run({2, 3, 0}, 1, 1, 7); // of the same macro-batch
    CHECK(of.past.counts().pulled == 2);
    CHECK(of.past.counts().pushed == 6);
    CHECK(of.past.counts().read_bytes == 12);
    CHECK(of.past.counts().push_bytes == 4 * 12);
    CHECK(of.edges(1) == 2);
    CHECK(of.past.counts().ages.count[1] == 2);
    const auto third = of.run({4, 0, 2, 5}, 2, 2, 9);
    CHECK(third == std::vector<float>{9, 9, 9, 5, 5, 5, 7, 7, 7, 9, 9, 9});
    CHECK(of.edges(1) == 3);
    CHECK(of.past.counts().ages.count[2] == 1);
    const auto fourth = of.run({4, 0, 2, 5}, 2, 3, 1); // 0 is three macro-batches old
    CHECK(fourth == std::vector<float>{1, 1, 1, 0, 0, 0, 7, 7, 7, 1, 1, 1});
    CHECK(of.edges(1) == 2);
    const layer_view& view = of.b.layers[1]; // lists by source are those of the edges that are left
    for (std::size_t s = 0; s < view.sources; ++s)
        for (std::uint32_t e = view.by_source_offsets[s]; e < view.by_source_offsets[s + 1]; ++e)
            CHECK(view.neighbors[view.by_source_edges[e]] == s);
    CHECK(view.by_source_offsets.back() == view.edges());
}

TEST_CASE("age 0 reads and keeps nothing; features of the halo are read by the first layer") {
    by_hand ignores({.most_age = 0});
    for (std::uint64_t m = 0; m < 2; ++m) {
        CHECK(ignores.run({0, 1, 2}, 0, m, 5) == std::vector<float>{5, 5, 5, 5, 5, 5, 0, 0, 0});
        (void)ignores.run({2, 3}, 1, m, 5);
    }
    CHECK(ignores.budget.used() == 0);
    by_hand reads({.halo_features = true});
    (void)reads.run({0, 1, 2}, 0, 0, 5);
    CHECK(reads.edges(0) == 2);
    CHECK(reads.edges(1) == 1);
    CHECK(reads.budget.used() == 6 * (3 * 4 + 4) + 8); // and a bit each
    CHECK(ignores.past.counts().read_bytes + ignores.past.counts().push_bytes == 0);
}

TEST_CASE("rows of the halo are read ahead, but for those that an earlier macro-batch is still to write") {
    const test::temporary_directory directory;
    by_hand of({}, directory / "histories");
    constexpr std::uint64_t record = 4 + 4 + 3 * 4;
    CHECK(of.expect(0, 0, {4, 2}) == 0);
    (void)of.run({0, 1, 2, 4}, 0, 0, 5);
    CHECK(of.expect(1, 1, {0, 4}) == 0); // 0 is in training; the rows of 4 were never written
    CHECK(of.run({2, 3, 0, 4}, 1, 1, 7) == std::vector<float>{7, 7, 7, 7, 7, 7, 5, 5, 5, 0, 0, 0});
    CHECK(of.past.io().read_bytes == record);     // 0, after it was written
    CHECK(of.expect(2, 2, {0, 2}) == 2 * record); // 0 ahead
    CHECK(of.expect(3, 0, {4, 2}) == 2 * record); // one macro-batch ahead has its rows in memory
    CHECK(of.run({4, 0, 2, 5}, 2, 2, 9) == std::vector<float>{9, 9, 9, 5, 5, 5, 7, 7, 7, 9, 9, 9});
    CHECK(of.past.io().read_bytes == 3 * record); // 2, after it was written
    CHECK(of.run({0, 2, 4}, 0, 3, 1) == std::vector<float>{1, 1, 1, 7, 7, 7, 9, 9, 9});
    CHECK(of.past.io().read_bytes == 7 * record); // partition 0, and the halo
    (void)of.expect(4, 1, {0, 5});
    (void)of.expect(5, 2, {2, 0}); // 2 is of a macro-batch that is still to come
    CHECK(of.run({2, 0, 5}, 1, 4, 2) == std::vector<float>{2, 2, 2, 1, 1, 1, 9, 9, 9});
    CHECK(of.run({4, 2, 0}, 2, 5, 3) == std::vector<float>{3, 3, 3, 2, 2, 2, 1, 1, 1});
    CHECK(of.past.counts().read_bytes == (1 + 2 + 2 + 2 + 2) * 12);
    CHECK_THROWS_WITH_AS(of.run({0, 2}, 0, 6, 1), doctest::Contains("is not known"), error);
    (void)of.expect(6, 0, {2});
    CHECK_THROWS_WITH_AS(of.run({0, 4}, 0, 6, 1), doctest::Contains("node 4 is not in the halo"), error);
}

TEST_CASE("a value beyond f16 is absent, not infinite") {
    by_hand of({.type = feature_type::f16});
    (void)of.run({0, 1}, 0, 0, 1e6F);
    CHECK(of.run({2, 3, 0}, 1, 1, 2) == std::vector<float>{2, 2, 2, 2, 2, 2, 0, 0, 0});
    (void)of.run({0, 1}, 0, 2, 2049);
    CHECK(of.run({2, 3, 0}, 1, 3, 2) == std::vector<float>{2, 2, 2, 2, 2, 2, 2048, 2048, 2048});
}

TEST_CASE("histories: bad input") {
    const graph_data data(400);
    trainer of(data, {});
    const auto file = data.directory / "past";
    of.past().save(file);
    of.past().load(file);
    const auto refused = [&](const std::string& text, auto&& change) {
        of.past().save(file);
        change();
        CHECK_THROWS_WITH_AS(of.past().load(file), doctest::Contains(text.c_str()), error);
    };
    const auto size = std::filesystem::file_size(file);
    refused("bytes", [&] { std::filesystem::resize_file(file, size - 1); });
    refused("checksum", [&] {
        std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
        out.seekp(100);
        out.put('x');
    });
    refused("other layers", [&] {
        memory_budget budget;
        const histories other({{1, 4}, {2, 12}}, 400, {}, serial_executor{}, budget);
        other.save(file);
    });
    CHECK_THROWS_AS(trainer(data, {.past = {.type = feature_type::int8}}), error);
    memory_budget small(1000);
    CHECK_THROWS_AS(histories({{1, 8}}, 400, {}, serial_executor{}, small), over_budget);
    const auto parts = trainer::parts(400);
    CHECK_THROWS_WITH_AS(macro_batch_border(parts, 7), doctest::Contains("node 49 is in partition 7 of 7"), error);
    macro_batch_border border(parts, 8);
    CHECK_THROWS_AS(border.enter(std::vector<partition_id>{8}), error);
    joestar_parts half{.first_stage = make_sampler(of.graph, sampler_kind::neighbor, {}, 9),
        .features = feature_rows{.source = of.source, .columns = columns},
        .task = classified_nodes{data.labels, [&](std::uint32_t, std::vector<node_id>& out) { out = data.train; }},
        .encode = of.encode,
        .weights = of.weights,
        .optimizer = of.dense,
        .border = of.border};
    memory_budget budget;
    CHECK_THROWS_WITH_AS(
        (void)make_joestar({.batch = 10}, half, of.on, budget), doctest::Contains("need each other"), error);
    half.past = &of.past();
    CHECK_THROWS_WITH_AS(
        (void)make_joestar({.batch = 10}, half, of.on, budget), doctest::Contains("second_stage::lists"), error);
    half.border = std::make_shared<macro_batch_border>(trainer::parts(399), 8);
    CHECK_THROWS_WITH_AS(
        (void)make_joestar({.batch = 10, .macro_batches = {.form = second_stage::lists}}, half, of.on, budget),
        doctest::Contains("399 nodes"), error);
}

} // namespace test_train_histories
