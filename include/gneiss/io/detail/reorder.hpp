// SPDX-License-Identifier: Apache-2.0
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

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/io/detail/new_row_order.hpp>
#include <gneiss/io/export.hpp>
#include <gneiss/io/import/detail/id_maps.hpp>
#include <gneiss/io/import/detail/node_features.hpp>
#include <gneiss/io/import/detail/node_job.hpp>
#include <gneiss/io/import/detail/node_labels.hpp>
#include <gneiss/io/import/detail/node_targets.hpp>
#include <gneiss/io/import/detail/permutation.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/io/reorder.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/io/external_sort.hpp>

namespace gneiss {
namespace detail {

/// One call of `reorder`. Old and new are rows before and after.
class row_reordering {
public:
    row_reordering(
        const dataset& from, const std::filesystem::path& to, const reorder_options& options, executor_ref executor)
        : from_(from),
          options_(options),
          executor_(executor),
          writer_(to),
          order_(from, options, writer_.partial()),
          nodes_(from.manifest().nodes) {}

    void run() {
        from_.verify_labels();
        for (const char* name :
            {"features", "features.indptr", "features.indices", "features.values", "labels", "targets", "split"})
            if (from_.has(name)) {
                order_.progress(name, 0, 0);
                from_.checksums(name).verify_file(plain_file::open(from_.path(name)));
            }
        order_.write();
        write_ids();
        if (!order_.hub_partitions().empty()) {
            writer_.array("hub_partitions", npy_dtype::u32).append(order_.hub_partitions());
            writer_.close("hub_partitions");
        }
        write_node_attributes();
        importing::array_map new_row = order_.map_of(order_.new_of_old(), options_.memory / 4);
        write_edges(new_row);
        for (const importing::words_on_disk& scratch : {order_.old_of_new(), order_.new_of_old()})
            std::filesystem::remove(scratch.path);
        dataset_manifest manifest = from_.manifest();
        manifest.arrays.clear();
        manifest.set_rows(order_.rows(), options_.hubs.empty() ? 0 : 1);
        manifest.provenance.options += "reordered: " + order_.described() + "\n";
        writer_.commit(std::move(manifest));
    }

private:
    /// Writes the maps between rows and numbers or ranks. Names and their hashes do not change.
    void write_ids() {
        const auto [forward, back] = from_.row_arrays();
        order_.progress("ids", 0, nodes_);
        {
            npy_writer& out = writer_.array(std::string(back), npy_dtype::u32);
            const auto append = [&](std::span<const node_id> words) { out.append(words); };
            if (from_.has(back))
                order_.gather(order_.old_of_new(), order_.array(back), append);
            else
                importing::for_each_words(
                    order_.old_of_new(), options_.memory / 4, [&](std::uint64_t, auto words) { append(words); });
            writer_.close(back);
        }
        npy_writer& out = writer_.array(std::string(forward), npy_dtype::u32);
        const std::filesystem::path result = writer_.partial() / (std::string(back) + ".npy");
        importing::invert_words({result, page_alignment, nodes_}, result, options_.memory,
            [&](std::span<const node_id> words) { out.append(words); });
        writer_.close(forward);
        for (const dataset_array& a : from_.manifest().arrays)
            if (a.name.starts_with("names.") || a.name.starts_with("relation_names.") ||
                a.name.starts_with("class_names.") || a.name == "target_offsets") {
                copy_array(from_, a.name, writer_.partial());
                writer_.adopt(a.name);
            }
    }

    /// Writes node attributes as an import of the old arrays would, with old rows as node numbers.
    void write_node_attributes() {
        const auto path = [&](const char* name) {
            return from_.has(name) ? from_.path(name) : std::filesystem::path();
        };
        import_node_attributes data;
        data.features = path("features");
        data.indptr = path("features.indptr");
        data.indices = path("features.indices");
        data.values = path("features.values");
        data.num_features = from_.manifest().node_attributes.features;
        data.target = from_.manifest().node_attributes.target;
        data.labels = path(data.target == node_target_kind::classes ? "labels" : "targets");
        data.classes = from_.manifest().node_attributes.classes;
        data.split = path("split");
        data.nodes = nodes_;
        if (data.empty()) return;
        const importing::node_job options{.data = &data,
            .partial = writer_.partial(),
            .rows = order_.rows(),
            .keys = {.nodes = nodes_},
            .memory = options_.memory - options_.memory / 4,
            .seed = options_.seed,
            .poll = [this] { order_.throw_if_stopped(); },
            .progress = [this](std::string_view phase, std::uint64_t done,
                            std::uint64_t total) { order_.progress(phase, done, total); }};
        importing::array_map map = order_.map_of(order_.new_of_old(), options_.memory / 4);
        importing::label_writer<importing::array_map> labels(options, map);
        if (data.has_labels() && data.target != node_target_kind::classes)
            importing::target_writer<importing::array_map>(options, map).write();
        else if (data.has_labels())
            labels.write_labels();
        if (data.has_labels() || data.has_split()) labels.write_split();
        if (data.has_features()) {
            importing::feature_writer<importing::array_map> features(options, map);
            if (data.features.empty())
                (void)features.write();
            else
                features.move_dense();
        }
        for (const char* name :
            {"features", "features.indptr", "features.indices", "features.values", "labels", "targets", "split"})
            if (std::filesystem::exists(writer_.partial() / (std::string(name) + ".npy"))) writer_.adopt(name);
    }

    /// Passes the edges of `stream(take)` to `sink`, with new rows.
    template <class Stream, class Sink>
    void translate(importing::array_map& new_row, Stream&& stream, Sink&& sink) {
        std::vector<edge> some;
        if (new_row.slices() == 1) {
            new_row.load(0);
            stream([&](std::span<const edge> edges) {
                for (; !edges.empty(); edges = edges.subspan(some.size())) {
                    order_.throw_if_stopped();
                    some.assign(edges.begin(),
                        edges.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(edges.size(), 1 << 12)));
                    for (edge& e : some) e = {new_row(e.source), e.relation, new_row(e.destination)};
                    sink(std::span<const edge>(some));
                }
            });
            return;
        }
        {
            plain_file file = plain_file::create(order_.work("edges"));
            sequential_writer out(file);
            stream([&](std::span<const edge> edges) { out.append(std::as_bytes(edges)); });
        }
        importing::translate_edges<edge>(
            order_.work("edges"), new_row, {}, order_.work("join"), options_.memory / 8, executor_,
            [this] { order_.throw_if_stopped(); },
            [&](std::span<const edge> edges) {
                order_.throw_if_stopped();
                sink(edges);
            });
        std::filesystem::remove(order_.work("edges"));
    }

    void write_edges(importing::array_map& new_row) {
        const dataset_manifest& m = from_.manifest();
        bucket_builder<executor_ref> builder(
            {order_.rows(), m.relations}, options_.memory / 2, writer_.partial(), executor_);
        std::uint64_t read = 0;
        translate(
            new_row,
            [&](const auto& take) {
                from_.buckets().for_each_edge([&](std::span<const edge> edges) {
                    order_.progress("edges", read += edges.size(), m.train_edges);
                    take(edges);
                });
            },
            [&](std::span<const edge> edges) { builder.push(edges); });
        writer_.edges(builder, [&](std::uint64_t written) { order_.progress("buckets", written, m.train_edges); });
        for (const char* split : {"valid", "test"}) {
            if (!from_.has(split)) continue;
            order_.progress(split, 0, 0);
            const mapped_edges edges = from_.split(split);
            external_sorter<edge, std::less<>, executor_ref> sorter(
                writer_.partial(), std::max<std::uint64_t>(options_.memory / 2, 1024), {}, executor_);
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
    executor_ref executor_;
    dataset_writer writer_;
    new_row_order order_;
    std::uint64_t nodes_;
};

} // namespace detail

GNEISS_INLINE void reorder(
    const dataset& from, const std::filesystem::path& to, const reorder_options& options, executor_ref executor) {
    constexpr std::uint64_t least = std::uint64_t{1} << 20;
    if (options.memory < least) throw over_budget(options.memory, {{"least buffers to reorder with", least}});
    const bool file = !options.by.empty() || !options.hubs.empty();
    if (int{file} + int{options.training_first} + int{options.shuffle.has_value()} != 1)
        throw error(errc::invalid_argument,
            "an order of rows is given by a file, by hubs, by training nodes first or by a rule: one of them");
    detail::row_reordering(from, to, options, executor).run();
}

} // namespace gneiss
