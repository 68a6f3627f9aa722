// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kit/report/plot.hpp"

/// Parts of the HTML pages that programs write: self-contained, for light and dark screens from 320 pixels on.
namespace programs::page {

/// A table cell; the first of a row is its name.
struct cell {
    std::string text;
    std::string swatch{}; ///< color before the text
    bool words = false;   ///< long text that may wrap
};

/// A figure of the summary at the head of a page.
struct card {
    std::string title, value, note;
    double meter = -1; ///< 0..1, or more: a bar; negative: none
};
[[nodiscard]] std::string cards(const std::vector<card>& all);

/// A place in a section's grid: one column, or all of them.
enum class span { column, all };

/// Returns links that save a plot as SVG and CSV, which the page contains.
[[nodiscard]] std::string save_links(const std::string& title, const std::string& svg, const std::string& csv);

/// Returns a box with a plot that fits the box's width, and with links that save it.
template <class Chart>
[[nodiscard]] std::string plot_box(const Chart& chart, span over = span::column) {
    return std::string("<div class=\"box") + (over == span::all ? " all" : "") + "\">" + plot::responsive(chart) +
        save_links(chart.title, plot::svg(chart, plot::use::standalone), plot::csv(chart)) + "</div>\n";
}
/// Returns a link to a file next to the page.
[[nodiscard]] std::string file_link(std::string_view name);
/// Returns a box with a table, empty without rows. Without `titles`, rows are names and values. A table that is wider
/// than the box scrolls inside it.
/// \param tall    the table may have many rows, and scrolls
/// \param stacks  on a narrow screen, each row becomes a list of its titles and values
[[nodiscard]] std::string table_box(const std::string& title, const std::vector<std::string>& titles,
    const std::vector<std::vector<cell>>& rows, span over = span::column, bool tall = false, bool stacks = false);
/// Returns a titled grid of boxes; empty if there are none.
[[nodiscard]] std::string section(const std::string& title, const std::string& boxes);

/// Returns a line with a command, broken between words where they fit.
[[nodiscard]] std::string command_line(const std::string& text);

/// A page's title and what is in its first lines.
struct header {
    std::string title;                ///< as plain text
    std::string heading;              ///< as HTML
    std::vector<std::string> lines{}; ///< below the heading, as HTML
    std::string head{};               ///< further HTML elements of the page's head
};
/// Returns a page; `footer` is HTML. O(body).
[[nodiscard]] std::string document(const header& of, const std::string& body, const std::string& footer);

} // namespace programs::page
