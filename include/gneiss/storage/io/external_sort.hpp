// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/io/detail/radix_sort.hpp>
#include <gneiss/storage/io/detail/run_merge.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Statistics of an external sort.
struct external_sort_report {
    std::uint64_t records = 0;       ///< number of records
    std::uint64_t runs = 0;          ///< sorted runs written; 0: it fit in memory
    std::uint64_t merge_passes = 0;  ///< passes over all records before the last one, which feeds the consumer
    std::uint64_t spilled_bytes = 0; ///< records written to scratch files, merge passes included

    friend bool operator==(const external_sort_report&, const external_sort_report&) = default;
};

/// An order by one 64-bit key: `Key{}(record)`. Records with equal keys must be equal.
template <class Key>
struct by_key {
    /// Returns the key of a record.
    template <class Record>
    [[nodiscard]] constexpr std::uint64_t key(const Record& record) const noexcept {
        return Key{}(record);
    }
    /// True if `a` comes before `b`.
    template <class Record>
    [[nodiscard]] constexpr bool operator()(const Record& a, const Record& b) const noexcept {
        return Key{}(a) < Key{}(b);
    }
};

/// Sorts any number of records within a fixed amount of memory.
///
///     external_sorter<edge> sorter("scratch", 64 << 20);
///     sorter.push(edges);                                           // as often as needed
///     sorter.finish();
///     sorter.for_each_block([&](std::span<const edge> ascending) { … });
///
/// `Less` must be a strict total order: records that it does not distinguish must be equal. Then the output depends
/// only on the input set: not on the memory, the threads or the order of pushes. If `Less` has `key(record)` (see
/// `keyed_order`) runs are sorted by radix, several times faster than by comparison.
///
/// Cost: in memory, without a file, if `capacity()` records suffice; else each record is written and read once, plus
/// once per merge pass, needed beyond about memory / 128 KiB runs. Scratch space: the records' bytes, twice that while
/// merging in passes. Files are unnamed and vanish with this object, or with the process.
/// Memory: sort and merge buffers stay within `memory_bytes` (at least `minimum_memory`); from 4 MiB on, together with
/// the page cache in flight.
/// Errors: `io_error` (full disk: `out_of_space()`), `error` with errc::invalid_argument for too little memory;
/// errc::corrupt if spilled data is read back damaged: each part has a checksum that is verified before its records are
/// used. Not thread-safe. After an error only destruction is allowed.
///
/// From examples/10_external_sort.cpp:
/// \snippet 10_external_sort.cpp sort
template <class Record, class Less = std::less<>, executor E = serial_executor>
    requires std::is_trivially_copyable_v<Record>
class external_sorter {
public:
    /// Least memory [bytes].
    static constexpr std::uint64_t minimum_memory = std::max<std::uint64_t>(32 * sizeof(Record), 1024);

    /// Sorts within `memory_bytes`, with runs in `scratch_directory`.
    explicit external_sorter(
        std::filesystem::path scratch_directory, std::uint64_t memory_bytes, Less less = {}, E executor = {})
        : directory_(std::move(scratch_directory)),
          memory_(memory_bytes),
          less_(std::move(less)),
          executor_(std::move(executor)) {
        if (memory_ < minimum_memory)
            throw error(
                errc::invalid_argument, "external sort needs at least " + format_bytes(minimum_memory) + " of memory");
        piece_ = std::clamp<std::uint64_t>(memory_ / 16, std::uint64_t{256} << 10, std::uint64_t{8} << 20);
        layout_ = {detail::run_unit(memory_, sizeof(Record)), sizeof(Record)};
        capacity_ = static_cast<std::size_t>((memory_ - memory_ / 8) / (2 * sizeof(Record)));
    }

    external_sorter(const external_sorter&) = delete;
    external_sorter& operator=(const external_sorter&) = delete;

    /// Returns the most records that are sorted without a file: two buffers, the records and room to sort.
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

    /// Adds one record. Amortized O(1); sorts and spills a run when the buffer is full.
    void push(const Record& record) {
        if (filled_ == records_.size()) make_room();
        records_[filled_++] = record;
    }
    /// Adds records.
    void push(std::span<const Record> records) {
        while (!records.empty()) {
            if (filled_ == records_.size()) make_room();
            const std::size_t n = std::min(records.size(), records_.size() - filled_);
            std::memcpy(static_cast<void*>(records_.data() + filled_), records.data(), n * sizeof(Record));
            filled_ += n;
            records = records.subspan(n);
        }
    }

    /// Sorts the remaining records and merges until one pass can finish. Call once, after the last push.
    void finish() {
        if (finished_) return;
        finished_ = true;
        report_.records += filled_;
        if (runs_.empty()) {
            sort_buffer();
            scratch_ = {};
            return;
        }
        if (filled_ != 0) spill();
        out_.drop();
        records_ = {};
        scratch_ = {};
        while (runs_.size() > detail::merge_fan_in(memory_, sizeof(Record))) merge_pass();
    }

    /// Passes all records once, in ascending order, as consecutive non-empty spans that are valid during the call.
    /// Finishes first if needed; may be called once.
    template <std::invocable<std::span<const Record>> Sink>
    void for_each_block(Sink&& sink) {
        finish();
        if (runs_.empty()) {
            if (filled_ != 0) sink(std::span<const Record>(records_.data(), filled_));
            records_ = {};
            filled_ = 0;
            return;
        }
        detail::merge_runs<Record>(file_, std::span<const detail::record_run>(runs_), layout_, memory_, less_, sink);
        runs_.clear();
        filled_ = 0;
        file_ = {};
    }

    /// Returns statistics so far.
    [[nodiscard]] const external_sort_report& report() const noexcept { return report_; }

private:
    static constexpr std::size_t first_size = 4096;

    /// Grows the buffer, or spills it at its full size.
    void make_room() {
        if (finished_) throw error(errc::invalid_argument, "push into a finished external sort");
        if (records_.size() == capacity_) {
            report_.records += filled_;
            spill();
            return;
        }
        // Doubling keeps old + new within the two buffers of the plan, as the second does not exist yet.
        const std::size_t size =
            records_.size() >= capacity_ / 2 ? capacity_ : std::max(first_size, 2 * records_.size());
        aligned_buffer<Record> larger(std::min(size, capacity_));
        if (filled_ != 0) std::memcpy(static_cast<void*>(larger.data()), records_.data(), filled_ * sizeof(Record));
        records_ = std::move(larger);
    }

    void sort_buffer() {
        if (scratch_.size() < filled_) scratch_ = aligned_buffer<Record>(filled_);
        detail::sort_records(executor_, records_.data(), scratch_.data(), filled_, less_);
    }

    void spill() {
        sort_buffer();
        if (!file_.is_open()) {
            file_ = plain_file::scratch(directory_);
            out_ = sequential_writer(file_, 0, piece_);
        }
        const std::uint64_t begin = out_.position();
        detail::append_run(out_, layout_, std::span<const Record>(records_.data(), filled_));
        runs_.push_back({begin, filled_});
        ++report_.runs;
        report_.spilled_bytes += filled_ * sizeof(Record);
        filled_ = 0;
    }

    /// Merges groups of runs into a new file, each group as large as memory allows.
    void merge_pass() {
        const std::size_t fan_in = detail::merge_fan_in(memory_, sizeof(Record));
        plain_file next = plain_file::scratch(directory_);
        sequential_writer out(next, 0, piece_);
        std::vector<detail::record_run> merged;
        for (std::size_t first = 0; first < runs_.size(); first += fan_in) {
            const std::size_t n = std::min(fan_in, runs_.size() - first);
            detail::record_run run{out.position(), 0};
            detail::merge_runs<Record>(file_, std::span<const detail::record_run>(runs_).subspan(first, n), layout_,
                memory_ - memory_ / 8, less_, [&](std::span<const Record> block) {
                    detail::append_run(out, layout_, block);
                    run.records += block.size();
                });
            merged.push_back(run);
            report_.spilled_bytes += run.records * sizeof(Record);
        }
        out.drop();
        ++report_.merge_passes;
        runs_ = std::move(merged);
        file_ = std::move(next);
    }

    std::filesystem::path directory_;
    std::uint64_t memory_;
    std::uint64_t piece_ = 0; ///< bytes written between two write-backs
    Less less_;
    E executor_;
    detail::run_layout layout_;
    std::size_t capacity_ = 0, filled_ = 0;
    aligned_buffer<Record> records_, scratch_;
    plain_file file_;
    sequential_writer out_;
    std::vector<detail::record_run> runs_;
    external_sort_report report_;
    bool finished_ = false;
};

} // namespace gneiss
