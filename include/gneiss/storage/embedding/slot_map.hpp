// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Which disk slot holds which partition, such that a crash never loses the last committed version.
///
/// A row file has `partitions + spare` slots. A write goes to a slot that the last commit does not name; a commit makes
/// the current slots the committed ones and frees the rest. So after a crash every committed slot is whole.
/// Integers only: the bytes are moved by `partition_buffer`, the commit is made durable by `checkpoint`.
/// Not thread-safe. All calls O(1) but `commit`, O(partitions).
class slot_map {
public:
    /// Partition i starts in slot i; nothing is committed yet, so first versions are written in place.
    slot_map(std::uint32_t partitions, std::uint32_t spare) : current_(partitions), written_(partitions, true) {
        for (std::uint32_t i = 0; i < partitions; ++i) current_[i] = disk_slot{i};
        committed_ = current_;
        for (std::uint32_t i = spare; i-- > 0;) free_.push_back(disk_slot{partitions + i});
        slots_ = partitions + spare;
    }

    /// Takes up a committed assignment again. Throws errc::corrupt when two partitions share a slot.
    slot_map(std::span<const disk_slot> committed, std::uint32_t slots)
        : current_(committed.begin(), committed.end()), committed_(current_), written_(current_.size(), false),
          slots_(slots) {
        std::vector<bool> taken(slots, false);
        for (const disk_slot slot : current_) {
            if (slot.value() >= slots || taken[slot.value()])
                throw error(errc::corrupt, "disk slot " + std::to_string(slot.value()) + " is named twice or absent");
            taken[slot.value()] = true;
        }
        for (std::uint32_t i = slots; i-- > 0;)
            if (!taken[i]) free_.push_back(disk_slot{i});
    }

    [[nodiscard]] std::uint32_t partitions() const noexcept { return static_cast<std::uint32_t>(current_.size()); }
    [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
    /// Where the newest written version of `p` is.
    [[nodiscard]] disk_slot current(partition_id p) const noexcept { return current_[p]; }
    [[nodiscard]] std::span<const disk_slot> all_current() const noexcept { return current_; }

    /// A slot for the next version of `p`: its own when the last commit does not name it, else a free one.
    ///
    /// Empty when only `reserve` free slots are left: commit first. From here on the slot's content is undefined until
    /// `finish_write`; the committed version stays whole.
    [[nodiscard]] std::optional<disk_slot> begin_write(partition_id p, std::uint32_t reserve = 0) {
        if (written_[p]) return current_[p];
        if (free_.size() <= reserve) return std::nullopt;
        const disk_slot slot = free_.back();
        free_.pop_back();
        return slot;
    }
    /// The write of `p` to `slot`, which `begin_write` gave, is complete.
    void finish_write(partition_id p, disk_slot slot) noexcept {
        current_[p] = slot;
        written_[p] = true;
    }
    /// The write of `p` to `slot` failed: a slot that was free is free again.
    void abandon_write(partition_id p, disk_slot slot) {
        if (current_[p] != slot) free_.push_back(slot);
    }

    /// The current slots are durable and named by the new generation; what the last one named is free.
    void commit() {
        for (partition_id p = 0; p < partitions(); ++p) {
            if (committed_[p] != current_[p]) free_.push_back(committed_[p]);
            written_[p] = false;
        }
        committed_ = current_;
    }

private:
    std::vector<disk_slot> current_;
    std::vector<disk_slot> committed_;
    std::vector<bool> written_; // since the last commit: the slot may be written again
    std::vector<disk_slot> free_;
    std::uint32_t slots_ = 0;
};

} // namespace gneiss
