// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/detail/json_limits.hpp>
#include <gneiss/io/detail/manifest_json.hpp>
#include <gneiss/io/safetensors.hpp>

namespace gneiss {

namespace detail {

inline constexpr std::string_view safetensors_metadata = "__metadata__";

/// Returns the bytes of a tensor; none: they overflow.
[[nodiscard]] inline std::optional<std::uint64_t> checked_bytes(const tensor_entry& tensor) {
    std::uint64_t total = size_of(tensor.dtype);
    if (std::ranges::find(tensor.shape, std::uint64_t{0}) != tensor.shape.end()) return 0;
    for (const std::uint64_t extent : tensor.shape) {
        if (total > std::numeric_limits<std::int64_t>::max() / extent) return std::nullopt;
        total *= extent;
    }
    return total;
}

/// Parses one tensor of a header; returns it with its offsets in the data.
[[nodiscard]] inline std::pair<tensor_entry, std::uint64_t> parse_tensor(
    const std::string& name, const nlohmann::json& value, const std::filesystem::path& path) {
    const json_fields fields(value, path, "tensor '" + name + "'");
    for (const auto& [key, ignored] : value.items())
        if (key != "dtype" && key != "shape" && key != "data_offsets") throw fields.wrong(key, "is not of the format");
    tensor_entry tensor{.name = name};
    const std::string dtype = fields.text("dtype");
    const auto known = std::ranges::find(tensor_dtypes, dtype, &tensor_dtype_row::name);
    if (known == tensor_dtypes.end())
        throw fields.wrong("dtype", "is '" + dtype + "', which is not read", errc::unsupported);
    tensor.dtype = known->dtype;
    const auto counts = [&](const char* key) {
        const nlohmann::json& list = fields.at(key);
        if (!list.is_array() || !std::ranges::all_of(list, [](const auto& x) { return x.is_number_unsigned(); }))
            throw fields.wrong(key, "must be a list of counts");
        return list.get<std::vector<std::uint64_t>>();
    };
    tensor.shape = counts("shape");
    const std::vector<std::uint64_t> place = counts("data_offsets");
    if (place.size() != 2 || place[1] < place[0]) throw fields.wrong("data_offsets", "must be begin and end");
    const auto bytes = checked_bytes(tensor);
    if (!bytes || *bytes != place[1] - place[0])
        throw fields.wrong("data_offsets",
            "have " + std::to_string(place[1] - place[0]) + " bytes, and the shape " +
                (bytes ? std::to_string(*bytes) : "too many"));
    tensor.offset = place[0];
    return {std::move(tensor), place[1]};
}

} // namespace detail

GNEISS_INLINE std::string format_safetensors_header(safetensors_header& header) {
    nlohmann::ordered_json root = nlohmann::ordered_json::object();
    if (!header.metadata.empty()) root[std::string(detail::safetensors_metadata)] = header.metadata;
    std::uint64_t end = 0;
    for (tensor_entry& tensor : header.tensors) {
        const auto bytes = detail::checked_bytes(tensor);
        if (!bytes || *bytes > std::numeric_limits<std::int64_t>::max() - longest_safetensors_header - end)
            throw error(errc::invalid_argument, "tensor '" + tensor.name + "' has more bytes than a file");
        if (tensor.name == detail::safetensors_metadata || root.contains(tensor.name))
            throw error(errc::invalid_argument, "two tensors have the name '" + tensor.name + "', or it is reserved");
        tensor.offset = end;
        end += *bytes;
        root[tensor.name] = {{"dtype", std::string(to_string(tensor.dtype))}, {"shape", tensor.shape},
            {"data_offsets", {tensor.offset, end}}};
    }
    std::string json;
    try {
        json = root.dump();
    } catch (const nlohmann::json::exception&) {
        throw error(errc::invalid_argument, "names of tensors and metadata are UTF-8");
    }
    json.resize((json.size() + 7) / 8 * 8, ' ');
    if (json.size() > longest_safetensors_header)
        throw error(errc::invalid_argument,
            "the header of these tensors has " + std::to_string(json.size()) + " bytes, at most " +
                std::to_string(longest_safetensors_header) + " are written");
    const std::uint64_t length = json.size();
    std::string text(sizeof length, '\0');
    std::memcpy(text.data(), &length, sizeof length);
    text += json;
    header.data_offset = text.size();
    for (tensor_entry& tensor : header.tensors) tensor.offset += text.size();
    return text;
}

GNEISS_INLINE safetensors_header parse_safetensors_header(
    std::string_view json, std::uint64_t data_offset, std::uint64_t data_bytes, const std::filesystem::path& path) {
    nlohmann::json root;
    try {
        if (!json.starts_with('{')) throw error(errc::invalid_format, "its header does not begin with '{'");
        root = nlohmann::json::parse(json, detail::json_limits<nlohmann::json>());
    } catch (const nlohmann::json::exception&) {
        throw error(errc::invalid_format, "its header is not JSON: is it a .safetensors file?", {.path = path});
    } catch (const error& e) {
        throw error(e.code(), e.what(), {.path = path});
    }
    safetensors_header header{.data_offset = data_offset};
    std::vector<std::pair<tensor_entry, std::uint64_t>> tensors;
    for (const auto& [name, value] : root.items()) {
        if (name != detail::safetensors_metadata) {
            tensors.push_back(detail::parse_tensor(name, value, path));
            continue;
        }
        const detail::json_fields fields(value, path, name);
        for (const auto& [key, text] : value.items()) header.metadata[key] = fields.text(key);
    }
    std::ranges::sort(tensors, {}, [](const auto& each) { return std::pair(each.first.offset, each.second); });
    std::uint64_t end = 0; // of the tensor before
    for (auto& [tensor, tensor_end] : tensors) {
        if (tensor.offset != end)
            throw error(errc::invalid_format,
                tensor.offset < end ? "overlaps the tensor before it" : "leaves a hole before it",
                {.path = path,
                    .offset = data_offset + std::min(tensor.offset, end),
                    .length = std::max(tensor.offset, end) - std::min(tensor.offset, end),
                    .field = "tensor '" + tensor.name + "'"});
        end = tensor_end;
        if (end > data_bytes) break;
        tensor.offset += data_offset;
        header.tensors.push_back(std::move(tensor));
    }
    if (end != data_bytes)
        throw error(errc::invalid_format,
            std::string(end > data_bytes ? "is truncated" : "has data of no tensor") + ": its tensors end after " +
                std::to_string(end) + " bytes of data, and there are " + std::to_string(data_bytes),
            {.path = path});
    return header;
}

} // namespace gneiss
