// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/phases.hpp>
#include <gneiss/io/manifest.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/io/external_sort.hpp>

namespace gneiss {
namespace importing {

/// The last phase: records become edges with internal ids, sorted into buckets, and the dataset gets its name.
template <executor E>
class import_run : private import_phases<E> {
    using base = import_phases<E>;

public:
    import_run(import_options options, const E& executor) : base(std::move(options), executor) {}

    import_report run() {
        base::run();
        report_.resumed = base::resumed_;
        report_.nodes = journal()["nodes"];
        order_relations();
        report_.partitions = choose_or_keep_partitions();
        std::uint64_t records = 0;
        for (std::size_t split = 0; split < 3; ++split) records += count(split);
        base::need_disk(bucket_disk_bytes(records), "the buckets");
        if (base::integer_)
            with_numbers();
        else {
            hash_map map = base::open_hashes(report_.nodes);
            write_nodes(map);
            sort_edges<named_edge>(map);
        }
        expect("nodes", report_.nodes, base::options_.expected_nodes);
        expect("edges", report_.edges, base::options_.expected_edges);
        expect("relations", report_.relations, base::options_.expected_relations);
        finish();
        return report_;
    }

private:
    /// Edges while they are sorted and merged, blocks of both directions, and the sort within a bucket: at most, about.
    [[nodiscard]] std::uint64_t bucket_disk_bytes(std::uint64_t records) const {
        const std::uint64_t p = report_.partitions, relations = report_.relations > 1 ? 8 : 0;
        const std::uint64_t lists = std::min(16 * records, 16 * report_.nodes * p); // a node and where its edges begin
        return records * (24 + 12 + relations) + lists + ceil_div(16 * records, p);
    }
    [[nodiscard]] const importing::journal& journal() const { return *base::journal_; }
    [[nodiscard]] std::uint64_t count(std::size_t split) const { return journal()["edges" + std::to_string(split)]; }

    void expect(const char* what, std::uint64_t found, std::uint64_t expected) const {
        if (expected != 0 && found != expected)
            throw error(errc::corrupt,
                "has " + std::to_string(found) + " " + what + " where " + std::to_string(expected) +
                    " are known to be: it is damaged, or another version",
                {.path = base::sources_[0].source.path});
    }

    /// Relation ids are ranks by name; integers stay as they are.
    void order_relations() {
        const auto names = base::load_relations();
        if (names.empty()) {
            report_.relations = journal()["relations"];
            return;
        }
        std::vector<relation_id> by_name(names.size());
        std::iota(by_name.begin(), by_name.end(), relation_id{0});
        std::sort(by_name.begin(), by_name.end(), [&](relation_id a, relation_id b) { return names[a] < names[b]; });
        relations_.resize(names.size());
        npy_writer offsets(base::partial_ / "relation_names.offsets.npy", npy_dtype::i64);
        npy_writer bytes(base::partial_ / "relation_names.bytes.npy", npy_dtype::u8);
        std::int64_t end = 0;
        offsets.append(end);
        for (std::size_t rank = 0; rank < by_name.size(); ++rank) {
            const std::string& name = names[by_name[rank]];
            relations_[by_name[rank]] = static_cast<relation_id>(rank);
            bytes.append_bytes(std::as_bytes(std::span(name)));
            offsets.append(end += static_cast<std::int64_t>(name.size()));
        }
        offsets.close();
        bytes.close();
        report_.relations = names.size();
    }

    /// Integer ids: the array of rows by node if it fits; else, without a table of names, ids are computed.
    void with_numbers() {
        array_map map(base::partial_ / "node_to_row.npy", page_alignment, report_.nodes, base::memory() / 3);
        if (map.slices() == 1 || base::options_.names_nodes()) {
            write_nodes(map);
            return sort_edges<edge>(map);
        }
        permutation_map computed{
            keyed_permutation(report_.nodes, random_key(base::options_.seed, random_domain::node_permutation))};
        write_nodes(computed);
        sort_edges<edge>(computed);
    }

    /// Partitions cut the node attributes too: an import that goes on keeps to what it chose, whatever the memory now is.
    [[nodiscard]] std::uint32_t choose_or_keep_partitions() {
        if (base::options_.partitions != 0) return base::options_.partitions;
        if (const std::uint64_t chosen = journal()["partitions"]; chosen != 0)
            return static_cast<std::uint32_t>(chosen);
        const std::uint32_t chosen = choose_partitions(report_.nodes, base::options_.memory);
        base::journal_->set("partitions", chosen);
        base::journal_->save();
        return chosen;
    }

    template <class Map>
    void write_nodes(Map& map) {
        const import_node_attributes& data = base::options_.node_attributes;
        if (data.empty()) return;
        const node_job options{.data = &data,
            .partial = base::partial_,
            .rows = {report_.nodes, report_.partitions},
            .keys = base::node_keys_below(report_.nodes),
            .memory = base::memory() - base::memory() / 3,
            .seed = base::options_.seed,
            .progress = [this](std::string_view phase, std::uint64_t done, std::uint64_t total) {
                base::report(phase, done, total, "nodes");
            }};
        write_node_data(options, map, *base::journal_);
        report_.node_attributes = {journal()["features"], journal()["classes"], journal()["train_nodes"],
            journal()["valid_nodes"], journal()["test_nodes"]};
        report_.unlabeled_tests = journal()["unlabelled_tests"];
    }

    template <class Record, class Map>
    void sort_edges(Map& map) {
        const std::filesystem::path& partial = base::partial_;
        const std::uint64_t memory = base::memory();
        const row_partitioning rows{report_.nodes, report_.partitions};
        const bucket_layout layout{rows, report_.relations};
        const bool held_out = count(1) + count(2) != 0;
        // Nodes and relations that training edges name, to tell what valid and test edges add.
        memory_budget budget(memory / 8);
        memory_charge seen_charge;
        if (held_out) seen_charge = budget.charge("one bit for every node", report_.nodes / 8 + 8);
        bitmap seen_nodes(held_out ? static_cast<std::size_t>(report_.nodes) : 0);
        bitmap seen_relations(held_out ? static_cast<std::size_t>(report_.relations) : 0);
        // The map of nodes takes at most a third, bits, blocks and the sort of a split an eighth each; the rest sorts.
        const std::uint64_t sort_memory = memory - std::min(map.memory(), memory / 3) - memory / 8 * 3;
        bucket_builder<E> builder(layout, sort_memory, partial, base::executor_);
        std::uint64_t done = 0, total = count(0) + count(1) + count(2);
        const auto translate = [&](std::size_t split, auto&& sink) {
            translate_edges<Record>(base::raw_path(split), map, relations_, base::work("join"), memory / 8, base::executor_,
                [&](std::span<const edge> edges) {
                    sink(edges);
                    base::report("edges", done += edges.size(), total, "edges");
                });
        };
        translate(0, [&](std::span<const edge> edges) {
            builder.push(edges);
            if (!held_out) return;
            for (const edge& e : edges) {
                seen_nodes.set(e.source);
                seen_nodes.set(e.destination);
                seen_relations.set(e.relation);
            }
        });
        for (const std::size_t split : {std::size_t{1}, std::size_t{2}}) {
            external_sorter<edge, std::less<>, E> sorter(partial, memory / 8, {}, base::executor_);
            translate(split, [&](std::span<const edge> edges) {
                for (const edge& e : edges) {
                    const bool seen = seen_nodes[e.source] && seen_nodes[e.destination] && seen_relations[e.relation];
                    report_.unseen += !seen;
                    if (!seen && base::options_.unseen_to_train) {
                        builder.push(e);
                        ++report_.moved;
                    } else {
                        sorter.push(e);
                    }
                }
            });
            npy_writer out(partial / (split == 1 ? "valid.npy" : "test.npy"), npy_dtype::u32, {3});
            static_assert(sizeof(edge) == 12 && offsetof(edge, relation) == 4);
            std::uint64_t written = 0;
            sorter.for_each_block([&](std::span<const edge> edges) {
                out.append_bytes(std::as_bytes(edges));
                written += edges.size();
            });
            out.close();
            (split == 1 ? report_.valid_edges : report_.test_edges) = written;
        }
        report_.train_edges = builder.edges();
        npy_writer out(partial / "edges.out.npy", npy_dtype::u32), in(partial / "edges.in.npy", npy_dtype::u32);
        const auto table = builder.finish(
            out, in, [&](std::uint64_t written) { base::report("buckets", written, report_.train_edges, "edges"); });
        out.close();
        in.close();
        npy_writer rows_out(partial / "edges.table.npy", npy_dtype::u64, {6});
        rows_out.append_bytes(std::as_bytes(std::span(table)));
        rows_out.close();
        report_.edges = report_.train_edges + report_.valid_edges + report_.test_edges;
    }

    /// Writes the manifest, drops what was only needed on the way, and puts the dataset in its place.
    void finish() {
        const import_options& options = base::options_;
        dataset_manifest manifest;
        manifest.name = options.name.empty() ? options.out.filename().string() : options.name;
        manifest.ids = base::integer_ && !options.names_nodes() ? dataset_ids::integer : dataset_ids::string;
        manifest.task = options.task.value_or(report_.node_attributes.classes != 0 ? dataset_task::node : dataset_task::link);
        manifest.nodes = report_.nodes;
        manifest.node_attributes = report_.node_attributes;
        manifest.relations = report_.relations;
        manifest.train_edges = report_.train_edges;
        manifest.valid_edges = report_.valid_edges;
        manifest.test_edges = report_.test_edges;
        manifest.partitions = report_.partitions;
        manifest.seed = base::hash_seed_; // another than the user's only after a collision of hashes
        manifest.provenance.tool = "gneiss import";
        manifest.provenance.options = options.provenance;
        for (const planned_source& s : base::sources_) {
            std::error_code failed;
            const auto size = std::filesystem::file_size(s.source.path, failed);
            manifest.provenance.sources.push_back({s.source.path.filename().string(), failed ? 0 : size});
        }
        for (const auto& file : files_of(options.node_attributes))
            manifest.provenance.sources.push_back({file.filename().string(), std::filesystem::file_size(file)});
        for (const auto& entry : std::filesystem::directory_iterator(base::partial_))
            if (entry.path().extension() == ".npy") {
                const npy_header header = read_npy_header(plain_file::open(entry.path()));
                manifest.arrays.push_back({entry.path().stem().string(), header.dtype, header.shape, header.bytes()});
            }
        std::sort(manifest.arrays.begin(), manifest.arrays.end(),
            [](const dataset_array& a, const dataset_array& b) { return a.name < b.name; });
        write_manifest(base::partial_ / "manifest.json", manifest);
        (void)dataset(base::partial_).buckets(); // opens it as a reader would
        for (const auto& entry : std::filesystem::directory_iterator(base::partial_)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with("work-") || name == "journal") std::filesystem::remove_all(entry.path());
        }
        sync_directory(base::partial_);
        // What stood there is moved away first, so that at any time one whole dataset is to be found.
        const std::filesystem::path old = options.out.string() + ".old";
        std::error_code failed;
        if (std::filesystem::exists(options.out, failed)) {
            std::filesystem::remove_all(old);
            std::filesystem::rename(options.out, old);
        }
        std::filesystem::rename(base::partial_, options.out);
        std::filesystem::remove(options.out / "lock", failed); // only now: until then it keeps another import away
        sync_directory(std::filesystem::absolute(options.out).parent_path());
        std::filesystem::remove_all(old, failed);
    }

    import_report report_;
    std::vector<relation_id> relations_; ///< id of every provisional one; empty: they stay
};

} // namespace importing

/// Makes a dataset from files of edges, of any size, within `options.memory`.
///
///     import_options options;
///     options.sources = {{"train.tsv.gz"}, {"valid.tsv", edge_split::valid}};
///     options.out = "dataset";
///     import_report report = import_dataset(options, tbb_executor());
///
/// The dataset depends on the set of edges, the options and the seed; not on the order of lines, the memory or the
/// threads. Work is done in OUT.partial, which a later call with the same options and sources goes on with after the
/// last finished phase; OUT appears as a whole at the end and nothing there is replaced without `force`.
///
/// With `options.node_attributes` the features, labels and split of nodes are brought into the order of rows, each within the
/// same memory; an import that was stopped goes on after the last of them.
///
/// Cost: text is parsed once; every edge is written and read once between the passes, twice more when the map of nodes
/// does not fit, and sorted once. Disk: about 64 bytes per edge for the time being, 25 stay.
/// Errors: `error` and `io_error`, one line that names file, line and column; `over_budget` where memory cannot do.
template <executor E>
import_report import_dataset(const import_options& options, const E& executor) {
    return importing::import_run<E>(options, executor).run();
}

} // namespace gneiss
