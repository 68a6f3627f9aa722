// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Small plots as SVG text: no script, no external font or image. On a page, colors follow its light or dark scheme,
/// and a tooltip shows each value; in a file, colors and fonts are literal. Lines differ by color, dash and marker,
/// with their names at their ends; colors differ for deuteranopia as well (tests/browser/colors.py).
namespace programs::plot {

/// The quantity on an axis: selects unit and ticks. Values are always given in base units (bytes, seconds, fractions of
/// 1).
enum class quantity { number, count, bytes, bandwidth, seconds, percent };

struct axis {
    std::string label{};
    quantity of = quantity::number;
    bool from_zero = false;                ///< the axis includes 0
    bool whole = false;                    ///< ticks at whole numbers only
    bool log = false;                      ///< logarithmic; values must be > 0, others are left out
    std::optional<double> least{}, most{}; ///< ends of the axis, instead of the data's
};

struct point {
    double x = 0, y = 0;
};

/// `wide` is drawn wider, so it shows beneath a line that covers it; `dotted` has no markers: a plan, a limit, a
/// reference.
enum class line_style { solid, wide, dotted, area };

/// The better end of a series' values, for its text.
enum class better { unknown, higher, lower };

struct series {
    std::string name{};
    std::vector<point> points{}; ///< ascending x; a non-finite value makes a gap
    line_style style = line_style::solid;
    std::optional<std::size_t> color{}; ///< color, dash and marker of another position; default: its own
    better best = better::unknown;
};

/// Lines over a numeric x; areas are stacked on those before them.
struct line_chart {
    /// A vertical line with a name.
    struct mark {
        std::string name{};
        double x = 0;
    };
    std::string title{};
    axis x{}, y{};
    std::vector<series> lines{};
    std::vector<mark> marks{};
};

/// Columns over categories, the parts stacked.
/// Categories that are numbers are labeled as far as there is room, names all of them.
struct bar_chart {
    struct part {
        std::string name{};
        std::vector<double> values{}; ///< one per category
    };
    std::string title{};
    std::string x_label{};
    axis y{};
    std::vector<std::string> categories{};
    std::vector<part> parts{};
    bool named = false; ///< categories are names
};

/// Named points from top to bottom, each with whiskers from x − half to x + half.
struct interval_chart {
    struct interval {
        std::string name{};
        double x = 0, half = 0;
    };
    std::string title{};
    axis x{};
    std::vector<interval> points{};
};

/// One horizontal bar of stacked parts with marked limits: a memory plan against its budget. A limit that is far beyond
/// all else is an arrow at the end of the axis, so that the parts stay visible.
struct stack_chart {
    struct part {
        std::string name{};
        double value = 0;
    };
    std::string title{};
    axis x{};
    std::vector<part> parts{}, marks{};
};

/// Activity of a thread, by color.
enum class doing { work, wait_for_input, wait_for_update, wait_for_room };
/// Returns the name for legends.
[[nodiscard]] std::string name_of(doing what);

/// Activity of threads over time: one row per thread; later bars cover earlier ones.
struct timeline_chart {
    struct bar {
        std::string name{};
        double from = 0, to = 0; ///< [s]
        doing what = doing::work;
    };
    struct row {
        std::string name{};
        std::vector<bar> bars{};
    };
    std::string title{};
    axis x{};
    std::vector<row> rows{};
};

/// `embedded` relies on the page's `style_sheet()`. `standalone` can be a file: it has literal colors of a light page
/// and literal fonts, as attributes alone, which every renderer of SVG draws.
enum class use { embedded, standalone };

/// Width that a plot is drawn for: 330, 560 or 1140 units. Text is at least 12 units high in each. A narrow plot is for
/// phones. It has no tooltips, and neither has a file.
enum class extent { narrow, medium, wide };

[[nodiscard]] std::string svg(const line_chart& chart, use options = use::embedded, extent width = extent::medium);
[[nodiscard]] std::string svg(const bar_chart& chart, use options = use::embedded, extent width = extent::medium);
[[nodiscard]] std::string svg(const interval_chart& chart, use options = use::embedded, extent width = extent::medium);
[[nodiscard]] std::string svg(const stack_chart& chart, use options = use::embedded, extent width = extent::wide);
[[nodiscard]] std::string svg(const timeline_chart& chart, use options = use::embedded, extent width = extent::wide);

/// Returns the values of a plot as CSV (RFC 4180, lines end in \n) in base units, which the header names: a row for
/// each x, category, point, part or bar, and a column for each series. A value that does not exist is empty.
[[nodiscard]] std::string csv(const line_chart& chart);
[[nodiscard]] std::string csv(const bar_chart& chart);
[[nodiscard]] std::string csv(const interval_chart& chart);
[[nodiscard]] std::string csv(const stack_chart& chart);
[[nodiscard]] std::string csv(const timeline_chart& chart);

/// Returns the text that stands for a plot where it is not seen: its title, and of each series the first, last and best
/// value, or the least and the largest if no end is better.
[[nodiscard]] std::string alt_text(const line_chart& chart);
[[nodiscard]] std::string alt_text(const bar_chart& chart);
[[nodiscard]] std::string alt_text(const interval_chart& chart);
[[nodiscard]] std::string alt_text(const stack_chart& chart);
[[nodiscard]] std::string alt_text(const timeline_chart& chart);

/// Returns the plot in two or three widths, of which `style_sheet()` shows the one that fits: text is at least 11
/// pixels high in a container (`container-type: inline-size`) of 310 pixels or more.
template <class Chart>
[[nodiscard]] std::string responsive(const Chart& chart) {
    const bool three = requires { chart.marks.front().value; } || requires { chart.rows; };
    return std::string(three ? "<div class=\"plots three\">\n" : "<div class=\"plots\">\n") +
        svg(chart, use::embedded, extent::narrow) + svg(chart, use::embedded, extent::medium) +
        (three ? svg(chart, use::embedded, extent::wide) : "") + "</div>\n";
}

/// Returns the name of the file with the values of a plot: FILE.csv for FILE.svg, else FILE.csv for FILE.
[[nodiscard]] std::filesystem::path csv_beside(const std::filesystem::path& svg);

/// Writes the texts of a plot to `path` and `csv_beside(path)`, and creates missing folders. Throws
/// errc::already_exists if the second exists without the first, as a file of the user's own; `gneiss::io_error`;
/// `std::filesystem::filesystem_error` if a folder cannot be created.
void write_plot(const std::filesystem::path& path, const std::string& svg, const std::string& csv);

/// Writes `svg(chart, use::standalone)` and `csv(chart)` as `write_plot` does.
template <class Chart>
void write_svg(const std::filesystem::path& path, const Chart& chart) {
    write_plot(path, svg(chart, use::standalone), csv(chart));
}

/// Returns the CSS that colors the plots, for light and dark pages.
[[nodiscard]] std::string style_sheet();
/// Returns the color of the `index`-th series or part, as CSS.
[[nodiscard]] std::string color(std::size_t index);

/// Escapes `text` for HTML and SVG: & < > " ' as entities, control characters left out.
[[nodiscard]] std::string escaped(std::string_view text);
/// Formats a value with its unit.
[[nodiscard]] std::string text_of(double value, quantity of);

/// Positions of ticks that cover [least, most], about `wanted` of them, at 1, 2 or 5 × 10^k.
struct tick_marks {
    double first = 0, step = 1;
    std::size_t count = 0;
    [[nodiscard]] double at(std::size_t i) const noexcept { return first + step * static_cast<double>(i); }
    [[nodiscard]] double last() const noexcept { return at(count - 1); }
};
[[nodiscard]] tick_marks nice_ticks(double least, double most, std::size_t wanted, bool whole = false);

} // namespace programs::plot
