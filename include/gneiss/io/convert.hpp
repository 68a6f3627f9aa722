// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Options of `convert_features`.
struct convert_options {
    feature_type type = feature_type::f16;                                   ///< of the new features
    std::stop_token stop{};                                                  ///< ends the conversion
    std::function<void(std::uint64_t done, std::uint64_t total)> progress{}; ///< called with rows
};

/// Copies a dataset with its dense features in another type. Other arrays are copied with their checksums, so damage
/// stays visible. `to` appears atomically and durably.
///
///     convert_features(dataset("data"), "small", {.type = feature_type::int8});   // a quarter of the bytes
///
/// Cost: each array is read and written once. Memory: 2 MiB, or two rows.
/// Errors: errc::already_exists; errc::invalid_argument without dense features; errc::out_of_range, naming node and
/// column, for a value that the type cannot hold; errc::not_finite for one that is no finite number; errc::corrupt for
/// damaged features; errc::canceled; io_error.
inline void convert_features(const dataset& from, const std::filesystem::path& to, const convert_options& options) {
    const node_features features = from.features();
    if (features.empty() || features.sparse())
        throw error(errc::invalid_argument,
            features.empty() ? "has no features to convert" : "has sparse features: only dense ones are converted",
            {.path = from.directory(), .field = "features"});
    dataset_writer out(to);
    for (const dataset_array& array : from.manifest().arrays) {
        if (options.stop.stop_requested()) throw error(errc::canceled, "stopped");
        if (array.name == "features") continue;
        const std::filesystem::path copy = out.partial() / (array.name + ".npy");
        for (const auto& [source, target] : {std::pair{from.path(array.name), copy},
                 std::pair{sidecar_path(from.path(array.name)), sidecar_path(copy)}}) {
            std::error_code failure;
            std::filesystem::copy_file(source, target, failure);
            if (failure) throw io_error(failure.value(), "copy", {.path = target});
            plain_file::open(target).sync();
        }
        out.adopt(array.name);
    }
    const auto columns = static_cast<std::size_t>(features.columns());
    const std::size_t each = row_bytes(options.type, columns);
    npy_writer& rows = out.array("features", dtype_of(options.type), {each / value_bytes(options.type)});
    const std::uint64_t step = std::max<std::uint64_t>((std::uint64_t{1} << 20) / (columns * sizeof(float)), 1);
    std::vector<float> values;
    std::vector<std::byte> stored;
    const row_partitioning partitioning = from.rows();
    for (partition_id p = 0; p < partitioning.partitions; ++p) {
        const std::uint64_t end = partitioning.begin(p) + partitioning.size(p);
        for (std::uint64_t first = partitioning.begin(p); first < end;) {
            if (options.stop.stop_requested()) throw error(errc::canceled, "stopped");
            const auto count = static_cast<std::size_t>(std::min(step, end - first));
            values.resize(count * columns);
            stored.resize(count * each);
            features.read_dense(first, values);
            for (std::size_t i = 0; i < count; ++i) {
                const std::span<const float> row = std::span(values).subspan(i * columns, columns);
                const auto wrong = [&](errc code, std::size_t column, const std::string& what) {
                    return error(code,
                        "row " + std::to_string(first + i) + " (node " + from.node_label(first + i) + "), column " +
                            std::to_string(column) + ": " + std::to_string(row[column]) + what,
                        {.path = from.path("features")});
                };
                if (const auto bad = std::ranges::find_if_not(row, [](float x) { return std::isfinite(x); });
                    bad != row.end())
                    throw wrong(
                        errc::not_finite, static_cast<std::size_t>(bad - row.begin()), " is not a finite number");
                if (const std::size_t bad = encode_row(row, options.type, stored.data() + i * each); bad != columns)
                    throw wrong(errc::out_of_range, bad, " is too large for " + std::string(to_string(options.type)));
            }
            rows.append_bytes(stored);
            first += count;
            if (options.progress) options.progress(first, features.rows());
        }
        rows.end_segment();
    }
    out.commit(from.manifest());
}

} // namespace gneiss
