// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/matrix_edges.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/detail/sparse_matrix.hpp>
#include <gneiss/io/import/npz.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

// Unpacks arrays and matrices of .npz files.
namespace gneiss::importing {

/// Returns the path of an unpacked array: a name from the archive's path, size and time, and the array's name.
[[nodiscard]] inline std::filesystem::path unpacked_name(
    const npz_file& from, const std::string& name, const std::filesystem::path& scratch) {
    std::error_code failed;
    const std::string key = std::filesystem::absolute(from.path()).string() + "|" +
        std::to_string(std::filesystem::file_size(from.path(), failed)) + "|" +
        std::to_string(std::filesystem::last_write_time(from.path(), failed).time_since_epoch().count());
    std::string file = from.path().filename().string() + "." + name + "." + gneiss::detail::hexadecimal(checksum(key));
    std::ranges::replace(file, '/', '_');
    return scratch / file;
}

/// Unpacks an array, unless an earlier run of the same import did.
inline std::filesystem::path unpack_array(
    const npz_file& from, const std::string& name, const std::filesystem::path& scratch, const std::stop_token& stop) {
    auto to = unpacked_name(from, name, scratch);
    to += ".npy";
    std::error_code failed;
    if (std::filesystem::exists(to, failed)) return to;
    make_directories(scratch);
    auto partial = to;
    partial += ".partial";
    from.unpack(name, partial, stop);
    rename_into_place(partial, to);
    return to;
}

/// Replaces features that are an archive of a sparse matrix, as saved by scipy, with arrays of compressed sparse rows:
/// those of the archive if its `format` is CSR or absent; for CSC and COO the output of `sparse_matrix_converter` in
/// half of `memory`.
/// Throws errc::unsupported for any other format.
inline void unpack_sparse_features(import_node_attributes& data, const std::filesystem::path& scratch,
    std::uint64_t memory, const std::stop_token& stop) {
    const npz_file from(data.features);
    const bool compressed = from.has("indptr") && from.has("indices");
    if (!compressed && !(from.has("format") && from.has("shape"))) return;
    const auto unpack = [&](const char* name) { return unpack_array(from, name, scratch, stop); };
    const std::string format = from.has("format") ? read_npy_string(unpack("format")) : "csr";
    if (format != "csr" && format != "csc" && format != "coo")
        throw error(errc::unsupported,
            "is a sparse matrix in the format " + format +
                ": csr, csc and coo are read; save it by scipy.sparse.save_npz(path, matrix.tocsr())",
            {.path = from.path()});
    std::optional<std::array<std::uint64_t, 2>> shape;
    if (from.has("shape")) {
        npy_reader in(unpack("shape"));
        std::array<std::uint64_t, 2> extents{};
        if (in.header().size() == 2 && in.read_as(std::span<std::uint64_t>(extents)) == 2) shape = extents;
    }
    csr_arrays result;
    if (format == "csr") {
        result = {unpack("indptr"), unpack("indices"), from.has("data") ? unpack("data") : std::filesystem::path{}};
    } else {
        if (!shape)
            throw error(errc::invalid_format, "a matrix in the format " + format + " needs a shape of rows and columns",
                {.path = from.path()});
        const auto to = unpacked_name(from, "csr", scratch);
        if (std::error_code failed; !std::filesystem::exists(to, failed)) {
            const bool csc = format == "csc";
            const sparse_matrix_converter convert{.rows = unpack(csc ? "indices" : "row"),
                .columns = unpack(csc ? "indptr" : "col"),
                .values = from.has("data") ? unpack("data") : std::filesystem::path{},
                .columns_compressed = csc,
                .shape = *shape,
                .memory = memory / 2,
                .stop = stop};
            auto partial = to;
            partial += ".partial";
            remove_tree(partial);
            make_directories(partial);
            convert.write(partial);
            rename_into_place(partial, to);
            for (const auto& path : {convert.rows, convert.columns, convert.values})
                if (!path.empty()) std::filesystem::remove(path);
        }
        result = csr_arrays::in(to, from.has("data"));
    }
    data.indptr = result.indptr;
    data.indices = result.indices;
    data.values = result.values;
    if (shape && data.num_features == 0) data.num_features = (*shape)[1];
    data.features.clear();
}

/// Makes a source compute its edges from a sparse matrix as saved by scipy: in the format CSR, CSC or COO. Throws
/// errc::unsupported for any other format, errc::invalid_format for a rectangular one that is not bipartite.
inline void unpack_matrix_edges(import_source& source, const npz_file& from, bool bipartite,
    const std::filesystem::path& scratch, const std::stop_token& stop) {
    const auto unpack = [&](const char* name) { return unpack_array(from, name, scratch, stop); };
    const std::string format = from.has("format") ? read_npy_string(unpack("format")) : from.has("row") ? "coo" : "csr";
    if (format != "csr" && format != "csc" && format != "coo")
        throw error(errc::unsupported,
            "is a sparse matrix in the format " + format +
                ": csr, csc and coo are read; save it by scipy.sparse.save_npz(path, matrix.tocsr())",
            {.path = from.path()});
    std::array<std::uint64_t, 2> shape{};
    npy_reader in(unpack("shape"));
    if (in.header().size() != 2 || in.read_as(std::span<std::uint64_t>(shape)) != 2)
        throw error(errc::invalid_format, "is a sparse matrix whose shape is not two numbers", {.path = from.path()});
    const std::uint64_t shift = detail::column_shift(shape[0], shape[1], bipartite, {.path = from.path()});
    if (shape[0] > 0xfffffffeU || shape[1] > 0xfffffffeU || shift + shape[1] > 0xfffffffeU)
        throw error(errc::out_of_range, "more nodes than 32-bit ids can name", {.path = from.path()});
    const bool rows = format == "csr", columns = format == "csc";
    const matrix_edges edges(unpack(rows       ? "indptr"
                                     : columns ? "indices"
                                               : "row"),
        unpack(rows       ? "indices"
                : columns ? "indptr"
                          : "col"),
        rows          ? matrix_edges::compressed::rows
            : columns ? matrix_edges::compressed::columns
                      : matrix_edges::compressed::none,
        shape, shift);
    source.columns = "a " + format + " matrix of " + std::to_string(shape[0]) + " rows and " +
        std::to_string(shape[1]) + " columns: row is head, column is tail";
    if (from.has("data"))
        source.columns += ", the values of " + std::to_string(edges.edges()) + " entries are left out";
    source.compute = edges;
    source.computed_edges = edges.edges();
    source.computed_nodes = shift + shape[1];
    source.transposed = true; // a file, unlike other computed sources
}

} // namespace gneiss::importing
