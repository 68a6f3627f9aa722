// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes JSON.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/detail/json_limits.hpp>
#include <gneiss/io/manifest.hpp>

namespace gneiss {

namespace detail {

/// Extracts typed fields of an object; errors name file and field.
class json_fields {
public:
    json_fields(const nlohmann::json& object, const std::filesystem::path& path, std::string prefix = "")
        : object_(object),
          path_(path),
          prefix_(std::move(prefix)) {
        if (!object.is_object())
            throw error(errc::invalid_format, "must be an object", {.path = path_, .field = prefix_});
    }

    [[nodiscard]] error wrong(std::string_view key, const std::string& what, errc code = errc::invalid_format) const {
        return {code, what, {.path = path_, .field = name(key)}};
    }
    [[nodiscard]] bool has(std::string_view key) const { return object_.contains(std::string(key)); }
    [[nodiscard]] const nlohmann::json& at(std::string_view key) const {
        const auto found = object_.find(std::string(key));
        if (found == object_.end()) throw wrong(key, "is missing");
        return *found;
    }
    [[nodiscard]] std::string text(std::string_view key) const {
        if (!at(key).is_string()) throw wrong(key, "must be a text");
        return at(key).get<std::string>();
    }
    [[nodiscard]] bool flag(std::string_view key) const {
        if (!at(key).is_boolean()) throw wrong(key, "must be true or false");
        return at(key).get<bool>();
    }
    template <class T = std::uint64_t>
    [[nodiscard]] T count(std::string_view key) const {
        if (!at(key).is_number_unsigned()) throw wrong(key, "must be a count");
        const auto value = at(key).get<std::uint64_t>();
        if (value > std::numeric_limits<T>::max()) throw wrong(key, "is too large", errc::out_of_range);
        return static_cast<T>(value);
    }
    [[nodiscard]] json_fields object(std::string_view key) const { return {at(key), path_, name(key)}; }
    /// Calls `visit(json_fields)` for each object of a list.
    template <class Visit>
    void each(std::string_view key, Visit&& visit) const {
        if (!at(key).is_array()) throw wrong(key, "must be a list");
        for (std::size_t i = 0; i < at(key).size(); ++i)
            visit(json_fields(at(key)[i], path_, name(key) + "[" + std::to_string(i) + "]"));
    }
    /// Returns the value among `choices` whose `to_string` equals the field.
    template <class T>
    [[nodiscard]] T choice(std::string_view key, std::initializer_list<T> choices) const {
        const std::string found = text(key);
        for (const T value : choices)
            if (to_string(value) == found) return value;
        throw wrong(key, "has the unknown value '" + found + "'");
    }

private:
    [[nodiscard]] std::string name(std::string_view key) const {
        return (prefix_.empty() ? "" : prefix_ + ".") + std::string(key);
    }

    const nlohmann::json& object_;
    const std::filesystem::path& path_;
    std::string prefix_;
};

[[nodiscard]] inline dataset_array parse_array(const json_fields& fields) {
    dataset_array array;
    array.name = fields.text("name");
    if (array.name.empty() || array.name.find('/') != std::string::npos || array.name.find('\0') != std::string::npos ||
        array.name[0] == '.')
        throw fields.wrong("name", "is not a plain file name");
    const auto dtype = parse_dtype(fields.text("dtype"));
    if (!dtype) throw fields.wrong("dtype", "is unknown");
    array.dtype = *dtype;
    if (!fields.at("shape").is_array() || fields.at("shape").empty() || fields.at("shape").size() > 32)
        throw fields.wrong("shape", "must be a list of counts");
    std::uint64_t bytes = size_of(array.dtype);
    for (const auto& extent : fields.at("shape")) {
        if (!extent.is_number_unsigned()) throw fields.wrong("shape", "must be a list of counts");
        array.shape.push_back(extent.get<std::uint64_t>());
        if (__builtin_mul_overflow(bytes, array.shape.back(), &bytes) || bytes >> 63 != 0)
            throw fields.wrong("shape", "overflows", errc::out_of_range);
    }
    array.bytes = fields.count("bytes");
    if (array.bytes != bytes) throw fields.wrong("bytes", "disagrees with dtype and shape");
    return array;
}

/// Parses the list "partition_sizes": a count for each partition; the counts sum to the nodes.
[[nodiscard]] inline std::vector<std::uint64_t> parse_sizes(
    const json_fields& fields, std::uint32_t partitions, std::uint64_t nodes) {
    const nlohmann::json& list = fields.at("partition_sizes");
    if (!list.is_array() || list.size() != partitions)
        throw fields.wrong("partition_sizes", "must be a list of a count for each partition");
    std::vector<std::uint64_t> sizes;
    std::uint64_t left = nodes;
    for (const auto& size : list) {
        if (!size.is_number_unsigned() || size.get<std::uint64_t>() > left)
            throw fields.wrong("partition_sizes", "must be counts that add up to the nodes", errc::out_of_range);
        sizes.push_back(size.get<std::uint64_t>());
        left -= sizes.back();
    }
    if (left != 0) throw fields.wrong("partition_sizes", "must be counts that add up to the nodes", errc::out_of_range);
    return sizes;
}

} // namespace detail

GNEISS_INLINE std::string format_manifest(const dataset_manifest& m) {
    using nlohmann::ordered_json;
    ordered_json arrays = ordered_json::array(), sources = ordered_json::array();
    for (const dataset_array& a : m.arrays)
        arrays.push_back(
            {{"name", a.name}, {"dtype", std::string(to_string(a.dtype))}, {"shape", a.shape}, {"bytes", a.bytes}});
    for (const dataset_source& s : m.provenance.sources) sources.push_back({{"name", s.name}, {"bytes", s.bytes}});
    const bool ranked = std::ranges::find(m.arrays, "rank_to_row", &dataset_array::name) != m.arrays.end();
    const bool partitioned = !m.partition_sizes.empty();
    const bool targets = m.node_attributes.target != node_target_kind::classes;
    const auto dense = std::ranges::find(m.arrays, "features", &dataset_array::name);
    const bool coded = dense != m.arrays.end() && (dense->dtype == npy_dtype::i8 || dense->dtype == npy_dtype::u16);
    const bool centered = std::ranges::find(m.arrays, "target_offsets", &dataset_array::name) != m.arrays.end();
    const int version = centered ? 6 : coded ? 5 : targets ? 4 : partitioned ? 3 : ranked ? 2 : 1;
    ordered_json root{{"format", "gneiss dataset"}, {"version", version}, {"endianness", "little"}, {"name", m.name},
        {"task", std::string(to_string(m.task))}, {"ids", std::string(to_string(m.ids))}, {"nodes", m.nodes},
        {"relations", m.relations},
        {"edges", {{"train", m.train_edges}, {"valid", m.valid_edges}, {"test", m.test_edges}}},
        {"partitions", m.partitions}};
    if (partitioned) {
        root["partition_sizes"] = m.partition_sizes;
        root["pinned"] = m.pinned;
    }
    if (m.both_ways) root["both_ways"] = *m.both_ways;
    root["seed"] = m.seed;
    root["generation"] = m.generation;
    if (const dataset_node_attributes& d = m.node_attributes; d != dataset_node_attributes{})
        root["node_data"] = {
            {"features", d.features}, {"classes", d.classes}, {"train", d.train}, {"valid", d.valid}, {"test", d.test}};
    if (targets) root["node_data"]["target"] = std::string(to_string(m.node_attributes.target));
    root["arrays"] = std::move(arrays);
    root["provenance"] = {
        {"tool", m.provenance.tool}, {"options", m.provenance.options}, {"sources", std::move(sources)}};
    root["checksum"] = std::string(detail::manifest_checksum_digits, '0');
    // Bytes that are not UTF-8 (in a file name) are replaced, not refused.
    std::string text = root.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    const std::size_t at = text.rfind(detail::manifest_checksum_key) + detail::manifest_checksum_key.size();
    return text.replace(at, detail::manifest_checksum_digits, detail::hexadecimal(checksum(text)));
}

GNEISS_INLINE dataset_manifest parse_manifest(std::string text, const std::filesystem::path& path) {
    nlohmann::json root;
    try {
        root = nlohmann::json::parse(text, detail::json_limits<nlohmann::json>());
    } catch (const nlohmann::json::exception&) {
        throw error(errc::invalid_format, "is not JSON", {.path = path});
    } catch (const error& e) {
        throw error(e.code(), e.what(), {.path = path});
    }
    const detail::json_fields fields(root, path);
    if (fields.text("format") != "gneiss dataset") throw fields.wrong("format", "is not 'gneiss dataset'");
    const auto version = fields.count("version");
    if (version == 0 || version > dataset_format_version)
        throw fields.wrong("version",
            "is " + std::to_string(version) + ", this program reads 1 to " + std::to_string(dataset_format_version),
            errc::version_mismatch);
    const std::string stored = fields.text("checksum");
    const std::size_t key = text.rfind(detail::manifest_checksum_key), at = key + detail::manifest_checksum_key.size();
    if (key == std::string::npos || stored.size() != detail::manifest_checksum_digits ||
        text.compare(at, stored.size(), stored) != 0)
        throw fields.wrong("checksum", "must be 16 hexadecimal digits");
    text.replace(at, stored.size(), stored.size(), '0');
    if (detail::hexadecimal(checksum(text)) != stored)
        throw fields.wrong("checksum", "mismatch: the file was changed or damaged", errc::corrupt);
    if (fields.text("endianness") != "little") throw fields.wrong("endianness", "must be 'little'", errc::unsupported);

    dataset_manifest m;
    m.name = fields.text("name");
    m.task = fields.choice("task", {dataset_task::link, dataset_task::node});
    m.ids = fields.choice("ids", {dataset_ids::integer, dataset_ids::string});
    m.nodes = fields.count("nodes");
    m.relations = fields.count("relations");
    const auto edges = fields.object("edges");
    m.train_edges = edges.count("train");
    m.valid_edges = edges.count("valid");
    m.test_edges = edges.count("test");
    m.partitions = fields.count<std::uint32_t>("partitions");
    if (m.partitions == 0) throw fields.wrong("partitions", "must be at least 1", errc::out_of_range);
    if (version == 3 || fields.has("partition_sizes")) {
        m.partition_sizes = detail::parse_sizes(fields, m.partitions, m.nodes);
        m.pinned = fields.count<std::uint32_t>("pinned");
        if (m.pinned > m.partitions) throw fields.wrong("pinned", "must be at most the partitions", errc::out_of_range);
    }
    if (fields.has("both_ways")) m.both_ways = fields.flag("both_ways");
    m.seed = fields.count("seed");
    m.generation = fields.count("generation");
    if (fields.has("node_data")) {
        const auto data = fields.object("node_data");
        m.node_attributes = {data.count("features"), data.count("classes"), data.count("train"), data.count("valid"),
            data.count("test")};
        if (data.has("target"))
            m.node_attributes.target = data.choice(
                "target", {node_target_kind::classes, node_target_kind::multilabel, node_target_kind::regression});
    }
    std::set<std::string> names;
    fields.each("arrays", [&](const detail::json_fields& array) {
        m.arrays.push_back(detail::parse_array(array));
        if (!names.insert(m.arrays.back().name).second) throw array.wrong("name", "is listed twice");
    });
    const auto provenance = fields.object("provenance");
    m.provenance.tool = provenance.text("tool");
    m.provenance.options = provenance.text("options");
    provenance.each("sources", [&](const detail::json_fields& source) {
        m.provenance.sources.push_back({source.text("name"), source.count("bytes")});
    });
    return m;
}

} // namespace gneiss
