// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/storage/io/plain_file.hpp>

#include "kit/graph/pickle.hpp"

/// Arrays of integers that torch.save wrote, such as the splits of OGB's graphs for link prediction.
namespace programs {

/// A file of torch.save that holds a dictionary of NumPy arrays or tensors of integers; in the zip format or, for NumPy
/// arrays, the format before torch 1.6.
///
/// Opening reads the pickled structure and leaves arrays in the file; nothing of it is executed. Thread-safe.
/// Errors: `gneiss::io_error`; errc::invalid_format and errc::unsupported with path and offset.
class torch_file {
public:
    struct array : pickled_array {
        std::string name;
    };

    explicit torch_file(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
    [[nodiscard]] const std::vector<array>& arrays() const noexcept { return arrays_; }
    /// Throws errc::not_found, naming the arrays that are there.
    [[nodiscard]] const array& at(std::string_view name) const;

    /// Reads an array. Outlived by its file.
    struct reader : pickled_array_reader {
        reader(const torch_file& file, const array& from) : pickled_array_reader(file.file_, from) {}
    };

private:
    gneiss::plain_file file_;
    std::vector<array> arrays_;
};

/// Writes arrays of one length next to one another: an .npy file of 64-bit integers [rows, names]. Memory: 1 MiB per
/// array.
/// Throws as `torch_file`; errc::invalid_format for arrays of other shapes.
void write_columns(const torch_file& from, std::span<const std::string> names, const std::filesystem::path& to);

/// Writes all arrays as 64-bit integers into an uncompressed .npz archive, as numpy.savez does. Memory: 1 MiB. Throws
/// as `torch_file`.
void write_npz(const torch_file& from, const std::filesystem::path& to);

} // namespace programs
