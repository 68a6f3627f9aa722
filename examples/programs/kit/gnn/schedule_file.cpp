// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/schedule_file.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <gneiss/core/error.hpp>

#include "kit/cli/build_info.hpp"
#include "kit/cli/machine.hpp"
#include "kit/report/run_directory.hpp"

namespace trainers {

namespace {

using json = nlohmann::ordered_json;

constexpr const char* device = "cpu";

/// Returns the JSON form of a layer without its order.
json shape_of(const gneiss::layer_options& layer, const gneiss::input_columns& in) {
    json result{{"kind", gneiss::layer_names[static_cast<std::size_t>(layer.kind)]}, {"columns", in.total()}};
    if (in.sparse != 0) result["sparse"] = true;
    result["width"] = layer.width;
    if (layer.kind == gneiss::layer_kind::gat) result["heads"] = layer.gat.heads;
    return result;
}

/// Reads fields of a file, and names them in errors.
class fields {
public:
    fields(const std::filesystem::path& file, std::string name) : file_(file), name_(std::move(name)) {}

    [[nodiscard]] std::string named(const char* key) const { return name_.empty() ? key : name_ + "." + key; }
    [[noreturn]] void fail(gneiss::errc code, const std::string& what, const char* key) const {
        throw gneiss::error(code, what, {.path = file_, .field = named(key)});
    }
    [[nodiscard]] const json& at(const json& object, const char* key) const {
        if (!object.is_object() || !object.contains(key)) fail(gneiss::errc::invalid_format, "is missing", key);
        return object.at(key);
    }
    [[nodiscard]] std::string text(const json& object, const char* key) const {
        const json& value = at(object, key);
        if (!value.is_string()) fail(gneiss::errc::invalid_format, "must be a text", key);
        return value.get<std::string>();
    }

private:
    const std::filesystem::path& file_;
    std::string name_;
};

std::vector<std::string> names_of(const gneiss::layer_schedule& products) {
    std::vector<std::string> result;
    for (const gneiss::product_order order : products)
        result.emplace_back(gneiss::product_order_names[static_cast<std::size_t>(order)]);
    return result;
}

} // namespace

json to_json(const schedule_measurement& of, const scheduled_network& network, std::string_view program) {
    json result{{"program", program}, {"version", programs::version()}, {"device", device},
        {"cpu", programs::cpu_name()}, {"threads", of.threads}};
    json layers = json::array();
    gneiss::input_columns in = network.in;
    const std::vector<std::string> products = names_of(of.choice.products());
    for (std::size_t i = 0; i < network.layers.size(); ++i) {
        layers.push_back(shape_of(network.layers[i], in));
        layers.back()["product"] = products[i];
        in = {.dense = network.layers[i].outputs()};
    }
    result["layers"] = std::move(layers);
    result["batches"] = of.batches;
    json batch = json::array(), timed = json::array();
    for (const gneiss::hop_sizes& hop : of.sizes)
        batch.push_back({{"sources", hop.sources}, {"targets", hop.targets}, {"edges", hop.edges}});
    result["batch"] = std::move(batch);
    for (const gneiss::timed_schedule& one : of.choice.timed)
        if (of.batches != 0) {
            json entry{{"products", names_of(one.products)}};
            entry["seconds"] = one.seconds ? json(*one.seconds) : json();
            timed.push_back(std::move(entry));
        }
    result["timed"] = std::move(timed);
    return result;
}

gneiss::layer_schedule schedule_of(
    const json& object, const scheduled_network& network, const std::filesystem::path& file, bool same_run) {
    const fields whole(file, "");
    if (!object.is_object())
        throw gneiss::error(gneiss::errc::invalid_format, "is not a schedule, a JSON object", {.path = file});
    if (const std::string version = whole.text(object, "version"); version != programs::version() && !same_run)
        whole.fail(gneiss::errc::version_mismatch,
            fmt::format("{}, and this is version {}: measure again by --schedule auto", version, programs::version()),
            "version");
    if (const std::string found = whole.text(object, "device"); found != device)
        whole.fail(
            gneiss::errc::config_mismatch, fmt::format("{}, and this run is on the {}", found, device), "device");
    const json& layers = whole.at(object, "layers");
    if (!layers.is_array()) whole.fail(gneiss::errc::invalid_format, "must be a list", "layers");
    if (layers.size() != network.layers.size())
        whole.fail(gneiss::errc::config_mismatch,
            fmt::format("{} of them, and this network has {}", layers.size(), network.layers.size()), "layers");
    const auto choices = gneiss::product_choices(network.layers, network.in);
    gneiss::layer_schedule result;
    gneiss::input_columns in = network.in;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const fields of(file, fmt::format("layers[{}]", i));
        const json shape = shape_of(network.layers[i], in);
        for (const auto& [key, own] : shape.items())
            if (const json& found = of.at(layers[i], key.c_str()); found != own)
                of.fail(gneiss::errc::config_mismatch,
                    fmt::format("{}, and this network has {}", found.dump(), own.dump()), key.c_str());
        if (in.sparse == 0 && layers[i].contains("sparse"))
            of.fail(gneiss::errc::config_mismatch, "rows are sparse, and this network's are not", "sparse");
        const std::string name = of.text(layers[i], "product");
        const auto found = std::ranges::find(gneiss::product_order_names, name);
        const auto order = static_cast<gneiss::product_order>(found - gneiss::product_order_names.begin());
        const bool own = order == gneiss::product_of(network.layers[i]);
        if (found == gneiss::product_order_names.end() ||
            (!own && std::ranges::find(choices[i], order) == choices[i].end())) {
            std::vector<std::string> allowed = names_of(choices[i]);
            if (choices[i].size() > 1) allowed.emplace_back(gneiss::product_order_names[0]);
            of.fail(gneiss::errc::invalid_format,
                fmt::format("'{}' is no order of this layer: {}", name, fmt::join(allowed, ", ")), "product");
        }
        result.push_back(order);
        in = {.dense = network.layers[i].outputs()};
    }
    return result;
}

json read_schedule(const std::filesystem::path& file, const scheduled_network& network, bool same_run) {
    json object = programs::parse_json(programs::read_file(file), file);
    (void)schedule_of(object, network, file, same_run);
    return object;
}

std::string text_of_schedule(const json& object) {
    std::vector<std::string> orders;
    std::vector<std::string> products;
    for (const json& layer : object.at("layers")) {
        products.push_back(layer.at("product").get<std::string>());
        orders.push_back(fmt::format("{} {}", layer.at("kind").get<std::string>(), products.back()));
    }
    std::string text = fmt::format("{}", fmt::join(orders, ", "));
    std::optional<double> given, own;
    for (const json& one : object.value("timed", json::array())) {
        if (!one.is_object() || !one.contains("seconds") || !one.at("seconds").is_number()) continue;
        const auto seconds = one.at("seconds").get<double>();
        if (!given) given = seconds;
        if (one.value("products", json()) == json(products)) own = seconds;
    }
    if (given && own) text += fmt::format(": {:.3g} ms a batch, {:.3g} ms as given", 1e3 * *own, 1e3 * *given);
    return text;
}

} // namespace trainers
