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

/// Assignment of partitions to disk slots that never loses the last committed version in a crash.
///
/// An embedding file has `partitions + spare` slots. A write goes to a slot that the last commit does not name; a
/// commit makes the current slots the committed ones and frees the rest. So after a crash every committed slot is
/// whole. Integers only: `partition_buffer` moves the bytes, `checkpoint` makes the commit durable.
/// Not thread-safe. All calls O(1), except `commit`, O(partitions).
class slot_map {
public:
    // Partitions and slots of these calls exist, which is not checked: `embedding_file` does.

    /// Assigns slot i to partition i; without a commit, first versions are written in place.
    slot_map(std::uint32_t partitions, std::uint32_t spare) : current_(partitions), written_(partitions, true) {
        for (std::uint32_t i = 0; i < partitions; ++i) current_[i] = disk_slot{i};
        committed_ = current_;
        for (std::uint32_t i = spare; i-- > 0;) free_.push_back(disk_slot{partitions + i});
        slots_ = partitions + spare;
    }

    /// Restores a committed assignment. Throws errc::corrupt if two partitions share a slot.
    slot_map(std::span<const disk_slot> committed, std::uint32_t slots)
        : current_(committed.begin(), committed.end()),
          committed_(current_),
          written_(current_.size(), false),
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

    /// Returns the number of partitions.
    [[nodiscard]] std::uint32_t partitions() const noexcept { return static_cast<std::uint32_t>(current_.size()); }
    /// Returns the number of disk slots.
    [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
    /// Returns the slot of the newest written version of `p`.
    [[nodiscard]] disk_slot current(partition_id p) const noexcept { return current_[p]; }
    /// Returns the slot of each partition's newest version.
    [[nodiscard]] std::span<const disk_slot> all_current() const noexcept { return current_; }

    /// Returns a slot for the next version of `p`: its own if the last commit does not name it, else a free one.
    ///
    /// Empty if only `reserve` free slots are left: commit first. The slot's content is undefined until `finish_write`;
    /// the committed version stays whole.
    [[nodiscard]] std::optional<disk_slot> begin_write(partition_id p, std::uint32_t reserve = 0) {
        if (written_[p]) return current_[p];
        if (free_.size() <= reserve) return std::nullopt;
        const disk_slot slot = free_.back();
        free_.pop_back();
        return slot;
    }
    /// Records that the write of `p` to `slot`, from `begin_write`, is complete.
    void finish_write(partition_id p, disk_slot slot) noexcept {
        current_[p] = slot;
        written_[p] = true;
    }
    /// Records that the write of `p` to `slot` failed: a free slot is free again.
    void abandon_write(partition_id p, disk_slot slot) {
        if (current_[p] != slot) free_.push_back(slot);
    }

    /// Makes the current slots, now durable and named by the new generation, the committed ones; frees those of the
    /// last commit.
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
    std::vector<bool> written_; // since the last commit: the slot may be rewritten
    std::vector<disk_slot> free_;
    std::uint32_t slots_ = 0;
};

} // namespace gneiss
