// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/import/detail/named_edge.hpp>
#include <gneiss/io/import/detail/state.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/external_sort.hpp>
#include <gneiss/storage/io/plain_file.hpp>

// Repeated edges are dropped before anything counts edges.
namespace gneiss::importing {

/// An order of records by source, relation and destination.
struct record_order {
    /// Returns true if a comes before b.
    template <class Record>
    [[nodiscard]] bool operator()(const Record& a, const Record& b) const noexcept {
        return std::tuple(source_key(a), relation_of(a), destination_key(a)) <
            std::tuple(source_key(b), relation_of(b), destination_key(b));
    }
};

/// Rewrites the records of a split, sorted, each once. Returns their number.
template <class Record, executor E>
std::uint64_t write_distinct_records(import_state& state, std::size_t split, const E& executor) {
    constexpr std::size_t block = 8192; // records read at once
    const std::filesystem::path path = state.directory.records(split);
    std::filesystem::path fresh = path;
    fresh += ".distinct";
    std::uint64_t written = 0;
    {
        const plain_file from = plain_file::open(path);
        const std::uint64_t records = from.size() / sizeof(Record);
        external_sorter<Record, record_order, E> sorter(state.directory.path(), state.options.memory / 2, {}, executor);
        std::vector<Record> some(block);
        for (std::uint64_t done = 0; done < records;) {
            const auto now =
                std::span(some).first(static_cast<std::size_t>(std::min<std::uint64_t>(block, records - done)));
            from.read_at(done * sizeof(Record), std::as_writable_bytes(now));
            for (const Record& record : now) sorter.push(record);
            state.report_progress("distinct", done += now.size(), records, "edges");
        }
        plain_file to = plain_file::create(fresh);
        sequential_writer out(to);
        Record last{};
        sorter.for_each_block([&](std::span<const Record> ascending) {
            some.clear();
            for (const Record& record : ascending) {
                if (written + some.size() != 0 && !record_order{}(last, record)) continue;
                some.push_back(last = record);
            }
            out.append(std::as_bytes(std::span<const Record>(some)));
            written += some.size();
        });
        to.sync();
        to.close();
    }
    rename_into_place(fresh, path);
    return written;
}

/// Leaves one of the repeated edges of each split, and updates the counts. Cost: one external sort in half of the
/// memory.
template <executor E>
void drop_duplicates(import_state& state, const E& executor) {
    std::uint64_t duplicates = 0;
    for (std::size_t split = 0; split < 3; ++split) {
        const std::uint64_t left = state.ids.integer ? write_distinct_records<edge>(state, split, executor)
                                                     : write_distinct_records<named_edge>(state, split, executor);
        duplicates += state.record_count(split) - left;
        state.journal.set("edges" + std::to_string(split), left);
    }
    state.journal.set("duplicates", duplicates);
}

} // namespace gneiss::importing
