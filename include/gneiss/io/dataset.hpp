// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/manifest.hpp>
#include <gneiss/io/names.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace gneiss {

static_assert(
    sizeof(edge) == 12 && std::is_standard_layout_v<edge>, "rows (source, relation, destination) of u32 are edges");

/// Edges of a split, mapped. Moves in O(1).
class mapped_edges {
public:
    mapped_edges() = default;
    /// Views an array of u32 rows (source, relation, destination).
    explicit mapped_edges(mapped_npy array) : array_(std::move(array)) {
        const auto words = array_.elements<std::uint32_t>();
        edges_ = {reinterpret_cast<const edge*>(words.data()), words.size() / 3};
    }
    /// Returns all edges.
    [[nodiscard]] std::span<const edge> edges() const noexcept { return edges_; }

private:
    mapped_npy array_;
    std::span<const edge> edges_;
};

/// A dataset directory, open for reading.
///
///     dataset data("fb15k-237");
///     bucket_store buckets = data.buckets();
///     for (const edge& e : data.split("valid").edges()) …
///
/// A *row* is an internal id, 0 … nodes − 1; a *node* is the source's id: an integer, or a name. Opening reads the
/// manifest, and the header and list of checksums of each array; data is mapped but not accessed. References stay valid
/// while this exists. Immutable and thread-safe once opened.
/// Errors: `io_error`; `error` naming file and field.
///
/// From examples/16_graph_network.cpp:
/// \snippet 16_graph_network.cpp stores
class dataset {
public:
    /// Opens a dataset and checks its manifest.
    explicit dataset(std::filesystem::path directory)
        : directory_(std::move(directory)),
          manifest_(read_manifest(directory_ / "manifest.json")),
          rows_(manifest_.rows()) {
        const dataset_manifest& m = manifest_;
        for (const dataset_array& a : m.arrays) (void)open(a);
        check_node_attributes();
        expect_edges("valid", m.valid_edges);
        expect_edges("test", m.test_edges);
        if (m.ids == dataset_ids::string) {
            node_names_ = names("names", m.nodes);
        }
        const auto [forward, back] = row_arrays();
        if (has(forward)) {
            node_to_row_ = map(forward, npy_dtype::u32, m.nodes);
            row_to_node_ = map(back, npy_dtype::u32, m.nodes);
        }
        if (has("relation_names.offsets")) relation_names_ = names("relation_names", m.relations);
        if (has("class_names.offsets")) label_names_ = names("class_names", m.node_attributes.classes);
    }

    /// Returns the directory.
    [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }
    /// Returns the manifest.
    [[nodiscard]] const dataset_manifest& manifest() const noexcept { return manifest_; }
    /// Returns the partitions of the rows.
    [[nodiscard]] const row_partitioning& rows() const noexcept { return rows_; }

    // Arrays by name, without ".npy".
    /// Returns the path of an array.
    [[nodiscard]] std::filesystem::path path(std::string_view array) const {
        return directory_ / (std::string(array) + ".npy");
    }
    /// Returns the manifest's entry of an array; null without it.
    [[nodiscard]] const dataset_array* find(std::string_view array) const noexcept {
        for (const dataset_array& a : manifest_.arrays)
            if (a.name == array) return &a;
        return nullptr;
    }
    /// True if the dataset has an array.
    [[nodiscard]] bool has(std::string_view array) const noexcept { return find(array) != nullptr; }
    /// Maps an array after checking its header against manifest and checksums. Throws errc::not_found.
    [[nodiscard]] mapped_npy map(std::string_view array) const { return open(entry(array)).first; }
    /// Returns the checksums of an array.
    [[nodiscard]] checksum_table checksums(std::string_view array) const { return open(entry(array)).second; }

    /// Opens the training edges.
    [[nodiscard]] bucket_store buckets() const {
        const std::uint64_t p = manifest_.partitions;
        const auto [table, sums] = open(entry("edges.table"));
        if (table.header().shape != std::vector<std::uint64_t>{p * p, 6})
            throw error(errc::invalid_format, "shape must be [partitions², 6]",
                {.path = path("edges.table"), .field = "shape"});
        const auto words = table.elements<std::uint64_t>();
        sums.verify(path("edges.table"), 0, std::as_bytes(words));
        std::vector<bucket_row> rows_of_table(words.size() / 6);
        if (!words.empty()) std::memcpy(static_cast<void*>(rows_of_table.data()), words.data(), words.size_bytes());
        const auto blocks = [&](std::string_view name) {
            if (entry(name).dtype != npy_dtype::u32)
                throw error(errc::invalid_format, "must be u32", {.path = path(name), .field = "dtype"});
            return bucket_store::block_file{path(name), checksums(name)};
        };
        bucket_store store({rows(), manifest_.relations}, std::move(rows_of_table), blocks("edges.out"),
            blocks("edges.in"), path("edges.table"));
        if (store.edges() != manifest_.train_edges)
            throw error(errc::corrupt,
                "holds " + std::to_string(store.edges()) + " edges, the manifest says " +
                    std::to_string(manifest_.train_edges),
                {.path = path("edges.table"), .field = "edges.train"});
        return store;
    }

    /// Returns "valid" or "test": verified, ids in range, ordered by source, destination and relation. Empty if the
    /// dataset has none. Cost: one pass over 12 bytes per edge.
    [[nodiscard]] mapped_edges split(std::string_view name) const {
        if (name != "valid" && name != "test")
            throw error(errc::not_found,
                "no split '" + std::string(name) + "': valid and test are stored, train is in buckets");
        if (!has(name)) return {};
        auto [array, sums] = open(entry(name));
        sums.verify(path(name), 0, std::as_bytes(array.elements<std::uint32_t>()));
        mapped_edges found(std::move(array));
        for (std::size_t i = 0; i < found.edges().size(); ++i) {
            const edge& e = found.edges()[i];
            if (e.source >= manifest_.nodes || e.destination >= manifest_.nodes ||
                e.relation >= std::max<std::uint64_t>(manifest_.relations, 1))
                throw error(errc::out_of_range, "edge " + std::to_string(i) + " has an id out of range",
                    {.path = path(name), .offset = page_alignment + i * sizeof(edge), .length = sizeof(edge)});
        }
        return found;
    }

    /// Returns the features of nodes by row; empty if there are none. Opening reads headers and checksums only.
    [[nodiscard]] node_features features() const {
        const std::uint64_t columns = manifest_.node_attributes.features;
        if (columns == 0) return {};
        std::optional<checked_array> values;
        if (has("features.values")) values = checked("features.values");
        node_features found = has("features")
            ? node_features(checked("features"))
            : node_features(checked("features.indptr"), checked("features.indices"), std::move(values), columns);
        if (found.rows() != manifest_.nodes || found.columns() != columns)
            throw error(errc::invalid_format,
                "features are " + shape_text(std::array{found.rows(), found.columns()}) + ", the manifest says " +
                    shape_text(std::array{manifest_.nodes, columns}),
                {.path = path(has("features") ? "features" : "features.indptr"), .field = "shape"});
        return found;
    }
    /// Returns the class of each row, or `no_label`: verified, and below the number of classes. Empty if there are
    /// none. One pass.
    [[nodiscard]] mapped_array<std::int32_t> labels() const {
        mapped_array<std::int32_t> found = node_array<std::int32_t>("labels");
        const auto values = found.values();
        for (std::size_t row = 0; row < values.size(); ++row)
            if (values[row] < no_label || std::cmp_greater_equal(values[row], manifest_.node_attributes.classes))
                throw error(errc::out_of_range,
                    "row " + std::to_string(row) + " has the label " + std::to_string(values[row]) + " of " +
                        std::to_string(manifest_.node_attributes.classes) + " classes",
                    {.path = path("labels")});
        return found;
    }
    /// Returns the rows of targets of a dataset with several labels per node or numbers: verified. Empty if there are
    /// none. One pass.
    [[nodiscard]] mapped_targets targets() const {
        const dataset_node_attributes& said = manifest_.node_attributes;
        if (said.target == node_target_kind::classes || said.classes == 0) return {};
        const bool labels = said.target == node_target_kind::multilabel;
        const dataset_array& a = entry("targets");
        if (a.dtype != (labels ? npy_dtype::u8 : npy_dtype::f32) ||
            a.shape != std::vector<std::uint64_t>{manifest_.nodes, said.classes})
            throw error(errc::invalid_format,
                std::string("must be ") + (labels ? "u8 (" : "f32 (") + std::to_string(manifest_.nodes) + ", " +
                    std::to_string(said.classes) + ")",
                {.path = path("targets"), .field = "shape"});
        mapped_npy array = map("targets");
        const auto wrong = [&](std::size_t at, const std::string& what) {
            return error(errc::out_of_range,
                "row " + std::to_string(at / said.classes) + ", column " + std::to_string(at % said.classes) + ", " +
                    what,
                {.path = path("targets")});
        };
        if (labels) {
            const auto values = array.elements<std::uint8_t>();
            checksums("targets").verify(path("targets"), 0, std::as_bytes(values));
            for (std::size_t i = 0; i < values.size(); ++i)
                if (values[i] > 1 && values[i] != no_target)
                    throw wrong(i, "is " + std::to_string(values[i]) + ": labels are 0, 1 or 255 for none");
        } else {
            const auto values = array.elements<float>();
            checksums("targets").verify(path("targets"), 0, std::as_bytes(values));
            for (std::size_t i = 0; i < values.size(); ++i)
                if (std::isinf(values[i])) throw wrong(i, "is infinite");
        }
        return mapped_targets(std::move(array));
    }
    /// Returns the part of each row: verified, with the counts of the manifest. Empty if there are none. One pass.
    [[nodiscard]] mapped_array<std::uint8_t> node_splits() const {
        mapped_array<std::uint8_t> found = node_array<std::uint8_t>("split");
        std::array<std::uint64_t, 4> counts{};
        for (const std::uint8_t part : found.values()) {
            if (part >= counts.size())
                throw error(errc::out_of_range, "a part is " + std::to_string(part) + ", 0 to 3 are known",
                    {.path = path("split")});
            ++counts[part];
        }
        const dataset_node_attributes& said = manifest_.node_attributes;
        if (counts[0] != said.train || counts[1] != said.valid || counts[2] != said.test)
            throw error(errc::corrupt, "has other numbers of train, valid and test nodes than the manifest",
                {.path = path("split")});
        return found;
    }
    /// Returns the rows of a part, ascending. One pass over the split; 4 bytes per row found.
    [[nodiscard]] std::vector<node_id> nodes_of(node_split part) const {
        std::vector<node_id> found;
        const auto parts = node_splits();
        for (std::size_t row = 0; row < parts.values().size(); ++row)
            if (parts.values()[row] == static_cast<std::uint8_t>(part)) found.push_back(static_cast<node_id>(row));
        return found;
    }

    /// Returns the partition that each hub left when it was pinned, which holds most of its neighbors, or 0 for none:
    /// verified, and not a pinned one. Empty if the dataset does not say. Shape [nodes of the pinned partitions].
    [[nodiscard]] mapped_array<partition_id> hub_partitions() const {
        if (!has("hub_partitions")) return {};
        mapped_array<partition_id> found(map("hub_partitions", npy_dtype::u32, rows_.begin(manifest_.pinned)));
        checksums("hub_partitions").verify(path("hub_partitions"), 0, std::as_bytes(found.values()));
        for (std::size_t hub = 0; hub < found.values().size(); ++hub)
            if (const partition_id p = found.values()[hub];
                p != 0 && (p < manifest_.pinned || p >= manifest_.partitions))
                throw error(errc::out_of_range,
                    "hub " + std::to_string(hub) + " has the partition " + std::to_string(p) + " of " +
                        std::to_string(manifest_.partitions),
                    {.path = path("hub_partitions")});
        return found;
    }

    /// Returns the names of the arrays from a node's number, or the rank of its name, to its row, and back. Absent:
    /// they are equal.
    [[nodiscard]] std::pair<std::string_view, std::string_view> row_arrays() const noexcept {
        if (manifest_.ids == dataset_ids::string) return {"rank_to_row", "row_to_rank"};
        return {"node_to_row", "row_to_node"};
    }
    /// Empty if relations are numbers.
    [[nodiscard]] const name_table& relation_names() const noexcept { return relation_names_; }

    /// Returns the source's id of a row; if nodes have names, the place of its name in their order. Precondition: row <
    /// nodes.
    [[nodiscard]] std::uint64_t node_of(std::uint64_t row) const {
        return row_to_node_ ? row_to_node_->elements<std::uint32_t>()[static_cast<std::size_t>(row)] : row;
    }
    /// Returns the place of a row in arrays [nodes] of users: its id if ids are integers, else the row. Precondition:
    /// row < nodes.
    [[nodiscard]] std::uint64_t place_of(std::uint64_t row) const {
        return manifest_.ids == dataset_ids::integer ? in_range(node_of(row)) : row;
    }
    /// Returns the source's name of a row, its id if nodes have none. Precondition: row < nodes.
    [[nodiscard]] std::string node_label(std::uint64_t row) const {
        const std::uint64_t node = node_of(row);
        if (manifest_.ids == dataset_ids::integer) return std::to_string(node);
        if (node >= node_names_.size())
            throw error(errc::corrupt, "holds a rank out of range", {.path = path(row_arrays().second)});
        return std::string(node_names_[node]);
    }
    /// Returns the row of the node that the source calls `label`, if it exists.
    [[nodiscard]] std::optional<std::uint64_t> find_row(std::string_view label) const {
        const auto node =
            manifest_.ids == dataset_ids::string ? node_names_.find(label) : number(label, manifest_.nodes);
        if (!node || !node_to_row_) return node;
        return in_range(node_to_row_->elements<std::uint32_t>()[static_cast<std::size_t>(*node)]);
    }
    /// Returns the row of a node by its number in the source; if nodes have names, a number is a row. Empty beyond the
    /// nodes.
    [[nodiscard]] std::optional<std::uint64_t> row_of(std::uint64_t node) const {
        if (node >= manifest_.nodes) return std::nullopt;
        if (manifest_.ids == dataset_ids::string || !node_to_row_) return node;
        return in_range(node_to_row_->elements<std::uint32_t>()[static_cast<std::size_t>(node)]);
    }
    /// Returns the name of a relation, or its number if relations have no names.
    [[nodiscard]] std::string relation_label(std::uint64_t relation) const {
        return relation < relation_names_.size() ? std::string(relation_names_[relation]) : std::to_string(relation);
    }
    /// Returns the relation with a name or number.
    [[nodiscard]] std::optional<std::uint64_t> find_relation(std::string_view label) const {
        return relation_names_.size() != 0 ? relation_names_.find(label) : number(label, manifest_.relations);
    }

    /// Returns the source's name of a class. Empty if none.
    [[nodiscard]] std::string class_label(std::int32_t label) const {
        if (label < 0) return {};
        const auto id = static_cast<std::uint64_t>(label);
        return id < label_names_.size() ? std::string(label_names_[id]) : std::to_string(label);
    }
    /// Returns the names of labels.
    [[nodiscard]] const name_table& label_names() const noexcept { return label_names_; }

    /// Checks the arrays that labels come from: other calls access single entries, unverified. Call before exposing
    /// labels.
    /// Cost: one pass over names or permutation. Throws errc::corrupt.
    void verify_labels() const {
        for (const dataset_array& a : manifest_.arrays)
            if (a.name.starts_with("names.") || a.name.starts_with("relation_names.") ||
                a.name.starts_with("class_names.") || a.name == row_arrays().first || a.name == row_arrays().second)
                checksums(a.name).verify_file(plain_file::open(path(a.name)));
    }

    /// As `verify_labels`, for the names of classes alone. O(names).
    void verify_class_names() const {
        for (const dataset_array& a : manifest_.arrays)
            if (a.name.starts_with("class_names.")) checksums(a.name).verify_file(plain_file::open(path(a.name)));
    }

    /// Reads everything: all checksums, both directions of all buckets, ranges of ids. Throws at the first fault.
    /// \param progress  called with each array's name before it is read
    template <class Report>
    void verify(Report&& progress) const {
        for (const dataset_array& a : manifest_.arrays) {
            progress(std::string_view(a.name));
            checksums(a.name).verify_file(plain_file::open(path(a.name)));
        }
        (void)split("valid");
        (void)split("test");
        if (has("edges.table")) buckets().verify();
        (void)hub_partitions();
        verify_node_attributes();
        if (node_to_row_) {
            const auto rows_of = node_to_row_->elements<std::uint32_t>(),
                       nodes_of = row_to_node_->elements<std::uint32_t>();
            for (std::size_t node = 0; node < rows_of.size(); ++node)
                if (rows_of[node] >= nodes_of.size() || nodes_of[rows_of[node]] != node)
                    throw error(errc::corrupt,
                        "is not the inverse of " + std::string(row_arrays().second) + " at " + std::to_string(node),
                        {.path = path(row_arrays().first)});
        }
        for (std::uint64_t rank = 0; rank < node_names_.size(); ++rank)
            if (node_names_.find(node_names_[rank]) != rank)
                throw error(
                    errc::corrupt, "name " + std::to_string(rank) + " is not found", {.path = path("names.hashes")});
    }
    /// Verifies all arrays, without reports of progress.
    void verify() const {
        verify([](std::string_view) {});
    }

private:
    [[nodiscard]] const dataset_array& entry(std::string_view array) const {
        if (const dataset_array* found = find(array)) return *found;
        throw error(errc::not_found, "has no array '" + std::string(array) + "'",
            {.path = directory_ / "manifest.json", .field = "arrays"});
    }
    void verify_node_attributes() const {
        features().verify();
        const auto classes = labels();
        const auto rows = targets();
        const auto parts = node_splits();
        std::vector<float> some(rows.columns());
        for (std::size_t row = 0; !rows.empty() && row < parts.values().size(); ++row) {
            if (parts.values()[row] == static_cast<std::uint8_t>(node_split::unused)) continue;
            rows.read(row, some);
            if (std::ranges::all_of(some, [](float x) { return std::isnan(x); }))
                throw error(errc::corrupt, "row " + std::to_string(row) + " belongs to a split and has no target",
                    {.path = path("targets")});
        }
        if (classes.values().empty()) return;
        for (std::size_t row = 0; row < parts.values().size(); ++row)
            if (parts.values()[row] != static_cast<std::uint8_t>(node_split::unused) &&
                classes.values()[row] == no_label)
                throw error(errc::corrupt, "row " + std::to_string(row) + " belongs to a split and has no label",
                    {.path = path("labels")});
    }
    [[nodiscard]] checked_array checked(std::string_view name) const {
        auto [array, sums] = open(entry(name));
        return {plain_file::open(path(name)), array.header(), std::move(sums)};
    }
    template <class T>
    [[nodiscard]] mapped_array<T> node_array(std::string_view name) const {
        if (!has(name)) return {};
        mapped_array<T> found(map(name, npy_dtype_of<T>(), manifest_.nodes));
        checksums(name).verify(path(name), 0, std::as_bytes(found.values()));
        return found;
    }
    [[nodiscard]] std::pair<mapped_npy, checksum_table> open(const dataset_array& a) const {
        const auto file = path(a.name);
        checksum_table sums = checksum_table::load(file);
        sums.verify_header(plain_file::open(file));
        mapped_npy array(file);
        const npy_header& h = array.header();
        if (h.dtype != a.dtype || h.shape != a.shape || h.data_offset != page_alignment ||
            h.bytes() != sums.data_bytes())
            throw error(errc::corrupt,
                "is " + std::string(to_string(h.dtype)) + " " + shape_text(h.shape) + ", the manifest says " +
                    std::string(to_string(a.dtype)) + " " + shape_text(a.shape),
                {.path = file, .field = a.name});
        return {std::move(array), std::move(sums)};
    }
    [[nodiscard]] mapped_npy map(std::string_view name, npy_dtype dtype, std::uint64_t size) const {
        const dataset_array& a = entry(name);
        if (a.dtype != dtype || a.shape != std::vector<std::uint64_t>{size})
            throw error(errc::invalid_format,
                "must be " + std::string(to_string(dtype)) + " (" + std::to_string(size) + ",)",
                {.path = path(name), .field = "shape"});
        return map(name);
    }
    [[nodiscard]] name_table names(const std::string& prefix, std::uint64_t size) const {
        std::optional<mapped_npy> hashes;
        if (has(prefix + ".hashes")) hashes = map(prefix + ".hashes", npy_dtype::u64, size);
        return {map(prefix + ".offsets", npy_dtype::i64, size + 1), map(prefix + ".bytes"), std::move(hashes),
            manifest_.seed};
    }
    /// Holds the sizes of models that the manifest claims against the arrays.
    void check_node_attributes() const {
        const dataset_node_attributes& said = manifest_.node_attributes;
        const auto expect_columns = [&](std::string_view name, std::uint64_t columns, const char* field) {
            const dataset_array* a = find(name);
            const std::uint64_t there = a == nullptr ? 0 : a->shape.size() < 2 ? 1 : a->shape[1];
            if (a != nullptr && columns > there)
                throw error(errc::invalid_format,
                    "has " + std::to_string(there) + " columns, the manifest says " + std::to_string(columns),
                    {.path = path(name), .field = field});
        };
        expect_columns("features", said.features, "node_data.features");
        if (said.target != node_target_kind::classes)
            return expect_columns("targets", said.classes, "node_data.classes");
        constexpr std::uint64_t unnamed = 1 << 16; // classes that no node need have
        if (!has("class_names.offsets") && said.classes > std::max(manifest_.nodes, unnamed))
            throw error(errc::out_of_range,
                std::to_string(said.classes) + " classes of " + std::to_string(manifest_.nodes) + " nodes",
                {.path = directory_ / "manifest.json", .field = "node_data.classes"});
    }
    void expect_edges(std::string_view name, std::uint64_t count) const {
        const dataset_array* a = find(name);
        if (a == nullptr ? count != 0 : a->dtype != npy_dtype::u32 || a->shape != std::vector<std::uint64_t>{count, 3})
            throw error(errc::invalid_format, "must be u32 (" + std::to_string(count) + ", 3)",
                {.path = path(name), .field = "edges." + std::string(name)});
    }
    static std::optional<std::uint64_t> number(std::string_view text, std::uint64_t bound) {
        std::uint64_t value = 0;
        const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (failure != std::errc{} || end != text.data() + text.size() || value >= bound) return std::nullopt;
        return value;
    }
    [[nodiscard]] std::uint64_t in_range(std::uint64_t row) const {
        if (row >= manifest_.nodes)
            throw error(errc::corrupt, "holds a row out of range", {.path = path(row_arrays().first)});
        return row;
    }

    std::filesystem::path directory_;
    dataset_manifest manifest_;
    row_partitioning rows_;
    name_table node_names_, relation_names_, label_names_;
    std::optional<mapped_npy> node_to_row_, row_to_node_;
};

} // namespace gneiss
