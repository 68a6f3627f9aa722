// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/macro_batch_border.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/history_options.hpp>

namespace gneiss {

/// Historical activations of all nodes, wherever they are: `histories` has them on the CPU, `history_device` on a
/// device; either in memory, or in a file that has a window in memory (`history_window`).
class history_keeper {
public:
    history_keeper() = default;
    history_keeper(const history_keeper&) = delete;
    history_keeper& operator=(const history_keeper&) = delete;
    virtual ~history_keeper() = default;

    [[nodiscard]] virtual const history_options& options() const noexcept = 0;
    /// Returns the counts of all batches whose results are on the host.
    [[nodiscard]] virtual history_counts counts() const = 0;

    /// True if the rows are in a file.
    [[nodiscard]] virtual bool on_disk() const noexcept = 0;
    /// With a file: `history_window::expect`. Any thread.
    virtual void expect(
        std::uint64_t epoch, std::uint32_t state, std::vector<node_id> halo, const macro_batch_border& inside) = 0;
    /// With a file: makes all rows durable, and returns the versions that a checkpoint keeps; it is durable before the
    /// next batch is computed. No batch is computed meanwhile.
    [[nodiscard]] virtual std::string flush() = 0;
    /// Returns the I/O of the file so far. Any thread.
    [[nodiscard]] virtual io_stats io() const = 0;

    /// Writes rows in memory to a file, durably and in one step; when no batch is computed. Errors: io_error, and those
    /// of the device.
    virtual void save(const std::filesystem::path& to) const = 0;
    /// Reads rows that `save` wrote, on the CPU or on a device. Throws errc::corrupt, naming the file, for one that is
    /// cut or damaged, or of other layers; io_error. After an error before the last read the rows are as before.
    virtual void load(const std::filesystem::path& from) = 0;
};

/// Those of a device: batches that it computes push their rows there, and read those of their halo, as batches of the
/// CPU do by `histories`. Its backend reads `training_batch::inside` and `macro_batch`.
class history_device : public history_keeper {
public:
    /// If the device has room for macro-batches alone: opens the file of all rows, once, before the first batch.
    /// \param host  is charged for the window. Errors: over_budget, and those of `history_window`
    virtual void open(const history_store& store, memory_budget& host) = 0;
};

} // namespace gneiss
