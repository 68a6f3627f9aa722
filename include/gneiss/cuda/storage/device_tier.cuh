// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/storage/concepts.cuh>
#include <gneiss/cuda/storage/copy_rows.cuh>
#include <gneiss/storage/feature/row_slots.hpp>
#include <gneiss/storage/feature/row_source.hpp>

namespace gneiss::cuda {

/// The device tier of a feature store: some rows of a host source in slots of device memory. As for `cached_rows`, the
/// caller decides which: once by a ranking, or batch by batch by change sets.
///
///     device_tier<float, any_row_source> tier(store, slots, kind, batch_rows, executor, budget);
///     tier.fill(policy.initial(), {}, compute);
///     for (each batch) {
///         tier.gather(ids, rows, compute);          // on the device, in the order of ids
///         … kernels of `compute` …
///         policy.next(ids, changes);
///         tier.apply(changes, ids, rows, compute);
///     }
///
/// The host tracks the contents; the device gets positions. Missing rows are gathered from below into pinned memory and
/// cross the bus concurrently with the kernels of earlier batches; one kernel assembles the batch from both. With
/// `stages` transfers in flight, the host can be that many batches ahead.
///
/// Cost of a gather: a lookup per id, the misses of the source below, 4 bytes per id and the rows of misses over the
/// bus, and a row read and written on the device per id. Memory: `device_bytes` on the device, `pinned_bytes` pinned,
/// and the slot table on the host, charged to the budget; 8 bytes per id of the largest batch. Errors: those of
/// `device_row_source`; errc::invalid_argument for an inapplicable change, which, like a failed `fill`, leaves it
/// empty. Thread-safety: one call at a time; all with the same or ordered streams.
/// Source: Ginex (VLDB'22), section 3.3; static: PaGraph (SoCC'20).
template <storage T, row_source Below>
class device_tier {
public:
    /// \param capacity    maximum number of rows; 0: it only passes rows on
    /// \param batch_rows  maximum ids of a gather
    /// Precondition: source, executor and budget outlive this. Throws `over_budget`, `device_error`;
    /// errc::invalid_argument if rows are not values of T.
    device_tier(Below& below, std::size_t capacity, slot_table_kind kind, std::size_t batch_rows, executor_ref executor,
        memory_budget& budget, std::size_t stages = 2)
        : below_(below),
          columns_(detail::columns_of<T>(below)),
          capacity_(static_cast<std::size_t>(std::min<std::uint64_t>(capacity, below.rows()))),
          batch_rows_(std::max<std::size_t>(batch_rows, 1)),
          executor_(executor),
          charge_(budget.charge(need(below.rows(), capacity_, kind))),
          held_(below.rows(), capacity_, kind),
          memory_(budget, "rows on the device", capacity_ * stride()),
          bus_(budget, "rows on their way to the device", stages, pinned_bytes(columns_, batch_rows_, 1)) {}
    device_tier(const device_tier&) = delete;
    device_tier& operator=(const device_tier&) = delete;

    /// Returns the host memory of a tier, in addition to pinned memory.
    [[nodiscard]] static memory_need need(std::uint64_t rows, std::size_t capacity, slot_table_kind kind) {
        return {"slots of rows on the device", slot_table::bytes_needed(rows, capacity, kind)};
    }
    /// Returns the pinned memory of a tier; it needs the same size again on the device.
    [[nodiscard]] static constexpr std::uint64_t pinned_bytes(
        std::size_t columns, std::size_t batch_rows, std::size_t stages) noexcept {
        return stages *
            (transfer_slot::array_bytes(1, sizeof(std::uint32_t)) +
                transfer_slot::array_bytes(batch_rows, sizeof(std::uint32_t)) +
                transfer_slot::array_bytes(batch_rows * detail::aligned_stride<T>(columns), sizeof(T)));
    }
    /// Returns the device memory of a tier [bytes].
    [[nodiscard]] static constexpr std::uint64_t device_bytes(
        std::size_t columns, std::size_t capacity, std::size_t batch_rows, std::size_t stages) noexcept {
        return capacity * detail::aligned_stride<T>(columns) * sizeof(T) + pinned_bytes(columns, batch_rows, stages);
    }

    [[nodiscard]] std::uint64_t rows() const { return below_.rows(); }
    /// Returns the number of values of a row.
    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::size_t held() const noexcept { return held_.held(); } ///< rows in slots
    [[nodiscard]] bool holds(node_id id) const noexcept { return held_.holds(id); }

    /// out[i] = row ids[i]; out [at least ids, columns].
    void gather(std::span<const node_id> ids, rows_view<T> out, stream& in) {
        detail::check_batch(ids, rows(), batch_rows_);
        if (ids.empty()) return;
        slot_of_.resize(ids.size());
        held_.find(ids, slot_of_, executor_);
        misses_.clear();
        transfer_slot& bus = bus_.next();
        const auto count = put_count(bus, ids.size());
        const auto places = bus.room<std::uint32_t>(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            places.host[i] =
                slot_of_[i] != no_slot ? slot_of_[i] : static_cast<std::uint32_t>(capacity_ + misses_.size());
            if (slot_of_[i] == no_slot) misses_.push_back(ids[i]);
        }
        const auto missing = read(bus, misses_);
        copy_in(bus, in, [&] {
            assemble_rows<T>(in, count.device, static_cast<std::uint32_t>(ids.size()), places.device, slot_rows(),
                static_cast<std::uint32_t>(capacity_), rows_of(missing.device), out);
        });
        statistics_.gathered.rows += ids.size();
        statistics_.gathered.hits += ids.size() - misses_.size();
    }

    /// Reads rows from below into slots: `in` takes the slots of `out`, then free ones. Rows that stay are not reread.
    void fill(std::span<const node_id> in, std::span<const node_id> out, stream& stream) {
        or_empty([&] {
            held_.assign(in, out, slot_of_);
            for (std::size_t at = 0; at < in.size(); at += batch_rows_) {
                const std::size_t size = std::min(batch_rows_, in.size() - at);
                transfer_slot& bus = bus_.next();
                const auto count = put_count(bus, size);
                const auto to = bus.put(std::span<const cache_slot>(slot_of_).subspan(at, size));
                const auto from = read(bus, in.subspan(at, size));
                update(bus, stream, count, nullptr, to, rows_of(from.device));
            }
        });
    }

    /// Applies the change after the batch `ids` was gathered into `gathered`, in `stream`: in[i] is its row
    /// in_position[i].
    void apply(const change_set& changes, std::span<const node_id> ids, rows_view<const T> gathered, stream& stream) {
        or_empty([&] {
            if (changes.in.size() > batch_rows_) throw row_slots::refused("brings more rows than a batch has");
            held_.assign(changes, ids, slot_of_);
            if (changes.in.empty()) return;
            transfer_slot& bus = bus_.next();
            const auto count = put_count(bus, changes.in.size());
            const auto from = bus.put(std::span<const std::uint32_t>(changes.in_position));
            const auto to = bus.put(std::span<const cache_slot>(slot_of_));
            update(bus, stream, count, from.device, to, gathered);
        });
    }

    /// Returns rows and hits of this tier, I/O below it, and bus traffic.
    [[nodiscard]] device_gather_stats statistics() const {
        device_gather_stats all{below_.statistics(), statistics_.bus_bytes};
        all.gathered.rows = statistics_.gathered.rows;
        all.gathered.hits = statistics_.gathered.hits;
        return all;
    }

private:
    using number = transferred<std::uint32_t>;

    [[nodiscard]] std::size_t stride() const noexcept { return detail::aligned_stride<T>(columns_); }
    template <class U>
    [[nodiscard]] rows_view<U> rows_of(U* data) const noexcept {
        return {data, columns_, stride()};
    }
    [[nodiscard]] rows_view<T> slot_rows() noexcept { return rows_of(memory_.data()); }

    static number put_count(transfer_slot& bus, std::size_t count) {
        const auto number = bus.room<std::uint32_t>(1);
        number.host[0] = static_cast<std::uint32_t>(count);
        return number;
    }
    /// Reads rows from below into pinned memory.
    transferred<T> read(transfer_slot& bus, std::span<const node_id> ids) {
        const auto to = bus.room<T>(ids.size() * stride());
        if (!ids.empty()) below_.gather(ids, {reinterpret_cast<std::byte*>(to.host.data()), stride() * sizeof(T)});
        return to;
    }
    template <class Work>
    void copy_in(transfer_slot& bus, stream& in, const Work& work) {
        bus.copy_in(bus_.copies());
        bus.ready(in);
        work();
        bus.done(in);
        statistics_.bus_bytes += bus.copied_bytes();
    }
    void update(transfer_slot& bus, stream& in, const number& count, const std::uint32_t* from, const number& to,
        rows_view<const T> gathered) {
        copy_in(bus, in, [&] {
            update_slots<T>(
                in, count.device, static_cast<std::uint32_t>(to.size()), from, to.device, gathered, slot_rows());
        });
    }
    template <class Change>
    void or_empty(const Change& change) {
        try {
            change();
        } catch (...) {
            held_.clear();
            throw;
        }
    }

    Below& below_;
    std::size_t columns_, capacity_, batch_rows_;
    executor_ref executor_;
    memory_charge charge_;
    row_slots held_;
    device_buffer<T> memory_; // [slots, stride]
    transfer_stage bus_;      // per batch: count, places, missing rows
    std::vector<cache_slot> slot_of_;
    std::vector<node_id> misses_;
    device_gather_stats statistics_;
};

static_assert(device_row_source<device_tier<float, any_row_source>, float>);

} // namespace gneiss::cuda
