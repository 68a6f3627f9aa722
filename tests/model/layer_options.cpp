#include <gneiss/model/layer_options.hpp>

#include <doctest/doctest.h>

namespace test_model_layer_options {

using namespace gneiss;

TEST_CASE("a text describes layers; activations follow each layer but the last") {
    const auto two = parse_layers("sage:128,sage:64");
    REQUIRE(two.size() == 2);
    CHECK(two[0].width == 128);
    CHECK(two[0].then == activation::relu);
    CHECK(two[1].then == activation::none);
    CHECK(two[1].outputs() == 64);
    const auto mixed = parse_layers("gat:8x4:attention-dropout=.6:slope=.1,linear:20,gat:7x2:mean:dropout=.3:tanh,gcn:"
                                    "5:row:norm:residual:no-bias,sage:3:max:add");
    REQUIRE(mixed.size() == 5);
    CHECK(mixed[0].outputs() == 32);
    CHECK(mixed[0].then == activation::elu);
    CHECK(mixed[0].gat.dropout == .6);
    CHECK(mixed[0].gat.slope == .1);
    CHECK(mixed[2].outputs() == 7);
    CHECK(mixed[2].dropout == .3);
    CHECK(mixed[2].then == activation::tanh);
    CHECK(mixed[3].gcn.normalize == gcn_normalization::row);
    CHECK((mixed[3].norm && mixed[3].residual && !mixed[3].bias && !mixed[3].gcn.bias));
    CHECK(mixed[4].sage.reduce == sage_reduction::max);
    CHECK(!mixed[4].sage.concat);
    CHECK(hops_of(mixed) == 4);
    const auto ordered = parse_layers("sage:4:product=first,gcn:4:product=last,gat:4:mean:product=last,sage:3");
    CHECK(ordered[0].sage.product == product_order::first);
    CHECK(ordered[1].gcn.product == product_order::last);
    CHECK(ordered[2].gat.product == product_order::last);
    CHECK(ordered[3].sage.product == product_order::cheaper);
}

TEST_CASE("omitted options have their defaults") {
    const layer_defaults d{.then = activation::elu,
        .dropout = .5,
        .attention_dropout = .4,
        .norm = true,
        .residual = true,
        .last_width = 7};
    const auto layers = parse_layers("sage:16,gat:8x2:dropout=0:no-norm,gcn", d);
    CHECK(layers[0].dropout == .5);
    CHECK(layers[0].norm);
    CHECK(layers[1].dropout == 0);
    CHECK(!layers[1].norm);
    CHECK(layers[1].gat.dropout == .4);
    CHECK(layers[2].width == 7);
    CHECK(layers[2].then == activation::none);
    CHECK(!layers[2].norm);
    CHECK(layers[2].residual);
    CHECK(parse_layers("sage:9", d)[0].width == 9);
}

TEST_CASE("an error in a text names its layer") {
    for (const char* text : {"", "sage", "sage:", "sage:0", "sage:-4", "sage:12y", "sage:99999999999999999999",
             "sage:12x4", "gat:8x0", "gat:8x", "sag:12", "sage:12:heads", "gcn:12:max", "gat:4x2:dropout=1",
             "gat:4x2:dropout=nan", "gat:4x2:dropout=", "sage:4,", ",sage:4", "sage:4:dropout", "linear:4:mean",
             "sage:4::relu", "sage:4:slope=.2", "sage:4:product=", "gcn:4:product=late", "linear:4:product=first"}) {
        CAPTURE(text);
        CHECK_THROWS_AS((void)parse_layers(text), error);
    }
    CHECK_THROWS_WITH((void)parse_layers("sage:8,gcn:4:max"), doctest::Contains("\"gcn:4:max\""));
}

} // namespace test_model_layer_options
