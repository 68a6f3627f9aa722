// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/generate/kronecker.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/detail/node_arrays.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/target_offsets.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Options of `expansion_of`.
struct expand_options {
    seed_graph by{}; ///< `random_seed_graph`
    /// Dense features: deviation of the noise, in standard deviations of all of the source's values. Sparse features:
    /// the probability that an entry is dropped, so that rows stay sparse and words stay words.
    double feature_noise = .1;
    /// share of the labeled nodes; the rest is split evenly into valid and test. Absent: as in A
    std::optional<double> train_fraction{};
    std::filesystem::path scratch = "."; ///< directory for 12 bytes per edge of the source; exists when edges are read
    std::uint64_t seed = 0;              ///< seeds the noise
};

namespace detail {

/// The dataset A of a product, by keys: numbers of nodes, or rows if nodes have names. Thread-safe.
class expanded_source {
public:
    expanded_source(const std::filesystem::path& directory, expand_options options)
        : from(directory),
          how(std::move(options)),
          features(from.features()) {
        from.verify_labels();
        const auto [forward, back] = from.row_arrays();
        if (from.manifest().ids == dataset_ids::integer && from.has(forward)) {
            row_of_node_ = mapped_array<node_id>(from.map(forward));
            node_of_row_ = mapped_array<node_id>(from.map(back));
        }
        if (from.manifest().node_attributes.classes != 0) labels = from.labels();
        targets = from.targets();
        offsets = target_offsets(from);
        if (from.has("split")) parts = from.node_splits();
    }

    dataset from;
    expand_options how;
    node_features features;
    mapped_array<std::int32_t> labels{};
    mapped_targets targets{};
    std::vector<double> offsets{};
    mapped_array<std::uint8_t> parts{};

    [[nodiscard]] std::size_t row(std::uint64_t key) const {
        return row_of_node_.values().empty() ? key : at(row_of_node_, key);
    }
    [[nodiscard]] node_id key(std::uint64_t row) const {
        return node_of_row_.values().empty() ? static_cast<node_id>(row) : at(node_of_row_, row);
    }

    /// Copies training edges by number. The first call decodes the buckets into a scratch file.
    void train(edge_index first, std::span<edge> out) {
        std::call_once(staged_, [&] {
            edges_ = plain_file::scratch(how.scratch);
            sequential_writer file(edges_);
            std::vector<edge> some;
            from.buckets().for_each_edge([&](std::span<const edge> edges) {
                for (; !edges.empty(); edges = edges.subspan(some.size())) {
                    const auto piece = edges.first(std::min<std::size_t>(edges.size(), 4096));
                    some.assign(piece.begin(), piece.end());
                    for (edge& e : some) e = {key(e.source), e.relation, key(e.destination)};
                    file.append(std::as_bytes(std::span(some)));
                }
            });
        });
        edges_.read_at(first * sizeof(edge), std::as_writable_bytes(out));
    }

    /// Computes dense features of node (a, b), `node` of the product: those of a plus noise. Key: (seed, generate, 4,
    /// node).
    void dense(std::uint64_t node, std::span<float> out) {
        std::call_once(measured_, [&] { measure(); });
        const checked_array& array = features.dense();
        const std::size_t each = row_bytes(features.type(), out.size());
        const std::uint64_t at = page_alignment + row(node / how.by.nodes) * each;
        if (features.type() == feature_type::f32) {
            array.file.read_at(at, std::as_writable_bytes(out));
        } else {
            std::vector<std::byte> stored(each);
            array.file.read_at(at, stored);
            decode_row(features.type(), stored.data(), out);
        }
        if (deviation_ == 0) return;
        const random_key noise = noise_of(node);
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += deviation_ * to_normal(noise[i]);
    }

    /// Computes sparse features of node (a, b): those of a without dropped entries. Draws are by column.
    void sparse(std::uint64_t node, std::vector<std::uint32_t>& columns, std::vector<float>& values) {
        std::call_once(measured_, [&] { features.verify(); });
        const std::uint64_t a = row(node / how.by.nodes);
        std::array<std::uint64_t, 2> ends{};
        features.indptr().file.read_at(page_alignment + a * 8, std::as_writable_bytes(std::span(ends)));
        columns.resize(static_cast<std::size_t>(ends[1] - ends[0]));
        features.indices().file.read_at(page_alignment + ends[0] * 4, std::as_writable_bytes(std::span(columns)));
        values.clear();
        if (const auto& stored = features.values()) {
            values.resize(columns.size());
            const std::size_t each = value_bytes(features.type());
            std::vector<std::byte> bytes(values.size() * each);
            stored->file.read_at(page_alignment + ends[0] * each, bytes);
            decode_row(features.type(), bytes.data(), values);
        }
        const random_key noise = noise_of(node);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            if (to_unit(noise[columns[i]]) < how.feature_noise) continue;
            if (!values.empty()) values[kept] = values[i];
            columns[kept++] = columns[i];
        }
        columns.resize(kept);
        if (!values.empty()) values.resize(kept);
    }

private:
    [[nodiscard]] node_id at(const mapped_array<node_id>& map, std::uint64_t i) const {
        const node_id found = map.values()[static_cast<std::size_t>(i)];
        if (found >= from.manifest().nodes)
            throw error(errc::corrupt, "numbers of nodes are out of range", {.path = from.directory()});
        return found;
    }
    [[nodiscard]] random_key noise_of(std::uint64_t node) const noexcept {
        return random_key{how.seed, random_domain::generate}.with(4).with(node);
    }
    /// Verifies all features and measures their deviation, row by row and so identically on every machine.
    void measure() {
        const std::uint64_t rows = features.rows(), columns = features.columns();
        const std::uint64_t step = std::max<std::uint64_t>((1 << 18) / columns, 1);
        std::vector<float> some;
        double sum = 0, squares = 0;
        for (std::uint64_t first = 0; first < rows; first += step) {
            some.resize(static_cast<std::size_t>(std::min(step, rows - first) * columns));
            features.read_dense(first, some);
            for (const double x : some) {
                sum += x;
                squares += x * x;
            }
        }
        const double count = static_cast<double>(rows) * static_cast<double>(columns), mean = sum / count;
        deviation_ = static_cast<float>(how.feature_noise * std::sqrt(std::max(squares / count - mean * mean, 0.0)));
    }

    mapped_array<node_id> row_of_node_{}, node_of_row_{};
    std::once_flag staged_{}, measured_{};
    plain_file edges_{};
    float deviation_ = 0;
};

/// Edges of one split of the source, by number: the input of a product.
class expanded_edges {
public:
    using edge_type = edge;

    expanded_edges(std::shared_ptr<expanded_source> from, edge_split split) : from_(std::move(from)), split_(split) {
        const dataset_manifest& m = from_->from.manifest();
        edges_ = split == edge_split::train ? m.train_edges : split == edge_split::valid ? m.valid_edges : m.test_edges;
        if (split != edge_split::train)
            held_out_ =
                std::make_shared<mapped_edges>(from_->from.split(split == edge_split::valid ? "valid" : "test"));
    }
    [[nodiscard]] std::uint64_t nodes() const noexcept { return from_->from.manifest().nodes; }
    [[nodiscard]] edge_index edges() const noexcept { return edges_; }
    [[nodiscard]] edge operator()(edge_index i) const {
        edge one{};
        fill(i, std::span(&one, 1));
        return one;
    }
    void fill(edge_index first, std::span<edge> out) const {
        if (split_ == edge_split::train) return from_->train(first, out);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const edge& e = held_out_->edges()[static_cast<std::size_t>(first + i)];
            out[i] = {from_->key(e.source), e.relation, from_->key(e.destination)};
        }
    }

private:
    std::shared_ptr<expanded_source> from_;
    edge_split split_;
    edge_index edges_ = 0;
    std::shared_ptr<mapped_edges> held_out_{};
};

static_assert(edge_generator<expanded_edges>);

} // namespace detail

/// Size of an expansion, known before any work.
struct expansion_size {
    std::uint64_t nodes = 0, edges = 0; ///< edges of all splits
    std::uint64_t disk_bytes = 0;       ///< peak, approximate: intermediate files and the dataset
    std::uint64_t mapped_bytes = 0;     ///< source's node arrays, accessed in random order
};

/// Returns the size. Throws errc::out_of_range for more nodes or edges than can be numbered.
[[nodiscard]] inline expansion_size expansion_size_of(const dataset& from, const seed_graph& by) {
    const dataset_manifest& m = from.manifest();
    const std::uint64_t edges = m.train_edges + m.valid_edges + m.test_edges;
    if (m.nodes > importing::most_nodes / by.nodes)
        throw error(errc::out_of_range,
            std::to_string(m.nodes) + " x " + std::to_string(by.nodes) + " nodes are more than the " +
                std::to_string(importing::most_nodes) + " that ids of 32 bits can name",
            {.path = from.directory(), .field = "factor"});
    constexpr std::uint64_t edge_bytes = 64; // as in an import
    if (edges > (std::uint64_t{1} << 62) / edge_bytes / by.edges.size())
        throw error(
            errc::out_of_range, "the number of edges overflows", {.path = from.directory(), .field = "seed edges"});
    const node_features features = from.features();
    std::uint64_t bytes = features.empty() ? 0 : 2 * features.bytes();
    for (const dataset_array& a : from.manifest().arrays)
        if (a.name == "names.bytes" || a.name == "names.hashes") bytes += 3 * a.bytes;
    return {.nodes = m.nodes * by.nodes,
        .edges = edges * by.edges.size(),
        .disk_bytes = edges * by.edges.size() * edge_bytes + edges * sizeof(edge) + (bytes + 16 * m.nodes) * by.nodes,
        .mapped_bytes = m.nodes *
            ((m.ids == dataset_ids::integer ? 8U : 0U) +
                (m.node_attributes.classes != 0 ? m.node_attributes.label_bytes() : 0U) +
                (from.has("split") ? 1U : 0U))};
}

/// Returns the Kronecker product of a dataset with a small graph B, as the sources of an import, which does the rest:
/// within its memory, on all threads, resuming after a kill, and with the same result in any run.
///
///     import_options options = expansion_of("cora", {.by = random_seed_graph(8, default_seed_edges(8), seed)});
///     options.out = "cora8";
///     import_dataset(options, tbb_executor());
///
/// Node (a, b) has number a · |B| + b, or the name of a, "#", and b; its label and, unless a fraction is given, its
/// part are those of a; its features are a's with noise. Edges are those of `kronecker_product`, with the relation, the
/// relation name and the split of A's edge: no held-out edge of A returns among the training edges.
///
/// The source must not change until the import is done; its names and node arrays (`mapped_bytes`) and its largest
/// bucket add to the import's memory. Errors: those of opening a dataset and of `expansion_size_of`;
/// errc::invalid_argument for a noise out of range, or a fraction without labels; errc::corrupt and io_error during the
/// import. Source: Ginex, VLDB 15(11), 2022, §5.1.
[[nodiscard]] inline import_options expansion_of(const std::filesystem::path& directory, expand_options how) {
    const auto source = std::make_shared<detail::expanded_source>(directory, std::move(how));
    const dataset_manifest& m = source->from.manifest();
    const expand_options& options = source->how;
    const expansion_size size = expansion_size_of(source->from, options.by);
    const node_features& features = source->features;
    const double noise = options.feature_noise;
    if (!(noise >= 0 && std::isfinite(noise)) || (!features.empty() && features.sparse() && noise > 1))
        throw error(errc::invalid_argument,
            "the noise is a number of at least 0, and where features are sparse the chance that an entry is lost",
            {.field = "feature noise"});
    const std::uint64_t factor = options.by.nodes;
    import_options result;
    const auto written = std::filesystem::last_write_time(directory / "manifest.json").time_since_epoch();
    const std::string state = std::to_string(checksum(std::as_bytes(std::span(options.by.edges)))) + "|" +
        std::to_string(std::bit_cast<std::uint64_t>(noise)) + "|" + std::to_string(options.seed) + "|" +
        std::to_string(checksum(m.provenance.options)) + "|" + std::to_string(m.seed) + "|" +
        std::to_string(written.count());
    for (const edge_split split : {edge_split::train, edge_split::valid, edge_split::test}) {
        const kronecker_product product(detail::expanded_edges(source, split), options.by);
        if (product.edges() == 0) continue;
        result.sources.push_back({.path = m.name + " x " + std::to_string(factor),
            .split = split,
            .fingerprint = state,
            .compute = [product](std::uint64_t first, std::span<edge> out) { product.fill(first, out); },
            .computed_edges = product.edges(),
            .computed_nodes = size.nodes,
            .computed_relations = m.relations});
    }
    result.ids = id_kind::integer;
    result.task = m.task;
    if (m.ids == dataset_ids::string)
        result.compute_name = [source, factor](std::uint64_t node) {
            return source->from.node_label(node / factor) + "#" + std::to_string(node % factor);
        };
    for (std::uint64_t r = 0; r < source->from.relation_names().size(); ++r)
        result.relation_names.push_back(source->from.relation_label(r));
    import_node_attributes& data = result.node_attributes;
    data.nodes = size.nodes;
    if (!source->labels.values().empty() || !source->targets.empty()) {
        data.classes = m.node_attributes.classes;
        for (std::uint64_t c = 0; c < source->from.label_names().size(); ++c) {
            std::string name = source->from.class_label(static_cast<std::int32_t>(c));
            if (!name.empty()) data.label_names.push_back(std::move(name));
        }
        data.target = m.node_attributes.target;
        if (source->targets.empty())
            data.compute_label = [source, factor](std::uint64_t node) {
                return source->labels.values()[source->row(node / factor)];
            };
        else
            data.compute_targets = [source, factor](std::uint64_t node, std::span<float> out) {
                source->targets.read(source->row(node / factor), out);
            };
        data.computed_offsets = source->offsets;
    }
    if (options.train_fraction) {
        const double train = *options.train_fraction;
        if (!data.has_labels() || !(train > 0 && train <= 1))
            throw error(errc::invalid_argument, "a share of labeled nodes, above 0 and at most 1, trains",
                {.path = directory, .field = "train fraction"});
        data.fractions = std::array{train, (1 - train) / 2, (1 - train) / 2};
    } else if (!source->parts.values().empty()) {
        data.compute_split = [source, factor](std::uint64_t node) {
            return static_cast<node_split>(source->parts.values()[source->row(node / factor)]);
        };
    }
    if (features.empty()) return result;
    data.feature_type = features.type();
    if (features.sparse()) {
        data.num_features = features.columns();
        data.compute_sparse = [source](std::uint64_t node, std::vector<std::uint32_t>& columns,
                                  std::vector<float>& values) { source->sparse(node, columns, values); };
    } else {
        data.computed_columns = features.columns();
        data.compute_features = [source](std::uint64_t node, std::span<float> out) { source->dense(node, out); };
    }
    return result;
}

} // namespace gneiss
