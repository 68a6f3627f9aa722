// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kit/cli/command_line.hpp"

namespace trainers {

/// Flag of `predict`: the form of its answers.
struct answer_format {
    std::string format = "table";

    void add_to(programs::command& to);
};

/// Answers in rows under named columns, written as they come:
/// - "table": for people, columns aligned by the first 1000 rows, numbers with four decimals;
/// - "tsv": a header, fields between tabs;
/// - "csv": a header, fields between commas, in quotes where they need them (RFC 4180);
/// - "jsonl": one JSON object per line.
/// All but the table have the names as they are, and each number with the digits that read back as the same number.
class answer_table {
public:
    using cell = std::variant<std::string, std::uint64_t, float, double>;

    /// \param write  takes the text; default: stdout
    answer_table(
        std::string format, std::vector<std::string> columns, std::function<void(std::string_view)> write = {});
    answer_table(const answer_table&) = delete;
    answer_table& operator=(const answer_table&) = delete;
    ~answer_table() = default;

    /// Adds a row, one cell per column. "tsv": throws errc::unsupported for a name with a tab or a line break.
    void add(const std::vector<cell>& row);
    /// Writes what is left. Call it after the last row.
    void finish();

private:
    void write_rows();

    static constexpr std::size_t measured_rows = 1000;

    std::string format_;
    std::vector<std::string> columns_;
    std::function<void(std::string_view)> write_;
    std::vector<std::size_t> widths_;            // of a table, once its first rows are there
    std::vector<bool> right_;                    // columns of numbers
    std::vector<std::vector<std::string>> rows_; // of a table, not written yet
};

} // namespace trainers
