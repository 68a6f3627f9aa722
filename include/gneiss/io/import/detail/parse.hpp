// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/import/detail/bad_lines.hpp>
#include <gneiss/io/import/detail/named_edge.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/relations.hpp>
#include <gneiss/io/import/detail/source_chunks.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/detail/spill.hpp>

// First pass: text becomes fixed-size records on disk, one file per split, in order of arrival.
namespace gneiss::importing {

/// Memory shares of the first pass [bytes].
struct parse_memory {
    std::size_t chunk = 0;       ///< text in one chunk
    std::size_t chunks = 0;      ///< maximum number of chunks
    std::size_t line = 0;        ///< longest line
    std::size_t filter = 0;      ///< filter of recent names
    std::size_t heaps = 0;       ///< heaps of names on disk
    std::size_t heap_block = 0;  ///< buffer of one heap
    std::uint64_t relations = 0; ///< names of relations

    /// \param input  bytes of all sources, which determine the number of heaps
    [[nodiscard]] static parse_memory plan(std::uint64_t memory, std::size_t threads, std::uint64_t input) {
        parse_memory plan;
        plan.chunks = 2 * threads + 2;
        plan.chunk = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 8 / plan.chunks, 4096, 4 << 20));
        plan.line = std::clamp<std::size_t>(static_cast<std::size_t>(memory / 16), plan.chunk, std::size_t{64} << 20);
        plan.filter = static_cast<std::size_t>(
            std::clamp<std::uint64_t>(input, 1 << 16, std::min<std::uint64_t>(memory / 4, std::uint64_t{256} << 20)));
        plan.heaps =
            std::clamp<std::size_t>(std::bit_ceil(static_cast<std::size_t>(input / (memory / 32 + 1) + 1)), 16, 1024);
        plan.heap_block = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 8 / plan.heaps, 1024, 1 << 18));
        plan.relations = memory / 8;
        return plan;
    }
};

/// Lines of a source that a user should know of.
struct line_notes {
    static constexpr std::uint64_t no_line = ~std::uint64_t{0};

    std::uint64_t comments = 0;            ///< comments after the first edge
    std::uint64_t uneven = 0;              ///< edges with another number of fields than the first one
    std::uint64_t first_uneven = no_line;  ///< line of the first of them
    std::uint64_t padded = 0;              ///< names that begin or end with a blank
    std::uint64_t first_padded = no_line;  ///< line of the first of them
    std::uint64_t missing = 0;             ///< names that stand for a missing value elsewhere
    std::uint64_t first_missing = no_line; ///< line of the first of them

    /// Adds the notes of other lines.
    void merge(const line_notes& other) noexcept {
        comments += other.comments;
        uneven += other.uneven;
        first_uneven = std::min(first_uneven, other.first_uneven);
        padded += other.padded;
        first_padded = std::min(first_padded, other.first_padded);
        missing += other.missing;
        first_missing = std::min(first_missing, other.first_missing);
    }
};

/// Result of the first pass.
struct parsed_edges {
    std::array<std::uint64_t, 3> edges{};      ///< records per split
    std::uint64_t largest_node = 0;            ///< integer ids: largest + 1
    std::uint64_t largest_relation = 0;        ///< integer relations: largest + 1
    std::vector<std::uint64_t> source_entries; ///< entries of each source
    std::vector<line_notes> notes;             ///< of each source
};

/// The first pass over all sources.
template <executor E>
class edge_parser {
public:
    /// Inputs of the pass.
    struct setup {
        const import_options* options = nullptr;              ///< options of the import
        const std::vector<planned_source>* sources = nullptr; ///< inputs
        bool integer_ids = false;                             ///< ids are integers, not names
        relation_kind relations = relation_kind::none;        ///< kind of relations
        std::uint64_t node_limit = 0xffffffffU;               ///< upper bound of integer ids, exclusive
        std::uint64_t relation_limit = 0xffffffffU;           ///< upper bound of integer relations, exclusive
        std::uint64_t hash_seed = 0;                          ///< seed of name hashes
        parse_memory memory{};                                ///< shares of memory
        bad_lines* bad = nullptr;                             ///< collects wrong lines; null: the first one is thrown
    };

    /// Writes edges to `raw`, and names to `names` if ids are names.
    edge_parser(setup options, std::array<append_file, 3>& raw, partitioned_spill* names,
        relation_dictionary& relations, const E& executor)
        : setup_(options),
          raw_(&raw),
          names_(names),
          relations_(&relations),
          executor_(&executor),
          filter_(options.integer_ids ? 16 : options.memory.filter),
          split_key_(options.options->seed, random_domain::split),
          splits_pairs_(
              options.options->undirected || std::ranges::any_of(*options.sources, &planned_source::symmetric)) {}

    /// Reads everything. Throws the first error in the order of sources and lines, for any number of threads;
    /// `bad_lines_error` for several wrong lines.
    parsed_edges run() {
        found_.source_entries.assign(setup_.sources->size(), 0);
        found_.notes.assign(setup_.sources->size(), {});
        source_chunks chunks(*setup_.sources, setup_.memory.chunk, setup_.memory.line);
        total_ = chunks.total();
        read_ahead ahead(setup_.memory.chunks, [&](text_chunk& chunk) { return chunks.next(chunk); });
        executor_->run(std::max<std::size_t>(executor_->concurrency(), 1), [&](std::size_t) { work(ahead); });
        if (failure_ && setup_.options->stop.stop_requested()) std::rethrow_exception(failure_);
        if (setup_.bad != nullptr) setup_.bad->check();
        if (failure_) std::rethrow_exception(failure_);
        return found_;
    }

private:
    static constexpr std::size_t flush_bytes = std::size_t{1} << 18;
    static constexpr std::uint64_t bytes_after_error = std::uint64_t{64} << 20; ///< searched for further wrong lines

    /// State of a worker: records not written yet, and recent relations.
    struct worker {
        std::array<std::vector<std::byte>, 3> records;
        std::array<std::uint64_t, 3> edges{};
        std::uint64_t largest_node = 0, largest_relation = 0;
        /// A relation that the worker met.
        struct known_relation {
            std::uint64_t hash = 0, check = 0; ///< both hashes of its name
            std::uint32_t id = 0;              ///< number of the relation
            bool used = false;                 ///< true if the entry is in use
        };
        std::vector<known_relation> known = std::vector<known_relation>(1024);
        std::string name{}; ///< of a tail with its prefix
    };

    void work(read_ahead& ahead) {
        worker mine;
        text_chunk chunk;
        std::pair<std::size_t, std::uint64_t> place{};
        try {
            while (!stopped_ && !(setup_.bad != nullptr && setup_.bad->full()) && ahead.take(chunk)) {
                if (chunk.consumed > stop_after_) break; // enough wrong lines or not, the user has waited long enough
                place = {chunk.source, chunk.offset};
                if (setup_.options->stop.stop_requested())
                    throw error(errc::canceled, "interrupted: the same command resumes after the last finished phase");
                const std::uint64_t before = mine.edges[0] + mine.edges[1] + mine.edges[2];
                parse(mine, chunk);
                progress(chunk, mine.edges[0] + mine.edges[1] + mine.edges[2] - before);
                ahead.give_back(std::exchange(chunk, {})); // errors of `take` are the reader's
            }
            for (std::size_t split = 0; split < 3; ++split) flush(mine, split);
        } catch (...) {
            // Another worker may hold a chunk that comes earlier in the sources: it is completed, and the earliest
            // error wins. A failure of the reader comes after all chunks.
            const std::scoped_lock lock(mutex_);
            if (chunk.size == 0) place = {std::numeric_limits<std::size_t>::max(), 0};
            if (!failure_ || place < failure_place_) {
                failure_ = std::current_exception();
                failure_place_ = place;
            }
            stopped_ = true;
            return;
        }
        const std::scoped_lock lock(mutex_);
        for (std::size_t split = 0; split < 3; ++split) found_.edges[split] += mine.edges[split];
        found_.largest_node = std::max(found_.largest_node, mine.largest_node);
        found_.largest_relation = std::max(found_.largest_relation, mine.largest_relation);
    }

    void progress(const text_chunk& chunk, std::uint64_t edges) {
        const std::scoped_lock lock(mutex_);
        edges_so_far_ += edges;
        consumed_ = std::max(consumed_, chunk.consumed);
        if (setup_.options->progress)
            setup_.options->progress(
                {.phase = "read", .done = consumed_, .total = total_, .unit = "bytes", .edges = edges_so_far_});
    }

    void parse(worker& mine, const text_chunk& chunk) {
        const planned_source& from = (*setup_.sources)[chunk.source];
        const std::uint64_t limit = from.nodes == 0 ? setup_.node_limit : std::min(from.nodes, setup_.node_limit);
        std::uint64_t entries = 0;
        line_notes notes;
        if (from.source.compute)
            entries = compute(mine, from, chunk);
        else if (from.array)
            entries = parse_rows(mine, from, chunk);
        else if (from.format == edge_format::metis)
            entries = parse_metis(mine, from, chunk);
        else
            for_each_edge_line(
                chunk.text(), chunk.first_line, from.source.path, from.text,
                [&](std::string_view source, std::string_view relation, std::string_view destination,
                    const line_place& place) {
                    if (setup_.integer_ids && from.text.hash_comments && is_comment_mark(*place.begin)) {
                        ++notes.comments; // no edge between integers
                        return;
                    }
                    note(notes, from.text, place, {source, relation, destination});
                    if (setup_.integer_ids) {
                        const std::uint64_t u = parse_id(source, from.text.first_id,
                            from.destination_shift != 0 ? from.destination_shift : limit, place);
                        const std::uint64_t v =
                            parse_id(destination, from.text.first_id, limit - from.destination_shift, place) +
                            from.destination_shift;
                        add_integer(mine, from, u, relation, v, place);
                    } else {
                        add_named(mine, from, source, relation, destination, place);
                    }
                    ++entries;
                },
                [&](const error& wrong) {
                    if (setup_.bad == nullptr || !bad_lines::of_line(wrong)) return false;
                    setup_.bad->add(wrong);
                    ++entries; // declared ones include it
                    if (setup_.options->skip_bad == 0) {
                        std::uint64_t now = stop_after_;
                        while (chunk.consumed + bytes_after_error < now &&
                            !stop_after_.compare_exchange_weak(now, chunk.consumed + bytes_after_error)) {
                        }
                    }
                    return true;
                },
                [&] { ++notes.comments; });
        const std::scoped_lock lock(mutex_);
        found_.source_entries[chunk.source] += entries;
        found_.notes[chunk.source].merge(notes);
    }

    static void note(
        line_notes& notes, const text_format& text, const line_place& place, std::array<std::string_view, 3> names) {
        if (text.fields != 0 && place.fields != text.fields) [[unlikely]] {
            ++notes.uneven;
            notes.first_uneven = std::min(notes.first_uneven, place.line);
        }
        for (const std::string_view name : names) {
            if (is_missing_name(name)) [[unlikely]] {
                ++notes.missing;
                notes.first_missing = std::min(notes.first_missing, place.line);
            }
            if (text.delimiter != ' ' && !name.empty() && (name.front() == ' ' || name.back() == ' ')) [[unlikely]] {
                ++notes.padded;
                notes.first_padded = std::min(notes.first_padded, place.line);
            }
        }
    }

    std::uint64_t parse_metis(worker& mine, const planned_source& from, const text_chunk& chunk) {
        std::uint64_t entries = 0, row = chunk.first_row;
        line_fields fields;
        line_place place{&from.source.path, chunk.first_line};
        const std::uint64_t limit = std::min(from.nodes, setup_.node_limit);
        for (std::string_view rest = chunk.text(); !rest.empty(); ++place.line) {
            const std::size_t end = std::min(rest.find('\n'), rest.size());
            std::string_view line = rest.substr(0, end);
            rest.remove_prefix(std::min(end + 1, rest.size()));
            if (place.line <= from.text.skip_lines || (!line.empty() && line[0] == from.text.comment)) continue;
            if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
            place.begin = line.data();
            place.length = line.size();
            std::size_t at = 0, number = 0;
            std::uint64_t neighbor = 0;
            for (;;) {
                while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
                if (at == line.size()) break;
                const std::size_t first = at;
                while (at < line.size() && line[at] != ' ' && line[at] != '\t') ++at;
                const std::string_view field = line.substr(first, at - first);
                if (row >= limit)
                    place.fail(field, "a line for node " + std::to_string(row + 1) + " of " + std::to_string(limit));
                if (number++ < from.vertex_weights) continue;
                const bool weight = from.edge_weights && (number - from.vertex_weights) % 2 == 0;
                if (weight) continue;
                neighbor = parse_id(field, 1, limit, place);
                ++entries;
                add_integer(mine, from, row, {}, neighbor, place);
            }
            ++row;
        }
        return entries;
    }

    std::uint64_t parse_rows(worker& mine, const planned_source& from, const text_chunk& chunk) {
        const std::size_t columns = static_cast<std::size_t>(from.array->shape[1]);
        const std::size_t rows = chunk.size / (columns * 8);
        const auto value = [&](std::size_t row, std::size_t column, std::uint64_t limit) {
            std::int64_t read = 0;
            std::memcpy(&read, chunk.bytes.data() + (row * columns + column) * 8, 8);
            if (read < 0 || static_cast<std::uint64_t>(read) >= limit) [[unlikely]]
                throw error(errc::out_of_range,
                    "the id " + std::to_string(read) +
                        (read < 0 ? " is negative" : " is too large: ids go up to " + std::to_string(limit - 1)),
                    {.path = from.source.path,
                        .field =
                            "row " + std::to_string(chunk.first_row + row) + ", column " + std::to_string(column)});
            return static_cast<std::uint64_t>(read);
        };
        constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
        const std::uint64_t node_limit = setup_.integer_ids ? setup_.node_limit : largest;
        for (std::size_t row = 0; row < rows; ++row) {
            const std::uint64_t source = value(row, 0, node_limit);
            const std::uint64_t relation = columns == 3 ? value(row, 1, setup_.relation_limit) : 0;
            const std::uint64_t destination = value(row, columns - 1, node_limit);
            if (setup_.integer_ids)
                add_record(mine, from, source, static_cast<relation_id>(relation), destination, relation);
            else
                add_numbers(mine, from, source, relation, destination);
        }
        return rows;
    }

    std::uint64_t compute(worker& mine, const planned_source& from, const text_chunk& chunk) {
        std::vector<edge> edges(chunk.size);
        from.source.compute(chunk.first_row, edges);
        for (std::size_t i = 0; i < edges.size(); ++i) {
            const edge& e = edges[i];
            if (!setup_.integer_ids) {
                add_numbers(mine, from, e.source, e.relation, e.destination);
                continue;
            }
            if (e.source >= setup_.node_limit || e.destination >= setup_.node_limit ||
                e.relation >= setup_.relation_limit) [[unlikely]]
                throw error(errc::out_of_range,
                    "its ids (" + std::to_string(e.source) + ", " + std::to_string(e.relation) + ", " +
                        std::to_string(e.destination) +
                        ") are beyond the nodes or relations of the tables and node attributes",
                    {.path = from.source.path, .field = "edge " + std::to_string(chunk.first_row + i)});
            add_record(mine, from, e.source, e.relation, e.destination, e.relation);
        }
        return edges.size();
    }

    void add_integer(worker& mine, const planned_source& from, std::uint64_t source, std::string_view relation,
        std::uint64_t destination, const line_place& place) {
        std::uint64_t key = 0;
        relation_id id = 0;
        if (setup_.relations == relation_kind::integers) {
            key = parse_id(relation, 0, setup_.relation_limit, place);
            id = static_cast<relation_id>(key);
        } else if (setup_.relations == relation_kind::names) {
            id = known(mine, relation, key);
        }
        add_record(mine, from, source, id, destination, key);
    }

    void add_record(worker& mine, const planned_source& from, std::uint64_t source, relation_id relation,
        std::uint64_t destination, std::uint64_t relation_key) {
        mine.largest_node = std::max({mine.largest_node, source + 1, destination + 1});
        mine.largest_relation = std::max(mine.largest_relation, std::uint64_t{relation} + 1);
        const auto split = static_cast<std::size_t>(split_of(from, source, relation_key, destination));
        const auto u = static_cast<node_id>(source), v = static_cast<node_id>(destination);
        store(mine, split, edge{u, relation, v});
        if (both_ways(from, split) && u != v) store(mine, split, edge{v, relation, u});
    }

    /// Adds an edge between integers whose names are their digits.
    void add_numbers(worker& mine, const planned_source& from, std::uint64_t source, std::uint64_t relation,
        std::uint64_t destination) {
        const std::string u = std::to_string(source), r = std::to_string(relation), v = std::to_string(destination);
        add_named(mine, from, u, r, v, {&from.source.path, 0, r.data(), r.size()});
    }

    void add_named(worker& mine, const planned_source& from, std::string_view source, std::string_view relation,
        std::string_view destination, const line_place& place) {
        if (!from.tail_prefix.empty()) destination = mine.name.assign(from.tail_prefix).append(destination);
        const std::uint64_t u = meet(source), v = meet(destination);
        std::uint64_t key = 0;
        relation_id id = 0;
        if (setup_.relations == relation_kind::integers) {
            key = parse_id(relation, 0, setup_.relation_limit, place);
            id = static_cast<relation_id>(key);
            mine.largest_relation = std::max(mine.largest_relation, key + 1);
        } else if (setup_.relations == relation_kind::names) {
            id = known(mine, relation, key);
        }
        const auto split = static_cast<std::size_t>(split_of(from, u, key, v));
        store(mine, split, named_edge(u, v, id));
        if (both_ways(from, split) && u != v) store(mine, split, named_edge(v, u, id));
    }

    std::uint64_t meet(std::string_view name) {
        const std::uint64_t hash = setup_.options->hash(name, setup_.hash_seed);
        if (filter_.insert(name, hash)) spill_name(*names_, name, hash);
        return hash;
    }

    relation_id known(worker& mine, std::string_view name, std::uint64_t& key) {
        key = checksum(name, setup_.options->seed);
        const std::uint64_t check = checksum(name, key);
        auto& slot = mine.known[key % mine.known.size()];
        if (!slot.used || slot.hash != key || slot.check != check) slot = {key, check, relations_->intern(name), true};
        return slot.id;
    }

    /// Returns true if an entry means both directions. An undirected source implies it, independent of the options.
    [[nodiscard]] bool both_ways(const planned_source& from, std::size_t split) const noexcept {
        return from.symmetric ? !from.lists_both : setup_.options->undirected && split == 0;
    }

    /// Given splits stay; else draws by the edge alone. If any source is undirected, both directions of every pair draw
    /// the same, from any source.
    [[nodiscard]] edge_split split_of(
        const planned_source& from, std::uint64_t u, std::uint64_t relation, std::uint64_t v) const {
        if (!setup_.options->fractions) return from.source.split;
        if (splits_pairs_ && v < u) std::swap(u, v);
        const double draw = to_unit(split_key_.with(u).with(relation).with(v)[0]);
        const auto& share = *setup_.options->fractions;
        return draw < share[0] ? edge_split::train : draw < share[0] + share[1] ? edge_split::valid : edge_split::test;
    }

    template <class Record>
    void store(worker& mine, std::size_t split, const Record& record) {
        std::vector<std::byte>& buffer = mine.records[split];
        if (buffer.capacity() == 0) buffer.reserve(flush_bytes + sizeof(Record));
        const auto* bytes = reinterpret_cast<const std::byte*>(&record);
        buffer.insert(buffer.end(), bytes, bytes + sizeof(Record));
        ++mine.edges[split];
        if (buffer.size() >= flush_bytes) flush(mine, split);
    }
    void flush(worker& mine, std::size_t split) {
        if (!mine.records[split].empty()) (*raw_)[split].append(mine.records[split]);
        mine.records[split].clear();
    }

    setup setup_;
    std::array<append_file, 3>* raw_;
    partitioned_spill* names_;
    relation_dictionary* relations_;
    const E* executor_;
    seen_filter filter_;
    random_key split_key_;
    bool splits_pairs_; ///< both directions of a pair go to one split

    std::mutex mutex_;
    parsed_edges found_;
    std::uint64_t edges_so_far_ = 0, consumed_ = 0, total_ = 0;
    std::exception_ptr failure_;
    std::pair<std::size_t, std::uint64_t> failure_place_{};
    std::atomic<bool> stopped_{false};
    std::atomic<std::uint64_t> stop_after_{std::numeric_limits<std::uint64_t>::max()}; ///< bytes of the sources
};

} // namespace gneiss::importing
