#include <gneiss/cuda/model/step/encoder.cuh>

#include <gneiss/cuda/core/graph.cuh>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <model/own_layers.hpp>
#include <simt/model/batch.hpp>

namespace test_simt_model_step_encoder {

using namespace simt_model;

namespace {

/// Options of a batch's check, in addition to its layers.
struct options {
    std::size_t dense = 6, sparse = 0;
    bool last = true;    ///< targets come after the other rows
    bool by_ids = false; ///< rows come from a table, and have the bits of rows in order
    bool training = true, inputs = true;
    double relative = 0; ///< tolerance of norms; 0: 2 · 10⁻⁵, or 0.05 for bfloat16
};

/// Layers of the host in double and in float, and of the device.
template <class T>
struct alike {
    std::vector<any_layer_factory<double, gnn::naive_backend>> exact;
    std::vector<cpu_layer> host;
    std::vector<cuda::any_layer<T>> device;

    template <class Layer>
    void add(const Layer& layer, const layer_surround& around) {
        exact.emplace_back(layer, around);
        host.emplace_back(layer, around);
        device.emplace_back(layer, around);
    }
    void add(const layer_options& layer) {
        exact.emplace_back(layer);
        host.emplace_back(layer);
        device.emplace_back(layer);
    }
};

/// Runs one batch on the host in double and on the device, and compares rows and all gradients.
template <class T>
void check_layers(const std::string& text, const alike<T>& layers, const options& with) {
    CAPTURE(text);
    std::vector<std::size_t> sizes{45, 21, 13, 6};
    sizes.resize(static_cast<std::size_t>(std::ranges::count_if(layers.device, &cuda::any_layer<T>::takes_hop)) + 1);
    const std::size_t count = sizes[0];
    const gnn::sample views(sizes, with.last, 11);
    const gnn::words<double> words(count, with.sparse, 12);
    device_memory memory(4U << 20);

    // the input, its rows in order or in a table
    std::vector<std::uint32_t> ids(count);
    for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::uint32_t>(with.by_ids ? i * 7 % 50 : i);
    std::vector<node_id> names(count);
    for (std::size_t i = 0; i < count; ++i) names[i] = static_cast<node_id>(1000 - 3 * i);
    const std::size_t stride = round_up(with.dense, 16 / sizeof(T));
    const std::vector<T> table = random_values<T>(50 * stride, 13);
    doubles input(count, with.dense), grad_in(count, with.dense);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t c = 0; c < with.dense; ++c)
            input.view(i, c) = static_cast<double>(cuda::detail::widen(table[ids[i] * stride + c]));

    dense_parameters<double> host_weights;
    gnn::double_encoder host(host_weights, layers.exact, {with.dense, with.sparse});
    gnn::randomize(host_weights, 14);
    const random_key key{15, random_domain::dropout};
    encoder_pass<double> pass;
    if (with.training) pass = {.training = key, .sources = {.ids = names}};
    const input_rows<double> host_input{with.dense == 0 ? matrix_view<const double>{} : input.view,
        with.sparse == 0 ? sparse_rows<double>{} : words.view()};
    dense_parameters<float> weights;
    const encoder<float, eigen_backend> same_arrays(weights, layers.host, {with.dense, with.sparse});
    weights.allocate(1);
    for (std::size_t i = 0; i < weights.arrays().size(); ++i) // with other offsets than those of doubles
        for (std::size_t k = 0; k < weights.arrays()[i].size(); ++k) {
            double& exact = host_weights.values()[host_weights.arrays()[i].offset + k];
            weights.values()[weights.arrays()[i].offset + k] = static_cast<float>(exact);
            exact = static_cast<double>(static_cast<float>(exact));
        }
    const auto want = host.forward(host_weights, views, host_input, pass, serial);
    const std::vector<double> want_rows(want.data(), want.data() + want.rows() * want.columns());
    const cuda::dense_weights on_device{
        memory.put(std::vector<float>(weights.values().begin(), weights.values().end())),
        memory.put(std::vector<float>(weights.size()))};
    cuda::encoder_capacity most{.rows = static_cast<std::uint32_t>(count + 3)};
    std::vector<cuda::layer_view> device_views;
    std::vector<device_layer> lists;
    for (std::size_t i = 0; i < views.size(); ++i) {
        const auto room = [](std::size_t n) { return static_cast<std::uint32_t>(n + 2); };
        most.hops.push_back({room(views[i].targets), room(views[i].sources), room(views[i].edges())});
        lists.emplace_back(memory, most.hops.back()).assign(memory, views[i]);
        device_views.push_back(lists.back().view);
    }
    cuda::device_arena counting;
    const cuda::encoder<T> needs(counting, weights, layers.device, {with.dense, with.sparse}, most);
    const std::uint64_t before = memory.arena().used();
    cuda::encoder<T> device(memory.arena(), weights, layers.device, {with.dense, with.sparse}, most);
    CHECK(memory.arena().used() - before == counting.used());
    if (!with.inputs && !device.needs_lists_of_inputs(false)) { // reading them would be an error
        device_views[0].by_source_offsets = nullptr;
        device_views[0].by_source_edges = device_views[0].edge_target = nullptr;
    }

    cuda::encoder_input<T> rows{.dense = cuda::rows_view<const T>(memory.put(table), with.dense, stride),
        .count = memory.put(static_cast<std::uint32_t>(count))};
    if (with.by_ids) rows.ids = memory.put(ids);
    std::vector<device_layer> entries;
    if (with.sparse != 0) {
        const entry_layer by_word(words.view());
        const gneiss::layer_view& view = by_word.stack[0];
        entries
            .emplace_back(memory,
                cuda::layer_capacity{
                    most.rows, static_cast<std::uint32_t>(with.sparse), static_cast<std::uint32_t>(view.edges() + 9)})
            .assign(memory, view);
        rows.sparse = {.columns = static_cast<std::uint32_t>(with.sparse),
            .entries = entries[0].view,
            .values = memory.put(by_word.values)};
    }
    cuda::encoder_pass device_pass;
    if (with.training) device_pass = {memory.put(key), memory.put(names)};

    const double relative = with.relative != 0 ? with.relative : std::is_same_v<T, bfloat16> ? 0.05 : 2e-5;
    const auto out = device.forward(memory.stream(), on_device, device_views, rows, device_pass);
    const std::vector<double> out_rows = memory.get(out, want.rows()).memory;
    check_near(text + ", rows", out_rows, want_rows, relative);

    // the backward pass, with gradients stored as T
    const std::size_t out_stride = round_up(want.columns(), 16 / sizeof(T));
    const std::vector<T> gradients = random_values<T>((want.rows() + 2) * out_stride, 16);
    doubles g(want.rows(), want.columns());
    for (std::size_t i = 0; i < want.rows(); ++i)
        for (std::size_t c = 0; c < want.columns(); ++c)
            g.view(i, c) = static_cast<double>(cuda::detail::widen(gradients[i * out_stride + c]));
    host.backward(host_weights, g.view, with.inputs ? grad_in.view : matrix_view<double>{}, serial);
    const cuda::rows_view<T> grad_out(memory.put(gradients), want.columns(), out_stride);
    cuda::rows_view<T> to_input;
    if (with.inputs) to_input = {memory.put(std::vector<T>((count + 3) * stride)), with.dense, stride};
    device.backward(memory.stream(), on_device, grad_out, to_input);
    if (with.inputs)
        check_near(text + ", gradients of the input", memory.get(to_input, count).memory, grad_in.memory, relative);
    const auto got = memory.get(on_device.gradients, weights.size());
    for (std::size_t i = 0; i < weights.arrays().size(); ++i) {
        const auto& a = weights.arrays()[i];
        const auto ours = std::span(got).subspan(a.offset, a.size());
        check_near(text + ", " + a.name, std::vector<double>(ours.begin(), ours.end()),
            host_weights.gradients().subspan(host_weights.arrays()[i].offset, a.size()), relative);
    }

    // recorded, the same bits each time
    const cuda::graph recorded = cuda::graph::record(memory.own_stream(), [&] {
        const auto again = device.forward(memory.stream(), on_device, device_views, rows, device_pass);
        CHECK(again.data == out.data);
        device.backward(memory.stream(), on_device, grad_out, to_input);
    });
    for (int turn = 0; turn < 2; ++turn) {
        memory.set(grad_out.data, std::span<const T>(gradients));
        cuda::fill_bytes_async(std::span(on_device.gradients, weights.size()), 0, memory.stream());
        recorded.launch(memory.stream());
        CHECK(memory.get(out, want.rows()).memory == out_rows);
        CHECK(memory.get(on_device.gradients, weights.size()) == got);
    }
    if (!with.by_ids) return;
    struct results {
        std::vector<double> rows, of_input;
        std::vector<float> of_weights;
        bool operator==(const results&) const = default;
    };
    const auto run = [&] {
        memory.set(grad_out.data, std::span<const T>(gradients));
        cuda::fill_bytes_async(std::span(on_device.gradients, weights.size()), 0, memory.stream());
        const auto again = device.forward(memory.stream(), on_device, device_views, rows, device_pass);
        device.backward(memory.stream(), on_device, grad_out, to_input);
        return results{memory.get(again, want.rows()).memory,
            with.inputs ? memory.get(to_input, count).memory : std::vector<double>(),
            memory.get(on_device.gradients, weights.size())};
    };
    const auto check_table = [&]<class In>(In, bool seen) { // rows in order, in T, give the bits of the table's
        std::vector<In> values = random_values<In>(50 * stride, 13);
        rows.dense = cuda::rows_view<const In>(memory.put(values), with.dense, stride);
        rows.ids = memory.put(ids);
        const results by_id = run();
        if (seen) CHECK(by_id.rows == out_rows);
        std::vector<T> in_order(count * stride);
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t c = 0; c < stride; ++c)
                in_order[i * stride + c] = cuda::detail::narrow<T>(cuda::detail::widen(values[ids[i] * stride + c]));
        rows.dense = cuda::rows_view<const T>(memory.put(in_order), with.dense, stride);
        rows.ids = nullptr;
        CHECK(run() == by_id);
    };
    check_table(T{}, true);
    if constexpr (std::is_same_v<T, float>) {
        check_table(float16{}, false);
        check_table(bfloat16{}, false);
    }
}

template <class T>
void check_encoder(const std::string& text, const options& with) {
    alike<T> layers;
    for (const layer_options& layer : parse_layers(text)) layers.add(layer);
    check_layers(text, layers, with);
}

} // namespace

TEST_CASE_TEMPLATE(
    "simt.model.encoder: GraphSAGE with each option gives the rows and gradients of the host", T, float, bfloat16) {
    for (const std::string reduce : {"mean", "sum", "max"})
        for (const std::string combine : {"concat", "add"}) {
            const bool last = (reduce == "sum") != (combine == "add");
            check_encoder<T>("sage:9:" + reduce + ":" + combine, {.last = last, .by_ids = last});
        }
    check_encoder<T>("sage:3:sum", {.dense = 40}); // rows become shorter: multiplied first
    check_encoder<T>("sage:3:mean", {.dense = 40, .by_ids = true});
    check_encoder<T>("sage:9:max:residual", {.dense = 9, .last = false, .by_ids = true, .inputs = false});
    check_encoder<T>("sage:9,sage:3:no-bias", {.inputs = false});
}

TEST_CASE_TEMPLATE(
    "simt.model.encoder: graph convolutions with each option give those of the host", T, float, bfloat16) {
    for (const std::string normalize : {"symmetric", "row"})
        for (const bool last : {false, true}) {
            check_encoder<T>("gcn:8:" + normalize, {.last = last, .by_ids = last});
            check_encoder<T>("gcn:2:no-bias:" + normalize, {.dense = 30, .last = last, .by_ids = !last});
        }
    check_encoder<T>("gcn:12,gcn:5,gcn:3:symmetric", {});
}

TEST_CASE("simt.model.encoder: layers without hops work before, between, after and without hops") {
    check_encoder<float>("linear:8:relu,linear:3", {});
    check_encoder<float>("linear:8,sage:5,linear:7:tanh,gcn:3,linear:2", {.by_ids = true});
}

TEST_CASE(
    "simt.model.encoder: without gradients of the input, the first layer reads no lists by source that it need not") {
    for (const std::string first : {"sage:9", "sage:3", "sage:9:max", "gcn:9", "gcn:9:symmetric", "gcn:2", "gat:2x2",
             "linear:8,sage:5", "sage:6:residual", "gcn:6:dropout=.3"})
        check_encoder<float>(first + ",gcn:3", {.dense = 6, .inputs = false, .relative = 1e-4});
    check_encoder<float>("sage:3,sage:2", {.sparse = 9, .inputs = false});
}

TEST_CASE_TEMPLATE("simt.model.encoder: graph attention with each option gives those of the host", T, float, bfloat16) {
    const double relative = std::is_same_v<T, bfloat16> ? 0.1 : 1e-4; // exponentials are the device's fast ones
    for (const std::string heads : {"1", "4", "8"})
        for (const std::string merge : {"concat", "mean"}) {
            const bool last = (heads == "4") != (merge == "mean");
            check_encoder<T>("gat:4x" + heads + ":" + merge, {.last = last, .by_ids = last, .relative = relative});
        }
    check_encoder<T>("gat:3x2:attention-dropout=.4:slope=.05", {.relative = relative});
    check_encoder<T>("gat:8x4:elu,gat:3x2:mean:attention-dropout=.5:no-bias", {.last = false, .relative = relative});
}

TEST_CASE_TEMPLATE(
    "simt.model.encoder: activation, dropout, norm and residual give those of the host", T, float, bfloat16) {
    const double relative = std::is_same_v<T, bfloat16> ? 0.15 : 1e-4; // rounding may cross a kink
    for (const std::string then : {"none", "relu", "leaky", "elu", "tanh", "sigmoid"}) {
        if (std::is_same_v<T, bfloat16> && then != "relu" && then != "tanh") continue; // they are functions of floats
        check_encoder<T>("sage:4:" + then, {.relative = relative});
        check_encoder<T>("gcn:8:" + then + ",sage:4:dropout=.5", {.relative = relative}); // dropped during activation
        check_encoder<T>("linear:8:norm:" + then + ",gcn:4:dropout=.25", {.relative = relative});
        check_encoder<T>("sage:8:residual:" + then + ",linear:4:dropout=.25", {.relative = relative});
    }
    for (const bool by_ids : {false, true}) {
        check_encoder<T>(
            "sage:4:dropout=.4,sage:3:dropout=.5", {.last = !by_ids, .by_ids = by_ids, .relative = relative});
        check_encoder<T>(
            "gcn:4:dropout=.4:tanh,linear:3:dropout=.5", {.by_ids = by_ids, .inputs = false, .relative = relative});
        check_encoder<T>(
            "gcn:6:residual,gcn:6:residual:symmetric", {.by_ids = by_ids, .relative = relative}); // unchanged
        check_encoder<T>(
            "sage:4:residual:elu,sage:4:residual:norm", {.by_ids = by_ids, .relative = relative}); // projected first
        check_encoder<T>(
            "sage:4:dropout=.4:norm,sage:3:dropout=.5", {.by_ids = by_ids, .training = false, .relative = relative});
    }
    check_encoder<T>("gat:2x2:residual:norm:dropout=.2,linear:5:tanh,gcn:4:residual:dropout=.3,linear:2",
        {.dense = 4, .relative = relative});
}

TEST_CASE_TEMPLATE(
    "simt.model.encoder: sparse rows, alone and with dense ones, give those of the host", T, float, bfloat16) {
    const double relative = std::is_same_v<T, bfloat16> ? 0.1 : 1e-4;
    for (const std::string layer : {"sage:3", "sage:3:sum:add", "gcn:3:symmetric", "gat:2x2", "linear:4,sage:3:max"})
        for (const std::size_t dense : {0U, 6U}) {
            check_encoder<T>(
                layer + ":dropout=.3", {.dense = dense, .sparse = 70, .inputs = dense != 0, .relative = relative});
            check_encoder<T>(layer + ":residual",
                {.dense = dense, .sparse = 9, .by_ids = dense != 0, .inputs = dense != 0, .relative = relative});
        }
}

TEST_CASE("simt.model.encoder: layers of your own give the rows and gradients of the host") {
    using own_layers::attending;
    using own_layers::differences;
    using own_layers::gated;
    using own_layers::gin;
    using own_layers::mean;
    using own_layers::pool;
    const auto check = [](const std::string& name, const auto& layer, const layer_surround& around, options with,
                           const std::string& then = "") {
        alike<float> layers;
        layers.add(layer, around);
        if (!then.empty())
            for (const layer_options& more : parse_layers(then)) layers.add(more);
        with.relative = 1e-4; // through exponentials
        check_layers(name, layers, with);
    };
    for (const bool by_ids : {false, true}) {
        check("gin", gin{.width = 9}, {}, {.by_ids = by_ids});
        check("mean", mean{.width = 7}, {.then = activation::relu}, {.last = by_ids, .by_ids = by_ids});
        check("gin, no gradient of the input", gin{.width = 4}, {}, {.by_ids = by_ids, .inputs = false});
        check("pool, no gradient of the input", pool{.width = 4}, {}, {.by_ids = by_ids, .inputs = false});
        check("attending", attending{.width = 5}, {.then = activation::relu}, {.last = by_ids, .by_ids = by_ids});
        check("gated, no gradient of the input", gated{.width = 4}, {}, {.by_ids = by_ids, .inputs = false});
        check(
            "differences, no gradient of the input", differences{.width = 4}, {}, {.by_ids = by_ids, .inputs = false});
        check("attending, dropped", attending{.width = 6}, {.dropout = .4, .norm = true}, {.by_ids = by_ids},
            "sage:5:dropout=.3");
        check("gin, dropped", gin{.width = 8}, {.then = activation::tanh, .dropout = .4, .norm = true},
            {.by_ids = by_ids}, "sage:5:dropout=.3");
    }
    for (const message_reduction reduce : {message_reduction::sum, message_reduction::mean, message_reduction::max})
        for (const bool last : {false, true}) {
            check("pool", pool{.reduce = reduce, .width = 5}, {}, {.last = last, .by_ids = last});
            check("gated", gated{.reduce = reduce, .width = 5}, {}, {.last = last, .by_ids = last});
            check("differences", differences{.reduce = reduce, .width = 5}, {}, {.last = last, .by_ids = !last});
        }
    check("gin, residual", gin{.width = 6}, {.then = activation::elu, .residual = true}, {}, "gcn:4,linear:3");

    alike<float> behind;
    for (const layer_options& one : parse_layers("linear:8,sage:7")) behind.add(one);
    behind.add(pool{.width = 6}, {.then = activation::relu, .dropout = .25});
    behind.add(gin{.width = 3}, {});
    check_layers("behind layers of the library", behind, {.sparse = 9, .relative = 1e-4});

    alike<float> edges;
    for (const layer_options& one : parse_layers("linear:8,sage:7")) edges.add(one);
    edges.add(differences{.reduce = message_reduction::max, .width = 6}, {.then = activation::tanh, .dropout = .25});
    edges.add(gated{.width = 3}, {.residual = true});
    check_layers("edges behind layers of the library", edges, {.sparse = 9, .relative = 1e-4});
}

TEST_CASE("simt.model.encoder: gradients of functions of edges are slopes of what the device computes") {
    const gnn::sample views({21, 13}, true, 4);
    const auto check = [&](const auto& layer) {
        dense_parameters<float> weights;
        const encoder<float, eigen_backend> host(weights, {cpu_layer(layer)}, {.dense = 5});
        weights.allocate(1);
        device_memory memory(1U << 20);
        const cuda::encoder_capacity most{.rows = 22, .hops = {{15, 22, static_cast<std::uint32_t>(views[0].edges())}}};
        device_layer lists(memory, most.hops[0]);
        lists.assign(memory, views[0]);
        cuda::encoder<float> device(
            memory.arena(), weights, std::vector<cuda::any_layer<float>>{layer}, {.dense = 5}, most);
        const std::vector<float> values(weights.values().begin(), weights.values().end()),
            table = random_values<float>(22 * 8, 5), g = random_values<float>(15 * 8, 6);
        float *const at_weights = memory.put(values), *const rows = memory.put(table);
        const cuda::dense_weights on_device{at_weights, memory.put(std::vector<float>(values.size()))};
        const std::uint32_t* const count = memory.put(std::uint32_t{21});
        // Σ g ⊙ out for weights and rows, moved along `by`
        const std::size_t columns = host.outputs(), stride = round_up(columns, std::size_t{4});
        const auto moved = [](const std::vector<float>& from, const std::vector<float>& along, float by) {
            std::vector<float> to = from;
            for (std::size_t i = 0; i < to.size(); ++i) to[i] += by * along[i];
            return to;
        };
        const auto compute = [&] {
            return device.forward(memory.stream(), on_device, std::vector{lists.view},
                {.dense = cuda::rows_view<const float>(rows, 5, 8), .count = count}, {});
        };
        const std::vector<float> along_weights = random_values<float>(values.size(), 7),
                                 along_rows = random_values<float>(table.size(), 8);
        const auto at = [&](float by) {
            memory.set(at_weights, std::span<const float>(moved(values, along_weights, by)));
            memory.set(rows, std::span<const float>(moved(table, along_rows, by)));
            const auto out = memory.get(compute(), 13);
            double sum = 0;
            for (std::size_t i = 0; i < 13; ++i)
                for (std::size_t k = 0; k < columns; ++k) sum += out.view(i, k) * g[i * stride + k];
            return sum;
        };
        const float step = 1.0F / 512;
        const double slope = (at(step) - at(-step)) / (2 * step);
        static_cast<void>(at(0));
        const cuda::rows_view<float> to_rows(memory.put(std::vector<float>(table.size())), 5, 8);
        device.backward(memory.stream(), on_device, {memory.put(g), columns, stride}, to_rows);
        const std::vector<float> of_weights = memory.get(on_device.gradients, values.size());
        const auto of_rows = memory.get(to_rows, 21);
        double gradient = 0;
        for (std::size_t i = 0; i < values.size(); ++i) gradient += of_weights[i] * along_weights[i];
        for (std::size_t i = 0; i < 21; ++i)
            for (std::size_t k = 0; k < 5; ++k) gradient += of_rows.view(i, k) * along_rows[i * 8 + k];
        CHECK(std::abs(slope) > .1);
        CHECK(gradient == doctest::Approx(slope).epsilon(1e-3));
    };
    for (const message_reduction reduce : {message_reduction::sum, message_reduction::mean}) {
        check(own_layers::gated{.reduce = reduce, .width = 4});
        check(own_layers::differences{.reduce = reduce, .width = 3});
    }
    check(own_layers::attending{.width = 4});
}

TEST_CASE("simt.model.encoder: wrong layers of your own are refused before a kernel reads them") {
    struct greedy : own_layers::gin { // says that it keeps less than it does
        [[nodiscard]] std::uint64_t kept_floats(const layer_sizes& of) const { return of.targets; }
    };
    static_assert(cuda::message_passing_layer<own_layers::gin> && cuda::message_passing_layer<own_layers::pool>);
    static_assert(cuda::message_passing_layer<own_layers::gated> && cuda::message_passing_layer<own_layers::attending>);
    struct of_spans : own_layers::mean { // takes no other rows
        static void edge(std::span<const float>, std::span<const float>, std::span<float>) {}
        static void edge_backward(std::span<const float>, std::span<const float>, std::span<const float>,
            std::span<float>, std::span<float>) {}
    };
    struct not_copied : own_layers::gated {
        std::vector<float> values; // of the host
    };
    static_assert(message_passing_layer<of_spans> && !cuda::message_passing_layer<of_spans>);
    static_assert(message_passing_layer<not_copied> && !cuda::message_passing_layer<not_copied>);
    const cuda::encoder_capacity most{.rows = 9, .hops = {{3, 9, 20}}};
    dense_parameters<float> weights;
    const encoder<float, eigen_backend> host(weights, {cpu_layer(own_layers::gin{.width = 4})}, {.dense = 5});
    weights.allocate(1);
    const auto made = [&](const auto& layer, const input_columns& in, cuda::device_arena& memory) {
        return std::make_unique<cuda::encoder<float>>(
            memory, weights, std::vector<cuda::any_layer<float>>{layer}, in, most);
    };
    const auto refused = [](const auto& f, const std::string& what) {
        CHECK_THROWS_WITH_AS(f(), doctest::Contains(what.c_str()), gneiss::error);
    };
    cuda::device_arena counting;
    refused(
        [&] { made(own_layers::gin{.width = 6}, {.dense = 5}, counting); }, "no parameters \"layer0.first\" [5, 6]");
    refused([&] { made(own_layers::gin{.width = 4}, {.dense = 5, .sparse = 2}, counting); }, "no sparse rows");
    device_memory memory(1U << 20);
    const auto encode = made(greedy{{.width = 4}}, {.dense = 5}, memory.arena());
    const gnn::sample views({9, 3}, true, 1);
    device_layer lists(memory, most.hops[0]);
    lists.assign(memory, views[0]);
    const cuda::dense_weights on_device{
        memory.put(std::vector<float>(weights.values().begin(), weights.values().end())), nullptr};
    const std::vector<float> table(9 * 8);
    refused(
        [&] {
            (void)encode->forward(memory.stream(), on_device, std::vector{lists.view},
                {.dense = cuda::rows_view<const float>(memory.put(table), 5, 8)}, {});
        },
        "a layer keeps 15 floats where its kept_floats says 3");
}

} // namespace test_simt_model_step_encoder
