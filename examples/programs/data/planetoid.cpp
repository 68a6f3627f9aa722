// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "graphs.hpp"
#include "kit/graph/pickle.hpp"
#include "kit/report/run_directory.hpp"

namespace data_tool {
namespace {

using gneiss::errc;
using gneiss::error;
using programs::pickle_value;

constexpr std::uint64_t most_elements = 16'000'000; ///< of an array
constexpr std::uint64_t validation_nodes = 500;     ///< after those of training, as in Kipf and Welling (2017)

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, errc code = errc::invalid_format) {
    throw error(code, what, {.path = path});
}

/// A file of one pickled object.
class pickle_file {
public:
    explicit pickle_file(const std::filesystem::path& path)
        : file_(gneiss::plain_file::open(path)),
          bytes_(file_, 0, file_.size(), std::size_t{64} << 10),
          reader_(bytes_, 1'000'000),
          object_(&reader_.read()) {}

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
    [[nodiscard]] const pickle_value& object() const noexcept { return *object_; }

    /// Reads an array of `rank` extents.
    template <class T>
    [[nodiscard]] std::vector<T> values(
        const pickle_value& from, std::size_t rank, const std::string& name, std::vector<std::uint64_t>& shape) const {
        const programs::pickled_array array = programs::numpy_array(from, path(), name);
        if (array.shape.size() != rank || array.elements() > most_elements)
            fail(path(), fmt::format("{}: is not an array of {} dimensions, or too large", name, rank));
        shape = array.shape;
        std::vector<T> result(static_cast<std::size_t>(array.elements()));
        programs::pickled_array_reader(file_, array).read(std::span<T>(result));
        return result;
    }

private:
    gneiss::plain_file file_;
    programs::file_range bytes_;
    programs::pickle_reader reader_;
    const pickle_value* object_;
};

/// Features of some nodes: a matrix of scipy.sparse as CSR.
struct sparse_rows {
    std::uint64_t rows = 0, columns = 0;
    std::vector<std::int64_t> begins{}, indices{};
    std::vector<double> values{};

    explicit sparse_rows(const std::filesystem::path& path) {
        const pickle_file file(path);
        const pickle_value* const state = file.object().state;
        const auto part = [&](const char* name) -> const pickle_value& {
            const pickle_value* const found = state == nullptr ? nullptr : state->find(name);
            if (found == nullptr) fail(path, fmt::format("is not a matrix of scipy.sparse: it has no {}", name));
            return *found;
        };
        const auto shape = programs::pickled_shape(part("_shape"), path, "_shape");
        std::vector<std::uint64_t> size;
        begins = file.values<std::int64_t>(part("indptr"), 1, "indptr", size);
        indices = file.values<std::int64_t>(part("indices"), 1, "indices", size);
        values = file.values<double>(part("data"), 1, "data", size);
        if (shape.size() != 2 || begins.size() != shape[0] + 1 || begins.front() != 0 ||
            !std::ranges::is_sorted(begins) || begins.back() != static_cast<std::int64_t>(indices.size()) ||
            values.size() != indices.size() || shape[1] > most_elements ||
            std::ranges::any_of(indices, [&](std::int64_t c) { return c < 0 || std::cmp_greater_equal(c, shape[1]); }))
            fail(path, "is not a matrix in compressed sparse rows");
        rows = shape[0];
        columns = shape[1];
    }

    /// Formats a row's entries as "TAB column:value", ascending.
    void append_to(std::string& text, std::size_t row) const {
        std::vector<std::pair<std::int64_t, float>> entries;
        for (auto at = static_cast<std::size_t>(begins[row]); at < static_cast<std::size_t>(begins[row + 1]); ++at)
            entries.emplace_back(indices[at], static_cast<float>(values[at]));
        std::ranges::sort(entries);
        for (const auto& [column, value] : entries) text += fmt::format("\t{}:{}", column, value);
    }
};

/// Returns the class of each row of an array of indicators, none where all are zero. An empty array has no class.
std::vector<std::optional<std::size_t>> classes_in(const std::filesystem::path& path, std::uint64_t& classes) {
    const pickle_file file(path);
    std::vector<std::uint64_t> shape;
    const std::vector<double> indicators = file.values<double>(file.object(), 2, "labels", shape);
    classes = std::max(classes, shape[1]);
    std::vector<std::optional<std::size_t>> result(static_cast<std::size_t>(shape[0]));
    for (std::size_t i = 0; i < indicators.size(); ++i)
        if (indicators[i] != 0) result[i / static_cast<std::size_t>(shape[1])] = i % static_cast<std::size_t>(shape[1]);
    return result;
}

/// Returns each pair of different neighbors once, from a dictionary of lists.
std::set<std::pair<std::int64_t, std::int64_t>> pairs_in(const std::filesystem::path& path, std::int64_t nodes) {
    const pickle_file file(path);
    const auto& lists = file.object().entries;
    std::set<std::pair<std::int64_t, std::int64_t>> pairs;
    const auto number = [&](const pickle_value& of) {
        if (of.kind != pickle_value::number || of.integer < 0 || of.integer >= nodes)
            fail(path, fmt::format("has a node that is not a number below {}", nodes));
        return of.integer;
    };
    for (std::size_t i = 0; i + 1 < lists.size(); i += 2) {
        if (lists[i + 1]->kind != pickle_value::sequence) fail(path, "is not a dictionary of lists of nodes");
        const std::int64_t node = number(*lists[i]);
        for (const pickle_value* item : lists[i + 1]->items)
            if (const std::int64_t other = number(*item); other != node) pairs.insert(std::minmax({node, other}));
    }
    if (pairs.empty()) fail(path, "is not a dictionary of lists of nodes");
    return pairs;
}

/// Returns the numbers of a text, one a line.
std::vector<std::int64_t> numbers_in(const std::filesystem::path& path) {
    std::vector<std::int64_t> numbers;
    const std::string text = programs::read_file(path, std::uint64_t{1} << 20);
    for (const char *at = text.data(), *const end = at + text.size(); at != end;) {
        std::int64_t number = -1;
        const auto [next, failed] = std::from_chars(at, end, number);
        if (failed != std::errc() || number < 0 || (next != end && *next != '\n' && *next != '\r'))
            fail(path, fmt::format("line {} is not the number of a node", numbers.size() + 1));
        numbers.push_back(number);
        at = std::find_if_not(next, end, [](char c) { return c == '\r' || c == '\n'; });
    }
    return numbers;
}

} // namespace

gneiss::import_options planetoid_graph(
    const std::vector<std::filesystem::path>& files, const std::filesystem::path& state) {
    enum part : std::size_t { tx, allx, y, ty, ally, graph, test_index };
    const sparse_rows others(files.at(allx)), tests(files.at(tx));
    std::uint64_t classes = 0;
    const auto train = classes_in(files.at(y), classes), labels = classes_in(files.at(ally), classes),
               test_labels = classes_in(files.at(ty), classes);
    const std::vector<std::int64_t> test_nodes = numbers_in(files.at(test_index));
    if (labels.size() != others.rows || train.size() + validation_nodes > others.rows)
        fail(files[ally], "does not have as many rows as allx, or fewer than are needed to train and validate");
    if (test_nodes.empty() || test_labels.size() != tests.rows || test_nodes.size() != tests.rows ||
        tests.columns != others.columns)
        fail(files[tx], "does not have the rows of ty and test.index, or the columns of allx");

    // Row i of tx and ty is of the i-th node of test.index; those between that it does not name have no attributes.
    const auto nodes = static_cast<std::size_t>(*std::ranges::max_element(test_nodes)) + 1;
    if (nodes > 2 * (others.rows + tests.rows)) fail(files[test_index], "names a node that is too large");
    std::vector<std::optional<std::size_t>> test_rows(nodes);
    for (std::size_t i = 0; i < test_nodes.size(); ++i) {
        const auto node = static_cast<std::size_t>(test_nodes[i]);
        if (node < others.rows || test_rows[node])
            fail(files[test_index], fmt::format("names the node {}, which allx has, or names it twice", node));
        test_rows[node] = i;
    }
    std::string edge_lines, feature_lines, label_lines;
    for (const auto& [from, to] : pairs_in(files.at(graph), static_cast<std::int64_t>(nodes)))
        edge_lines += fmt::format("{}\t{}\n", from, to);
    for (std::size_t node = 0; node < nodes; ++node) {
        feature_lines += std::to_string(node);
        const bool other = node < others.rows;
        if (other)
            others.append_to(feature_lines, node);
        else if (test_rows[node])
            tests.append_to(feature_lines, *test_rows[node]);
        feature_lines += '\n';
        constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
        const std::size_t label = other ? labels[node].value_or(none)
            : test_rows[node]           ? test_labels[*test_rows[node]].value_or(none)
                                        : none;
        const char* const split = node < train.size() ? "train"
            : node < train.size() + validation_nodes  ? "valid"
            : test_rows[node]                         ? "test"
                                                      : "unused";
        if (label != none) label_lines += fmt::format("{}\t{}\t{}\n", node, label, split);
    }
    gneiss::make_directories(state);
    gneiss::import_options result;
    result.sources = {{.path = kept(state / "edges.tsv", edge_lines)}};
    result.format = gneiss::edge_format::tsv;
    result.ids = gneiss::id_kind::integer;
    result.undirected = true;
    result.node_attributes.nodes = nodes;
    result.node_attributes.features = kept(state / "features.tsv", feature_lines);
    result.node_attributes.num_features = others.columns;
    result.node_attributes.labels = kept(state / "labels.tsv", label_lines);
    result.node_attributes.classes = classes;
    result.node_attributes.split = result.node_attributes.labels;
    result.node_attributes.split_column = 2;
    return result;
}

} // namespace data_tool
