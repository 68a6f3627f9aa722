// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/storage/feature/row_source.hpp>

namespace gneiss {

/// Which row lies in which slot of a cache, as change sets say: the integers of caches whose rows lie in host memory or on a
/// device. Slots in use are always the first ones.
///
/// Memory: `slot_table::bytes_needed`. Thread-safety: one call at a time.
class row_slots {
public:
    /// For rows below `rows`, at most `slots` of them at a time.
    row_slots(std::uint64_t rows, std::size_t slots, slot_table_kind kind) : rows_(rows), slots_(slots), table_(rows, slots, kind) {}

    [[nodiscard]] std::size_t slots() const noexcept { return slots_; }
    [[nodiscard]] std::size_t held() const noexcept { return held_; } ///< rows in the cache
    [[nodiscard]] bool holds(node_id id) const noexcept { return table_.find(id) != no_slot; }

    /// slot_of[i] = slot of ids[i], or `no_slot`. Precondition: the ids are rows. O(ids), shared by threads.
    void find(std::span<const node_id> ids, std::span<cache_slot> slot_of, executor_ref executor) const {
        constexpr std::size_t grain = 8192;
        parallel_for(executor, ids.size(), grain, [&](std::size_t i, std::size_t end) {
            table_.find(ids.subspan(i, end - i), slot_of.subspan(i, end - i));
        });
    }

    /// slot_of[i] = the slot that in[i] gets: that of out[i], then free ones. O(in).
    /// Throws errc::out_of_range for what is no row; errc::invalid_argument for more rows than fit, for one in `in` that is
    /// here or given twice, and for one in `out` that is not here. What is held is unknown then: `clear`.
    void assign(std::span<const node_id> in, std::span<const node_id> out, std::vector<cache_slot>& slot_of) {
        check_rows(in, rows_);
        check_rows(out, rows_);
        slot_of.clear();
        if (out.size() > in.size() || in.size() - out.size() > slots_ - held_) throw refused("brings more rows than there are slots");
        for (const node_id id : out) {
            slot_of.push_back(table_.erase(id));
            if (slot_of.back() == no_slot) throw refused("takes out a row that is not here");
        }
        while (slot_of.size() < in.size()) slot_of.push_back(static_cast<cache_slot>(held_++));
        for (std::size_t i = 0; i < in.size(); ++i) {
            if (holds(in[i])) throw refused("brings a row that is here");
            table_.insert(in[i], slot_of[i]);
        }
    }
    /// The same of a change set after the batch `ids`. Throws errc::invalid_argument also where in_position does not lead to the
    /// rows of `in`: the rows of others would go into their slots.
    void assign(const change_set& changes, std::span<const node_id> ids, std::vector<cache_slot>& slot_of) {
        if (changes.in_position.size() != changes.in.size()) throw refused("has a row without its position");
        check_rows(changes.in, rows_);
        for (std::size_t i = 0; i < changes.in.size(); ++i) {
            const std::uint32_t at = changes.in_position[i];
            if (at < ids.size() && ids[at] == changes.in[i]) continue;
            throw refused("takes row " + std::to_string(changes.in[i]) + " from position " + std::to_string(at) +
                          (at < ids.size() ? " of the batch, where row " + std::to_string(ids[at]) + " is"
                                           : " of a batch of " + std::to_string(ids.size())));
        }
        assign(changes.in, changes.out, slot_of);
    }
    void clear() noexcept {
        held_ = 0;
        table_.clear();
    }

    /// What is wrong with a change, as an error.
    [[nodiscard]] static error refused(const std::string& what) {
        return {errc::invalid_argument, "a change of cached rows " + what};
    }

private:
    std::uint64_t rows_;
    std::size_t slots_;
    slot_table table_;
    std::size_t held_ = 0; // slots in use: the first ones
};

} // namespace gneiss
