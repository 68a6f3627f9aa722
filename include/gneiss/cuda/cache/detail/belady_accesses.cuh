// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda/atomic>

#include <cstddef>
#include <cstdint>
#include <limits>

#include <gneiss/core/types.hpp>

// Effects of Belady's rule on each access of a trace: functions of one access, for any number of threads, on a device
// or a host. Access a is a row of batch b, its *list*; the row enters with its previous access, and access a is a hit
// if the row stays until then.
namespace gneiss::cuda::detail {

inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

/// Increments a count shared by several threads.
GNEISS_HD inline void add_one(std::uint32_t* at) {
    ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device>(*at).fetch_add(1, ::cuda::std::memory_order_relaxed);
}

/// True if a row is among ascending ones.
[[nodiscard]] GNEISS_HD inline bool is_among(const node_id* ascending, std::size_t size, node_id id) {
    std::size_t low = 0;
    for (std::size_t high = size; low < high;) {
        const std::size_t middle = (low + high) / 2;
        if (ascending[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < size && ascending[low] == id;
}

/// A trace, and the state of each access. Pointers to memory of the caller.
struct belady_accesses {
    static constexpr std::uint32_t stays = none;      ///< value of `left`: until it is used
    static constexpr std::uint32_t absent = none - 1; ///< absent at the first use of its row
    enum flag : std::uint8_t { used_again = 1, goes_in = 2, filled = 4, carried_over = 8 };
    enum class kind { elsewhere, incoming, resident };

    std::uint32_t batches = 0;
    const std::uint32_t* starts = nullptr; ///< [batches + 1]
    const node_id* ids = nullptr;          ///< [accesses]
    const std::uint32_t* before = nullptr; ///< [accesses] the previous access of the same row, or none
    const std::uint32_t* order = nullptr;  ///< [accesses] each batch in order of ids
    const std::uint32_t* least = nullptr;  ///< `belady_counts::least_cuts`
    std::uint32_t* left = nullptr;         ///< [accesses] the batch after which the row left before this use
    std::uint8_t* flags = nullptr;         ///< [accesses]

    [[nodiscard]] GNEISS_HD std::uint32_t batch_of(std::uint32_t access) const {
        std::uint32_t low = 0;
        for (std::uint32_t high = batches - 1; low < high;) {
            const std::uint32_t middle = (low + high) / 2;
            if (starts[middle + 1] > access)
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }
    [[nodiscard]] GNEISS_HD bool hit(std::uint32_t access) const { return left[access] == stays; }

    /// Returns the first batch of [from, list) after which all rows of a list leave; `stays` if there is none.
    [[nodiscard]] GNEISS_HD std::uint32_t first_cut(std::uint32_t from, std::uint32_t list) const {
        std::uint32_t level = 0;
        while ((std::uint64_t{2} << level) <= list - from) ++level;
        for (++level; level-- > 0;)
            if ((std::uint64_t{1} << level) <= list - from && least[std::size_t{level} * batches + from] > list)
                from += std::uint32_t{1} << level;
        return from < list ? from : stays;
    }
    /// Returns the kind of an access for a cut of its list after batch `now`.
    [[nodiscard]] GNEISS_HD kind kind_at(std::uint32_t access, std::uint32_t now) const {
        if (left[access] == absent || left[access] < now) return kind::elsewhere;
        return kind_of_left(access, now);
    }
    /// Returns the kind of an access that leaves then.
    [[nodiscard]] GNEISS_HD kind kind_of_left(std::uint32_t access, std::uint32_t now) const {
        const std::uint32_t previous = before[access];
        if (previous == none) return kind::resident;
        const std::uint32_t came = batch_of(previous);
        if (came != now) return came < now ? kind::resident : kind::elsewhere;
        return hit(previous) ? kind::resident : kind::incoming;
    }
};

/// Links accesses, by id, then access, and counts first ones by batch: those of carried-over rows, and others.
struct link_accesses {
    belady_accesses all;
    const std::uint32_t* by_id;
    const node_id* ids;
    const node_id* carried;
    std::size_t carried_rows;
    std::uint32_t *before, *first_carried, *first_others;

    GNEISS_HD void operator()(std::uint64_t i) const {
        const std::uint32_t access = by_id[i];
        const bool first = i == 0 || ids[i - 1] != ids[i];
        before[access] = first ? none : by_id[i - 1];
        if (!first) return;
        const bool here = is_among(carried, carried_rows, ids[i]);
        if (here) all.flags[access] = belady_accesses::carried_over;
        add_one((here ? first_carried : first_others) + all.batch_of(access));
    }
};

/// counts[p − from, b] of the rows of batches p in [from, end) that batch b uses next.
struct count_next_uses {
    belady_accesses all;
    const std::uint32_t* by_id;
    std::uint32_t from, end;
    std::uint32_t* counts;

    GNEISS_HD void operator()(std::uint64_t i) const {
        const std::uint32_t access = by_id[i], previous = all.before[access];
        if (previous == none || previous < all.starts[from] || previous >= all.starts[end]) return;
        add_one(counts + std::size_t{all.batch_of(previous) - from} * all.batches + all.batch_of(access));
    }
};

/// Determines which accesses find their row resident, considering only whole lists. First accesses of batches before
/// `filled_until` are filled, as are marked ones.
struct begin_accesses {
    belady_accesses all;
    std::uint32_t filled_until;

    GNEISS_HD void operator()(std::uint64_t i) const {
        const auto access = static_cast<std::uint32_t>(i);
        const std::uint32_t list = all.batch_of(access), previous = all.before[access];
        if (previous != none) {
            all.left[access] = all.first_cut(all.batch_of(previous), list);
            return;
        }
        if (list < filled_until && all.flags[access] == 0) all.flags[access] = belady_accesses::filled;
        all.left[access] = all.flags[access] != 0 ? all.first_cut(0, list) : belady_accesses::absent;
    }
};

/// Counts kinds for the i-th access of a list by id: residents in the upper half, incoming ones in the lower.
struct count_kinds {
    belady_accesses all;
    std::uint32_t list, now;

    [[nodiscard]] GNEISS_HD std::uint64_t operator()(std::uint32_t i) const {
        const auto kind = all.kind_at(all.order[all.starts[list] + i], now);
        return kind == belady_accesses::kind::resident ? std::uint64_t{1} << 32
            : kind == belady_accesses::kind::incoming  ? 1
                                                       : 0;
    }
};
/// Cuts a list after batch `now`: the first `kept` stay: residents first, then by id.
struct cut_list {
    belady_accesses all;
    std::uint32_t list, now, size, kept;
    const std::uint64_t* ranks; ///< inclusive sums of `count_kinds`

    GNEISS_HD void operator()(std::uint32_t i) const {
        const std::uint32_t access = all.order[all.starts[list] + i];
        const auto kind = all.kind_at(access, now);
        if (kind == belady_accesses::kind::elsewhere) return;
        const std::uint64_t rank =
            kind == belady_accesses::kind::resident ? ranks[i] >> 32 : (ranks[size - 1] >> 32) + (ranks[i] & none);
        if (rank > kept) all.left[access] = now;
    }
};

/// Sets for each access whether its row is used again, and whether it enters the cache.
struct announce_next_use {
    belady_accesses all;

    GNEISS_HD void operator()(std::uint64_t i) const {
        const auto access = static_cast<std::uint32_t>(i);
        const std::uint32_t previous = all.before[access];
        if (previous == none) return;
        const bool goes_in = !all.hit(previous) && all.left[access] != all.batch_of(previous);
        all.flags[previous] = static_cast<std::uint8_t>(
            all.flags[previous] | belady_accesses::used_again | (goes_in ? belady_accesses::goes_in : 0));
    }
};

/// Selects the accesses to write out, by kind.
struct has_flag {
    const std::uint8_t* flags;
    std::uint8_t wanted;
    [[nodiscard]] GNEISS_HD bool operator()(std::uint64_t i) const { return (flags[i] & wanted) != 0; }
};
struct is_first_of_others {
    belady_accesses all;
    [[nodiscard]] GNEISS_HD bool operator()(std::uint32_t access) const {
        return all.before[access] == none && all.flags[access] == 0;
    }
};
struct mark_filled {
    std::uint8_t* flags;
    GNEISS_HD void operator()(std::uint32_t access) const { flags[access] = belady_accesses::filled; }
};
struct leaves {
    belady_accesses all;
    [[nodiscard]] GNEISS_HD bool operator()(std::uint64_t i) const {
        const auto access = static_cast<std::uint32_t>(i);
        const std::uint32_t when = all.left[access];
        return when != belady_accesses::stays && when != belady_accesses::absent &&
            all.kind_of_left(access, when) == belady_accesses::kind::resident;
    }
};
struct hit_for_the_last_time {
    belady_accesses all;
    [[nodiscard]] GNEISS_HD bool operator()(std::uint32_t access) const {
        return all.hit(access) && (all.flags[access] & belady_accesses::used_again) == 0;
    }
};
struct is_asked_for_twice {
    belady_accesses all;
    [[nodiscard]] GNEISS_HD bool operator()(std::uint64_t i) const {
        const auto access = static_cast<std::uint32_t>(i);
        return all.before[access] != none && all.batch_of(all.before[access]) == all.batch_of(access);
    }
};
struct id_of {
    const node_id* ids;
    [[nodiscard]] GNEISS_HD node_id operator()(std::uint64_t access) const { return ids[access]; }
};
struct batch_of {
    belady_accesses all;
    [[nodiscard]] GNEISS_HD std::uint32_t operator()(std::uint32_t access) const { return all.batch_of(access); }
};
struct position_of {
    belady_accesses all;
    [[nodiscard]] GNEISS_HD std::uint32_t operator()(std::uint32_t access) const {
        return access - all.starts[all.batch_of(access)];
    }
};
/// Orders leaving rows by batch, then id.
struct leaving_key {
    belady_accesses all;
    [[nodiscard]] GNEISS_HD std::uint64_t operator()(std::uint32_t access) const {
        return (std::uint64_t{all.left[access]} << 32) | all.ids[access];
    }
};
struct key_of_batch {
    std::uint32_t batch;
    [[nodiscard]] GNEISS_HD std::uint64_t operator()(node_id id) const { return (std::uint64_t{batch} << 32) | id; }
};
struct low_half {
    [[nodiscard]] GNEISS_HD std::uint32_t operator()(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key);
    }
};
struct high_half {
    [[nodiscard]] GNEISS_HD std::uint32_t operator()(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key >> 32);
    }
};

} // namespace gneiss::cuda::detail
