// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/manifest.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/durable.hpp>

namespace gneiss {

/// Writes a dataset directory atomically.
///
///     dataset_writer writer("out");                             // works in out.partial
///     npy_writer& valid = writer.array("valid", npy_dtype::u32, {3});
///     valid.append(words);
///     writer.edges(builder);                                    // a bucket_builder with all training edges
///     writer.commit(manifest);                                  // checks, syncs, renames to out
///
/// Without `commit` the partial directory is removed. Not thread-safe (but several threads may write different arrays).
/// Errors: errc::already_exists if the directory exists, or while another process writes it; `io_error`.
class dataset_writer {
public:
    /// Starts a dataset for `directory`, which appears at `commit`.
    explicit dataset_writer(const std::filesystem::path& directory)
        : directory_(absent(directory.filename().empty() ? directory.parent_path() : directory)), // "name/"
          unfinished_(directory_.string() + ".partial") {}
    dataset_writer(const dataset_writer&) = delete;
    dataset_writer& operator=(const dataset_writer&) = delete;

    /// Directory of the unfinished dataset; scratch files may be put here until `commit`.
    [[nodiscard]] const std::filesystem::path& partial() const noexcept { return unfinished_.path(); }

    /// Begins NAME.npy, with a growing first dimension. The reference is valid until `close(name)` or `commit`.
    npy_writer& array(const std::string& name, npy_dtype dtype, std::initializer_list<std::uint64_t> row_shape = {}) {
        for (const dataset_array& a : manifest_arrays_)
            if (a.name == name)
                throw error(errc::already_exists, "array '" + name + "' is written twice", {.path = partial()});
        manifest_arrays_.push_back({name, dtype, {}, 0});
        arrays_.push_back(std::make_unique<npy_writer>(partial() / (name + ".npy"), dtype, row_shape));
        return *arrays_.back();
    }
    /// Adds NAME.npy and its checksums, completed by others in `partial()`.
    void adopt(const std::string& name) {
        const npy_header header = read_npy_header(plain_file::open(partial() / (name + ".npy")));
        manifest_arrays_.push_back({name, header.dtype, header.shape, header.bytes()});
        arrays_.push_back(nullptr);
    }
    /// Completes an array and frees its buffer. `commit` completes arrays that are still open.
    void close(std::string_view name) {
        for (std::size_t i = 0; i < arrays_.size(); ++i)
            if (manifest_arrays_[i].name == name && arrays_[i] != nullptr) close(i);
    }

    /// Writes edges.out, edges.in and edges.table.
    template <executor E>
    void edges(bucket_builder<E>& builder, const typename bucket_builder<E>::progress& progress = {}) {
        npy_writer& out = array("edges.out", npy_dtype::u32);
        npy_writer& in = array("edges.in", npy_dtype::u32);
        const std::vector<bucket_row> rows = builder.finish(out, in, progress);
        array("edges.table", npy_dtype::u64, {6}).append_bytes(std::as_bytes(std::span(rows)));
        for (const char* name : {"edges.out", "edges.in", "edges.table"}) close(name);
    }

    /// Completes all arrays, writes the manifest (with their list), opens the result as a reader would, and renames it
    /// into place: after this returns, the dataset survives power loss.
    void commit(dataset_manifest manifest) {
        for (std::size_t i = 0; i < arrays_.size(); ++i)
            if (arrays_[i] != nullptr) close(i);
        manifest.arrays = manifest_arrays_;
        std::ranges::sort(manifest.arrays, {}, &dataset_array::name);
        write_manifest(partial() / "manifest.json", manifest);
        {
            const dataset written(partial());
            if (written.has("edges.table")) (void)written.buckets();
        }
        (void)absent(directory_);
        unfinished_.rename_to(directory_);
        sync_directory(directory_.parent_path());
    }

private:
    [[nodiscard]] static const std::filesystem::path& absent(const std::filesystem::path& directory) {
        std::error_code ignored;
        if (std::filesystem::exists(directory, ignored))
            throw error(errc::already_exists, "is there already", {.path = directory});
        return directory;
    }
    void close(std::size_t i) {
        const npy_header header = arrays_[i]->close();
        manifest_arrays_[i].shape = header.shape;
        manifest_arrays_[i].bytes = header.bytes();
        arrays_[i].reset();
    }

    std::filesystem::path directory_;
    unfinished_directory unfinished_;
    std::vector<std::unique_ptr<npy_writer>> arrays_; // behind the directory: closed before it is removed
    std::vector<dataset_array> manifest_arrays_;
};

} // namespace gneiss
