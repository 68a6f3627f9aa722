// SPDX-License-Identifier: Apache-2.0
#include "kit/run/answer_table.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <gneiss/io/tsv_name.hpp>

#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/records.hpp"

namespace trainers {
namespace {

/// Returns a cell as text, exactly.
std::string exact(const answer_table::cell& of) {
    return std::visit([](const auto& value) { return fmt::format("{}", value); }, of);
}

/// Returns a cell for people.
std::string shown(const answer_table::cell& of) {
    if (const float* const x = std::get_if<float>(&of)) return fmt::format("{:.4f}", *x);
    if (const double* const x = std::get_if<double>(&of)) return fmt::format("{:.6g}", *x);
    return programs::visible(exact(of));
}

} // namespace

void answer_format::add_to(programs::command& to) {
    to.option("format", format, "form of the answers on stdout: all but table have a header and exact numbers")
        .choices({"table", "tsv", "csv", "jsonl"});
}

answer_table::answer_table(
    std::string format, std::vector<std::string> columns, std::function<void(std::string_view)> write)
    : format_(std::move(format)),
      columns_(std::move(columns)),
      write_(write ? std::move(write) : programs::print_data),
      right_(columns_.size()) {
    std::vector<std::string> titles = columns_;
    if (format_ == "csv") std::ranges::transform(titles, titles.begin(), programs::csv_field);
    if (format_ == "csv" || format_ == "tsv")
        write_(fmt::format("{}\n", fmt::join(titles, format_ == "csv" ? "," : "\t")));
}

void answer_table::add(const std::vector<cell>& row) {
    if (format_ == "jsonl") {
        nlohmann::ordered_json object = nlohmann::ordered_json::object();
        for (std::size_t c = 0; c < row.size(); ++c)
            std::visit([&](const auto& value) { object[columns_[c]] = value; }, row[c]);
        return write_(programs::compact(object) + '\n');
    }
    std::vector<std::string> fields;
    for (std::size_t c = 0; c < row.size(); ++c) {
        const bool text = std::holds_alternative<std::string>(row[c]);
        right_[c] = right_[c] || !text;
        fields.push_back(format_ == "table" ? shown(row[c])
                : format_ == "csv"          ? programs::csv_field(exact(row[c]))
                : text                      ? gneiss::tsv_name(std::get<std::string>(row[c]))
                                            : exact(row[c]));
    }
    if (format_ != "table") return write_(fmt::format("{}\n", fmt::join(fields, format_ == "csv" ? "," : "\t")));
    rows_.push_back(std::move(fields));
    if (!widths_.empty() || rows_.size() == measured_rows) write_rows();
}

void answer_table::finish() {
    if (format_ == "table") write_rows();
}

void answer_table::write_rows() {
    const auto width = [](const std::string& text) { return programs::columns_of(text); };
    if (widths_.empty()) {
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            widths_.push_back(width(columns_[c]));
            for (const auto& row : rows_) widths_[c] = std::max(widths_[c], width(row[c]));
        }
        rows_.insert(rows_.begin(), columns_);
    }
    for (const auto& row : rows_) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c) {
            const std::string gap(widths_[c] - std::min(widths_[c], width(row[c])), ' ');
            line += (c == 0 ? "" : "  ") + (right_[c] ? gap + row[c] : row[c] + gap);
        }
        write_(line.substr(0, line.find_last_not_of(' ') + 1) + '\n');
    }
    rows_.clear();
}

} // namespace trainers
