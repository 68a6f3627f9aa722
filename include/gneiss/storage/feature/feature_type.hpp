// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include <gneiss/core/float16.hpp>

namespace gneiss {

/// Type of stored features. A row of int8 is its scale, f32, and a signed byte per column: value = byte · scale. Sparse
/// features are f32 or f16.
enum class feature_type : std::uint8_t { f32, f16, bf16, int8 };

/// Types in the order of their values, as `--feature-type` names them.
inline constexpr std::array<std::string_view, 4> feature_type_names{"f32", "f16", "bf16", "int8"};

/// Returns the name of a type.
[[nodiscard]] constexpr std::string_view to_string(feature_type type) noexcept {
    return feature_type_names[static_cast<std::size_t>(type)];
}
/// Returns the type of a name; none for another text.
[[nodiscard]] constexpr std::optional<feature_type> parse_feature_type(std::string_view name) noexcept {
    const auto found = std::ranges::find(feature_type_names, name);
    if (found == feature_type_names.end()) return std::nullopt;
    return static_cast<feature_type>(found - feature_type_names.begin());
}

/// Bytes of the scale that precedes the values of a row of int8.
inline constexpr std::size_t feature_scale_bytes = sizeof(float);

/// Returns the bytes of a stored value.
[[nodiscard]] constexpr std::size_t value_bytes(feature_type type) noexcept {
    return type == feature_type::f32 ? sizeof(float) : type == feature_type::int8 ? 1 : sizeof(float16);
}
/// Returns the bytes of a stored dense row.
[[nodiscard]] constexpr std::size_t row_bytes(feature_type type, std::uint64_t columns) noexcept {
    return static_cast<std::size_t>(columns) * value_bytes(type) +
        (type == feature_type::int8 ? feature_scale_bytes : 0);
}

/// Encodes a row of finite values into `row_bytes` bytes. f16 rounds to nearest, so a value above 6.1e-5 changes by at
/// most 1/2048 of itself; bf16 likewise, by at most 1/256 for any normal float. int8 rounds to multiples of max |x| /
/// 127, so a value changes by at most 1/254 of the row's largest magnitude, if that is at least 1e-35: smaller scales
/// round. Returns the number of the first column whose value the type cannot hold, else `row.size()`.
inline std::size_t encode_row(std::span<const float> row, feature_type type, std::byte* to) noexcept {
    if (type == feature_type::f32) {
        if (!row.empty()) std::memcpy(to, row.data(), row.size_bytes());
        return row.size();
    }
    const auto narrow = [&](auto convert) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const auto small = convert(row[i]);
            if (!std::isfinite(to_float(small))) return i;
            std::memcpy(to + i * sizeof small, &small, sizeof small);
        }
        return row.size();
    };
    if (type == feature_type::f16) return narrow([](float x) { return to_float16(x); });
    if (type == feature_type::bf16) return narrow([](float x) { return to_bfloat16(x); });
    float most = 0;
    for (const float x : row) most = std::max(most, std::abs(x));
    float scale = most / 127;
    if (!std::isfinite(scale * 127)) scale = std::nextafter(scale, 0.0F);
    std::memcpy(to, &scale, sizeof scale);
    for (std::size_t i = 0; i < row.size(); ++i) {
        const float steps = scale == 0 ? 0 : std::clamp(std::nearbyint(row[i] / scale), -127.0F, 127.0F);
        to[feature_scale_bytes + i] = static_cast<std::byte>(static_cast<std::int8_t>(steps));
    }
    return row.size();
}

/// Decodes a stored row, or for types but int8 any number of values. Cost: a pass over the values.
inline void decode_row(feature_type type, const std::byte* from, std::span<float> to) noexcept {
    if (to.empty()) return;
    const auto widen = [&](auto value) {
        for (std::size_t i = 0; i < to.size(); ++i) {
            std::memcpy(&value, from + i * sizeof value, sizeof value);
            to[i] = to_float(value);
        }
    };
    if (type == feature_type::f32) {
        std::memcpy(to.data(), from, to.size_bytes());
    } else if (type == feature_type::f16) {
        widen(float16{});
    } else if (type == feature_type::bf16) {
        widen(bfloat16{});
    } else {
        float scale = 0;
        std::memcpy(&scale, from, sizeof scale);
        const auto* const steps = reinterpret_cast<const std::int8_t*>(from + feature_scale_bytes);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(steps[i]) * scale;
    }
}

} // namespace gneiss
