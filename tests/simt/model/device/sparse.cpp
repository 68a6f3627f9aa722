#include <gneiss/cuda/model/device/sparse.cuh>

#include <simt/model/batch.hpp>

namespace test_simt_model_device_sparse {

using namespace simt_model;

namespace {

/// Rows with some of their columns, some repeated, some rows empty; one long row, and one column that all rows have.
struct random_entries {
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::uint32_t> indices;
    std::vector<double> values;
    std::size_t columns;

    random_entries(std::size_t rows, std::size_t width, std::size_t longest, std::uint64_t seed) : columns(width) {
        random_stream draw(random_key(seed, random_domain::user));
        for (std::size_t i = 0; i < rows; ++i) {
            const std::uint64_t size = i == rows / 2 ? longest : i % 5 == 1 ? 0 : draw.below(20);
            for (std::uint64_t k = 0; k < size; ++k) add(draw.below(width), draw);
            add(width / 3, draw);
            offsets.push_back(indices.size());
        }
    }
    [[nodiscard]] gneiss::sparse_rows<double> view() const { return {columns, offsets, indices, values}; }

private:
    void add(std::uint64_t column, random_stream& draw) {
        indices.push_back(static_cast<std::uint32_t>(column));
        values.push_back(static_cast<double>(static_cast<float>(draw.below(1000)) / 512 - 1));
    }
};

struct shape {
    std::size_t rows, columns, longest, width;
};

template <class T>
void check_products(const shape& of, bool part, double rate, bool ones) {
    CAPTURE(of.width);
    random_entries x(of.rows, of.columns, of.longest, 1);
    if (ones) std::ranges::fill(x.values, 1.0);
    const std::uint32_t first = part ? static_cast<std::uint32_t>(of.rows / 4) : 0;
    const std::size_t count = part ? of.rows / 2 : of.rows;
    const random_key key = random_key(4, random_domain::dropout).with(9);

    // on the host in double
    std::vector<double> dropped = x.values;
    if (rate > 0) oracle::sparse_dropout({key, rate, {{}, 0}}, x.view(), std::span(dropped), serial);
    const gneiss::sparse_rows<double> rows_of{
        x.columns, std::span(x.offsets).subspan(first, count + 1), x.indices, dropped};
    const std::size_t stride = of.width % 2 == 0 ? round_up(of.width, 16 / sizeof(T)) : of.width; // aligned or not
    const std::vector<float> w = random_values<float>(of.columns * of.width, 5),
                             bias = random_values<float>(of.width, 6);
    const std::vector<T> g = random_values<T>(count * stride, 7), before = random_values<T>((count + 2) * stride, 8);
    const std::vector<float> grad_before = random_values<float>(of.columns * of.width, 9);
    doubles weights(of.columns, of.width), gradients(count, of.width), want(count, of.width),
        want_w(of.columns, of.width);
    for (std::size_t i = 0; i < w.size(); ++i) {
        weights.memory[i] = static_cast<double>(w[i]);
        want_w.memory[i] = static_cast<double>(grad_before[i]);
    }
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t c = 0; c < of.width; ++c) {
            gradients.view(i, c) = static_cast<double>(cuda::detail::widen(g[i * stride + c]));
            want.view(i, c) = static_cast<double>(cuda::detail::widen(before[i * stride + c]));
        }
    const std::vector<double> exact_bias(bias.begin(), bias.end());
    oracle::sparse_multiply(
        rows_of, matrix_view<const double>(weights.view), want.view, {part, exact_bias, activation::relu}, serial);
    oracle::sparse_add_tn(rows_of, matrix_view<const double>(gradients.view), want_w.view, serial);

    // on the device
    device_memory memory(8U << 20);
    const entry_layer lists(x.view());
    const auto room = [](std::size_t n) { return static_cast<std::uint32_t>(n + 3); };
    device_layer entries(memory, {room(of.rows), room(of.columns), room(x.indices.size())});
    entries.assign(memory, lists.stack[0]);
    cuda::sparse_rows on_device{.columns = static_cast<std::uint32_t>(of.columns),
        .entries = entries.view,
        .values = ones ? nullptr : memory.put(lists.values)};
    if (rate > 0) on_device.dropout = {.rate = dropout_rate(rate), .key = memory.put(key)};
    const cuda::sparse_range range{memory.put(cuda::layer_counts{.targets = static_cast<std::uint32_t>(count)}),
        room(count), part ? memory.put(first) : nullptr};
    const cuda::rows_view<float> w_rows(memory.put(w), of.width, of.width),
        grad_w(memory.put(grad_before), of.width, of.width);
    const cuda::rows_view<T> out(memory.put(before), of.width, stride), g_rows(memory.put(g), of.width, stride);
    const float* const device_bias = memory.put(bias);
    std::vector<double> first_rows, first_gradients;
    simt::for_each_seed(2, [&] {
        memory.set(out.data, std::span<const T>(before));
        memory.set(grad_w.data, std::span<const float>(grad_before));
        cuda::sparse_multiply<T>(memory.stream(), on_device, range, w_rows, out,
            {.accumulate = part, .bias = device_bias, .then = activation::relu});
        cuda::sparse_weight_gradient<T>(memory.stream(), on_device, range, g_rows, grad_w);
        const doubles got = memory.get(out, count + 2), got_w = memory.get(grad_w, of.columns);
        check_near("rows", std::span(got.memory).first(count * of.width), want.memory,
            std::is_same_v<T, bfloat16> ? 0x1p-8 : 1e-6);
        check_near("gradients of weights", got_w.memory, want_w.memory, 1e-6);
        for (std::size_t i = count; i < count + 2; ++i) // unchanged
            for (std::size_t c = 0; c < of.width; ++c)
                CHECK(got.view(i, c) == static_cast<double>(cuda::detail::widen(before[i * stride + c])));
        if (first_rows.empty()) first_rows = got.memory, first_gradients = got_w.memory;
        CHECK(first_rows == got.memory);
        CHECK(first_gradients == got_w.memory);
    });
}

} // namespace

TEST_CASE_TEMPLATE(
    "simt.model.sparse: products of sparse rows, and of parts of them, equal the host's", T, float, bfloat16) {
    for (const bool part : {false, true})
        for (const double rate : {0.0, 0.4}) {
            check_products<T>({30, 50, 40, 16}, part, rate, false);
            check_products<T>({17, 9, 5, 7}, part, rate, rate == 0);
            check_products<T>({20, 40, 20, 150}, part, rate, false);
        }
}

TEST_CASE("simt.model.sparse: rows and columns of many entries are divided among a block's warps") {
    check_products<float>({700, 40, 1500, 8}, true, .3, false);
    check_products<bfloat16>({600, 40, 1100, 33}, false, 0, true);
}

} // namespace test_simt_model_device_sparse
