// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <gneiss/train/history_options.hpp>

namespace gneiss {

/// A device that keeps histories: batches that it computes push their rows there, and read those of their halo, as
/// batches of the CPU do by `histories`. Its backend reads `training_batch::inside` and `macro_batch`.
class history_device {
public:
    history_device() = default;
    history_device(const history_device&) = delete;
    history_device& operator=(const history_device&) = delete;
    virtual ~history_device() = default;

    [[nodiscard]] virtual const history_options& options() const noexcept = 0;
    /// Returns the counts of all batches whose results are on the host. One thread.
    [[nodiscard]] virtual history_counts counts() const = 0;
    /// Writes all rows to a file, as `histories::save`, or reads them as `histories::load`, with their errors and those
    /// of the device; when no batch is computed.
    virtual void save(const std::filesystem::path& to) const = 0;
    virtual void load(const std::filesystem::path& from) = 0;
};

} // namespace gneiss
