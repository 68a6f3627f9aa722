// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/id_maps.hpp>
#include <gneiss/io/import/journal.hpp>
#include <gneiss/io/import/layout.hpp>
#include <gneiss/io/import/name_table.hpp>
#include <gneiss/io/import/node_arrays.hpp>
#include <gneiss/io/import/node_phase.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/parse.hpp>

namespace gneiss::importing {

/// Least memory that an import works in [bytes].
inline constexpr std::uint64_t least_memory = std::uint64_t{1} << 20;

/// The first phases of an import: read, names. Each leaves its result in OUT.partial and a line in the journal
/// there, so that a run that was killed goes on after the last finished phase.
///
/// Cost: one pass over the sources, and the names sorted on disk; memory: `options.memory`, whatever the graph's size.
/// Errors: io_error; errors of the format with path, line and column; errc::already_exists while another import works
/// there, errc::no_space, errc::canceled. One object, one call of `run`.
template <executor E>
class import_phases {
public:
    import_phases(import_options options, const E& executor) : options_(std::move(options)), executor_(executor) {}
    import_phases(const import_phases&) = delete;
    import_phases& operator=(const import_phases&) = delete;
    /// Removes an OUT.partial that this made and that holds nothing to go on with.
    ~import_phases() {
        std::error_code ignored;
        if (result_ && !(journal_ && (*journal_)["phase"] != 0) && !std::filesystem::exists(unpacked(), ignored))
            std::filesystem::remove_all(partial_, ignored);
    }

    /// Phases 1 and 2: what the sources hold is in records by provisional keys, and the nodes are known.
    void run() {
        check();
        while (options_.out.has_filename() == false && options_.out.has_parent_path())
            options_.out = options_.out.parent_path();
        partial_ = options_.out.string() + ".partial";
        resolve_directory(options_);
        if (options_.sources.empty()) throw error(errc::invalid_argument, "no source to import");
        const bool absent = std::filesystem::create_directories(partial_);
        lock_ = plain_file::create(partial_ / "lock");
        if (::flock(lock_->descriptor(), LOCK_EX | LOCK_NB) != 0)
            throw error(errc::already_exists, "another import is writing here", {.path = partial_});
        result_ = absent;
        check_node_data(options_.node_attributes);
        if (options_.task == dataset_task::node && !options_.node_attributes.has_labels())
            throw error(errc::invalid_argument, "a node task needs labels");
        unpack_archives(options_, unpacked());
        options_.node_attributes.nodes = declared_nodes(options_.node_attributes);
        for (const import_source& source : options_.sources) sources_.push_back(plan_source(source, options_));
        choose_ids();
        journal_.emplace(partial_ / "journal", fingerprint());
        resumed_ = journal_->load() && (*journal_)["phase"] != 0;
        if (!resumed_) clear();
        for (std::uint64_t attempt = (*journal_)["attempt"];; ++attempt) {
            hash_seed_ = attempt == 0 ? options_.seed : mix64(options_.seed + attempt);
            try {
                if ((*journal_)["phase"] < 1) read();
                if ((*journal_)["phase"] < 2) name();
                break;
            } catch (const hash_collision&) {
                // Two names with one 64-bit hash: another seed tells them apart.
                if (attempt == 8) throw;
                clear();
                journal_->set("phase", 0);
                journal_->set("attempt", attempt + 1);
            }
        }
    }

protected:
    [[nodiscard]] std::filesystem::path work(const std::string& name) const { return partial_ / ("work-" + name); }
    [[nodiscard]] std::filesystem::path unpacked() const { return work("npz"); }
    [[nodiscard]] std::filesystem::path raw_path(std::size_t split) const {
        return work("edges-" + std::to_string(split));
    }
    [[nodiscard]] std::uint64_t memory() const noexcept { return options_.memory; }

    void check() const {
        if (options_.out.empty()) throw error(errc::invalid_argument, "no name for the dataset to make");
        if (options_.memory < least_memory)
            throw over_budget(options_.memory, {{"least buffers of an import", least_memory}});
        std::error_code failed;
        if (std::filesystem::exists(options_.out, failed) && !options_.force)
            throw error(errc::already_exists, "exists already: choose another name or allow replacing it (force)",
                {.path = options_.out});
        if (options_.fractions) {
            for (const import_source& source : options_.sources)
                if (source.split != edge_split::train)
                    throw error(errc::invalid_argument, "fractions and given valid or test edges exclude each other");
            const auto& f = *options_.fractions;
            if (!(f[0] >= 0 && f[1] >= 0 && f[2] >= 0) || std::abs(f[0] + f[1] + f[2] - 1) > 1e-9)
                throw error(errc::invalid_argument, "fractions are three numbers of at least 0 whose sum is 1");
        }
    }

    /// One kind of ids for all sources.
    void choose_ids() {
        const bool declared = std::all_of(sources_.begin(), sources_.end(), [](const planned_source& s) {
            return s.format == edge_format::npy || s.format == edge_format::mtx || s.format == edge_format::metis;
        });
        const bool numbered_nodes = numbers_nodes(options_.node_attributes);
        integer_ = options_.ids == id_kind::integer ||
                   (options_.ids == id_kind::automatic && (declared || numbered_nodes || options_.names_nodes()));
        if (!integer_ && numbered_nodes)
            throw error(errc::invalid_argument,
                "arrays of features, labels or splits go by integer ids (or a table of entities), not by names");
        for (const planned_source& s : sources_)
            if (!integer_ && (s.array || s.source.compute || s.format == edge_format::metis))
                throw error(errc::invalid_argument, "the ids of this format are integers", {.path = s.source.path});
        if (!options_.entities.empty() && !integer_)
            throw error(errc::invalid_argument, "a table of names needs integer ids", {.path = options_.entities});
        const bool triples = sources_[0].text.relation.has_value();
        for (const planned_source& s : sources_)
            if (s.text.relation.has_value() != triples)
                throw error(errc::invalid_format,
                    triples ? "has no relations, the first source has" : "has relations, the first source has none",
                    {.path = s.source.path});
        const bool numbered =
            std::all_of(sources_.begin(), sources_.end(), [](const planned_source& s) { return s.integer_relation; });
        relations_kind_ = !triples                                                ? relation_kind::none
                          : numbered && (integer_ || !options_.relations.empty()) ? relation_kind::integers
                                                                                  : relation_kind::names;
        for (const planned_source& s : sources_)
            if (relations_kind_ == relation_kind::names && (s.array || s.source.compute))
                throw error(errc::invalid_format, "has relations by number, another source by name", {.path = s.source.path});
        if (!options_.relations.empty() && relations_kind_ != relation_kind::integers)
            throw error(errc::invalid_argument, "a table of relation names needs integer relations",
                {.path = options_.relations});
    }

    /// Changes with anything that changes the result or what the phases leave.
    [[nodiscard]] std::uint64_t fingerprint() const {
        std::string text = "import 1";
        const auto add = [&](const auto& value) {
            if constexpr (requires { std::to_string(value); })
                text += "|" + std::to_string(value);
            else
                text += "|" + std::string(value);
        };
        const auto add_file = [&](const std::filesystem::path& path) {
            std::error_code failed;
            add(std::filesystem::absolute(path, failed).string());
            add(std::filesystem::file_size(path, failed));
            add(std::filesystem::last_write_time(path, failed).time_since_epoch().count());
        };
        for (const planned_source& s : sources_) {
            if (s.source.open || (s.source.compute && !s.source.transposed))
                add(s.source.path.string());
            else
                add_file(s.source.path);
            add(s.source.fingerprint);
            for (const std::size_t value :
                {static_cast<std::size_t>(s.source.split), static_cast<std::size_t>(s.format),
                    static_cast<std::size_t>(static_cast<unsigned char>(s.text.delimiter)),
                    static_cast<std::size_t>(static_cast<unsigned char>(s.text.comment)), s.text.fields, s.text.source,
                    s.text.destination, s.text.relation.value_or(99), static_cast<std::size_t>(s.text.skip_lines)})
                add(value);
        }
        for (const auto& table : {options_.entities, options_.relations})
            if (!table.empty()) add_file(table);
        for (const auto& file : files_of(options_.node_attributes)) add_file(file);
        add(fingerprint_of(options_.node_attributes));
        if (options_.fractions)
            for (const double f : *options_.fractions) add(f);
        for (const std::uint64_t value :
            {std::uint64_t{integer_}, static_cast<std::uint64_t>(relations_kind_), std::uint64_t{options_.undirected},
                std::uint64_t{options_.unseen_to_train}, options_.seed, std::uint64_t{options_.partitions}})
            add(value);
        return checksum(text);
    }

    /// Empties the partial dataset, but for the lock and what was unpacked.
    void clear() const {
        for (const auto& entry : std::filesystem::directory_iterator(partial_))
            if (entry.path().filename() != "lock" && entry.path() != unpacked())
                std::filesystem::remove_all(entry.path());
    }

    void report(std::string_view phase, std::uint64_t done, std::uint64_t total, std::string_view unit) const {
        if (options_.stop.stop_requested())
            throw error(errc::canceled, "interrupted: the same command goes on after the last finished phase");
        if (options_.progress)
            options_.progress({.phase = phase, .done = done, .total = total, .unit = unit, .edges = done});
    }

    /// Bytes of all sources as text, about; gzip shrinks text to a quarter or less. 1 GiB for one that cannot tell.
    [[nodiscard]] std::uint64_t input_bytes() const {
        std::uint64_t total = 0;
        for (const planned_source& s : sources_) {
            std::error_code failed;
            const auto size = s.source.compute ? 12 * s.source.computed_edges
                              : s.source.open  ? std::uint64_t{1} << 30
                                               : std::filesystem::file_size(s.source.path, failed);
            if (!failed) total += s.source.path.extension() == ".gz" ? 4 * size : size;
        }
        return total;
    }

    /// Throws errc::no_space with both figures unless `bytes` fit beside the partial dataset.
    void need_disk(std::uint64_t bytes, const char* what) const {
        std::error_code failed;
        const auto space = std::filesystem::space(partial_, failed);
        if (!failed && space.available < bytes)
            throw error(errc::no_space,
                std::string(what) + " need about " + format_bytes(bytes) + " of disk, " +
                    format_bytes(space.available) + " are free",
                {.path = partial_});
    }

    /// Phase 1: sources become records with provisional keys; names go to their heaps. Cost: one pass over the sources.
    void read() {
        if (!std::any_of(sources_.begin(), sources_.end(), [](const planned_source& s) { return bool(s.source.open); }))
            need_disk(input_bytes() / 2, "the edges");
        typename edge_parser<E>::setup options{.options = &options_,
            .sources = &sources_,
            .integer_ids = integer_,
            .relations = relations_kind_,
            .hash_seed = hash_seed_,
            .memory = parse_memory::plan(memory(), executor_.concurrency(), input_bytes())};
        relation_dictionary relations(options.memory.relations);
        std::optional<partitioned_spill> names;
        if (!integer_ || options_.names_nodes())
            names.emplace(work("names"), options.memory.heaps, options.memory.heap_block);
        std::uint64_t table_nodes = 0;
        if (options_.names_nodes()) table_nodes = options.node_limit = read_entities(*names);
        if (const std::uint64_t declared = options_.node_attributes.nodes; declared != 0) {
            if (table_nodes != 0 && table_nodes != declared)
                throw error(errc::invalid_format,
                    "names " + std::to_string(table_nodes) + " nodes, the node attributes is for " +
                        std::to_string(declared),
                    {.path = options_.entities});
            table_nodes = options.node_limit = declared;
        }
        if (!options_.relations.empty() || !options_.relation_names.empty())
            options.relation_limit = read_relations(relations);
        std::array<append_file, 3> raw{append_file(raw_path(0)), append_file(raw_path(1)), append_file(raw_path(2))};
        edge_parser<E> parser(options, raw, names ? &*names : nullptr, relations, executor_);
        const parsed_edges found = parser.run();
        check_entries(found);
        table_nodes = std::max(table_nodes, meet_nodes(options_.node_attributes, node_keys_below(options.node_limit),
                                                memory() / 8, [&](std::string_view name, std::uint64_t hash) {
                                                    if (names) spill_name(*names, name, hash);
                                                }));
        if (names) names->finish();
        for (append_file& records : raw) records.sync();
        write_relations(relations);
        std::uint64_t nodes = std::max(found.largest_node, table_nodes);
        for (const planned_source& s : sources_) nodes = std::max(nodes, s.nodes);
        if (found.edges[0] + found.edges[1] + found.edges[2] == 0)
            throw error(errc::invalid_format, "there is no edge in the sources", {.path = sources_[0].source.path});
        journal_->set("nodes", nodes);
        std::uint64_t numbered = std::max<std::uint64_t>(found.largest_relation, 1);
        for (const planned_source& s : sources_) numbered = std::max(numbered, s.relations);
        journal_->set("relations", relations_kind_ == relation_kind::none ? 1 : numbered);
        for (std::size_t split = 0; split < 3; ++split)
            journal_->set("edges" + std::to_string(split), found.edges[split]);
        journal_->set("phase", 1);
        journal_->save();
    }

    /// Files that declare their number of entries must keep to it.
    void check_entries(const parsed_edges& found) const {
        for (std::size_t i = 0; i < sources_.size(); ++i)
            if (sources_[i].entries && *sources_[i].entries != found.source_entries[i])
                throw error(errc::invalid_format,
                    "declares " + std::to_string(*sources_[i].entries) +
                        (sources_[i].format == edge_format::metis ? " neighbors (twice the edges), has "
                                                                  : " entries, has ") +
                        std::to_string(found.source_entries[i]) + ": is the file complete?",
                    {.path = sources_[i].source.path});
    }

    std::uint64_t read_entities(partitioned_spill& names) {
        std::vector<std::uint64_t> run; // of consecutive rows from `first` on
        std::uint64_t first = 0;
        plain_file file = plain_file::create(work("node-hashes"));
        const auto flush = [&] {
            file.write_at(first * 8, std::as_bytes(std::span(run)));
            run.clear();
        };
        const auto take = [&](std::uint64_t id, std::string_view name) {
            const std::uint64_t hash = options_.hash(name, hash_seed_);
            spill_name(names, name, hash);
            if (id != first + run.size() || run.size() == 8192) {
                flush();
                first = id;
            }
            run.push_back(hash);
        };
        std::uint64_t count = options_.node_attributes.nodes;
        if (options_.compute_name)
            for (std::uint64_t id = 0; id < count; ++id) take(id, options_.compute_name(id));
        else
            count = read_name_table(
                options_.entities, [&](std::uint64_t id, std::string_view name, const line_place&) { take(id, name); });
        flush();
        file.sync();
        if (count > most_nodes)
            throw error(errc::out_of_range, "more nodes than 32-bit ids can name", {.path = options_.entities});
        return count;
    }

    std::uint64_t read_relations(relation_dictionary& relations) const {
        // Provisional ids are handed out in order, so names go in by id.
        std::vector<std::string> names = options_.relation_names;
        if (names.empty())
            (void)read_name_table(options_.relations, [&](std::uint64_t id, std::string_view name, const line_place&) {
                if (names.size() <= id) names.resize(static_cast<std::size_t>(id) + 1);
                names[static_cast<std::size_t>(id)] = name;
            });
        for (std::size_t id = 0; id < names.size(); ++id)
            if (relations.intern(names[id]) != id)
                throw error(errc::invalid_format, "the name '" + names[id] + "' is given to two ids",
                    {.path = options_.relations});
        return names.size();
    }

    /// work-relations: the names by provisional id, each behind its length.
    void write_relations(const relation_dictionary& relations) const {
        plain_file file = plain_file::create(work("relations"));
        sequential_writer out(file);
        for (const std::string& name : relations.names()) {
            out.append(bytes_of(std::uint64_t{name.size()}));
            out.append(std::as_bytes(std::span(name)));
        }
        file.sync();
    }
    /// Reads them back. Throws errc::corrupt when a length exceeds the file.
    [[nodiscard]] std::vector<std::string> load_relations() const {
        const plain_file file = plain_file::open(work("relations"));
        std::vector<std::string> names;
        for (std::uint64_t at = 0, end = file.size(); at < end;) {
            std::uint64_t length = 0;
            file.read_at(at, std::as_writable_bytes(std::span(&length, 1)));
            at += sizeof length;
            if (length > end - at)
                throw error(errc::corrupt, "damaged: delete the partial dataset", {.path = file.path()});
            names.emplace_back(static_cast<std::size_t>(length), '\0');
            file.read_at(at, std::as_writable_bytes(std::span(names.back())));
            at += length;
        }
        return names;
    }

    /// Phase 2: names, sorted by hash, are the nodes. Throws hash_collision; errc::invalid_format for a table that
    /// names two nodes alike. Cost: the names are written once more for each level of splitting that memory asks for.
    void name() {
        std::uint64_t nodes = (*journal_)["nodes"];
        const bool table = options_.names_nodes();
        const auto progress = [&](std::uint64_t done, std::uint64_t total) { report("names", done, total, "nodes"); };
        if (!integer_ || table) {
            const auto names = partitioned_spill::open(work("names"));
            try {
                nodes = write_names(names, partial_, executor_, memory() / 2, table, work("names-split"), progress);
            } catch (const repeated_name& repeated) {
                throw error(errc::invalid_format, repeated.what(), {.path = options_.entities});
            }
        }
        if (table) {
            hash_map map = open_hashes(nodes);
            write_named_rows(partial_, work("node-hashes"), map, nodes, memory() / 4, executor_);
        } else if (integer_) {
            write_permutation(partial_, nodes, options_.seed, memory() / 2, executor_);
        }
        journal_->set("nodes", nodes);
        journal_->set("phase", 2);
        journal_->save();
        partitioned_spill::remove(work("names"));
        std::filesystem::remove(work("node-hashes"));
    }

    /// How files of node data call nodes, integers below `limit`.
    [[nodiscard]] node_keys node_keys_below(std::uint64_t limit) const {
        return {.integer = integer_,
            .by_line = options_.node_attributes.by_line,
            .nodes = limit,
            .hash = options_.hash,
            .seed = hash_seed_};
    }

    /// Name's hash to row, in slices of a third of the memory.
    [[nodiscard]] hash_map open_hashes(std::uint64_t nodes) const {
        return {partial_ / "names.hashes.npy", page_alignment, nodes, memory() / 3};
    }

    import_options options_;
    const E& executor_;
    std::filesystem::path partial_;
    std::vector<planned_source> sources_;
    bool integer_ = false;
    relation_kind relations_kind_ = relation_kind::none;
    std::uint64_t hash_seed_ = 0;
    std::optional<plain_file> lock_;
    std::optional<journal> journal_;
    bool result_ = false, resumed_ = false;
};

} // namespace gneiss::importing
