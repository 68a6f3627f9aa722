#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/io/export.hpp>
#include <gneiss/io/import/id_maps.hpp>
#include <gneiss/io/import/journal.hpp>
#include <gneiss/io/import/node_phase.hpp>
#include <gneiss/io/import/permutation.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/io/row_shuffle.hpp>
#include <gneiss/storage/bucket_builder.hpp>
#include <gneiss/storage/external_sort.hpp>

namespace gneiss {

/// Which order `reorder` gives to the rows: that of a file, the training nodes first, or one that is computed.
struct reorder_options {
    /// Integers [nodes], .npy: entry r is the node that becomes row r, by its number in the source; where nodes have
    /// names, by its present row.
    std::filesystem::path by{};
    bool training_first = false; ///< training nodes take the first rows; random within them and within the others
    std::optional<row_shuffle> shuffle{}; ///< of all rows of the source
    std::uint64_t seed = 0;       ///< of the random orders of `training_first`
    std::uint32_t partitions = 0; ///< of the dataset to make; 0: as many as the source has
    std::uint64_t memory = 256 << 20;
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress{};
    std::stop_token stop{};
};

namespace detail {

/// One `reorder`. Old and new are rows before and after.
template <executor E>
class row_reordering {
public:
    row_reordering(const dataset& from, const std::filesystem::path& to, const reorder_options& options, const E& on)
        : from_(from),
          options_(options),
          on_(on),
          writer_(to),
          nodes_(from.manifest().nodes) {}

    void run() {
        from_.verify_labels();
        for (const char* name :
            {"features", "features.indptr", "features.indices", "features.values", "labels", "split"})
            if (from_.has(name)) {
                tell(name, 0, 0);
                from_.checksums(name).verify_file(plain_file::open(from_.path(name)));
            }
        if (options_.training_first)
            training_first();
        else if (options_.shuffle)
            shuffled();
        else
            by_file();
        write_ids();
        write_node_data();
        importing::array_map new_row = map_of(new_of_old(), options_.memory / 4);
        write_edges(new_row);
        for (const words_on_disk& scratch : {old_of_new(), new_of_old()}) std::filesystem::remove(scratch.path);
        dataset_manifest manifest = from_.manifest();
        manifest.arrays.clear();
        manifest.partitions = rows().partitions;
        manifest.provenance.options +=
            "reordered: " +
            (options_.training_first ? "training nodes first, seed " + std::to_string(options_.seed)
             : options_.shuffle      ? "at random"
                                     : "by " + options_.by.filename().string()) +
            "\n";
        writer_.commit(std::move(manifest));
    }

private:
    using words_on_disk = importing::words_on_disk;

    /// Of the dataset to make.
    [[nodiscard]] row_partitioning rows() const noexcept {
        return {nodes_, options_.partitions != 0 ? options_.partitions : from_.manifest().partitions};
    }
    [[nodiscard]] std::filesystem::path work(const char* name) const {
        return writer_.partial() / ("work-" + std::string(name));
    }
    [[nodiscard]] words_on_disk old_of_new() const { return {work("old"), 0, nodes_}; }
    [[nodiscard]] words_on_disk new_of_old() const { return {work("new"), 0, nodes_}; }
    [[nodiscard]] words_on_disk array(std::string_view name) const {
        return {from_.path(name), page_alignment, nodes_};
    }
    [[nodiscard]] static importing::array_map map_of(const words_on_disk& words, std::uint64_t memory) {
        return {words.path, words.offset, words.count, memory};
    }
    void tell(std::string_view phase, std::uint64_t done, std::uint64_t total) const {
        if (options_.stop.stop_requested())
            throw error(errc::cancelled, "interrupted: nothing was reordered", {.path = writer_.partial()});
        if (options_.progress) options_.progress(phase, done, total);
    }
    /// A scratch file of words; `make(append)` gives them.
    template <class Make>
    static void write_words(const std::filesystem::path& path, Make&& make) {
        plain_file file = plain_file::create(path);
        sequential_writer out(file);
        make([&](std::span<const node_id> words) { out.append(std::as_bytes(words)); });
    }
    void invert(const words_on_disk& words, const std::filesystem::path& name, const std::filesystem::path& to) const {
        write_words(to, [&](const auto& append) { importing::invert_words(words, name, options_.memory, append); });
    }
    template <class Emit>
    void gather(const words_on_disk& words, const words_on_disk& values, Emit&& emit) const {
        importing::array_map map = map_of(values, options_.memory / 2);
        importing::gather_words(words, map, work("gather"), options_.memory / 4, emit);
    }

    void by_file() {
        npy_reader in(options_.by);
        if (in.header().shape != std::vector<std::uint64_t>{nodes_})
            throw error(errc::invalid_format,
                "is " + shape_text(in.header().shape) + ", an order of rows has an entry for each of " +
                    std::to_string(nodes_) + " nodes",
                {.path = options_.by, .field = "npy shape"});
        const words_on_disk given{work("order"), 0, nodes_};
        write_words(given.path, [&](const auto& append) {
            std::vector<node_id> some(1 << 14);
            while (const std::size_t got = in.read_as(std::span(some)))
                append(std::span<const node_id>(some).first(got));
        });
        tell("order", 0, nodes_);
        // The inverse finds what is missing or twice, in the numbers of the file.
        invert(given, options_.by, new_of_old().path);
        if (from_.has("node_to_row") && from_.manifest().ids == dataset_ids::integer) {
            write_words(old_of_new().path, [&](const auto& append) { gather(given, array("node_to_row"), append); });
            invert(old_of_new(), from_.path("node_to_row"), new_of_old().path);
            std::filesystem::remove(given.path);
        } else {
            std::filesystem::rename(given.path, old_of_new().path);
        }
    }

    void training_first() {
        const auto parts = from_.node_splits();
        const std::uint64_t training = from_.manifest().node_data.train;
        if (training == 0)
            throw error(errc::invalid_argument, "has no training nodes to put first", {.path = from_.directory()});
        const row_shuffle order(nodes_, training, {options_.seed, random_domain::node_permutation});
        std::uint64_t trained = 0, other = training;
        by_rule([&](std::uint64_t row) {
            return order(parts.values()[row] == static_cast<std::uint8_t>(node_split::train) ? trained++ : other++);
        });
    }

    void shuffled() {
        if (options_.shuffle->rows() != nodes_)
            throw error(errc::invalid_argument,
                "an order of " + std::to_string(options_.shuffle->rows()) + " rows is not one of " +
                    std::to_string(nodes_) + " nodes",
                {.path = from_.directory()});
        by_rule(*options_.shuffle);
    }

    /// `new_row(old)` is asked for all rows, ascending.
    template <class NewRow>
    void by_rule(NewRow&& new_row) {
        write_words(new_of_old().path, [&](const auto& append) {
            std::vector<node_id> some;
            for (std::uint64_t row = 0; row < nodes_; ++row) {
                some.push_back(new_row(row));
                if (some.size() < (1 << 14) && row + 1 < nodes_) continue;
                append(std::span<const node_id>(some));
                some.clear();
            }
        });
        tell("order", 0, nodes_);
        invert(new_of_old(), work("new"), old_of_new().path);
    }

    /// Who is which row: by number or rank, both ways. Names and their hashes stay as they are.
    void write_ids() {
        const auto [forward, back] = from_.row_arrays();
        tell("ids", 0, nodes_);
        {
            npy_writer& out = writer_.array(std::string(back), npy_dtype::u32);
            const auto append = [&](std::span<const node_id> words) { out.append(words); };
            if (from_.has(back))
                gather(old_of_new(), array(back), append);
            else
                importing::for_each_words(
                    old_of_new(), options_.memory / 4, [&](std::uint64_t, auto words) { append(words); });
            writer_.close(back);
        }
        npy_writer& out = writer_.array(std::string(forward), npy_dtype::u32);
        const std::filesystem::path made = writer_.partial() / (std::string(back) + ".npy");
        importing::invert_words({made, page_alignment, nodes_}, made, options_.memory,
            [&](std::span<const node_id> words) { out.append(words); });
        writer_.close(forward);
        for (const dataset_array& a : from_.manifest().arrays)
            if (a.name.starts_with("names.") || a.name.starts_with("relation_names.") ||
                a.name.starts_with("class_names.")) {
                copy_array(from_, a.name, writer_.partial());
                writer_.adopt(a.name);
            }
    }

    /// As an import of the old arrays would, where old rows are the numbers of nodes.
    void write_node_data() {
        const auto path = [&](const char* name) {
            return from_.has(name) ? from_.path(name) : std::filesystem::path();
        };
        import_node_data data;
        data.features = path("features");
        data.indptr = path("features.indptr");
        data.indices = path("features.indices");
        data.values = path("features.values");
        data.num_features = from_.manifest().node_data.features;
        data.labels = path("labels");
        data.classes = from_.manifest().node_data.classes;
        data.split = path("split");
        data.nodes = nodes_;
        if (data.empty()) return;
        const importing::node_job how{.data = &data,
            .partial = writer_.partial(),
            .rows = rows(),
            .keys = {.nodes = nodes_},
            .memory = options_.memory - options_.memory / 4,
            .seed = options_.seed,
            .tell = [this](
                        std::string_view phase, std::uint64_t done, std::uint64_t total) { tell(phase, done, total); }};
        importing::array_map map = map_of(new_of_old(), options_.memory / 4);
        importing::journal done(work("journal"), 0);
        importing::write_node_data(how, map, done);
        std::filesystem::remove(work("journal"));
        for (const char* name :
            {"features", "features.indptr", "features.indices", "features.values", "labels", "split"})
            if (std::filesystem::exists(writer_.partial() / (std::string(name) + ".npy"))) writer_.adopt(name);
    }

    /// Gives the edges that `stream(take)` tells to `sink`, with new rows.
    template <class Stream, class Sink>
    void translate(importing::array_map& new_row, Stream&& stream, Sink&& sink) {
        std::vector<edge> some;
        if (new_row.slices() == 1) {
            new_row.load(0);
            stream([&](std::span<const edge> edges) {
                for (; !edges.empty(); edges = edges.subspan(some.size())) {
                    some.assign(edges.begin(),
                        edges.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(edges.size(), 1 << 12)));
                    for (edge& e : some) e = {new_row(e.source), e.relation, new_row(e.destination)};
                    sink(std::span<const edge>(some));
                }
            });
            return;
        }
        {
            plain_file file = plain_file::create(work("edges"));
            sequential_writer out(file);
            stream([&](std::span<const edge> edges) { out.append(std::as_bytes(edges)); });
        }
        importing::translate_edges<edge>(work("edges"), new_row, {}, work("join"), options_.memory / 8, on_, sink);
        std::filesystem::remove(work("edges"));
    }

    void write_edges(importing::array_map& new_row) {
        const dataset_manifest& m = from_.manifest();
        bucket_builder<E> builder({rows(), m.relations}, options_.memory / 2, writer_.partial(), on_);
        std::uint64_t read = 0;
        translate(
            new_row,
            [&](const auto& take) {
                from_.buckets().for_each_edge([&](std::span<const edge> edges) {
                    tell("edges", read += edges.size(), m.train_edges);
                    take(edges);
                });
            },
            [&](std::span<const edge> edges) { builder.push(edges); });
        writer_.edges(builder, [&](std::uint64_t written) { tell("buckets", written, m.train_edges); });
        for (const char* split : {"valid", "test"}) {
            if (!from_.has(split)) continue;
            tell(split, 0, 0);
            const mapped_edges edges = from_.split(split);
            external_sorter<edge, std::less<>, E> sorter(
                writer_.partial(), std::max<std::uint64_t>(options_.memory / 2, 1024), {}, on_);
            translate(
                new_row, [&](const auto& take) { take(edges.edges()); },
                [&](std::span<const edge> some) { sorter.push(some); });
            npy_writer& out = writer_.array(split, npy_dtype::u32, {3});
            sorter.for_each_block([&](std::span<const edge> some) { out.append_bytes(std::as_bytes(some)); });
            writer_.close(split);
        }
    }

    const dataset& from_;
    const reorder_options& options_;
    const E& on_;
    dataset_writer writer_;
    std::uint64_t nodes_;
};

} // namespace detail

/// Makes a dataset at `to` that is `from` with its rows in another order: edges, splits, features, labels and parts
/// follow, and names or numbers lead to the new rows.
///
/// The result depends on the data, the order and the seed; not on the memory or the threads. `to` appears as a whole at
/// the end, durably, or not at all; a run that was killed leaves `to`.partial, which the next one clears.
/// Cost: one external sort of the edges; features are dealt out to windows of rows on disk once, if they exceed a
/// quarter of the memory; a few passes over arrays of 4 bytes a node. Scratch space: 12 bytes an edge and 8 a node, and
/// the features once more. Memory: `options.memory` (at least 1 MiB), and the largest bucket of `from`.
/// Errors: errc::already_exists; errc::invalid_format and errc::out_of_range, naming the entry, for a file that is no
/// order of all nodes; errc::invalid_argument unless there is one of `by`, `training_first` and `shuffle`, without
/// training nodes, or for a shuffle of another number of rows; errc::corrupt where `from` is damaged; errc::cancelled on a stop, which leaves nothing; over_budget;
/// io_error. Source: MariusGNN, EuroSys'23, §5.2 (training nodes take the first partitions).
template <executor E>
void reorder(const dataset& from, const std::filesystem::path& to, const reorder_options& options, const E& on) {
    constexpr std::uint64_t least = std::uint64_t{1} << 20;
    if (options.memory < least) throw over_budget(options.memory, {{"least buffers to reorder with", least}});
    if (int{!options.by.empty()} + int{options.training_first} + int{options.shuffle.has_value()} != 1)
        throw error(errc::invalid_argument,
            "an order of rows is given by a file, by training nodes first or by a rule: one of them");
    detail::row_reordering<E>(from, to, options, on).run();
}

} // namespace gneiss
