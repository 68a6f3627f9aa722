#include <gneiss/io/expand.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/io/import/importer.hpp>

namespace test_io_expand {

namespace {

using namespace gneiss;

/// Makes a ring of 500 nodes with 8 dense features, uniform values around 3.
void make_ring(const std::filesystem::path& to, feature_type type) {
    import_options options;
    options.sources = {{.path = "ring",
        .compute =
            [](std::uint64_t first, std::span<edge> out) {
                for (std::size_t i = 0; i < out.size(); ++i)
                    out[i] = {static_cast<node_id>(first + i), 0, static_cast<node_id>((first + i + 1) % 500)};
            },
        .computed_edges = 500,
        .computed_nodes = 500}};
    options.node_attributes.compute_features = [](std::uint64_t node, std::span<float> out) {
        random_stream draw(random_key{node, random_domain::user});
        for (float& x : out) x = 2 + 2 * to_unit_float(draw());
    };
    options.node_attributes.computed_columns = 8;
    options.node_attributes.feature_type = type;
    options.out = to;
    import_dataset(options, serial_executor());
}

} // namespace

TEST_CASE("noise of dense features has mean 0 and the requested deviation, in every type") {
    for (const feature_type type : {feature_type::f32, feature_type::f16, feature_type::bf16, feature_type::int8}) {
        const test::temporary_directory at;
        make_ring(at / "a", type);
        import_options options = expansion_of(
            at / "a", {.by = random_seed_graph(7, 20, 1), .feature_noise = .5, .scratch = at.path(), .seed = 3});
        options.out = at / "b";
        const import_report result = import_dataset(options, serial_executor());
        CHECK(result.nodes == 3500);
        CHECK(result.edges == 10000);
        const dataset a(at / "a"), b(at / "b");
        CHECK(b.features().type() == type);
        std::vector<float> from(500 * 8), to(3500 * 8);
        a.features().read_dense(0, from);
        b.features().read_dense(0, to);
        double sum = 0, squares = 0;
        for (std::uint64_t node = 0; node < 3500; ++node) {
            const std::uint64_t row_a = *a.find_row(std::to_string(node / 7)),
                                row_b = *b.find_row(std::to_string(node));
            for (std::size_t d = 0; d < 8; ++d) {
                const double x = to[row_b * 8 + d] - from[row_a * 8 + d];
                sum += x;
                squares += x * x;
            }
        }
        const double deviation = .5 * 2 / std::sqrt(12.0); // half of that of a uniform value from 2 to 4
        CHECK(std::abs(sum / 28000) < 5 * deviation / std::sqrt(28000.0));
        CHECK(std::sqrt(squares / 28000) == doctest::Approx(deviation).epsilon(.03));
    }
}

TEST_CASE("sizes are predicted; invalid noise and fractions are refused") {
    const test::temporary_directory at;
    make_ring(at / "a", feature_type::f32);
    const dataset a(at / "a");
    const seed_graph by = random_seed_graph(4, 9, 0);
    const expansion_size size = expansion_size_of(a, by);
    CHECK(size.nodes == 2000);
    CHECK(size.edges == 4500);
    CHECK(size.disk_bytes > 4500 * 24 + 2000 * 32);
    CHECK_THROWS_WITH_AS(
        (void)expansion_of(at / "a", {.by = by, .feature_noise = -1}), doctest::Contains("noise"), error);
    CHECK_THROWS_WITH_AS(
        (void)expansion_of(at / "a", {.by = by, .train_fraction = .5}), doctest::Contains("labeled"), error);
    CHECK_THROWS_WITH_AS((void)expansion_size_of(a, {.nodes = 1U << 24, .edges = {{0, 0, 0}}}),
        doctest::Contains("500 x 16777216 nodes"), error);
    const auto state = [&](double noise) {
        return expansion_of(at / "a", {.by = by, .feature_noise = noise, .scratch = at.path()}).sources[0].fingerprint;
    };
    CHECK(state(1e-8) == state(1e-8));
    CHECK(state(1e-8) != state(2e-8));
}

} // namespace test_io_expand
