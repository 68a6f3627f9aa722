#include <gneiss/cuda/model/device/layer_norm.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>

#include <simt/model/support.hpp>

namespace test_simt_model_device_rows {

using namespace simt_model;

namespace {

struct shape {
    std::uint32_t rows;
    std::size_t columns;
    layout how;
};
const std::vector<shape> shapes = {{20, 64, layout::aligned}, {9, 7, layout::odd}, {3, 300, layout::aligned},
    {5, 131, layout::odd}, {0, 5, layout::aligned}};
constexpr std::uint32_t spare = 4;

/// Returns constant magnitudes.
doubles all(std::size_t rows, std::size_t columns, double value) {
    doubles result(rows, columns);
    std::ranges::fill(result.memory, value);
    return result;
}

} // namespace

TEST_CASE_TEMPLATE(
    "simt.model.rows: dropout drops the same values as on the CPU, in place or not", T, float, bfloat16) {
    const random_key key = random_key(4, random_domain::dropout).with(9);
    const std::vector<node_id> ids(3, 17);
    for (const shape& of : shapes)
        for (const double rate : {0.0, 0.3, 0.9}) {
            const rows<T> x(of.rows + spare, of.columns, of.how, 1);
            doubles want(x);
            const std::uint32_t named = 3, count = of.rows;
            oracle::dropout({key, rate, {ids, 0}}, want.view, want.view, serial);
            const cuda::dropout_mask mask{.rate = dropout_rate(rate), .key = &key, .ids = ids.data(), .size = &named};
            simt::for_each_seed(2, [&] {
                rows<T> out(of.rows + spare, of.columns, of.how);
                cuda::dropout<T>(nullptr, &count, count + spare, mask, x.view(), out.view());
                check_rows<T>("dropout", out, of.rows, want.view, all(of.rows, of.columns, 0).view, 0);
                rows<T> same = x;
                cuda::dropout<T>(nullptr, &count, count + spare, mask, std::as_const(same).view(), same.view());
                check_rows<T>("dropout in place", same, of.rows, want.view, all(of.rows, of.columns, 0).view, 0, &x);
            });
        }
}

TEST_CASE_TEMPLATE(
    "simt.model.rows: biases, functions and dropout are right, forward and backward", T, float, bfloat16) {
    const random_key key = random_key(4, random_domain::dropout).with(9);
    for (const shape& of : shapes)
        for (const activation then : {activation::none, activation::relu, activation::leaky_relu, activation::elu,
                 activation::tanh, activation::sigmoid}) {
            const double rate = of.columns == 7 ? 0.5 : 0;
            const rows<T> x(of.rows + spare, of.columns, of.how, 1), g(of.rows + spare, of.columns, of.how, 2);
            const rows<float> bias(1, of.columns, layout::aligned, 3);
            const std::uint32_t count = of.rows;
            const gneiss::dropout_mask cpu_mask(key, rate, {});
            cuda::dropout_mask mask{};
            if (rate > 0) mask = {.rate = dropout_rate(rate), .key = &key};
            doubles want(x);
            oracle::bias_activate(doubles(bias).memory, then, want.view, serial);
            doubles activated(want); // NOLINT(performance-unnecessary-copy-initialization): want changes
            if (rate > 0) oracle::dropout(cpu_mask, want.view, want.view, serial);
            rows<T> out(of.rows + spare, of.columns, of.how);
            cuda::bias_activate<T>(nullptr, &count, count + spare, bias.begin(), then, x.view(), out.view(), mask);
            check_rows<T>("function", out, of.rows, want.view, all(of.rows + spare, of.columns, 1).view, 1e-6);

            doubles want_back(g);
            if (rate > 0) oracle::dropout(cpu_mask, want_back.view, want_back.view, serial);
            oracle::activate_backward(then, activated.view, want_back.view, serial);
            rows<T> back(of.rows + spare, of.columns, of.how);
            cuda::activate_backward<T>(
                nullptr, &count, count + spare, then, std::as_const(out).view(), g.view(), back.view(), mask);
            // y was rounded to T
            check_rows<T>("way back", back, of.rows, want_back.view, all(of.rows + spare, of.columns, 2).view,
                std::is_same_v<T, bfloat16> ? 0x1p-7 : 1e-6);
        }
}

TEST_CASE_TEMPLATE("simt.model.rows: means of heads are right, forward and backward", T, float, bfloat16) {
    for (const shape& of : shapes)
        for (const std::uint32_t heads : {1U, 4U, 8U}) {
            const rows<T> x(of.rows + spare, of.columns * heads, of.how, 1), g(of.rows + spare, of.columns, of.how, 2);
            const std::uint32_t count = of.rows;
            doubles want(of.rows + spare, of.columns), want_back(of.rows + spare, of.columns * heads);
            oracle::head_mean(doubles(x).view, heads, want.view, serial);
            oracle::head_mean_backward(doubles(g).view, heads, want_back.view, serial);
            rows<T> out(of.rows + spare, of.columns, of.how), back(of.rows + spare, of.columns * heads, of.how);
            cuda::head_mean<T>(nullptr, &count, count + spare, heads, x.view(), out.view());
            cuda::head_mean_backward<T>(nullptr, &count, count + spare, heads, g.view(), back.view());
            check_rows<T>("mean", out, of.rows, want.view, all(of.rows + spare, of.columns, 1).view, 1e-6);
            check_rows<T>(
                "share", back, of.rows, want_back.view, all(of.rows + spare, of.columns * heads, 1).view, 1e-6);
        }
}

TEST_CASE_TEMPLATE("simt.model.rows: layer norm and its gradients equal those of the CPU", T, float, bfloat16) {
    for (const shape& of : shapes) {
        const rows<T> x(of.rows, of.columns, of.how, 1), g(of.rows + spare, of.columns, of.how, 2);
        const rows<float> gain(1, of.columns, layout::aligned, 3), bias(1, of.columns, layout::aligned, 4),
            before(2, of.columns, layout::aligned, 5);
        const std::uint32_t count = of.rows;
        doubles want(of.rows, of.columns), want_x(of.rows, of.columns), parameters(gain), want_parameters(before);
        for (std::size_t i = 0; i < of.rows; ++i)
            for (std::size_t c = 0; c < of.columns; ++c) want_x.view(i, c) = g(i, c);
        oracle::layer_norm(doubles(x).view, parameters.memory, doubles(bias).memory, 1e-5, want.view, serial);
        oracle::layer_norm_backward(doubles(x).view, parameters.memory, 1e-5, want_x.view, want_parameters.view[0],
            want_parameters.view[1], serial);

        std::vector<float> scratch(cuda::partial_slices(count + spare).floats(of.columns));
        simt::for_each_seed(2, [&] {
            rows<T> out(of.rows + spare, of.columns, of.how), grad_x = g;
            rows<float> moments(of.rows + spare, 2, layout::aligned), gradients = before;
            cuda::layer_norm<T>(nullptr, &count, count + spare, x.view(), gain.begin(), bias.begin(), 1e-5F, out.view(),
                moments.view());
            check_rows<T>("norm", out, of.rows, want.view, all(of.rows, of.columns, 4).view, 1e-6);
            cuda::layer_norm_backward<T>(nullptr, &count, count + spare, x.view(), std::as_const(moments).view(),
                gain.begin(), grad_x.view(), &gradients(0, 0), &gradients(1, 0), scratch.data());
            check_rows<T>("gradient of norm", grad_x, of.rows, want_x.view, all(of.rows, of.columns, 8).view, 1e-6, &g);
            check_rows<float>("gradients of gain and bias", gradients, 2, want_parameters.view,
                all(2, of.columns, 4 + of.rows).view, 1e-6);
        });
    }
}

TEST_CASE_TEMPLATE(
    "simt.model.rows: column sums are right, weighted by heads or not, over any slices", T, float, bfloat16) {
    for (const std::uint32_t count : {0U, 1U, 500U, 2000U})
        for (const std::uint32_t heads : {0U, 4U}) {
            constexpr std::size_t columns = 36;
            const std::uint32_t first = 2;
            const rows<T> x(count + first, columns, layout::odd, 1);
            const rows<float> weights(count, heads, layout::odd, 2), before(1, columns, layout::aligned, 3);
            doubles want(before), sizes(1, columns);
            for (std::size_t r = 0; r < count; ++r)
                for (std::size_t c = 0; c < columns; ++c) {
                    const double term = x(r + first, c) * (heads == 0 ? 1 : weights(r, c / (columns / heads)));
                    want.view(0, c) += term;
                    sizes.view(0, c) += 1 + std::abs(term);
                }
            std::vector<float> scratch(cuda::partial_slices(count + spare).floats(columns));
            simt::for_each_seed(2, [&] {
                rows<float> out = before;
                const cuda::row_range range{&count, count + spare, &first};
                cuda::add_column_sums<T>(nullptr, range, x.view(), scratch.data(), out.begin(),
                    heads == 0 ? cuda::rows_view<const float>{} : weights.view());
                check_rows<float>("sums", out, 1, want.view, sizes.view, 1e-5);
                const std::uint32_t most = 2 * count + 600; // the bits are those of any capacity
                std::vector<float> larger(cuda::partial_slices(most).floats(columns), 1e9F);
                rows<float> again = before;
                cuda::add_column_sums<T>(nullptr, {&count, most, &first}, x.view(), larger.data(), again.begin(),
                    heads == 0 ? cuda::rows_view<const float>{} : weights.view());
                CHECK(again.bits() == out.bits());
            });
        }
}

TEST_CASE_TEMPLATE("simt.model.rows: rows of a table by ids, and sums of rows from any start, with or without dropout",
    T, float, bfloat16) {
    const random_key key = random_key(4, random_domain::dropout).with(9);
    const std::vector<node_id> names = {9, 9, 9, 7, 3, 12, 5, 4, 1}; // those of the rows start at the third
    const std::uint32_t begin = 2, named = 5, first = 3;
    for (const shape& of : shapes)
        for (const double rate : {0.0, 0.4}) {
            const std::uint32_t count = of.rows, most = count + spare;
            const rows<T> table(40, of.columns, of.how, 1), x(most, of.columns, of.how, 2);
            std::vector<std::uint32_t> ids(first + count);
            for (std::size_t i = 0; i < ids.size(); ++i)
                ids[i] = static_cast<std::uint32_t>(random_key(3, random_domain::user)[i] % 40);
            const gneiss::dropout_mask cpu_mask(key, rate, {std::span(names).subspan(begin, named)});
            cuda::dropout_mask mask{};
            if (rate > 0)
                mask = {.rate = dropout_rate(rate), .key = &key, .ids = names.data(), .size = &named, .begin = &begin};
            const doubles zero = all(most, of.columns, 0), one = all(most, of.columns, 1);

            doubles want(of.rows, of.columns), sums(of.rows, of.columns);
            for (std::uint32_t i = 0; i < count; ++i)
                for (std::size_t c = 0; c < of.columns; ++c) {
                    want.view(i, c) = table(ids[first + i], c);
                    sums.view(i, c) = x(i, c) + table(first + i, c);
                }
            oracle::dropout(cpu_mask, want.view, want.view, serial);
            oracle::dropout(cpu_mask, sums.view, sums.view, serial);
            rows<T> out(most, of.columns, of.how), added(most, of.columns, of.how);
            cuda::gather_rows<T>(nullptr, {&count, most, &first, ids.data()}, table.view(), out.view(), mask);
            check_rows<T>("rows by ids", out, of.rows, want.view, zero.view, 0);
            cuda::add_rows<T>(nullptr, {&count, most, &first}, x.view(), table.view(), added.view(), mask);
            check_rows<T>("sums", added, of.rows, sums.view, one.view, 1e-6);

            rows<T> to = table;
            cuda::add_rows_backward<T>(nullptr, {&count, most, &first}, x.view(), to.view());
            doubles want_back(table);
            for (std::uint32_t i = 0; i < count; ++i)
                for (std::size_t c = 0; c < of.columns; ++c) want_back.view(first + i, c) += x(i, c);
            check_rows<T>("way back of sums", to, 40, want_back.view, all(40, of.columns, 1).view, 1e-6);
        }
}

TEST_CASE_TEMPLATE(
    "simt.model.rows: rows of a table of floats, or of half the size, in one tier or two, are gathered and "
    "added as floats",
    In, float, float16, bfloat16) {
    const std::uint32_t first = 3;
    for (const shape& of : shapes) {
        const std::uint32_t count = of.rows, most = count + spare;
        const rows<In> table(40, of.columns, of.how, 1);
        rows<In> near(40, of.columns, of.how); // every third row, in another order
        std::vector<std::uint32_t> ids(first + count), slots(40, cuda::detail::far_row);
        for (std::size_t i = 0; i < ids.size(); ++i)
            ids[i] = static_cast<std::uint32_t>(random_key(3, random_domain::user)[i] % 40);
        for (std::uint32_t id = 0; id < 40; id += 3) {
            slots[id] = 39 - id;
            for (std::size_t c = 0; c < of.columns; ++c) near(39 - id, c) = table.view()[id][c];
        }
        const rows<float> x(most, of.columns, of.how, 2);
        const doubles zero = all(most, of.columns, 0), one = all(most, of.columns, 1);
        doubles want(of.rows, of.columns), sums(of.rows, of.columns);
        for (std::uint32_t i = 0; i < count; ++i)
            for (std::size_t c = 0; c < of.columns; ++c) {
                want.view(i, c) = table(ids[first + i], c);
                sums.view(i, c) = x(i, c) + want.view(i, c);
            }
        rows<float> out(most, of.columns, of.how), of_tiers = out, added = out;
        cuda::gather_rows<float, In>(nullptr, {&count, most, &first, ids.data()}, table.view(), out.view());
        check_rows<float>("rows by ids", out, of.rows, want.view, zero.view, 0);
        cuda::gather_tiers<In>(nullptr, &count, most, ids.data() + first, slots.data(), std::as_const(near).view(),
            table.view(), of_tiers.view());
        check_rows<float>("rows of tiers", of_tiers, of.rows, want.view, zero.view, 0);
        // The same rows from the slots of a cache and from those that a batch brings, which then enter.
        constexpr std::uint32_t brought = cuda::detail::brought_row;
        std::vector<std::uint32_t> places(most, 0);
        std::vector<cuda::cache_entry> entries;
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t id = ids[first + i];
            places[i] = slots[id] == cuda::detail::far_row ? brought | id : slots[id];
        }
        for (std::uint32_t id = 1; id < 40; id += 9) entries.push_back({id, id / 9});
        const auto entered = static_cast<std::uint32_t>(entries.size());
        rows<float> of_cache(most, of.columns, of.how);
        cuda::gather_cached<In>(
            nullptr, &count, most, places.data(), std::as_const(near).view(), table.view(), of_cache.view());
        check_rows<float>("cached rows", of_cache, of.rows, want.view, zero.view, 0);
        std::vector<std::uint32_t> from(40 * 8), cache(40 * 8, 7), expected = cache;
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint32_t>(1000 + i);
        for (const cuda::cache_entry& e : entries)
            for (std::size_t c = 0; c < 8; ++c) expected[e.slot * 8 + c] = from[e.row * 8 + c];
        entries.resize(entries.size() + spare); // beyond the count: not read
        cuda::keep_cached(nullptr, &entered, entered + spare, entries.data(), {std::as_const(from).data(), 8, 8},
            {cache.data(), 8, 8});
        CHECK(cache == expected);
        cuda::add_rows<float, In>(nullptr, {&count, most, &first, ids.data()}, x.view(), table.view(), added.view());
        check_rows<float>("sums", added, of.rows, sums.view, one.view, 1e-6);
    }
}

TEST_CASE("simt.model.rows: names without ids start at the given number") {
    const random_key key = random_key(4, random_domain::dropout).with(9);
    const std::uint32_t begin = 11, count = 20;
    const rows<float> x(count, 8, layout::aligned, 1);
    doubles want(x);
    oracle::dropout({key, .5, {{}, 31}}, want.view, want.view, serial);
    rows<float> out(count, 8, layout::aligned);
    cuda::dropout<float>(nullptr, &count, count, {.rate = dropout_rate(.5), .key = &key, .first = 20, .begin = &begin},
        x.view(), out.view());
    check_rows<float>("dropout", out, count, want.view, all(count, 8, 0).view, 0);
}

} // namespace test_simt_model_device_rows
