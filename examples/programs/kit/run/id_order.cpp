// SPDX-License-Identifier: Apache-2.0
#include "kit/run/id_order.hpp"

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/row_windows.hpp>
#include <gneiss/storage/io/file_system.hpp>

namespace trainers {

namespace {

/// The id of each row, as a map of `gneiss::importing::arrange_rows`.
struct ids_of_rows {
    const gneiss::dataset& data;

    [[nodiscard]] static std::size_t slices() noexcept { return 1; }
    [[nodiscard]] static std::size_t slice_of(std::uint64_t /*row*/) noexcept { return 0; }
    static void load(std::size_t /*slice*/) noexcept {}
    [[nodiscard]] std::uint64_t operator()(std::uint64_t row) const {
        const std::uint64_t node = data.node_of(row);
        if (node >= data.manifest().nodes)
            throw gneiss::error(
                gneiss::errc::corrupt, "has a node out of range", {.path = data.path(data.row_arrays().second)});
        return node;
    }
};

} // namespace

bool id_order::by_id() const {
    return data_.manifest().ids == gneiss::dataset_ids::integer && data_.has(data_.row_arrays().second);
}

std::string id_order::label(std::uint64_t position) const {
    return by_id() ? std::to_string(position) : data_.node_label(position);
}

void id_order::operator()(const row_stream& stream, std::size_t columns,
    const std::function<void(std::uint64_t, std::span<const float>)>& visit) const {
    if (!by_id()) {
        stream([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
            for (std::size_t i = 0; i < rows.rows(); ++i) visit(first + i, rows[i]);
        });
        return;
    }
    const std::uint64_t row_bytes = columns * sizeof(float);
    gneiss::make_directories(scratch_);
    const gneiss::scratch_directory spilled(scratch_, "export-");
    ids_of_rows ids{data_};
    std::vector<float> row(columns);
    gneiss::importing::arrange_rows(
        gneiss::importing::row_windows(data_.manifest().nodes, row_bytes, memory_ / 4), ids, true, memory_ / 2,
        spilled.path() / "rows",
        [&](const auto& put) {
            stream([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
                for (std::size_t i = 0; i < rows.rows(); ++i) put(first + i, 0, std::as_bytes(rows[i]));
            });
        },
        [&](gneiss::importing::row_window& window) { window.bytes.resize(window.seen.size() * row_bytes); },
        [&](const gneiss::importing::row_window& window) {
            for (std::size_t i = 0; i < window.seen.size(); ++i) {
                if (columns != 0) std::memcpy(row.data(), window.bytes.data() + i * row_bytes, row_bytes);
                visit(window.first + i, row);
            }
        },
        [&](std::uint64_t node, std::uint64_t) {
            throw gneiss::error(gneiss::errc::corrupt, fmt::format("has node {} twice", node),
                {.path = data_.path(data_.row_arrays().second)});
        });
}

} // namespace trainers
