// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/macro_batch_border.hpp>
#include <gneiss/storage/embedding/history_file.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/history_options.hpp>

namespace gneiss {

/// The records of histories in a file that the macro-batch in training needs, in memory: those of its partitions, and
/// of its halo. Between two macro-batches the one is written, and the other is read. The halo, which `expect` named, is
/// read ahead, but for its records in partitions that an earlier macro-batch is still to write.
///
///     history_window window(store, layers, options);
///     window.expect(epoch, state, halo, inside); // in the order of training, some macro-batches ahead
///     window.enter(epoch, state, inside.resident());
///     use(window.record(v), window.halo_record(u));
///     window.pushed(v);                          // the partition of v will be written
///     save(window.flush());
///
/// A record has `lead` bytes, then what `history_record_bytes` says. Memory: `need`, which the caller charges.
/// Thread-safety: `expect` and `io` by any thread; the rest by one. Errors: those of `history_file`; of `enter`
/// over_budget for a macro-batch of more nodes than the store allows, errc::invalid_argument for one that was not
/// expected.
class history_window {
public:
    static constexpr std::size_t lead = history_file::checksum_bytes; ///< begins a record

    /// Starts with a new file, or the versions of a checkpoint.
    history_window(const history_store& store, std::span<const hidden_rows> layers, const history_options& options)
        : store_(store),
          record_(history_record_bytes(layers, options.type, lead)),
          sizes_(store.partitions, 0),
          starts_(store.partitions, 0) {
        places_.resize(store.parts.size());
        for (std::size_t v = 0; v < places_.size(); ++v)
            places_[v] = static_cast<std::uint32_t>(sizes_.at(store.parts[v])++);
        if (store.versions)
            file_.emplace(store.path, sizes_, record_, *store.versions);
        else
            file_.emplace(store.path, sizes_, record_);
        inside_ = aligned_buffer<std::byte, 64>(static_cast<std::size_t>(store.most_inside) * record_);
        for (auto* halo : {&halo_, &ahead_})
            *halo = aligned_buffer<std::byte, 64>(static_cast<std::size_t>(store.most_halo) * record_);
    }

    /// Returns the memory of a window.
    [[nodiscard]] static memory_need need(
        const history_store& store, std::span<const hidden_rows> layers, const history_options& options) {
        return {"histories",
            (store.most_inside + 2 * store.most_halo) * history_record_bytes(layers, options.type, lead) +
                store.parts.size() * sizeof(std::uint32_t) + 4 * store.most_halo * sizeof(node_id)};
    }
    /// Returns the disk space of its file for `nodes` nodes.
    [[nodiscard]] static std::uint64_t file_bytes(
        std::uint64_t nodes, std::span<const hidden_rows> layers, const history_options& options) {
        return history_file::bytes(nodes, history_record_bytes(layers, options.type, lead));
    }

    /// Names the nodes of the halo of a macro-batch, by epoch and state, in the order of training, before it is
    /// entered; reads ahead what it can.
    /// \param inside  has entered the macro-batch
    void expect(std::uint64_t epoch, std::uint32_t state, std::vector<node_id> halo, const macro_batch_border& inside) {
        std::ranges::sort(halo);
        const std::scoped_lock lock(mutex_);
        coming next{
            .halo = std::move(halo), .inside = inside.resident(), .waits = std::vector<bool>(sizes_.size(), false)};
        for (const partition_id p : resident_) next.waits[p] = true;
        bool free = next.halo.size() <= store_.most_halo;
        expected_.erase({epoch, state});
        for (const auto& [key, other] : expected_) {
            for (const partition_id p : other.inside) next.waits[p] = true;
            free = free && !other.ahead;
        }
        if (free) {
            read_halo(next.halo, ahead_, [&](partition_id p) { return !next.waits[p]; });
            next.ahead = true;
        }
        expected_.emplace(std::pair(epoch, state), std::move(next));
    }
    /// Exchanges the partitions and the halo in memory.
    /// \param inside  partitions of the macro-batch
    void enter(std::uint64_t epoch, std::uint32_t state, std::vector<partition_id> inside) {
        const std::scoped_lock lock(mutex_);
        write_back();
        std::ranges::sort(inside);
        resident_ = std::move(inside);
        count_ = 0;
        for (const partition_id p : resident_) {
            starts_.at(p) = count_;
            count_ += sizes_[p];
        }
        const auto found = expected_.find({epoch, state});
        if (found == expected_.end())
            throw error(errc::invalid_argument, "the halo of a macro-batch is not known to its histories");
        const coming next = std::move(found->second);
        expected_.erase(expected_.begin(), std::next(found));
        halo_ids_ = next.halo;
        for (const auto& [what, nodes, most] : {std::tuple("", count_, store_.most_inside),
                 std::tuple(", halo", std::uint64_t{halo_ids_.size()}, store_.most_halo)})
            if (nodes > most)
                throw over_budget(
                    most * record_, {{"histories of macro-batch " + std::to_string(state) + what, nodes * record_}});
        for (const partition_id p : resident_) file_->read(p, records_of(p));
        if (next.ahead) std::swap(halo_, ahead_);
        read_halo(halo_ids_, halo_, [&](partition_id p) { return !next.ahead || next.waits[p]; });
    }

    /// Returns the record of a node inside of the macro-batch. Precondition, not checked: it is.
    [[nodiscard]] std::byte* record(node_id v) noexcept { return inside_.data() + number_inside(v) * record_; }
    /// Returns the record of a node of its halo. Throws errc::invalid_argument for another node.
    [[nodiscard]] std::byte* halo_record(node_id v) { return halo_.data() + number_in_halo(v) * record_; }
    /// Returns the number of a node among those inside, by partition and id, less than `most_inside`. Precondition, not
    /// checked: it is inside.
    [[nodiscard]] std::size_t number_inside(node_id v) const noexcept {
        return static_cast<std::size_t>(starts_[store_.parts[v]] + places_[v]);
    }
    /// Returns the number of a node in the halo, by id, less than `most_halo`. Throws as above.
    [[nodiscard]] std::size_t number_in_halo(node_id v) const {
        const auto found = std::ranges::lower_bound(halo_ids_, v);
        if (found == halo_ids_.end() || *found != v)
            throw error(errc::invalid_argument, "node " + std::to_string(v) + " is not in the halo of its macro-batch");
        return static_cast<std::size_t>(found - halo_ids_.begin());
    }
    /// Calls visit(v, number) for each node inside, by ascending ids. O(nodes).
    template <class Visit>
    void for_each_inside(Visit&& visit) const {
        std::vector<bool> inside(sizes_.size(), false);
        for (const partition_id p : resident_) inside[p] = true;
        for (std::size_t v = 0; v < places_.size(); ++v)
            if (inside[store_.parts[v]]) visit(static_cast<node_id>(v), number_inside(static_cast<node_id>(v)));
    }
    /// Returns all records inside, by these numbers.
    [[nodiscard]] std::span<std::byte> records() noexcept {
        return {inside_.data(), static_cast<std::size_t>(count_) * record_};
    }
    /// Returns all records of the halo.
    [[nodiscard]] std::span<std::byte> halo_records() noexcept { return {halo_.data(), halo_ids_.size() * record_}; }
    /// Returns the nodes of the halo, ascending.
    [[nodiscard]] std::span<const node_id> halo() const noexcept { return halo_ids_; }
    /// Notes that the record of a node inside changed: its partition is written before another macro-batch is entered.
    void pushed(node_id v) noexcept { pushed_[store_.parts[v]] = true; }
    /// Notes that all of them may have changed.
    void all_pushed() { pushed_.assign(sizes_.size(), true); }

    /// Makes all records durable, and returns the versions that a checkpoint keeps; it is durable before the next
    /// record changes.
    [[nodiscard]] std::string flush() {
        const std::scoped_lock lock(mutex_);
        write_back();
        note_io();
        return file_->flush();
    }
    /// Returns the I/O of the file so far.
    [[nodiscard]] io_stats io() const {
        const std::scoped_lock lock(io_mutex_);
        return io_;
    }

private:
    /// A macro-batch that will be entered.
    struct coming {
        std::vector<node_id> halo; // ascending
        std::vector<partition_id> inside;
        std::vector<bool> waits; // [partitions] whose records may still be written
        bool ahead = false;      // the records of the others are in `ahead_`
    };

    [[nodiscard]] std::span<std::byte> records_of(partition_id p) noexcept {
        return {inside_.data() + starts_[p] * record_, static_cast<std::size_t>(sizes_[p]) * record_};
    }
    /// Writes the partitions that were pushed to.
    void write_back() {
        for (const partition_id p : resident_)
            if (pushed_[p]) file_->write(p, records_of(p));
        pushed_.assign(sizes_.size(), false);
    }
    /// Reads the records of a halo in the partitions for which `reads` is true.
    template <class Reads>
    void read_halo(std::span<const node_id> halo, aligned_buffer<std::byte, 64>& to, const Reads& reads) {
        std::vector<std::vector<std::uint32_t>> by_partition(sizes_.size()); // numbers in the halo
        for (std::size_t i = 0; i < halo.size(); ++i)
            if (const partition_id p = store_.parts[halo[i]]; reads(p))
                by_partition[p].push_back(static_cast<std::uint32_t>(i));
        std::vector<std::uint32_t> some;
        std::vector<std::byte> records;
        constexpr std::size_t at_once = 256;
        for (partition_id p = 0; p < sizes_.size(); ++p) {
            const std::vector<std::uint32_t>& all = by_partition[p]; // ids ascend, and so do places
            for (std::size_t first = 0; first < all.size(); first += at_once) {
                const auto part = std::span(all).subspan(first, std::min(at_once, all.size() - first));
                some.clear();
                for (const std::uint32_t i : part) some.push_back(places_[halo[i]]);
                records.resize(part.size() * record_);
                file_->read(p, some, records);
                for (std::size_t k = 0; k < part.size(); ++k)
                    std::memcpy(to.data() + part[k] * record_, records.data() + k * record_, record_);
            }
        }
        note_io();
    }
    void note_io() {
        const std::scoped_lock lock(io_mutex_);
        io_ = file_->statistics();
    }

    history_store store_;
    std::size_t record_;                        // bytes
    std::vector<std::uint64_t> sizes_, starts_; // [partitions] nodes; first record in memory
    std::vector<std::uint32_t> places_;         // [nodes] in their partition
    std::optional<history_file> file_;
    std::vector<partition_id> resident_;
    std::uint64_t count_ = 0;       // of nodes inside
    std::vector<bool> pushed_;      // [partitions] since they were read
    std::vector<node_id> halo_ids_; // ascending
    aligned_buffer<std::byte, 64> inside_, halo_, ahead_;
    std::mutex mutex_; // guards the file, its partitions in memory, and records ahead
    std::map<std::pair<std::uint64_t, std::uint32_t>, coming> expected_;
    mutable std::mutex io_mutex_;
    io_stats io_;
};

} // namespace gneiss
