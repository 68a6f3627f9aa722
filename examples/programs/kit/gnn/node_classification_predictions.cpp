// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/node_classification_predictions.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <gneiss/io/npy.hpp>
#include <gneiss/io/safetensors.hpp>
#include <gneiss/io/target_offsets.hpp>
#include <gneiss/io/tsv_name.hpp>
#include <gneiss/model/classify.hpp>

#include "kit/cli/terminal.hpp"
#include "kit/gnn/node_truth.hpp"
#include "kit/report/records.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/divergence.hpp"
#include "kit/run/name_lines.hpp"
#include "kit/run/run_flags.hpp"
#include "kit/run/weight_tensors.hpp"

namespace trainers {

namespace {

/// Converts class scores to probabilities.
void softmax(std::vector<float>& scores) {
    const float top = *std::ranges::max_element(scores);
    float sum = 0;
    for (float& x : scores) sum += x = std::exp(x - top);
    for (float& x : scores) x /= sum;
}

/// Answers of a node task from outputs of a network.
class answers {
public:
    explicit answers(const gneiss::dataset& trained_on)
        : trained_on_(trained_on),
          kind_(trained_on.manifest().node_attributes.target),
          scale_(trained_on),
          offsets_(gneiss::target_offsets(trained_on)) {}

    /// Returns probabilities of the classes, or numbers; valid until the next call.
    const std::vector<float>& of(std::span<const float> outputs) {
        values_.assign(outputs.begin(), outputs.end());
        switch (kind_) {
        case gneiss::node_target_kind::classes: softmax(values_); break;
        case gneiss::node_target_kind::multilabel:
            for (float& x : values_) x = 1 / (1 + std::exp(-x));
            break;
        case gneiss::node_target_kind::regression: scale_.unscale(values_);
        }
        return values_;
    }
    /// Returns the class, the classes with "|" between them, or nothing for numbers.
    [[nodiscard]] std::string classes(const std::vector<float>& values) const {
        return join(values, [this](std::size_t c) { return name(c); });
    }
    /// Returns the columns of a table of predictions, the node's name first.
    [[nodiscard]] std::vector<std::string> columns() const {
        if (kind_ == gneiss::node_target_kind::classes) return {"node", "class", "probability"};
        if (kind_ == gneiss::node_target_kind::multilabel) return {"node", "classes", "probabilities"};
        const auto targets = static_cast<std::size_t>(trained_on_.manifest().node_attributes.classes);
        std::vector<std::string> all{"node"};
        for (std::size_t c = 0; c < targets; ++c) all.push_back(targets == 1 ? "value" : name(c));
        return all;
    }
    /// Returns the row of a node under `columns`.
    [[nodiscard]] std::vector<answer_table::cell> row(std::string node, const std::vector<float>& values) const {
        std::vector<answer_table::cell> cells{std::move(node)};
        if (kind_ == gneiss::node_target_kind::classes) {
            cells.emplace_back(classes(values));
            cells.emplace_back(values[gneiss::predicted_class<float>(values)]);
        } else if (kind_ == gneiss::node_target_kind::multilabel) {
            cells.emplace_back(classes(values));
            cells.emplace_back(join(values, [&](std::size_t c) { return fmt::format("{:.4f}", values[c]); }));
        } else if (offsets_.empty()) {
            cells.insert(cells.end(), values.begin(), values.end());
        } else {
            const std::vector<double> exact = numbers(values);
            cells.insert(cells.end(), exact.begin(), exact.end());
        }
        return cells;
    }
    /// Adds the fields of a prediction.
    void add_to(nlohmann::ordered_json& to, const std::vector<float>& values) const {
        if (kind_ == gneiss::node_target_kind::classes) {
            const gneiss::class_id best = gneiss::predicted_class<float>(values);
            to["class"] = name(best);
            to["probability"] = values[best];
        } else if (kind_ == gneiss::node_target_kind::multilabel) {
            to["classes"] = to["probabilities"] = nlohmann::ordered_json::array();
            for (std::size_t c = 0; c < values.size(); ++c)
                if (values[c] > 0.5F) to["classes"].push_back(name(c)), to["probabilities"].push_back(values[c]);
        } else if (offsets_.empty()) {
            to["values"] = values;
        } else {
            to["values"] = numbers(values);
        }
    }
    /// Returns numbers in the units of the source: the dataset may store targets without their means.
    [[nodiscard]] std::vector<double> numbers(const std::vector<float>& values) const {
        std::vector<double> all(values.begin(), values.end());
        for (std::size_t c = 0; c < offsets_.size(); ++c) all[c] += offsets_[c];
        return all;
    }
    /// True if `numbers` need 64 bits.
    [[nodiscard]] bool wide() const noexcept { return !offsets_.empty(); }
    [[nodiscard]] std::string name(std::size_t c) const {
        return trained_on_.class_label(static_cast<std::int32_t>(c));
    }

private:
    template <class Text>
    [[nodiscard]] std::string join(const std::vector<float>& values, const Text& text) const {
        if (kind_ == gneiss::node_target_kind::regression) return "";
        if (kind_ == gneiss::node_target_kind::classes) return text(gneiss::predicted_class<float>(values));
        std::string all;
        for (std::size_t c = 0; c < values.size(); ++c)
            if (values[c] > 0.5F) all += (all.empty() ? "" : "|") + text(c);
        return all;
    }

    const gneiss::dataset& trained_on_;
    gneiss::node_target_kind kind_;
    target_scale scale_;
    std::vector<double> offsets_;
    std::vector<float> values_;
};

std::size_t columns_of(const gneiss::dataset& data) {
    return static_cast<std::size_t>(data.manifest().node_attributes.classes);
}

/// Returns the stream with `check_outputs` of each row.
score_stream checked(const gneiss::dataset& data, const score_stream& scores) {
    return [&data, &scores](const gneiss::embedding_block_visitor& visit) {
        scores([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            for (std::size_t i = 0; i < some.rows(); ++i) check_outputs(data, first + i, some[i]);
            visit(first, some);
        });
    };
}

} // namespace

void node_flags::add_to(programs::command& to) {
    to.group("Classes");
    to.option("node", node, "names of nodes").value_name("NAME,NAME").default_text("all");
    to.option("node-file", nodes, "names of nodes, one a line").value_name("FILE").formerly("nodes");
}

void refuse_other_queries(
    bool links, const node_flags& nodes, const query_flags& edges, const programs::command& given) {
    if (links ? nodes.some() : edges.any())
        throw programs::usage_error(links
                ? "--node and --node-file are for node classification: this run predicts edges"
                : "--head, --tail, --relation, --queries and --similar are for link prediction: this run predicts "
                  "classes");
    if (links) return;
    for (const char* const name : {"k", "candidates", "measure", "known", "self"})
        if (given.given(name))
            throw programs::usage_error(fmt::format("--{} is for link prediction: this run predicts classes", name));
}

void refuse_other_features(
    const gneiss::node_features& trained, const gneiss::node_features& given, const std::filesystem::path& graph) {
    if (given.columns() == trained.columns() && given.sparse() == trained.sparse()) return;
    const auto kind = [](const gneiss::node_features& of) { return of.sparse() ? "sparse" : "dense"; };
    throw gneiss::error(gneiss::errc::invalid_argument,
        fmt::format("has {} {} features of a node, the run was trained with {} {}", given.columns(), kind(given),
            trained.columns(), kind(trained)),
        {.path = graph});
}

std::optional<std::vector<gneiss::node_id>> requested_nodes(
    const gneiss::dataset& data, const node_flags& flags, std::uint64_t memory) {
    if (!flags.some()) return std::nullopt;
    std::vector<gneiss::node_id> rows;
    for (const std::string& name : flags.node) rows.push_back(node_called(data, name, {.path = data.directory()}));
    if (flags.nodes)
        for_each_name(
            data, *flags.nodes, [&](gneiss::node_id v) { append_within(rows, v, memory, "requested nodes"); });
    return rows;
}

void predict_classes(const std::string& program, const classified& of,
    const std::optional<std::vector<gneiss::node_id>>& asked, const score_stream& scores, const std::string& format,
    bool json) {
    answers answer(of.trained_on);
    auto list = nlohmann::ordered_json::array();
    std::optional<answer_table> table;
    if (!json) table.emplace(format, answer.columns());
    const auto write = [&](const std::string& name, const std::vector<float>& values) {
        if (table) return table->add(answer.row(name, values));
        nlohmann::ordered_json one{{"node", name}};
        answer.add_to(one, values);
        list.push_back(std::move(one));
    };
    if (!asked) {
        of.order(checked(of.data, scores), columns_of(of.trained_on),
            [&](std::uint64_t at, std::span<const float> outputs) { write(of.order.label(at), answer.of(outputs)); });
    } else {
        std::vector<gneiss::node_id> sorted = *asked;
        std::ranges::sort(sorted);
        sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
        std::vector<std::vector<float>> values; // of these
        scores([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            for (; values.size() < sorted.size() && sorted[values.size()] < first + some.rows();) {
                const gneiss::node_id row = sorted[values.size()];
                check_outputs(of.data, row, some[row - first]);
                values.push_back(answer.of(some[row - first]));
            }
        });
        for (const gneiss::node_id row : *asked)
            write(of.data.node_label(row),
                values[static_cast<std::size_t>(std::ranges::lower_bound(sorted, row) - sorted.begin())]);
    }
    if (table) return table->finish();
    nlohmann::ordered_json result{{"program", program}, {"predictions", std::move(list)}};
    of.state.add_to(result);
    programs::print_json(result);
}

void export_predictions(const classified& of, const score_stream& scores, const gneiss::dense_parameters<>& weights,
    const std::string& format, const std::filesystem::path& to) {
    const bool npy = format == "npy", tensors = format == "safetensors";
    const std::size_t columns = columns_of(of.trained_on);
    const bool classes = of.trained_on.manifest().node_attributes.target != gneiss::node_target_kind::regression;
    answers answer(of.trained_on);
    std::optional<gneiss::npy_writer> array;
    std::optional<gneiss::safetensors_writer> file;
    if (npy)
        array.emplace(to / "predictions.npy", answer.wide() ? gneiss::npy_dtype::f64 : gneiss::npy_dtype::f32,
            std::vector<std::uint64_t>{columns});
    if (tensors) {
        std::vector<gneiss::tensor_entry> all = tensors_of(weights);
        all.insert(all.begin(),
            {"predictions", answer.wide() ? gneiss::tensor_dtype::f64 : gneiss::tensor_dtype::f32,
                {of.data.manifest().nodes, columns}});
        file.emplace(to / tensors_name, std::move(all));
    }
    const auto append = [&](const auto& values) {
        if (npy) array->append(std::span(values));
        if (tensors) file->append(std::span(values));
    };
    const bool rows = npy || tensors;
    text_file text(to / (rows ? "nodes.tsv" : "predictions.tsv"));
    std::optional<answer_table> table;
    if (!rows) table.emplace("tsv", answer.columns(), [&](std::string_view line) { text.write(line); });
    of.order(checked(of.data, scores), columns, [&](std::uint64_t at, std::span<const float> outputs) {
        const std::vector<float>& values = answer.of(outputs);
        const std::string name = of.order.label(at);
        if (table)
            table->add(answer.row(name, values));
        else
            text.write(classes ? fmt::format("{}\t{}\t{}\n", at, gneiss::tsv_name(name), answer.classes(values))
                               : fmt::format("{}\t{}\n", at, gneiss::tsv_name(name)));
        if (answer.wide())
            append(answer.numbers(values));
        else
            append(values);
    });
    if (npy) array->close();
    if (tensors) {
        append_weights(*file, weights);
        file->close();
    }
    if (rows) {
        text_file names(to / "classes.tsv");
        for (std::size_t c = 0; c < columns; ++c)
            names.write(fmt::format("{}\t{}\n", c, gneiss::tsv_name(answer.name(c))));
        names.close();
    }
    text.close();
}

} // namespace trainers
