#include "common/gnn/node_classification_predictions.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include <gneiss/io/npy.hpp>
#include <gneiss/model/classify.hpp>

#include "common/records.hpp"
#include "common/run_directory.hpp"
#include "common/training/run_flags.hpp"

namespace trainers {

namespace {

/// Converts class scores to probabilities in `to`.
void softmax(std::span<const float> scores, std::vector<float>& to) {
    to.assign(scores.begin(), scores.end());
    const float top = *std::ranges::max_element(to);
    float sum = 0;
    for (float& x : to) sum += x = std::exp(x - top);
    for (float& x : to) x /= sum;
}

} // namespace

void node_flags::add_to(programs::command& to) {
    to.group("Classes");
    to.option("node", node, "names of nodes").value_name("NAME,NAME").default_text("all");
    to.option("nodes", nodes, "names of nodes, one a line").value_name("FILE");
}

void refuse_other_features(const gneiss::node_features& trained, const gneiss::node_features& given, const std::filesystem::path& graph) {
    if (given.columns() == trained.columns() && given.sparse() == trained.sparse()) return;
    const auto kind = [](const gneiss::node_features& of) { return of.sparse() ? "sparse" : "dense"; };
    throw gneiss::error(gneiss::errc::invalid_argument,
        fmt::format("has {} {} features of a node, the run was trained with {} {}", given.columns(), kind(given), trained.columns(), kind(trained)),
        {.path = graph});
}

std::optional<std::vector<gneiss::node_id>> requested_nodes(const gneiss::dataset& data, const node_flags& flags) {
    if (!flags.some()) return std::nullopt;
    std::vector<gneiss::node_id> rows;
    const auto add = [&](const std::string& name, const gneiss::error_place& place) {
        const auto row = data.find_row(name);
        if (!row) throw gneiss::error(gneiss::errc::not_found, "no node is called '" + name + "'", place);
        rows.push_back(static_cast<gneiss::node_id>(*row));
    };
    for (const std::string& name : flags.node) add(name, {.path = data.directory()});
    if (flags.nodes) {
        std::istringstream in(programs::read_file(*flags.nodes));
        std::string name;
        for (std::uint64_t line = 1; std::getline(in, name); ++line) {
            if (!name.empty() && name.back() == '\r') name.pop_back();
            if (!name.empty()) add(name, {.path = *flags.nodes, .line = line});
        }
    }
    return rows;
}

void predict_classes(const std::string& program, const classified& of, const std::optional<std::vector<gneiss::node_id>>& asked,
    const score_stream& scores, bool json) {
    std::vector<gneiss::node_id> sorted = asked.value_or(std::vector<gneiss::node_id>{});
    std::ranges::sort(sorted);
    sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
    struct answer {
        gneiss::class_id best = 0;
        float probability = 0;
    };
    std::vector<answer> answers(asked ? sorted.size() : of.data.manifest().nodes);
    std::vector<float> chances;
    std::size_t next = 0;
    scores([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
        const auto answer_of = [&](std::size_t i) {
            softmax(some[i], chances);
            const gneiss::class_id best = gneiss::predicted_class<float>(chances);
            return answer{best, chances[best]};
        };
        if (!asked)
            for (std::size_t i = 0; i < some.rows(); ++i) answers[first + i] = answer_of(i);
        else
            for (; next < sorted.size() && sorted[next] < first + some.rows(); ++next) answers[next] = answer_of(sorted[next] - first);
    });
    auto list = nlohmann::ordered_json::array();
    const auto write = [&](std::uint64_t row, const answer& a) {
        const std::string name = of.data.node_label(row), label = of.trained_on.class_label(static_cast<std::int32_t>(a.best));
        if (json)
            list.push_back({{"node", name}, {"class", label}, {"probability", a.probability}});
        else
            fmt::print("{}\t{}\t{:.4f}\n", name, label, a.probability);
    };
    if (!asked)
        for (std::size_t row = 0; row < answers.size(); ++row) write(row, answers[row]);
    else
        for (const gneiss::node_id row : *asked)
            write(row, answers[static_cast<std::size_t>(std::ranges::lower_bound(sorted, row) - sorted.begin())]);
    if (json) programs::print_json({{"program", program}, {"predictions", list}});
}

void export_predictions(const classified& of, const score_stream& scores, const std::string& format, const std::filesystem::path& to) {
    const bool npy = format == "npy";
    std::optional<gneiss::npy_writer> array;
    text_file text(to / (npy ? "nodes.tsv" : "predictions.tsv"));
    std::vector<float> chances;
    scores([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
        if (npy && !array) array.emplace(to / "predictions.npy", gneiss::npy_dtype::f32, std::vector<std::uint64_t>{some.columns()});
        for (std::size_t i = 0; i < some.rows(); ++i) {
            softmax(some[i], chances);
            const gneiss::class_id best = gneiss::predicted_class<float>(chances);
            const std::string name = of.data.node_label(first + i), label = of.trained_on.class_label(static_cast<std::int32_t>(best));
            text.write(npy ? fmt::format("{}\t{}\t{}\n", first + i, name, label) : fmt::format("{}\t{}\t{:.4f}\n", name, label, chances[best]));
            if (npy) array->append_bytes(std::as_bytes(std::span(chances)));
        }
    });
    if (npy) {
        array->close();
        text_file classes(to / "classes.tsv");
        for (std::uint64_t c = 0; c < of.trained_on.manifest().node_attributes.classes; ++c)
            classes.write(fmt::format("{}\t{}\n", c, of.trained_on.class_label(static_cast<std::int32_t>(c))));
        classes.close();
    }
    text.close();
}

} // namespace trainers
