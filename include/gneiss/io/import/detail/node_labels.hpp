// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/detail/node_job.hpp>
#include <gneiss/io/import/detail/node_split.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss::importing {

/// Writes labels.npy and split.npy (and class_names.*) by row.
///
/// \tparam Map  key of a node → row. Memory and cost as `arrange_rows`: class names are held in memory.
/// Errors: those of the files, naming row or line; errc::out_of_range for labels, errc::invalid_format for nodes listed
/// twice, for parts with unlabeled nodes, and for an empty training set.
template <class Map>
class label_writer {
public:
    /// Writer of the labels that `options` name.
    label_writer(const node_job& options, Map& map) : setup_(options), map_(map) {}

    /// Returns the number of classes.
    std::uint64_t write_labels() {
        const import_node_attributes& data = *setup_.data;
        names_of_labels names;
        const bool in_text = !data.labels.empty() && is_text_table(data.labels);
        if (in_text) names = label_names(setup_.text(data.labels));
        for (const std::string& name : data.label_names) names.emplace(name, static_cast<std::int32_t>(names.size()));
        if (data.classes != 0 && names.size() > data.classes)
            throw error(errc::invalid_format,
                "has " + std::to_string(names.size()) + " names of classes, the number of classes is said to be " +
                    std::to_string(data.classes),
                {.path = data.labels});
        std::uint64_t classes = std::max<std::uint64_t>(data.classes, names.size());
        npy_writer out(setup_.array("labels"), npy_dtype::i32);
        const row_windows windows(setup_.rows.nodes, sizeof(std::int32_t), setup_.quarter());
        arrange_rows(
            windows, map_, data.compute_label || (!data.labels.empty() && !in_text), setup_.quarter(),
            setup_.partial / "work-labels", [&](const auto& put) { scan_labels(names, put); },
            [](row_window& window) {
                window.bytes.assign(window.seen.size() * sizeof(std::int32_t), std::byte{0xff}); // −1
            },
            [&](const row_window& window) {
                std::vector<std::int32_t> labels(window.seen.size());
                std::memcpy(labels.data(), window.bytes.data(), window.bytes.size());
                for (const std::int32_t label : labels)
                    classes = std::max(classes, static_cast<std::uint64_t>(std::int64_t{label} + 1));
                out.append(std::span<const std::int32_t>(labels));
                if (setup_.progress) setup_.progress("labels", window.first + labels.size(), setup_.rows.nodes);
            },
            repeated(data.labels));
        out.close();
        if (classes == 0) throw error(errc::invalid_format, "no node has a label", {.path = data.labels});
        if (!names.empty()) {
            npy_writer offsets(setup_.array("class_names.offsets"), npy_dtype::i64),
                pool(setup_.array("class_names.bytes"), npy_dtype::u8);
            std::int64_t end = 0;
            offsets.append(end);
            for (const auto& [name, id] : names) {
                pool.append_bytes(std::as_bytes(std::span(name)));
                offsets.append(end += static_cast<std::int64_t>(name.size()));
            }
            for (std::uint64_t id = names.size(); id < classes; ++id) offsets.append(end);
            offsets.close();
            pool.close();
        }
        return classes;
    }

    /// Training, validation and test nodes so far.
    struct part_counts {
        std::uint64_t train = 0, valid = 0, test = 0; ///< number of nodes by part
        std::uint64_t unlabeled_tests = 0;            ///< test nodes without a label: in no part
    };
    /// Call after `write_labels`, if there are labels.
    part_counts write_split() {
        const import_node_attributes& data = *setup_.data;
        const std::filesystem::path& path = !data.split.empty() ? data.split
            : data.has_masks()    ? *std::ranges::find_if(data.masks, [](const auto& mask) { return !mask.empty(); })
            : !data.lists.empty() ? data.lists[0].nodes
                                  : data.labels;
        std::optional<npy_reader> labels;
        const bool targets = data.target != node_target_kind::classes;
        if (data.has_labels()) labels.emplace(setup_.array(targets ? "targets" : "labels"));
        const bool given = data.has_split();
        const std::array<double, 3> share = data.fractions.value_or(std::array{1.0, 0.0, 0.0});
        const random_key key(setup_.seed, random_domain::split);
        std::array<std::uint64_t, 4> counts{};
        std::uint64_t unlabeled_tests = 0;
        npy_writer out(setup_.array("split"), npy_dtype::u8);
        const row_windows windows(setup_.rows.nodes, 1, setup_.quarter() / 5); // and 4 bytes for the label
        arrange_rows(
            windows, map_,
            data.compute_split || data.has_masks() || (!data.split.empty() && !is_text_table(data.split)),
            setup_.quarter(), setup_.partial / "work-split", [&](const auto& put) { scan_split(put); },
            [](row_window& window) { window.bytes.assign(window.seen.size(), std::byte{3}); },
            [&](row_window& window) {
                std::vector<std::int32_t> classes(window.seen.size(), 0);
                if (labels && targets)
                    read_labeled(*labels, classes);
                else if (labels)
                    (void)labels->read(std::span(classes));
                for (std::size_t i = 0; i < classes.size(); ++i) {
                    auto part = static_cast<std::uint8_t>(window.bytes[i]);
                    const bool labeled = classes[i] != no_label;
                    if (!given && labeled) {
                        const double draw = to_unit(key.with(window.first + i)[0]);
                        part = draw < share[0] ? 0 : draw < share[0] + share[1] ? 1 : 2;
                    } else if (!labeled && part < 2) {
                        throw error(errc::invalid_format,
                            "node " + setup_.name_of(window.first + i) + " is in the " +
                                std::string(node_split_names[part]) + " part and has no label",
                            {.path = path});
                    } else if (!labeled && part == 2) { // withheld by the publishers of the dataset
                        ++unlabeled_tests;
                        part = 3;
                    }
                    ++counts[part];
                    window.bytes[i] = std::byte{part};
                }
                out.append_bytes(window.bytes);
                if (setup_.progress) setup_.progress("split", window.first + classes.size(), setup_.rows.nodes);
            },
            repeated(path));
        out.close();
        if (std::string unknown = unknown_.warning(path); !unknown.empty()) warnings_.push_back(std::move(unknown));
        if (numbers_ == std::array{true, true, false})
            warnings_.push_back(path.string() + ": has only 0, read as train (" + std::to_string(counts[0]) +
                " nodes), and 1, read as valid (" + std::to_string(counts[1]) +
                " nodes); if it is a mask, give three: --split TRAIN.npy,VALID.npy,TEST.npy");
        if (counts[0] == 0)
            throw error(errc::invalid_format,
                given ? "the training set is empty: no node is marked 0 (train); masks are three arrays, --split "
                        "TRAIN.npy,VALID.npy,TEST.npy"
                      : "the training set is empty: the fractions leave none of the labeled nodes to it",
                {.path = path});
        return {counts[0], counts[1], counts[2], unlabeled_tests};
    }

    /// Returns sentences about labels and splits that may mean something else than they were taken for.
    [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

private:
    using names_of_labels = std::map<std::string, std::int32_t, std::less<>>;

    /// Returns the label of a number; NaN and negative numbers: none.
    [[nodiscard]] std::int32_t label_of(double value, const std::filesystem::path& path, std::uint64_t at) const {
        if (std::isnan(value) || value < 0) return no_label;
        const std::uint64_t classes = setup_.data->classes != 0 ? setup_.data->classes : setup_.rows.nodes;
        const auto limit = static_cast<double>(std::min<std::uint64_t>(classes, 0x7fffffff));
        if (value != std::floor(value))
            throw error(errc::invalid_format,
                "the label " + std::to_string(value) +
                    " is not an integer, which classes are: import numbers to predict with --node-task regression",
                node_place(path, at));
        if (value >= limit)
            throw error(errc::out_of_range,
                "the label " + std::to_string(static_cast<std::uint64_t>(std::min(value, 1e18))) +
                    " is out of range: labels are below " + std::to_string(static_cast<std::uint64_t>(limit)) +
                    (setup_.data->classes != 0 ? ", the number of classes" : ", the number of nodes"),
                node_place(path, at));
        return static_cast<std::int32_t>(value);
    }
    /// Returns the labels of a text that are not all numbers: each distinct name, with its rank.
    [[nodiscard]] names_of_labels label_names(const node_text& from) {
        names_of_labels names;
        std::map<std::string, std::uint64_t, std::less<>> absent; // words that could also name a class
        std::map<std::string, std::uint64_t, std::less<>> lines;  // the first of each name
        bool numbers = true;
        std::uint64_t bytes = 0;
        scan_field(from, setup_.column(from, setup_.data->label_column),
            [&](std::uint64_t, std::uint64_t at, std::string_view field) {
                if (is_no_label(field)) {
                    if (!trimmed(field).empty() && !number_of(field)) ++absent[std::string(trimmed(field))];
                    return;
                }
                field = without_blanks(field);
                numbers = numbers && number_of(field);
                if (lines.contains(field)) return;
                bytes += 192 + 2 * field.size();
                if (bytes > setup_.quarter()) throw over_budget(setup_.quarter(), {{"names of classes so far", bytes}});
                lines.emplace(field, at);
            });
        if (!numbers && !setup_.data->combined_labels) refuse_combined(lines, from.path());
        for (const auto& [name, line] : lines) names.emplace(name, 0);
        if (numbers) return {};
        for (const auto& [word, count] : absent)
            warnings_.push_back(from.path().string() + ": " + std::to_string(count) +
                (count == 1 ? " label " : " labels ") + excerpt(word) +
                " mean that a node has none: give the class another name if it is one");
        std::int32_t rank = 0;
        for (auto& [name, id] : names) id = rank++;
        return names;
    }
    /// Throws for the first label that seems to be several: any with "|", and lists, with semicolons or commas, of
    /// labels that other nodes have alone.
    static void refuse_combined(
        const std::map<std::string, std::uint64_t, std::less<>>& lines, const std::filesystem::path& path) {
        const std::pair<const std::string, std::uint64_t>* first = nullptr;
        for (const auto& label : lines) {
            const std::string_view name = label.first;
            const auto lists = [&](char separator) {
                if (name.find(separator) == std::string_view::npos) return false;
                for (std::size_t at = 0; at <= name.size();) {
                    const std::size_t end = std::min(name.find(separator, at), name.size());
                    std::string_view part = name.substr(at, end - at);
                    while (part.starts_with(' ')) part.remove_prefix(1);
                    if (!lines.contains(part)) return false;
                    at = end + 1;
                }
                return true;
            };
            if ((name.find('|') != std::string_view::npos || lists(';') || lists(',')) &&
                (first == nullptr || label.second < first->second))
                first = &label;
        }
        if (first != nullptr)
            throw error(errc::invalid_format,
                "the label " + excerpt(first->first) +
                    " seems to be several classes, and a node has one: keep one of them, import with several labels "
                    "per "
                    "node (--node-task multilabel), or with combined labels (--combined-labels), which makes it a "
                    "class of "
                    "that name",
                node_place(path, first->second));
    }
    /// Returns the handler for `arrange_rows` that rejects a node listed twice, in `path` or in one of the lists.
    [[nodiscard]] auto repeated(const std::filesystem::path& path) const {
        return [this, path](std::uint64_t row, std::uint64_t at) {
            const auto list = static_cast<std::size_t>(std::ranges::upper_bound(begins_, at) - begins_.begin());
            if (list == 0) return setup_.repeated(path)(row, at);
            setup_.repeated(setup_.data->lists[list - 1].nodes)(row, at - begins_[list - 1]);
        };
    }
    template <class Put>
    void scan_labels(const names_of_labels& names, const Put& put) {
        const import_node_attributes& data = *setup_.data;
        const auto label = [&](std::uint64_t key, std::uint64_t at, std::int32_t value) {
            put(key, at, bytes_of(value));
        };
        if (data.compute_label) {
            for (std::uint64_t node = 0; node < setup_.rows.nodes; ++node) label(node, node, data.compute_label(node));
        } else if (data.labels.empty()) {
            std::uint64_t end = 0;
            begins_.clear();
            for (const import_node_list& list : data.lists) {
                const std::uint64_t begin = begins_.emplace_back(end);
                if (list.labels.empty()) continue;
                std::vector<std::pair<double, std::uint64_t>>
                    values; // labels of one part, with their places; its nodes are streamed
                scan_column(list.labels, [&](std::uint64_t, std::uint64_t at, double value) {
                    values.emplace_back(value, at);
                    if (const std::uint64_t bytes = values.capacity() * sizeof(values[0]); bytes > setup_.quarter())
                        throw over_budget(setup_.quarter(), {{"labels of one part", bytes}});
                });
                std::size_t next = 0;
                scan_column(list.nodes, [&](std::uint64_t, std::uint64_t at, double node) {
                    if (next == values.size())
                        throw error(errc::invalid_format,
                            "has " + std::to_string(values.size()) + " labels, there are more nodes in " +
                                list.nodes.string(),
                            {.path = list.labels});
                    label(listed_node(node, list.nodes, at), begin + at,
                        label_of(values[next].first, list.labels, values[next].second));
                    ++next;
                    end = begin + at + 1;
                });
                if (next != values.size())
                    throw error(errc::invalid_format,
                        "has " + std::to_string(values.size()) + " labels for " + std::to_string(next) + " nodes of " +
                            list.nodes.string(),
                        {.path = list.labels});
            }
        } else if (is_text_table(data.labels)) {
            const node_text from = setup_.text(data.labels);
            scan_field(from, setup_.column(from, data.label_column),
                [&](std::uint64_t key, std::uint64_t at, std::string_view field) {
                    if (is_no_label(field)) return label(key, at, no_label);
                    if (!names.empty()) return label(key, at, names.find(without_blanks(field))->second);
                    label(key, at, label_of(*number_of(field), data.labels, at));
                });
        } else {
            scan_numbers(
                data.labels,
                [&](std::uint64_t key, std::uint64_t at, double value) {
                    label(key, at, label_of(value, data.labels, at));
                },
                setup_.poll);
        }
    }
    /// Reads a column of numbers without nodes: an array, or text.
    void scan_column(const std::filesystem::path& path, const visit_number& visit) const {
        if (!is_text_table(path)) return scan_numbers(path, visit, setup_.poll);
        node_keys keys = setup_.keys;
        keys.by = line_key::record;
        scan_field(node_text(path, keys, setup_.memory / 8, false, 0, nullptr, setup_.poll), 0,
            [&](std::uint64_t key, std::uint64_t at, std::string_view field) {
                const auto value = number_of(field);
                if (!value && !is_missing(field))
                    throw error(errc::invalid_format, excerpt(field) + " is not a number", node_place(path, at));
                visit(key, at, value.value_or(std::numeric_limits<double>::quiet_NaN()));
            });
    }
    [[nodiscard]] std::uint64_t listed_node(double node, const std::filesystem::path& path, std::uint64_t at) const {
        if (!(node >= 0 && node < static_cast<double>(setup_.rows.nodes)) || node != std::floor(node))
            throw error(errc::out_of_range,
                "node " +
                    (std::isnan(node) ? "NaN"
                                      : std::to_string(static_cast<std::int64_t>(std::clamp(node, -1e18, 1e18)))) +
                    " of " + std::to_string(setup_.rows.nodes),
                node_place(path, at));
        return static_cast<std::uint64_t>(node);
    }

    template <class Put>
    void scan_split(const Put& put) {
        const import_node_attributes& data = *setup_.data;
        const auto part = [&](std::uint64_t key, std::uint64_t at, std::uint8_t value) {
            put(key, at, bytes_of(value));
        };
        const bool first = std::exchange(unread_, false); // of several passes
        const auto entry = [&](std::uint64_t key, std::uint64_t at, std::optional<node_split> found, const auto& text) {
            if (!found && first) unknown_.add(text(), at);
            part(key, at, static_cast<std::uint8_t>(found.value_or(node_split::unused)));
        };
        std::uint64_t end = 0;
        begins_.clear();
        for (const import_node_list& list : data.lists) {
            const std::uint64_t begin = begins_.emplace_back(end);
            scan_column(list.nodes, [&](std::uint64_t, std::uint64_t at, double node) {
                part(listed_node(node, list.nodes, at), begin + at, static_cast<std::uint8_t>(list.part));
                end = begin + at + 1;
            });
        }
        if (data.compute_split)
            for (std::uint64_t node = 0; node < setup_.rows.nodes; ++node)
                part(node, node, static_cast<std::uint8_t>(data.compute_split(node)));
        if (data.has_masks())
            scan_masks(
                data.masks,
                [&](std::uint64_t key, std::uint64_t at, double value) {
                    part(key, at, static_cast<std::uint8_t>(value));
                },
                setup_.poll);
        if (data.split.empty()) return;
        if (!is_text_table(data.split)) {
            const bool wide =
                size_of(read_npy_header(plain_file::open(data.split)).dtype) != 1; // bytes were checked before
            return scan_numbers(
                data.split,
                [&](std::uint64_t key, std::uint64_t at, double value) {
                    if (wide) numbers_[value == 0 ? 0 : value == 1 ? 1 : 2] = true;
                    entry(key, at, part_of(value), [&] {
                        std::string text = std::to_string(value);
                        return value == std::floor(value) ? text.substr(0, text.find('.')) : text;
                    });
                },
                setup_.poll);
        }
        const node_text from = setup_.text(data.split);
        const std::size_t column = setup_.column(from, data.split_column);
        if (column < from.names().size() && detail::lowered(from.names()[column]).find("mask") != std::string::npos)
            refuse_mask(
                "is a mask, by its name", {.path = data.split, .field = "column '" + from.names()[column] + "'"});
        scan_field(from, column, [&](std::uint64_t key, std::uint64_t at, std::string_view field) {
            const std::optional<node_split> found = part_of(field);
            if (const std::string word = found ? "" : detail::lowered(trimmed(field));
                word == "true" || word == "false")
                refuse_mask("is a mask (true and false)", {.path = data.split, .field = "line " + std::to_string(at)});
            entry(key, at, found, [&] { return std::string(trimmed(field)); });
        });
    }

    /// Reads rows of targets: `no_label` for rows without any, else 0.
    static void read_labeled(npy_reader& from, std::span<std::int32_t> out) {
        const auto columns = static_cast<std::size_t>(from.header().row_size());
        const bool labels = from.header().dtype == npy_dtype::u8;
        std::vector<float> some(std::max<std::size_t>(65536 / columns, 1) * columns);
        for (std::size_t done = 0; done < out.size();) {
            const std::size_t rows = std::min(some.size() / columns, out.size() - done);
            (void)from.read_as(std::span(some).first(rows * columns));
            for (std::size_t i = 0; i < rows; ++i) {
                const auto row = std::span<const float>(some).subspan(i * columns, columns);
                out[done + i] =
                    std::ranges::all_of(row, [&](float x) { return labels ? x == no_target : std::isnan(x); })
                    ? no_label
                    : 0;
            }
            done += rows;
        }
    }

    const node_job& setup_;
    Map& map_;
    std::vector<std::string> warnings_;
    unknown_parts unknown_;
    bool unread_ = true;                ///< the split was not read yet
    std::array<bool, 3> numbers_{};     ///< an array of the split has 0, 1, others
    std::vector<std::uint64_t> begins_; ///< first position of each list: positions count on from list to list
};

} // namespace gneiss::importing
