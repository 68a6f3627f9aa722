// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/model/kernels.hpp>
#include <gneiss/model/layer/gat.hpp>
#include <gneiss/model/layer/gcn.hpp>
#include <gneiss/model/layer/sage.hpp>

namespace gneiss {

/// Kinds of the library's layers.
enum class layer_kind : std::uint8_t { sage, gcn, gat, linear };

/// One of the library's layers in an encoder: out = then(norm(layer(dropout(in)))) + residual.
struct layer_options {
    layer_kind kind = layer_kind::sage; ///< kind of the layer
    std::size_t width = 0;              ///< outputs; per head for gat
    sage_options sage{};                ///< options if it is GraphSAGE
    gcn_options gcn{};                  ///< options if it is GCN
    gat_options gat{};                  ///< options if it is GAT
    bool bias = true;                   ///< adds b, if it is linear
    activation then = activation::none; ///< activation of the result
    double dropout = 0;                 ///< this and the next two: see `layer_surround`
    bool norm = false;                  ///< layer normalization before the activation
    bool residual = false;              ///< adds the target's own row

    /// Returns the operations around the layer.
    [[nodiscard]] layer_surround around() const noexcept { return {then, dropout, norm, residual}; }
    [[nodiscard]] std::size_t outputs() const noexcept {
        return kind == layer_kind::gat && gat.concat ? width * gat.heads : width;
    }
    /// Returns true if it reads neighbors, and so takes one hop of a sample.
    [[nodiscard]] bool takes_hop() const noexcept { return kind != layer_kind::linear; }
};

/// Defaults of layer texts.
struct layer_defaults {
    std::optional<activation> then{}; ///< none: relu (gat: elu); the last layer always has none
    double dropout = 0;               ///< rate on input rows
    double attention_dropout = 0;     ///< rate on attentions
    bool norm = false;                ///< for all but the last
    bool residual = false;            ///< for all layers
    std::size_t last_width = 0;       ///< width of a last layer without one, such as the number of classes
};

/// Names of kinds, by value.
inline constexpr std::array<std::string_view, 4> layer_names = {"sage", "gcn", "gat", "linear"};
/// Names of activations, by value.
inline constexpr std::array<std::string_view, 6> activation_names = {"none", "relu", "leaky", "elu", "tanh", "sigmoid"};

namespace detail {

/// Parses one layer's text, word by word.
class layer_parser {
public:
    layer_parser(std::string_view text, const layer_defaults& defaults, bool last)
        : text_(text),
          defaults_(defaults),
          last_(last) {}

    [[nodiscard]] layer_options parse() {
        std::string_view rest = text_;
        kind(next(rest));
        layer_.dropout = defaults_.dropout;
        layer_.gat.dropout = defaults_.attention_dropout;
        layer_.norm = defaults_.norm && !last_;
        layer_.residual = defaults_.residual;
        if (!last_)
            layer_.then = defaults_.then.value_or(layer_.kind == layer_kind::gat ? activation::elu : activation::relu);
        if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9')
            width(next(rest));
        else if (last_ && defaults_.last_width != 0)
            layer_.width = defaults_.last_width;
        else
            fail("needs a width, as in sage:128");
        while (!rest.empty()) option(next(rest));
        layer_.sage.bias = layer_.gcn.bias = layer_.gat.bias = layer_.bias;
        return layer_;
    }

private:
    [[noreturn]] void fail(const std::string& what) const {
        throw error(errc::invalid_argument, "layer \"" + std::string(text_) + "\": " + what);
    }
    static std::string_view next(std::string_view& rest) {
        const std::string_view word = rest.substr(0, rest.find(':'));
        rest.remove_prefix(word.size() < rest.size() ? word.size() + 1 : rest.size());
        return word;
    }
    void kind(std::string_view name) {
        for (std::size_t i = 0; i < layer_names.size(); ++i)
            if (name == layer_names[i]) {
                layer_.kind = static_cast<layer_kind>(i);
                return;
            }
        fail("its kind must be sage, gcn, gat or linear");
    }
    template <class T>
    T number(std::string_view word, T least, T most) const {
        T value{};
        const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (problem != std::errc{} || end != word.data() + word.size() || !(value >= least && value <= most))
            fail("'" + std::string(word) + "' is not a valid number here");
        return value;
    }
    void width(std::string_view word) {
        const std::size_t cross = word.find('x');
        layer_.width = number<std::size_t>(word.substr(0, cross), 1, 65536);
        if (cross == word.npos) return;
        if (layer_.kind != layer_kind::gat) fail("only gat has heads");
        layer_.gat.heads = number<std::size_t>(word.substr(cross + 1), 1, 1024);
    }
    void option(std::string_view word) {
        const auto value_of = [&](std::string_view key) -> std::optional<std::string_view> {
            if (word.size() <= key.size() || !word.starts_with(key) || word[key.size()] != '=') return {};
            return word.substr(key.size() + 1);
        };
        if (const auto rate = value_of("dropout"))
            layer_.dropout = number(*rate, 0.0, 0.99);
        else if (word == "norm")
            layer_.norm = true;
        else if (word == "no-norm")
            layer_.norm = false;
        else if (word == "residual")
            layer_.residual = true;
        else if (word == "no-residual")
            layer_.residual = false;
        else if (word == "no-bias")
            layer_.bias = false;
        else if (!of_kind(word, value_of)) {
            for (std::size_t i = 0; i < activation_names.size(); ++i)
                if (word == activation_names[i]) {
                    layer_.then = static_cast<activation>(i);
                    return;
                }
            fail("it has no option \"" + std::string(word) + "\"");
        }
    }
    template <class ValueOf>
    bool of_kind(std::string_view word, const ValueOf& value_of) {
        if (const auto order = value_of("product"); order && layer_.kind != layer_kind::linear) {
            if (*order != "first" && *order != "last") return false;
            layer_.sage.product = layer_.gcn.product = layer_.gat.product =
                *order == "first" ? product_order::first : product_order::last;
            return true;
        }
        if (layer_.kind == layer_kind::sage) {
            if (word == "mean")
                layer_.sage.reduce = sage_reduction::mean;
            else if (word == "sum")
                layer_.sage.reduce = sage_reduction::sum;
            else if (word == "max")
                layer_.sage.reduce = sage_reduction::max;
            else if (word == "concat" || word == "add")
                layer_.sage.concat = word == "concat";
            else
                return false;
            return true;
        }
        if (layer_.kind == layer_kind::gcn) {
            if (word == "symmetric")
                layer_.gcn.normalize = gcn_normalization::symmetric;
            else if (word == "row")
                layer_.gcn.normalize = gcn_normalization::row;
            else
                return false;
            return true;
        }
        if (layer_.kind == layer_kind::gat) {
            if (word == "concat" || word == "mean")
                layer_.gat.concat = word == "concat";
            else if (const auto rate = value_of("attention-dropout"))
                layer_.gat.dropout = number(*rate, 0.0, 0.99);
            else if (const auto slope = value_of("slope"))
                layer_.gat.slope = number(*slope, 0.0, 1.0);
            else
                return false;
            return true;
        }
        return false;
    }

    std::string_view text_;
    const layer_defaults& defaults_;
    bool last_;
    layer_options layer_;
};

} // namespace detail

/// Parses layers from a text such as "sage:128,sage:128:max:dropout=.5" or "gat:8x8,gat:7x1:mean", the first one to
/// compute in front. Each is KIND:WIDTH[xHEADS][:OPTION…]:
///
///     sage    mean (default), sum or max; concat (default) or add
///     gcn     row (default) or symmetric
///     gat     WIDTH is that of a head; concat (default) or mean; slope=S (0.2); attention-dropout=P
///     linear  rows by themselves, no hop
///     others  product=first or last: rows are multiplied by W before or after their sums; by default as is cheaper
///     any     none, relu, leaky, elu, tanh or sigmoid; dropout=P; norm or no-norm; residual or no-residual; no-bias
///
/// Throws `invalid_argument` with the layer and its fault.
[[nodiscard]] inline std::vector<layer_options> parse_layers(
    std::string_view text, const layer_defaults& defaults = {}) {
    std::vector<layer_options> layers;
    for (bool more = true; more;) {
        const std::size_t comma = text.find(',');
        more = comma != text.npos;
        layers.push_back(detail::layer_parser(text.substr(0, comma), defaults, !more).parse());
        if (more) text.remove_prefix(comma + 1);
    }
    return layers;
}

/// Returns the number of hops that a sample for these layers needs.
[[nodiscard]] inline std::size_t hops_of(std::span<const layer_options> layers) noexcept {
    std::size_t hops = 0;
    for (const layer_options& layer : layers) hops += layer.takes_hop();
    return hops;
}

} // namespace gneiss
