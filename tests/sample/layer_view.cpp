#include <gneiss/sample/layer_view.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "support/error_code.hpp"

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>

namespace test_sample_layer_view {

using namespace gneiss;

namespace {

/// Two layers with random edges.
struct random_sample {
    struct arrays {
        std::size_t sources, targets;
        std::vector<std::uint32_t> offsets{0}, neighbors{};
    };
    std::vector<arrays> of;

    explicit random_sample(std::uint64_t seed) {
        random_stream draw(random_key(seed, random_domain::user));
        for (const auto& [sources, targets] : {std::pair(40U, 10U), std::pair(10U, 3U)}) {
            arrays a{sources, targets};
            for (std::uint32_t t = 0; t < targets; ++t) {
                for (std::uint64_t k = draw.below(8); k > 0; --k)
                    a.neighbors.push_back(static_cast<std::uint32_t>(draw.below(sources)));
                a.offsets.push_back(static_cast<std::uint32_t>(a.neighbors.size()));
            }
            of.push_back(a);
        }
    }
    [[nodiscard]] std::size_t layers() const { return of.size(); }
    [[nodiscard]] layer_view layer(std::size_t i, std::vector<std::uint32_t>&, std::vector<std::uint32_t>&) const {
        return {
            .targets = of[i].targets, .sources = of[i].sources, .offsets = of[i].offsets, .neighbors = of[i].neighbors};
    }
};

} // namespace

TEST_CASE("transposed lists hold every edge once, by source, ascending") {
    layer_stack layers;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const random_sample sample(seed);
        layers.assign(sample, serial_executor{});
        REQUIRE(layers.size() == 2);
        for (const layer_view& layer : layers) {
            REQUIRE(layer.by_source_offsets.size() == layer.sources + 1);
            std::vector<std::uint32_t> edges;
            for (std::uint32_t s = 0; s < layer.sources; ++s) {
                std::vector<std::uint32_t> expected;
                for (std::uint32_t e = 0; e < layer.edges(); ++e)
                    if (layer.neighbors[e] == s) expected.push_back(e);
                edges.assign(layer.by_source_edges.begin() + layer.by_source_offsets[s],
                    layer.by_source_edges.begin() + layer.by_source_offsets[s + 1]);
                CHECK(edges == expected);
            }
            for (std::uint32_t t = 0; t < layer.targets; ++t)
                for (std::uint32_t e = layer.offsets[t]; e < layer.offsets[t + 1]; ++e)
                    CHECK(layer.edge_target[e] == t);
        }
    }
    layers.assign(random_sample(1), serial_executor{}, layer_stack::lists::forward);
    CHECK(layers[0].edge_target.empty());
    CHECK(layers[0].by_source_offsets.empty());
}

TEST_CASE("lists that do not form a sample are refused, whichever lists are made") {
    layer_stack layers;
    for (const layer_stack::lists wanted : {layer_stack::lists::forward, layer_stack::lists::both}) {
        const auto refused = [&](auto&& spoil) {
            random_sample sample(3);
            spoil(sample.of[1]);
            return test::code_of([&] { layers.assign(sample, serial_executor{}, wanted); }) == errc::invalid_argument;
        };
        using arrays = random_sample::arrays;
        CHECK_FALSE(refused([](arrays&) {}));
        CHECK(refused([](arrays& a) { a.neighbors[2] = 10; }));
        CHECK(refused([](arrays& a) { a.neighbors.back() = 0x80000000; }));
        CHECK(refused([](arrays& a) { a.neighbors.push_back(1); }));
        CHECK(refused([](arrays& a) { a.neighbors.pop_back(); }));
        CHECK(refused([](arrays& a) { a.offsets[0] = 1; }));
        CHECK(refused([](arrays& a) { a.offsets[1] = a.offsets[2] + 1; }));
        CHECK(refused([](arrays& a) { a.offsets.push_back(a.offsets.back()); }));
        CHECK(refused([](arrays& a) { ++a.targets; }));
        random_sample sample(3);
        sample.of[1].neighbors[0] = 3000;
        CHECK_THROWS_WITH_AS(layers.assign(sample, serial_executor{}, wanted),
            "layer 1 of a sample has neighbor 3000 of 10 source rows", error);
    }
}

} // namespace test_sample_layer_view
