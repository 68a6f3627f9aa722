#include <gneiss/cuda/train/device_histories.cuh>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/model/layer/any_layer.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>
#include <gneiss/cuda/train/device_sampling.cuh>
#include <gneiss/cuda/train/kept_edges.cuh>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/train/histories.hpp>
#include <gneiss/train/trainers/ginex.hpp>
#include <gneiss/train/trainers/joestar.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <model/own_layers.hpp>
#include <simt/sample/support.hpp>
#include <simt/train/support.hpp>
#include <train/stored_graph.hpp>

namespace test_simt_train_device_histories {

using namespace gneiss;
using namespace gneiss::test::stored_graph;
using simt_sample::fetched;

namespace {

constexpr std::uint32_t partitions = 40; // two words of bits

/// Partitions that do not follow communities, so that there are halos.
std::shared_ptr<const std::vector<std::uint16_t>> parts_of(std::uint64_t nodes) {
    std::vector<std::uint16_t> result;
    for (std::uint64_t v = 0; v < nodes; ++v) result.push_back(static_cast<std::uint16_t>(v / 3 % partitions));
    return std::make_shared<const std::vector<std::uint16_t>>(std::move(result));
}

/// A layer of the host in device memory, with room for `spare` more of everything.
struct copied_layer {
    cuda::device_buffer<cuda::layer_counts> counts;
    cuda::device_buffer<std::uint32_t> offsets, neighbors;
    cuda::layer_view view{};

    copied_layer(memory_budget& budget, cuda::stream& in, const gneiss::layer_view& of, std::uint32_t spare)
        : counts(budget, "counts", 1),
          offsets(budget, "offsets", of.offsets.size() + spare),
          neighbors(budget, "neighbors", of.neighbors.size() + spare) {
        const cuda::layer_counts sizes{static_cast<std::uint32_t>(of.targets), static_cast<std::uint32_t>(of.sources),
            static_cast<std::uint32_t>(of.edges()), static_cast<std::uint32_t>(of.first_target)};
        cuda::copy_async(counts.span(), std::span(&sizes, 1), in);
        cuda::copy_async(offsets.span(), of.offsets, in);
        cuda::copy_async(neighbors.span(), of.neighbors, in);
        in.synchronize();
        view = {.counts = counts.data(),
            .target_capacity = sizes.targets + spare,
            .source_capacity = sizes.sources + spare,
            .edge_capacity = sizes.edges + spare};
        view.offsets = offsets.data();
        view.neighbors = neighbors.data();
    }
};

void check_counts(const history_counts& got, const history_counts& want) {
    CHECK(got.pulled == want.pulled);
    CHECK(got.absent == want.absent);
    CHECK(got.pushed == want.pushed);
    CHECK(got.read_bytes == want.read_bytes);
    CHECK(got.push_bytes == want.push_bytes);
    CHECK((got.ages.count == want.ages.count));
}

/// The same batches for histories of the host and of the device.
struct compared {
    const graph_data& data;
    memory_budget budget{};
    memory_csc graph;
    macro_batch_border border;
    std::vector<hidden_rows> layers{{1, 5}, {2, 40}};
    history_options how;
    histories host;
    cuda::device_histories device;
    cuda::stream in{};
    neighbor_sampler<> sampler{{.fanout = parse_fanout("4,3,3")}, 9};
    std::uint32_t spare = 0;
    std::uint64_t now = 0; ///< macro-batches so far
    float most = 1;        ///< magnitude of rows

    compared(const graph_data& of, const history_options& options, bool pinned)
        : data(of),
          graph(csc_files{.in = data.directory / "csc", .out = {}}, budget),
          border(parts_of(of.rows.nodes), partitions),
          how(options),
          host(layers, of.rows.nodes, options, serial_executor{}, budget),
          device(budget, setup(pinned), false) {}
    [[nodiscard]] device_histories_setup setup(bool pinned) const {
        return {.layers = layers, .options = how, .parts = border.parts(), .partitions = partitions, .pinned = pinned};
    }

    /// Computes batch `index` of a macro-batch of these partitions: rows are random numbers.
    void batch(std::uint64_t macro_batch, const std::vector<partition_id>& inside, std::uint64_t index) {
        border.enter(inside);
        std::vector<node_id> seeds;
        for (node_id v = static_cast<node_id>(index); v < data.rows.nodes && seeds.size() < 12; v += 3)
            if (border[v]) seeds.push_back(v);
        mini_batch_arena arena;
        const batch_key key{0, {static_cast<std::uint32_t>(macro_batch), 0, index}};
        const auto drawn = sampler.sample(
            key, bordered_graph(graph, border), std::span<const node_id>(seeds), serial_executor{}, arena);
        training_batch b;
        b.nodes = drawn.nodes;
        b.macro_batch = macro_batch;
        b.inside = inside;
        b.layers.assign(drawn, serial_executor{});
        std::vector<copied_layer> copies;
        std::vector<cuda::layer_view> views;
        for (const gneiss::layer_view& layer : b.layers) {
            copies.emplace_back(budget, in, layer, spare);
            views.push_back(copies.back().view);
        }
        cuda::device_buffer<node_id> names(budget, "names", b.nodes.size());
        cuda::copy_async(names.span(), b.nodes, in);
        cuda::transfer_slot slot(budget, "place", device.place_bytes());
        slot.begin();
        const std::uint32_t* const place = device.put(b, slot);
        slot.copy_in(in);
        const encoder_hook<float> hook = host.begin(b, border, macro_batch);
        const std::vector<cuda::layer_view> left = device.begin(in, views, names.data(), place);
        REQUIRE(left.size() == b.layers.size());
        for (std::size_t i = 0; i < left.size(); ++i) simt_sample::check_layer(in, left[i], b.layers[i]);
        CHECK((left[0].by_source_offsets == nullptr));
        for (std::size_t i = 1; i < left.size(); ++i) CHECK((left[i].by_source_offsets != nullptr));
        random_stream random(random_key{7, random_domain::dropout}.with(macro_batch).with(index));
        for (std::size_t i = 1; i < left.size(); ++i) {
            CAPTURE(i);
            const std::size_t count = b.layers[i].sources, width = layers[i - 1].columns, stride = width + 3;
            std::vector<float> rows(count * stride), gradients(count * stride);
            for (auto* const list : {&rows, &gradients})
                for (float& x : *list) x = most * (2 * to_unit_float(random()) - 1);
            const auto check = [&](std::vector<float>& values, auto on_host, auto on_device) {
                cuda::device_buffer<float> there(budget, "rows", values.size());
                cuda::copy_async(there.span(), values, in);
                on_host(i, matrix_view<float>(values.data(), count, width, stride));
                on_device(cuda::rows_view<float>(there.data(), width, stride));
                CHECK((fetched(in, there.data(), values.size()) == values));
            };
            const std::uint32_t* const size = &views[i].counts->sources;
            const auto capacity = static_cast<std::uint32_t>(count) + spare;
            check(rows, hook.rows, [&](auto to) { device.rows(in, i, size, capacity, to); });
            check(gradients, hook.gradients, [&](auto to) { device.gradients(in, i, size, capacity, to); });
        }
    }
    /// Computes batches of macro-batches of some partitions each.
    void run(std::uint64_t macro_batches = 7) {
        for (const std::uint64_t end = now + macro_batches; now < end; ++now) {
            std::vector<partition_id> inside;
            for (partition_id p = 0; p < partitions; ++p)
                if ((p + 3 * now) % 4 < 2) inside.push_back(p);
            for (std::uint64_t k = 0; k < 3; ++k) batch(now, inside, k);
        }
        check_counts(device.counts(), host.counts());
    }
};

/// Places of the work of training by partitions.
struct places {
    bool device = true;                ///< computes batches
    bool sample = false, rows = false; ///< are there; else on the host
    bool recorded = false, pinned = false, disk = false;
    std::size_t in_flight = 2, sample_workers = 1;
};

/// A file of all rows, and where it is read from.
struct stored_rows {
    std::string name = "rows";
    std::optional<std::string> versions{};
};

struct set_up {
    std::string layers = "sage:8,sage:8,sage:4", fanout = "4,3,3";
    history_options past{};
    sampled_ahead ahead = sampled_ahead::reach;
    std::uint32_t macro = 10;
    float dropout = .2F;
    bool own = false, attends = false; ///< layers of your own instead, one of them with functions of edges
};

/// Layers of your own.
template <class Layer>
std::vector<Layer> own_layers_of(bool attends) {
    const layer_surround hidden{.then = activation::relu, .dropout = .2};
    return {{own_layers::gin{.width = 8}, hidden},
        attends ? Layer(own_layers::attending{.width = 6}, hidden) : Layer(own_layers::mean{.width = 6}, hidden),
        {own_layers::mean{.width = 4}}};
}

/// Training by partitions on the emulated device, or on the CPU.
struct trained_by_parts {
    const graph_data& data;
    set_up with;
    places on;
    memory_budget budget{};
    tbb_executor executor{1};
    std::vector<layer_options> layers;
    network net;
    memory_csc graph;
    std::shared_ptr<macro_batch_border> border;
    any_row_source source;
    std::shared_ptr<cuda::device_macro_batches> macros{};
    std::shared_ptr<cuda::device_sampling> sampling{};
    std::shared_ptr<cuda::device_histories> there{};
    std::optional<histories> here{};
    std::optional<any_backend> backend{};
    std::optional<joestar_trainer> training{};
    cuda::device_calls calls{}; ///< of the last epoch
    std::uint64_t refused = 0;  ///< steps in all epochs

    trained_by_parts(const graph_data& of, const set_up& options, const places& where, const stored_rows& stored = {})
        : data(of),
          with(options),
          on(where),
          layers(with.own ? std::vector<layer_options>() : parse_layers(with.layers, {.dropout = with.dropout})),
          net({.dense = columns},
              with.own ? own_layers_of<layer_factories::value_type>(with.attends)
                       : layer_factories(layers.begin(), layers.end())),
          graph(csc_files{.in = data.directory / "csc", .out = {}}, budget),
          border(std::make_shared<macro_batch_border>(parts_of(of.rows.nodes), partitions)),
          source(std::in_place_type<disk_rows>, threads(), data.stored(), gather_options{}, executor, budget) {
        const bool drawn = with.ahead == sampled_ahead::exact;
        const std::vector<hop_fanout> second = parse_fanout(with.fanout),
                                      first = parse_fanout(with.ahead == sampled_ahead::off ? "all"
                                              : drawn                                       ? with.fanout
                                                                                            : "all,all,all");
        const std::uint64_t nodes = data.rows.nodes;
        if (on.device) {
            const network_setup setup{.layers = layers,
                .in = net.encode.inputs(),
                .weights = net.weights,
                .seed = 9,
                .recorded = on.recorded,
                .own = with.own
                    ? std::make_shared<const cuda::layer_list>(own_layers_of<cuda::any_layer<float>>(with.attends))
                    : nullptr};
            const bool lists = cuda::device_network::needs_lists_of_inputs(setup, false);
            there = std::make_shared<cuda::device_histories>(budget,
                device_histories_setup{.layers = hidden_rows_of(net.encode),
                    .options = with.past,
                    .parts = border->parts(),
                    .partitions = partitions,
                    .pinned = on.pinned,
                    .most_inside = on.disk ? inside_of(with.macro) : 0,
                    .most_halo = on.disk ? nodes : 0},
                lists);
            if (on.disk)
                there->open({.path = data.directory / stored.name,
                                .parts = border->parts(),
                                .partitions = partitions,
                                .most_inside = inside_of(with.macro),
                                .most_halo = nodes,
                                .versions = stored.versions},
                    budget);
            if (on.sample || on.rows)
                macros = std::make_shared<cuda::device_macro_batches>(budget,
                    device_macro_batches_setup{.nodes = nodes,
                        .edges = 8 * nodes,
                        .lists = on.sample ? 1U : 0U,
                        .rows = on.rows ? nodes : 0,
                        .columns = columns,
                        .type = data.features.type});
            if (on.sample)
                sampling = std::make_shared<cuda::device_sampling>(budget,
                    device_sampling_setup{.nodes = nodes,
                        .edges = 8 * nodes,
                        .neighbors = {.fanout = bounded_fanout(second_stage::lists, first, second)},
                        .sampler = sampler_kind::neighbor,
                        .seed = 9,
                        .seeds = 10,
                        .lists_of_inputs = lists,
                        .lists_by_source = false,
                        .recorded = on.recorded,
                        .ids_on_host = !(on.recorded && on.rows)},
                    macros);
            backend.emplace(std::in_place_type<cuda::device_node_backend>, budget, setup,
                std::optional<device_embeddings>(), sampling, static_cast<const device_features*>(nullptr), macros,
                there);
        } else {
            here.emplace(hidden_rows_of(net.encode), nodes, with.past, executor, budget);
        }
        joestar_parts parts{.first_stage = any_sampler(graph,
                                [border = border, first] { return bordered_sampler(border, {.fanout = first}, 9); }),
            .features = feature_rows{.source = source, .columns = columns, .type = data.features.type},
            .task =
                classified_nodes{data.labels, [this](std::uint32_t, std::vector<node_id>& out) { out = data.train; }},
            .encode = net.encode,
            .weights = net.weights,
            .optimizer = net.dense,
            .backend = backend ? &*backend : nullptr,
            .border = border,
            .past = here ? &*here : nullptr,
            .past_on_device = there.get()};
        if (sampling) parts.second_on_device.emplace(sampling);
        training.emplace(make_joestar({.batch = 10,
                                          .second = {.fanout = second},
                                          .ahead = with.ahead,
                                          .macro_batches = {.form = drawn ? second_stage::drawn : second_stage::lists,
                                              .rows = nodes,
                                              .device = macros,
                                              .rows_on_device = on.rows},
                                          .seed = 9,
                                          .rows_in_flight = on.in_flight,
                                          .sample_workers = on.sample_workers},
            parts, executor, budget));
    }
    /// Returns the most nodes of some partitions.
    [[nodiscard]] std::uint64_t inside_of(std::uint32_t macro) const {
        return std::min(3 * macro * ceil_div(data.rows.nodes, std::uint64_t{3 * partitions}), data.rows.nodes);
    }
    [[nodiscard]] epoch_plan states(std::uint64_t epoch) const {
        return macro_batches(partitions, 0, with.macro, 9, epoch).states;
    }
    [[nodiscard]] history_counts counts() const { return there ? there->counts() : here->counts(); }
    outcome operator()(std::uint64_t epochs = 3) {
        std::vector<double> losses;
        for (std::uint64_t e = 0; e < epochs; ++e) {
            const cuda::device_calls before = cuda::calls_so_far();
            losses.push_back(training->run(states(e), e).model.loss);
            calls = cuda::calls_so_far() - before;
            refused += calls.refused_steps;
        }
        return net.end(std::move(losses));
    }
};

std::vector<std::byte> bytes_of(const std::filesystem::path& file) {
    std::vector<std::byte> all(std::filesystem::file_size(file));
    plain_file::open(file).read_at(0, all);
    return all;
}

} // namespace

TEST_CASE("simt.train.device_histories: edges are removed as on the host, and lists by source made, with any room") {
    const graph_data data(300);
    memory_budget budget;
    const memory_csc graph(csc_files{.in = data.directory / "csc", .out = {}}, budget);
    cuda::stream in;
    cuda::kept_edges kept(budget);
    for (const std::uint32_t spare : {0U, 700U})
        for (const std::string fanout : {"4,3", "all,all", "1,2"})
            for (const std::uint32_t share : {0U, 1U, 3U, 4U}) { // of four nodes, whose edges are removed
                CAPTURE(spare);
                CAPTURE(fanout);
                CAPTURE(share);
                neighbor_sampler<> sampler({.fanout = parse_fanout(fanout)}, 9);
                mini_batch_arena arena;
                const auto drawn = sampler.sample(
                    batch_key{}, graph, std::span<const node_id>(data.train).first(20), serial_executor{}, arena);
                layer_stack layers;
                layers.assign(drawn, serial_executor{});
                for (std::size_t i = 0; i < layers.size(); ++i) {
                    const copied_layer there(budget, in, layers[i], spare);
                    simt_sample::check_layer(in, kept(in, i, there.view, nullptr, true), layers[i]);
                    std::vector<std::uint8_t> marks;
                    for (std::size_t v = 0; v < layers[i].sources; ++v)
                        marks.push_back(mix64(v) % 4 < share ? (v % 2 == 0 ? 3 : 1) : (v % 2 == 0 ? 2 : 0));
                    cuda::device_buffer<std::uint8_t> marks_there(budget, "marks", marks.size() + spare);
                    cuda::copy_async(marks_there.span(), marks, in);
                    std::ranges::transform(marks, marks.begin(), [](std::uint8_t m) { return m & 1; });
                    layers.drop_edges(i, marks);
                    const cuda::layer_view left = kept(in, i, there.view, marks_there.data(), true);
                    simt_sample::check_layer(in, left, layers[i]);
                    CHECK((left.by_source_offsets != nullptr));
                    CHECK((kept(in, i, there.view, marks_there.data(), false).by_source_offsets == nullptr));
                    const std::uint64_t growths = kept.growths();
                    (void)kept(in, i, there.view, marks_there.data(), true);
                    CHECK(kept.growths() == growths);
                }
            }
}

TEST_CASE("simt.train.device_histories: rows, removed edges and counts are those of the host's histories") {
    const graph_data data(400);
    for (const feature_type type : {feature_type::f32, feature_type::f16})
        for (const std::uint64_t age : {history_options{}.most_age, std::uint64_t{2}, std::uint64_t{0}})
            for (const bool features : {false, true}) {
                CAPTURE(age);
                CAPTURE(features);
                const bool roomy = features != (type == feature_type::f16);
                compared both(data, {.most_age = age, .type = type, .halo_features = features}, roomy);
                both.spare = roomy ? 300 : 0;
                both.run();
                const history_counts seen = both.host.counts();
                CHECK(seen.absent != 0);
                CHECK((seen.pulled != 0) == (age != 0));
                CHECK((seen.read_bytes != 0) == (age != 0));
                CHECK((seen.ages.count[3] != 0) == (age > 2));
            }
}

TEST_CASE("simt.train.device_histories: a row with a value beyond f16 is absent, until it is pushed once more") {
    const graph_data data(400);
    for (const feature_type type : {feature_type::f16, feature_type::f32}) {
        compared both(data, {.type = type}, false);
        both.most = 66500; // half of the wide rows have a value beyond 65519
        both.run(4);
        both.most = 1;
        const std::uint64_t absent = both.host.counts().absent;
        compared narrow(data, {.type = type}, false);
        narrow.run(4);
        CHECK((absent > narrow.host.counts().absent) == (type == feature_type::f16));
        both.run(4);
    }
}

TEST_CASE("simt.train.device_histories: files of the host and the device have the same bytes, and are read by both") {
    const graph_data data(400);
    for (const feature_type type : {feature_type::f32, feature_type::f16})
        for (const bool pinned : {false, true}) {
            compared both(data, {.type = type}, pinned);
            both.run(3);
            both.host.save(data.directory / "host");
            both.device.save(data.directory / "device");
            CHECK((bytes_of(data.directory / "host") == bytes_of(data.directory / "device")));
            compared next(data, {.type = type}, !pinned);
            next.host.load(data.directory / "device");
            next.device.load(data.directory / "host");
            next.device.save(data.directory / "again");
            CHECK((bytes_of(data.directory / "host") == bytes_of(data.directory / "again")));
            const std::vector<partition_id> inside{0, 3, 32, 39};
            next.batch(5, inside, 0); // reads rows of these files
            check_counts(next.device.counts(), next.host.counts());
            CHECK(next.host.counts().pulled != 0);
        }
    compared both(data, {}, false);
    {
        compared other(data, {.type = feature_type::f16}, false);
        other.device.save(data.directory / "other");
    }
    CHECK_THROWS_WITH_AS(both.device.load(data.directory / "other"), doctest::Contains("bytes"), error);
    std::filesystem::resize_file(data.directory / "host", 100);
    CHECK_THROWS_AS(both.device.load(data.directory / "host"), error);
}

TEST_CASE("simt.train.device_histories: training by partitions has the CPU's losses up to rounding, and its counts") {
    const graph_data data(400);
    const auto check = [&](const set_up& with, const places& on) {
        CAPTURE(with.layers);
        CAPTURE(static_cast<int>(with.ahead));
        CAPTURE(with.own);
        trained_by_parts host(data, with, {.device = false}), device(data, with, on);
        const outcome want = host(), got = device();
        CHECK(got.losses.size() == 3);
        for (std::size_t e = 0; e < want.losses.size(); ++e)
            CHECK(got.losses[e] == doctest::Approx(want.losses[e]).epsilon(2e-4));
        CHECK(simt_pipeline::difference(got.weights, want.weights) < .05);
        check_counts(device.counts(), host.counts());
        CHECK((host.counts().pulled != 0) == (with.macro != partitions && with.past.most_age != 0));
    };
    check({.ahead = sampled_ahead::off}, {});
    check({.past = {.halo_features = true}, .ahead = sampled_ahead::exact}, {.rows = true});
    check({.past = {.most_age = 3, .type = feature_type::f16}}, {.sample = true, .rows = true});
    check({.layers = "linear:5,sage:8:residual,gcn:6:norm,gat:4x2:mean"}, {.pinned = true});
    check({.past = {.most_age = 0}}, {.sample = true});
    check({.own = true}, {.sample = true});
    for (const bool features : {false, true}) // the first layer has lists by source
        check({.layers = "gat:4x2,sage:8,sage:4", .past = {.halo_features = features}}, {.sample = features});
}

TEST_CASE("simt.train.device_histories: in device memory, pinned or in a file, drawn by the host or the device, "
          "recorded or not: "
          "the same bits") {
    const graph_data data(400);
    const auto check = [&](const set_up& with, std::initializer_list<places> all) {
        trained_by_parts first(data, with, {});
        const outcome expected = first();
        CHECK(expected.losses.back() < expected.losses.front());
        for (const places& on : all) {
            CAPTURE(on.sample);
            CAPTURE(on.rows);
            CAPTURE(on.recorded);
            CAPTURE(on.disk);
            trained_by_parts other(data, with, on);
            CHECK(other() == expected);
            CHECK((other.there->io().writes != 0) == on.disk);
            check_counts(other.counts(), first.counts());
            if (!on.recorded) continue;
            MESSAGE("sample ", on.sample, ", rows ", on.rows, ": launches ", other.calls.launches, " of ",
                first.calls.launches, ", recorded ", other.calls.recorded_steps, ", eager ", other.calls.eager_steps,
                ", refused in all epochs ", other.refused, "; waits ", other.calls.waits, " of ", first.calls.waits,
                ", copied ", other.calls.copied_bytes, " of ", first.calls.copied_bytes);
            if (on.sample && on.rows) CHECK(other.refused != 0); // they push and count nothing
            CHECK(other.calls.recorded_steps > other.calls.eager_steps);
            CHECK(other.calls.launches < first.calls.launches / 2);
        }
    };
    check({.past = {.most_age = 6}},
        {{.pinned = true}, {.sample = true}, {.recorded = true},
            {.sample = true, .rows = true, .recorded = true, .in_flight = 4, .sample_workers = 2}, {.disk = true},
            {.sample = true, .rows = true, .recorded = true, .disk = true, .in_flight = 4, .sample_workers = 2}});
    check({.past = {.type = feature_type::f16, .halo_features = true}},
        {{.rows = true, .in_flight = 4, .sample_workers = 3},
            {.sample = true, .rows = true, .recorded = true, .pinned = true}, {.rows = true, .disk = true}});
    check({.own = true, .attends = true}, {{.sample = true, .rows = true, .recorded = true}});
    const set_up drawn{.ahead = sampled_ahead::exact};
    CHECK((trained_by_parts(data, {}, {})() == trained_by_parts(data, drawn, {.rows = true})()));
}

TEST_CASE("simt.train.device_histories: all partitions at once train as one stage does on the device, bit for bit") {
    const graph_data data(400);
    const set_up all{.macro = partitions};
    network net({.dense = columns}, [&] {
        const auto layers = parse_layers(all.layers, {.dropout = all.dropout});
        return layer_factories(layers.begin(), layers.end());
    }());
    memory_budget budget;
    const tbb_executor on(1);
    const memory_csc graph(csc_files{.in = data.directory / "csc", .out = {}}, budget);
    any_row_source source(std::in_place_type<disk_rows>, threads(), data.stored(), gather_options{}, on, budget);
    any_backend backend(std::in_place_type<cuda::device_node_backend>, budget,
        network_setup{.layers = parse_layers(all.layers, {.dropout = all.dropout}),
            .in = net.encode.inputs(),
            .weights = net.weights,
            .seed = 9});
    ginex_trainer single = make_ginex(
        {.batch = 10, .seed = 9, .superbatches = {.schedule = superbatch_schedule::conventional}},
        {.sampler = make_sampler(graph, sampler_kind::neighbor, {.fanout = parse_fanout(all.fanout)}, 9),
            .features = feature_rows{.source = source, .columns = columns},
            .task = classified_nodes{data.labels, [&](std::uint32_t, std::vector<node_id>& out) { out = data.train; }},
            .nodes = data.rows.nodes,
            .encode = net.encode,
            .weights = net.weights,
            .optimizer = net.dense,
            .backend = &backend},
        on);
    std::vector<double> losses;
    for (std::uint64_t e = 0; e < 3; ++e) losses.push_back(single.run(whole_graph(), e).model.loss);
    const outcome expected = net.end(std::move(losses));
    for (const places& where : {places{}, {.sample = true, .rows = true, .recorded = true}}) {
        trained_by_parts by_parts(data, all, where);
        CHECK(by_parts() == expected);
        CHECK(by_parts.counts().pulled + by_parts.counts().absent == 0);
        CHECK(by_parts.counts().pushed != 0);
    }
}

TEST_CASE("simt.train.device_histories: a run that is stopped anywhere and resumed from a file ends in the same bits") {
    const graph_data data(400); // 134 nodes train, in 4 macro-batches of about 4 batches
    const set_up with{.past = {.type = feature_type::f16}};
    for (const places& on : {places{.pinned = true}, {.sample = true, .rows = true, .recorded = true},
             {.sample = true, .rows = true, .recorded = true, .disk = true}}) {
        const outcome expected = trained_by_parts(data, with, on)();
        for (const std::uint64_t at : {7U, 22U}) {
            CAPTURE(at);
            CAPTURE(on.recorded);
            CAPTURE(on.disk);
            resume_position from;
            std::optional<outcome> between;
            stored_rows stored{.name = "rows" + std::to_string(at)};
            {
                trained_by_parts first(data, with, on, stored);
                std::stop_source stop;
                std::uint64_t applied = 0;
                training_observer observer;
                observer.on_batch = [&](const batch_key&, const training_statistics&) {
                    if (++applied > at) stop.request_stop();
                };
                for (std::uint64_t e = 0; e < 3 && !stop.stop_requested(); ++e)
                    from = first.training
                               ->run(first.states(e), {e, {}, first.training->steps()}, observer, stop.get_token())
                               .position;
                between = first.net.end({});
                if (on.disk)
                    stored.versions = first.there->flush();
                else
                    first.there->save(data.directory / "cut");
            }
            trained_by_parts second(data, with, on, stored);
            std::ranges::copy(between->weights, second.net.weights.values().begin());
            std::ranges::copy(between->state, second.net.weights.state().begin());
            if (!on.disk) second.there->load(data.directory / "cut");
            for (std::uint64_t e = from.epoch; e < 3; ++e) {
                if (e == from.epoch)
                    (void)second.training->run(second.states(e), from);
                else
                    (void)second.training->run(second.states(e), e);
            }
            CHECK(second.net.end(expected.losses) == expected);
        }
    }
}

TEST_CASE("simt.train.device_histories: what does not go together is an error") {
    const graph_data data(400);
    compared both(data, {}, false);
    memory_budget small(memory_budget::unlimited, memory_budget::unlimited, 20'000);
    CHECK_THROWS_WITH_AS(
        cuda::device_histories(small, both.setup(false), false), doctest::Contains("histories"), over_budget);
    memory_budget unpinned(memory_budget::unlimited, 20'000);
    CHECK_THROWS_WITH_AS(
        cuda::device_histories(unpinned, both.setup(true), false), doctest::Contains("pinned"), over_budget);
    device_histories_setup with = both.setup(false);
    with.partitions = 7;
    CHECK_THROWS_WITH_AS(
        cuda::device_histories(both.budget, with, false), doctest::Contains("in partition 7 of 7"), error);
    with = both.setup(false);
    with.options.type = feature_type::bf16;
    CHECK_THROWS_WITH_AS(cuda::device_histories(both.budget, with, false), doctest::Contains("f32 or f16"), error);
    with = both.setup(true);
    with.most_inside = with.most_halo = 10;
    CHECK_THROWS_WITH_AS(cuda::device_histories(both.budget, with, false), doctest::Contains("not pinned"), error);
    with.pinned = false;
    cuda::device_histories in_file(both.budget, with, false);
    training_batch b;
    const std::vector<partition_id> one{0};
    b.inside = one;
    CHECK_THROWS_WITH_AS(in_file.enter(b), doctest::Contains("not opened"), error);
    in_file.open({.path = data.directory / "small",
                     .parts = both.border.parts(),
                     .partitions = partitions,
                     .most_inside = 10,
                     .most_halo = 10},
        both.budget);
    CHECK_THROWS_WITH_AS(in_file.enter(b), doctest::Contains("not known"), error);
    both.border.enter(one);
    in_file.expect(0, 0, {}, both.border);
    CHECK_THROWS_WITH_AS(in_file.enter(b), doctest::Contains("histories of macro-batch 0"), over_budget); // of 12 nodes
    b.inside = {};
    cuda::transfer_slot slot(both.budget, "place", both.device.place_bytes());
    slot.begin();
    CHECK_THROWS_WITH_AS((void)both.device.put(b, slot), doctest::Contains("no macro-batch"), error);
    CHECK_THROWS_WITH_AS((void)both.device.begin(both.in, std::vector<cuda::layer_view>(2), nullptr, nullptr),
        doctest::Contains("other layers"), error);
}

} // namespace test_simt_train_device_histories
