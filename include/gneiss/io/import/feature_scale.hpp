// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/durable.hpp>

namespace gneiss::importing {

/// Means and standard deviations of columns, over the values that are not NaN. Memory: 32 bytes a column while it
/// measures.
class column_moments {
public:
    /// Adds a row of floats or doubles. O(columns).
    template <class T>
    void add(std::span<const T> values) {
        if (counts_.empty()) {
            first_.resize(values.size());
            sums_.resize(values.size());
            squares_.resize(values.size());
            counts_.resize(values.size());
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto value = static_cast<double>(values[i]);
            if (std::isnan(value)) continue;
            if (counts_[i]++ == 0) first_[i] = value;
            const double shifted = value - first_[i]; // else large means cancel the deviation
            sums_[i] += shifted;
            squares_[i] += shifted * shifted;
        }
    }
    /// Returns the means; 0 for columns without a value.
    [[nodiscard]] std::vector<double> means() const {
        std::vector<double> means(counts_.size());
        for (std::size_t i = 0; i < means.size(); ++i)
            if (counts_[i] != 0) means[i] = first_[i] + sums_[i] / static_cast<double>(counts_[i]);
        return means;
    }
    /// Returns the deviations, by the number of values; 1 for columns whose values are all the same.
    [[nodiscard]] std::vector<double> deviations() const {
        std::vector<double> deviations(counts_.size(), 1.0);
        for (std::size_t i = 0; i < deviations.size(); ++i) {
            if (counts_[i] == 0) continue;
            const double n = static_cast<double>(counts_[i]), shift = sums_[i] / n;
            const double variance = squares_[i] / n - shift * shift;
            // The difference of two rounded sums is 0 up to their last bits.
            if (!(variance <= 1e-12 * squares_[i] / n)) deviations[i] = std::sqrt(variance);
        }
        return deviations;
    }

private:
    std::vector<double> first_, sums_, squares_;
    std::vector<std::uint64_t> counts_;
};

/// Standardization of columns: (value - mean) / deviation, in double precision, with means and deviations of a file.
/// Another graph scaled by the same file has features that mean the same to a model.
///
/// File: .npy, f64 [2, columns], the means and the deviations; f32 is read, too.
class feature_scale {
public:
    feature_scale() = default;
    /// Scale by the moments of a file. Throws errc::out_of_range for a column whose values are too far apart for a
    /// deviation.
    feature_scale(const column_moments& from, const std::filesystem::path& path)
        : means_(from.means()),
          deviations_(from.deviations()) {
        for (std::size_t i = 0; i < means_.size(); ++i)
            if (!std::isfinite(means_[i]) || !std::isfinite(deviations_[i]))
                throw error(errc::out_of_range,
                    "the values of feature " + std::to_string(i) + " are too far apart to standardize them",
                    {.path = path});
    }
    /// Reads a file of `columns` columns. Errors: those of npy_reader; errc::invalid_format for another shape and
    /// deviations that are not positive.
    static feature_scale read(const std::filesystem::path& path, std::uint64_t columns) {
        npy_reader file(path);
        if (file.header().shape != std::vector<std::uint64_t>{2, columns})
            throw error(errc::invalid_format,
                "is not an array [2, " + std::to_string(columns) +
                    "] of means and deviations of the features: name a file that does not exist to make it",
                {.path = path, .field = "npy shape"});
        feature_scale scale;
        for (std::vector<double>* row : {&scale.means_, &scale.deviations_}) {
            row->resize(static_cast<std::size_t>(columns));
            if (file.read_as(std::span(*row)) != row->size() ||
                !std::ranges::all_of(*row, [](double x) { return std::isfinite(x); }))
                throw error(errc::invalid_format, "does not hold finite numbers", {.path = path});
        }
        if (!std::ranges::all_of(scale.deviations_, [](double x) { return x > 0; }))
            throw error(errc::invalid_format, "has a deviation that is not positive", {.path = path});
        return scale;
    }
    /// Writes the file in one durable step.
    void write(const std::filesystem::path& path) const {
        const std::array<std::uint64_t, 2> shape{2, means_.size()};
        atomic_write_file(path, [&](sequential_writer& out) {
            out.append(format_npy_header(npy_dtype::f64, shape));
            out.append(std::as_bytes(std::span(means_)));
            out.append(std::as_bytes(std::span(deviations_)));
        });
    }
    /// Returns a value of a column, standardized; without a scale it stays.
    [[nodiscard]] double operator()(std::size_t column, double value) const noexcept {
        return means_.empty() ? value : (value - means_[column]) / deviations_[column];
    }
    /// True if rows stay as they are.
    [[nodiscard]] bool empty() const noexcept { return means_.empty(); }

private:
    std::vector<double> means_, deviations_;
};

} // namespace gneiss::importing
