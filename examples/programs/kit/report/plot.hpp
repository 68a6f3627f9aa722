// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Small plots as SVG text: no script, no external font or image. Colors follow a light or dark page; a tooltip shows
/// each value, so color is never the only way to read a plot.
namespace programs::plot {

/// The quantity on an axis: selects unit and ticks. Values are always given in base units (bytes, seconds, fractions of
/// 1).
enum class quantity { number, count, bytes, memory, bandwidth, seconds, percent };

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

/// `wide` is drawn wider, so it shows beneath a line that covers it.
enum class line_style { solid, wide, dashed, area };

struct series {
    std::string name{};
    std::vector<point> points{}; ///< ascending x; a non-finite value makes a gap
    line_style style = line_style::solid;
    std::optional<std::size_t> color{}; ///< color of another series; default: its own position
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
    struct mark {
        std::string name{};
        double value = 0;
    };
    std::string title{};
    axis x{};
    std::vector<part> parts{};
    std::vector<mark> marks{};
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

/// `embedded` relies on the page's `style_sheet()`; `standalone` contains it and can be a file.
enum class use { embedded, standalone };

/// Width that a plot is drawn for: 330, 560 or 1140 units. Text is at least 12 units high in each. A narrow plot is for
/// phones and has no tooltips.
enum class extent { narrow, medium, wide };

[[nodiscard]] std::string svg(const line_chart& chart, use options = use::embedded, extent width = extent::medium);
[[nodiscard]] std::string svg(const bar_chart& chart, use options = use::embedded, extent width = extent::medium);
[[nodiscard]] std::string svg(const interval_chart& chart, use options = use::embedded, extent width = extent::medium);
[[nodiscard]] std::string svg(const stack_chart& chart, use options = use::embedded, extent width = extent::wide);
[[nodiscard]] std::string svg(const timeline_chart& chart, use options = use::embedded, extent width = extent::wide);

/// Returns the plot in two or three widths, of which `style_sheet()` shows the one that fits: text is at least 11
/// pixels high in a container (`container-type: inline-size`) of 310 pixels or more.
[[nodiscard]] std::string responsive(const line_chart& chart);
[[nodiscard]] std::string responsive(const bar_chart& chart);
[[nodiscard]] std::string responsive(const interval_chart& chart);
[[nodiscard]] std::string responsive(const stack_chart& chart);
[[nodiscard]] std::string responsive(const timeline_chart& chart);

/// Writes `svg(chart, use::standalone)`, and creates missing folders. Throws `gneiss::io_error`;
/// `std::filesystem::filesystem_error` if a folder cannot be created.
void write_svg(const std::filesystem::path& path, const line_chart& chart);
void write_svg(const std::filesystem::path& path, const bar_chart& chart);
void write_svg(const std::filesystem::path& path, const interval_chart& chart);

/// Returns the CSS that colors the plots, for light and dark pages.
[[nodiscard]] std::string_view style_sheet() noexcept;
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
