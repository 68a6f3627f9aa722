// SPDX-License-Identifier: Apache-2.0
#include "kit/report/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/run_directory.hpp"

namespace programs::plot {
namespace {

constexpr double plot_height = 188, margin = 14, right = 18;
constexpr double glyph = 6.8, name_glyph = 7.5, title_glyph = 7.8; ///< mean widths of a character: labels, titles
constexpr double line_height = 18;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t colors = 8;
constexpr std::size_t most_markers = 24; ///< a line with more points has markers at some
constexpr std::size_t most_bold = 60;    ///< and with more than these, it is thin

/// A color by its role, on a light and on a dark page. Text has a contrast of at least 4.5 to the page, lines other
/// than the grid of 3; each pair of c0 to c7 has a CIEDE2000 distance of at least 15 for deuteranopia.
struct tint {
    std::string_view name, light, dark;
};
constexpr tint tints[] = {{"page", "#ffffff", "#171a21"}, {"ink", "#1f2430", "#e7e9ee"}, {"soft", "#5d6676", "#9aa3b2"},
    {"axis", "#868e9c", "#737b8a"}, {"rule", "#e4e7ec", "#2c313c"}, {"c0", "#064e94", "#769edd"},
    {"c1", "#d8762a", "#f3a463"}, {"c2", "#18805e", "#a6ffd8"}, {"c3", "#730438", "#e988ab"},
    {"c4", "#9981d5", "#6f64a9"}, {"c5", "#7b6a13", "#978522"}, {"c6", "#2c7b8a", "#85def1"},
    {"c7", "#8e909a", "#7d7f89"}};

/// The look of a kind of element, as CSS whose names are also attributes of SVG.
struct rule {
    std::string_view kind, css;
};
constexpr rule rules[] = {{"page", "fill:var(--page)"}, {"tick", "fill:var(--soft);font-size:12px"},
    {"unit", "fill:var(--soft);font-size:12px"}, {"title", "fill:var(--ink);font-size:14.5px;font-weight:600"},
    {"name", "fill:var(--ink);font-size:12px"}, {"over", "fill:var(--ink);font-size:12px"},
    {"halo", "fill:var(--page);font-size:12px;stroke:var(--page);stroke-width:3;stroke-linejoin:round"},
    {"grid", "stroke:var(--rule);stroke-width:1"}, {"zero", "stroke:var(--axis);stroke-width:1"},
    {"curve", "fill:none;stroke-linejoin:round"}, {"area", "stroke:var(--page);stroke-width:.75"}, {"part", ""},
    {"free", "fill:var(--rule)"}, {"mark", "stroke:var(--ink);stroke-width:1;stroke-dasharray:3 3"},
    {"limit", "stroke:var(--ink);stroke-width:2"},
    {"over-limit", "stroke:var(--ink);stroke-width:2;stroke-dasharray:5 4"}};
constexpr std::string_view file_fonts = "Arial, Helvetica, Liberation Sans, sans-serif";

/// Dashes of solid lines and gaps of dotted ones, by position; and markers, as paths from their center.
constexpr const char* dashes[] = {"", "9 4", "4 3", "9 3 2 3", "16 4", "4 3 1.5 3", "9 3 2 3 2 3", "16 3 5 3"};
constexpr const char* dots[] = {
    "1.5 4", "1.5 8", "1.5 3 1.5 8", "1.5 3 1.5 3 1.5 9", "1.5 12", "1.5 6", "1.5 4 1.5 14", "1.5 6 1.5 12"};
constexpr const char* markers[] = {"m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", "m-2.7-2.7h5.4v5.4h-5.4z",
    "m0-3.8l3.6 6.4h-7.2z", "m0-4.1l4.1 4.1l-4.1 4.1l-4.1-4.1z", "m0 3.8l3.6-6.4h-7.2z",
    "m-1.2-3.6h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4v-2.4h2.4z",
    "m0-1.7l2.2-2.2l1.7 1.7l-2.2 2.2l2.2 2.2l-1.7 1.7l-2.2-2.2l-2.2 2.2l-1.7-1.7l2.2-2.2l-2.2-2.2l1.7-1.7z",
    "m-3.5-3.5h7l-7 7h7z"};

/// Returns the dash of a line: lines with the same color and marker, of positions 0 and 8, have different ones.
std::string_view dash_of(std::size_t position, line_style style) {
    const std::size_t at = (position + position / colors) % colors;
    return style == line_style::dotted ? dots[at] : dashes[at];
}

/// Returns the color of the light page for "var(--NAME)", other text as it is.
std::string_view literal(std::string_view value) {
    for (const tint& each : tints)
        if (value == fmt::format("var(--{})", each.name)) return each.light;
    return value;
}

/// Returns the attributes by which a file draws a kind of element.
std::string attributes_of(std::string_view kind) {
    const auto found = std::ranges::find(rules, kind, &rule::kind);
    std::string text;
    for (std::string_view rest = found->css; !rest.empty();) {
        const std::size_t colon = rest.find(':'), end = std::min(rest.find(';'), rest.size());
        text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : " ", rest.substr(0, colon),
            literal(rest.substr(colon + 1, end - colon - 1)));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return text;
}

std::string number_text(double value) {
    return value == std::floor(value) && std::abs(value) < 1e6 ? fmt::format("{:.0f}", value)
                                                               : fmt::format("{:.4g}", value);
}
/// By quantity: the unit of base values, for a column's title, and the text of a value.
struct quantity_text {
    std::string_view unit;
    std::string (*text)(double);
};
constexpr quantity_text quantities[] = {{"", number_text}, {"", human_count}, {" (bytes)", human_bytes},
    {" (bytes/s)", human_bandwidth}, {" (s)", human_seconds}, {" (fraction)", human_percent}};

/// Values are divided by `divisor`; the axis shows `unit`.
struct scale {
    double divisor = 1;
    std::string unit;
};

scale scale_of(quantity of, double largest) {
    const auto steps = [&](double step, std::initializer_list<const char*> units, const char* behind) {
        scale chosen{1, std::string(*units.begin()) + behind};
        for (auto unit = units.begin() + 1; unit != units.end() && largest / chosen.divisor >= step; ++unit)
            chosen = {chosen.divisor * step, std::string(*unit) + behind};
        return chosen;
    };
    switch (of) {
    case quantity::bytes: return steps(1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}, "");
    case quantity::bandwidth: return steps(1024, {"B", "KiB", "MiB", "GiB", "TiB"}, "/s");
    case quantity::count: return steps(1000, {"", "thousands", "millions", "billions"}, "");
    case quantity::percent: return {0.01, "%"};
    case quantity::seconds:
        if (largest < 0.1) return {1e-3, "ms"};
        return largest < 300 ? scale{1, "s"} : largest < 4 * 3600 ? scale{60, "min"} : scale{3600, "h"};
    case quantity::number: break;
    }
    return {1, ""};
}

std::string tick_text(double value, double step) {
    if (std::abs(value) < step * 1e-6) return "0";
    const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 9);
    if (decimals > 5 || std::abs(value) >= 1e7) return fmt::format("{:.3g}", value);
    return fmt::format("{:.{}f}", value, decimals);
}

/// The least and the largest of some values.
struct extremes {
    double least = infinity, most = -infinity;
    void add(double value) { least = std::min(least, value), most = std::max(most, value); }
};

/// Returns the length of the longest text of items.
template <class Items, class Text>
std::size_t longest(const Items& items, Text text) {
    std::size_t most = 0;
    for (const auto& item : items) most = std::max<std::size_t>(most, std::invoke(text, item).size());
    return most;
}

/// The layout of an axis: tick positions, tick labels, and the position of a value.
class layout {
public:
    layout(const axis& from, extremes values, std::size_t wanted) : log_(from.log) {
        auto [least, most] = values;
        if (from.least) least = *from.least;
        if (from.most) most = *from.most;
        if (!(least <= most) || (log_ && !(least > 0))) least = log_ ? 1 : 0, most = log_ ? 10 : 1;
        if (from.from_zero && !log_) least = std::min(least, 0.0), most = std::max(most, 0.0);
        const scale unit = scale_of(from.of, std::max(std::abs(least), std::abs(most)));
        label_ = from.label + (unit.unit.empty() ? "" : fmt::format(" ({})", unit.unit));
        if (log_) {
            constexpr double hair = 1e-3; // a value this close to a power of ten opens no decade
            least_ = std::floor(std::log10(least) + hair), most_ = std::ceil(std::log10(most) - hair);
            if (least_ == most_) ++most_;
            for (int power = static_cast<int>(least_); power <= static_cast<int>(most_); ++power)
                ticks_.push_back({std::pow(10, power), fmt::format("{:g}", std::pow(10, power) / unit.divisor)});
            return;
        }
        const tick_marks marks = nice_ticks(least / unit.divisor, most / unit.divisor, wanted, from.whole);
        for (std::size_t i = 0; i < marks.count; ++i)
            ticks_.push_back({marks.at(i) * unit.divisor, tick_text(marks.at(i), marks.step)});
        // An x axis ends at its data, a y axis at a tick.
        least_ = from.least ? *from.least : ticks_.front().value;
        most_ = from.most ? *from.most : ticks_.back().value;
        if (least_ == most_) most_ = least_ + unit.divisor;
        std::erase_if(ticks_, [&](const tick& t) {
            const double slack = 1e-9 * (most_ - least_);
            return t.value < least_ - slack || t.value > most_ + slack;
        });
    }

    struct tick {
        double value;
        std::string text;
    };
    [[nodiscard]] const std::vector<tick>& ticks() const { return ticks_; }
    [[nodiscard]] const std::string& label() const { return label_; }
    /// Returns 0 at the beginning of the axis, 1 at its end.
    [[nodiscard]] double share(double value) const {
        const double at = log_ ? std::log10(value) : value;
        return std::clamp((at - least_) / (most_ - least_), 0.0, 1.0);
    }
    [[nodiscard]] std::size_t longest() const { return plot::longest(ticks_, &tick::text); }

private:
    bool log_;
    double least_ = 0, most_ = 1;
    std::vector<tick> ticks_;
    std::string label_;
};

/// By extent: its class on a page, its width, the ticks of an x axis.
struct extent_look {
    const char* name;
    double width;
    std::size_t ticks;
};
const extent_look& look_of(extent of) {
    static constexpr extent_look looks[] = {{"narrow", 330, 4}, {"medium", 560, 7}, {"wide", 1140, 12}};
    return looks[static_cast<std::size_t>(of)];
}

/// A name next to its color.
struct legend_entry {
    std::string name;
    std::size_t color = 0;
};

/// The name of a line at its end.
struct end_label {
    std::vector<std::string> lines;
    std::size_t series = 0;
    double x = 0, y = 0;      ///< end of the line
    double top = 0, tall = 0; ///< place of the name
};

/// SVG text of one plot, and the frame that all plots share: title and legend, then the plot from `top()` to `floor()`,
/// then `foot` units for labels of the x axis.
class canvas {
public:
    /// \param tall  of the plot, from `top()` to `floor()`
    /// \param side  units to the right of the plot
    canvas(const std::string& title, extent width, double tall, double foot, use options, const std::string& alt,
        const std::vector<legend_entry>& legend = {}, bool has_unit = true, double side = right)
        : options_(options),
          alt_(alt),
          extent_(width),
          width_(look_of(width).width),
          side_(side) {
        double y = 4;
        for (const std::string& line : wrapped(title, static_cast<std::size_t>((width_ - 2 * margin) / title_glyph)))
            text(margin, y += line_height, "title", "start", line);
        y = draw_legend(legend, y + 2);
        if (legend.empty() && has_unit && extent_ != extent::narrow)
            y += line_height; // aligned with plots that have one
        top_ = y + (has_unit ? 32 : 12);
        floor_ = top_ + tall;
        tall_ = floor_ + foot;
    }

    /// Returns the attributes of a kind of element: on a page its class.
    [[nodiscard]] std::string style(std::string_view kind) const {
        return options_ == use::embedded ? fmt::format("class=\"{}\"", kind) : attributes_of(kind);
    }
    [[nodiscard]] std::string color(std::size_t index) const {
        const std::string variable = plot::color(index);
        return options_ == use::embedded ? variable : std::string(literal(variable));
    }

    void text(double x, double y, std::string_view kind, std::string_view anchor, std::string_view words) {
        if (kind == "over" && options_ == use::standalone) text(x, y, "halo", anchor, words);
        out_ += fmt::format("<text {} x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", style(kind), x, y,
            anchor, escaped(words));
    }
    /// Writes text that ends at (x, y) and rises to it.
    void rising(double x, double y, std::string_view words) {
        out_ +=
            fmt::format("<text {} text-anchor=\"end\" transform=\"translate({:.1f} {:.1f}) rotate(-35)\">{}</text>\n",
                style("tick"), x, y, escaped(words));
    }
    void line(double x1, double y1, double x2, double y2, std::string_view kind) {
        out_ += fmt::format(
            "<line {} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style(kind), x1, y1, x2, y2);
    }
    void box(
        double x, double y, double w, double h, std::string_view kind, std::string_view fill, std::string_view tip) {
        out_ += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}", x, y, w, h, style(kind));
        if (!fill.empty()) out_ += fmt::format(" fill=\"{}\"", fill);
        out_ += has_tips() ? fmt::format("><title>{}</title></rect>\n", escaped(tip)) : "/>\n";
    }
    /// Draws a line through a path of SVG.
    void stroke(std::string_view path, std::size_t color_index, double wide, std::string_view dash = "") {
        if (path.empty()) return;
        out_ += fmt::format(
            "<path {} d=\"{}\" stroke=\"{}\" stroke-width=\"{}\"", style("curve"), path, color(color_index), wide);
        out_ += dash.empty() ? "/>\n" : fmt::format(" stroke-dasharray=\"{}\"/>\n", dash);
    }
    /// Fills a path of SVG.
    void fill(std::string_view path, std::size_t color_index, std::string_view kind = "") {
        if (path.empty()) return;
        out_ += fmt::format("<path {}{}d=\"{}\" fill=\"{}\"/>\n", kind.empty() ? "" : style(kind),
            kind.empty() ? "" : " ", path, color(color_index));
    }

    /// Draws grid, ticks and labels of a y axis; returns the left edge of the plot.
    double y_axis(const layout& y) {
        left_ = 24 + glyph * static_cast<double>(y.longest());
        for (const auto& tick : y.ticks()) {
            const double at = y_of(y.share(tick.value));
            line(left_, at, end(), at, tick.value == 0 ? "zero" : "grid");
            text(left_ - 7, at + 4, "tick", "end", tick.text);
        }
        text(margin, top_ - 11, "unit", "start", y.label());
        return left_;
    }
    /// Draws grid, ticks and label of an x axis from `left` on, whose values are at `at(value)`.
    template <class At>
    void x_grid(const layout& x, double left, const At& at) {
        left_ = left;
        for (const auto& tick : x.ticks()) {
            line(at(tick.value), top_, at(tick.value), floor_, tick.value == 0 ? "zero" : "grid");
            text(at(tick.value), floor_ + 17, "tick", "middle", tick.text);
        }
        x_label(x.label());
    }
    void x_label(const std::string& label) { text((left_ + end()) / 2, tall_ - 7, "unit", "middle", label); }
    void x_tick(double at, const std::string& label) {
        line(at, floor_, at, floor_ + 4, "zero");
        text(at, floor_ + 17, "tick", "middle", label);
    }
    [[nodiscard]] double x_of(double share) const { return left_ + 4 + share * (end() - left_ - 8); }
    [[nodiscard]] double y_of(double share) const { return floor_ - share * (floor_ - top_); }
    [[nodiscard]] double left() const { return left_; }
    [[nodiscard]] double end() const { return width_ - side_; }
    [[nodiscard]] double width() const { return width_; }
    [[nodiscard]] double top() const { return top_; }
    [[nodiscard]] double floor() const { return floor_; }
    [[nodiscard]] bool has_tips() const { return options_ == use::embedded && extent_ != extent::narrow; }

    [[nodiscard]] std::string finish() {
        std::string svg = options_ == use::embedded
            ? fmt::format("<svg class=\"plot {}\"", look_of(extent_).name)
            : fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:g}\" height=\"{:g}\" font-family=\"{}\"",
                  width_, tall_, file_fonts);
        svg +=
            fmt::format(" viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">\n", width_, tall_, escaped(alt_));
        if (options_ == use::standalone)
            svg += fmt::format("<rect {} width=\"{:g}\" height=\"{:g}\"/>\n", style("page"), width_, tall_);
        return svg + out_ + "</svg>\n";
    }

private:
    /// Draws names next to their colors, in as many lines as they need; returns the last one's y.
    double draw_legend(const std::vector<legend_entry>& entries, double y) {
        double x = margin;
        if (!entries.empty()) y += line_height;
        for (const legend_entry& entry : entries) {
            const double wide = 20 + glyph * static_cast<double>(columns_of(entry.name)) + 12;
            if (x > margin && x + wide > width_) x = margin, y += line_height;
            out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{}\"/>", x,
                y - 10, color(entry.color));
            text(x + 17, y, "name", "start", entry.name);
            x += wide;
        }
        return y;
    }

    use options_;
    std::string alt_, out_;
    extent extent_;
    double width_, side_, left_ = 0, top_ = 0, floor_ = 0, tall_ = 0;
};

constexpr double foot = 42; ///< room of ticks and label of an x axis

/// Returns the axis with ends where the data ends, unless it has others.
axis ending_at(axis of, extremes data, bool from_zero = false) {
    if (of.log || !(data.least < data.most)) return of;
    if (!of.least) of.least = from_zero ? std::min(0.0, data.least) : data.least;
    if (!of.most) of.most = data.most;
    return of;
}

bool drawable(double value, const axis& on) { return std::isfinite(value) && (!on.log || value > 0); }

} // namespace

std::string style_sheet() {
    std::string light, dark, css;
    for (const tint& each : tints) {
        light += fmt::format("--{}:{};", each.name, each.light);
        dark += fmt::format("--{}:{};", each.name, each.dark);
    }
    css = fmt::format(
        ":root{{{}--hover:#1f243014}}\n@media (prefers-color-scheme:dark){{:root{{{}--hover:#ffffff18}}}}\n", light,
        dark);
    for (const rule& each : rules) css += fmt::format(".plot .{}{{{}}}", each.kind, each.css);
    return css + R"(
.plot{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",sans-serif}
.plot text{font-variant-numeric:tabular-nums}
.plot .over{paint-order:stroke;stroke:var(--page);stroke-width:3px}.plot .hit{fill:transparent}
.plot .hit:hover{fill:var(--hover)}.plot .part:hover{opacity:.75}
.plots>svg{display:none;width:100%;height:auto;margin:0 auto}.plots>.narrow{display:block;max-width:440px}
@container (min-width:530px){.plots>.narrow{display:none}.plots>.medium{display:block;max-width:760px}}
@container (min-width:1000px){.plots.three>.medium{display:none}.plots.three>.wide{display:block}})";
}

std::string color(std::size_t index) { return fmt::format("var(--c{})", index % colors); }

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) switch (c) {
        case '&': result += "&amp;"; break;
        case '<': result += "&lt;"; break;
        case '>': result += "&gt;"; break;
        case '"': result += "&quot;"; break;
        case '\'': result += "&#39;"; break;
        default:
            if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') result += c;
        }
    return result;
}

std::string text_of(double value, quantity of) {
    return std::isfinite(value) ? quantities[static_cast<std::size_t>(of)].text(value) : "not a number";
}

tick_marks nice_ticks(double least, double most, std::size_t wanted, bool whole) {
    static constexpr double tiny = 1e-290, huge = 1e290; // beyond these, steps or the span overflow
    if (!(std::isfinite(least) && std::isfinite(most))) least = 0, most = 1;
    const auto drawn = [](double x) { return std::abs(x) < tiny ? 0 : std::clamp(x, -huge, huge); };
    least = drawn(least), most = drawn(most);
    if (most - least <= 1e-12 * std::max(std::abs(most), std::abs(least))) {
        const double room = most == 0 ? 1 : std::abs(most) * 0.1;
        least -= whole ? 0 : room;
        most += whole ? 1 : room;
    }
    const double rough = (most - least) / static_cast<double>(std::max<std::size_t>(wanted, 1));
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double times : {1.0, 2.0, 5.0})
        if (times * power >= rough * 0.999) {
            step = times * power;
            break;
        }
    if (whole) step = std::max(1.0, std::round(step));
    const double first = std::floor(least / step + 1e-6), last = std::ceil(most / step - 1e-6);
    return {first * step, step, static_cast<std::size_t>(last - first) + 1};
}

namespace {

/// Returns the names of lines, broken into lines of text that take at most a third of the width; none for a single one.
std::vector<end_label> labels_of(const line_chart& chart, extent width) {
    constexpr double sample = 30; // and the gaps at its sides
    std::vector<end_label> labels;
    const auto most = static_cast<std::size_t>((look_of(width).width * .39 - sample) / name_glyph);
    if (chart.lines.size() > 1)
        for (std::size_t s = 0; s < chart.lines.size(); ++s)
            labels.push_back({.lines = wrapped(chart.lines[s].name, most), .series = s});
    for (end_label& label : labels) label.tall = 14 * static_cast<double>(label.lines.size()) + 2;
    return labels;
}

double side_of(const std::vector<end_label>& labels) {
    std::size_t longest = 0;
    for (const end_label& label : labels)
        for (const std::string& line : label.lines) longest = std::max(longest, columns_of(line));
    return labels.empty() ? right : 36 + name_glyph * static_cast<double>(longest);
}

/// Places names next to the ends of their lines, from top to bottom, such that none covers another.
void spread(std::vector<end_label>& labels, double top, double floor) {
    std::ranges::stable_sort(labels, {}, &end_label::y);
    double from = top;
    for (end_label& label : labels) {
        label.top = std::max(from, label.y - label.tall / 2);
        from = label.top + label.tall;
    }
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
        label->top = std::max(top, std::min(label->top, floor - label->tall));
        floor = label->top;
    }
}

void draw_labels(canvas& out, const line_chart& chart, std::vector<end_label>& labels) {
    spread(labels, out.top() - 4, out.floor() + 4);
    for (const end_label& label : labels) {
        const series& line = chart.lines[label.series];
        const std::size_t at = line.color.value_or(label.series);
        const double x = out.end() + 7, y = label.top + 9;
        if (line.style == line_style::area)
            out.fill(fmt::format("M{:.1f} {:.1f}h11v11h-11z", x + 2, y - 6), at);
        else {
            if (label.x > out.end() - 12 && std::abs(label.y - y) > 3) // leads to a name that had to move
                out.stroke(fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", label.x, label.y, x, y), at, .6);
            out.stroke(fmt::format("M{:.1f} {:.1f}h18", x, y), at, line.style == line_style::wide ? 5 : 2,
                dash_of(at, line.style));
            if (line.style != line_style::dotted)
                out.fill(fmt::format("M{:.1f} {:.1f}{}", x + 9, y, markers[at % colors]), at);
        }
        for (std::size_t i = 0; i < label.lines.size(); ++i)
            out.text(x + 23, y + 4 + 14 * static_cast<double>(i), "name", "start", label.lines[i]);
    }
}

} // namespace

std::string svg(const line_chart& chart, use options, extent width) {
    extremes across, up;
    std::map<double, double> base; // the top of the stacked areas so far, by x
    std::vector<std::vector<point>> tops(chart.lines.size());
    for (std::size_t s = 0; s < chart.lines.size(); ++s) {
        const series& line = chart.lines[s];
        for (point p : line.points) {
            if (line.style == line_style::area && std::isfinite(p.y)) p.y = base[p.x] += p.y;
            tops[s].push_back(p);
            if (!drawable(p.x, chart.x) || !drawable(p.y, chart.y)) continue;
            across.add(p.x), up.add(p.y);
        }
    }
    const layout x(ending_at(chart.x, across, chart.x.from_zero), across, look_of(width).ticks), y(chart.y, up, 5);
    std::vector<end_label> labels = labels_of(chart, width);
    double tall = 0;
    for (const end_label& label : labels) tall += label.tall;
    canvas out(
        chart.title, width, std::max(plot_height, tall), foot, options, alt_text(chart), {}, true, side_of(labels));
    out.y_axis(y);
    for (const auto& tick : x.ticks()) out.x_tick(out.x_of(x.share(tick.value)), tick.text);
    out.x_label(x.label());

    std::map<double, std::string> tips;
    std::map<double, double> under;
    for (std::size_t s = 0; s < chart.lines.size(); ++s) {
        const series& line = chart.lines[s];
        const std::size_t position = line.color.value_or(s);
        std::string path, back, marks;
        bool pen = false;
        const std::size_t count = tops[s].size(), every = count > most_markers ? count / 8 : 1;
        for (std::size_t i = 0; i < count; ++i) {
            const point& p = tops[s][i];
            if (!drawable(p.x, chart.x) || !drawable(p.y, chart.y)) {
                pen = false;
                continue;
            }
            const double at = out.x_of(x.share(p.x)), top = out.y_of(y.share(p.y));
            path += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", at, top);
            pen = true;
            if (i % every == s * every / std::max<std::size_t>(chart.lines.size(), 1))
                marks += fmt::format("M{:.1f} {:.1f}{}", at, top, markers[position % colors]);
            double middle = top;
            if (line.style == line_style::area) {
                const double low = out.y_of(y.share(under[p.x]));
                back = fmt::format("L{:.1f} {:.1f}{}", at, low, back);
                under[p.x] = p.y;
                middle = (top + low) / 2;
            }
            if (!labels.empty()) labels[s].x = at, labels[s].y = middle;
            std::string& tip = tips[p.x];
            tip += fmt::format("{}{}: {}", tip.empty() ? "" : "\n", line.name, text_of(line.points[i].y, chart.y.of));
        }
        if (line.style == line_style::area) {
            if (!path.empty()) path[0] = 'M', out.fill(path + back + 'Z', position, "area");
            continue;
        }
        out.stroke(path, position,
            line.style == line_style::wide ? 5
                : count > most_bold        ? 1.4
                                           : 2,
            dash_of(position, line.style));
        if (line.style != line_style::dotted) out.fill(marks, position);
    }
    draw_labels(out, chart, labels);
    for (const line_chart::mark& mark : chart.marks) {
        if (!drawable(mark.x, chart.x)) continue;
        const double at = out.x_of(x.share(mark.x));
        const bool beyond = x.share(mark.x) > .5;
        out.line(at, out.top(), at, out.floor(), "mark");
        out.text(at + (beyond ? -5 : 5), out.floor() - 7, "over", beyond ? "end" : "start", mark.name);
    }
    // A column of the plot around each x shows the values there as a tooltip.
    if (!out.has_tips()) return out.finish();
    for (auto tip = tips.begin(); tip != tips.end(); ++tip) {
        const double here = out.x_of(x.share(tip->first));
        const double from = tip == tips.begin() ? out.left() : (here + out.x_of(x.share(std::prev(tip)->first))) / 2;
        const double to =
            std::next(tip) == tips.end() ? out.end() : (here + out.x_of(x.share(std::next(tip)->first))) / 2;
        out.box(from, out.top(), std::max(to - from, 0.5), out.floor() - out.top(), "hit", "",
            fmt::format("{} {}\n{}", chart.x.label, text_of(tip->first, chart.x.of), tip->second));
    }
    return out.finish();
}

std::string svg(const bar_chart& chart, use options, extent width) {
    constexpr double slope = 0.5736, most_rise = 120; // sine of the angle of rising names
    const std::size_t bars = chart.categories.size();
    std::vector<double> total(bars);
    for (const auto& part : chart.parts)
        for (std::size_t b = 0; b < std::min(bars, part.values.size()); ++b)
            if (std::isfinite(part.values[b])) total[b] += std::max(0.0, part.values[b]);
    axis up = chart.y;
    up.from_zero = true;
    up.log = false;
    const double most = bars == 0 ? 1 : *std::ranges::max_element(total);
    if (!(most > 0) && !up.most) up.most = 1; // no axis below 0
    const layout y(up, {0, most}, 5);
    std::vector<legend_entry> legend;
    for (const auto& part : chart.parts) legend.push_back({part.name, legend.size()});
    if (legend.size() == 1) legend.clear();
    const double label =
        glyph * static_cast<double>(std::max<std::size_t>(longest(chart.categories, std::identity()), 1));
    const double about = (look_of(width).width - right - 60) /
        static_cast<double>(std::max<std::size_t>(bars, 1)); // width of a bar's place
    const bool rises = chart.named && label + 10 > about;
    canvas out(chart.title, width, plot_height, rises ? std::min(label * slope, most_rise) + 36 : foot, options,
        alt_text(chart), legend);
    out.y_axis(y);
    const double from = out.left() + 4, wide = (out.end() - from) / static_cast<double>(std::max<std::size_t>(bars, 1));
    const double thick = std::min(wide * 0.78, 46.0);
    const auto every = chart.named ? 1 : static_cast<std::size_t>(std::ceil((label + 10) / wide));
    for (std::size_t b = 0; b < bars; ++b) {
        const double middle = from + wide * (static_cast<double>(b) + 0.5);
        if (rises)
            out.rising(middle + 4, out.floor() + 15, chart.categories[b]);
        else if (b % every == 0)
            out.text(middle, out.floor() + 17, "tick", "middle", chart.categories[b]);
        double at = 0;
        for (std::size_t p = 0; p < chart.parts.size(); ++p) {
            if (b >= chart.parts[p].values.size()) continue;
            const double value = chart.parts[p].values[b];
            if (!(value > 0) || !std::isfinite(value)) continue;
            const double low = out.y_of(y.share(at)), high = out.y_of(y.share(at + value));
            at += value;
            out.box(middle - thick / 2, high, thick, std::max(low - high, 0.4), "part", out.color(p),
                fmt::format("{} {}\n{}: {}{}", chart.x_label, chart.categories[b], chart.parts[p].name,
                    text_of(value, chart.y.of),
                    chart.parts.size() > 1 ? fmt::format(" of {}", text_of(total[b], chart.y.of)) : ""));
        }
    }
    out.line(out.left(), out.floor(), out.end(), out.floor(), "zero");
    out.x_label(chart.x_label);
    return out.finish();
}

std::string svg(const interval_chart& chart, use options, extent width) {
    constexpr double row = 26, cap = 5;
    extremes ends;
    for (const auto& point : chart.points) ends.add(point.x - point.half), ends.add(point.x + point.half);
    const layout x(chart.x, ends, look_of(width).ticks);
    canvas out(
        chart.title, width, row * static_cast<double>(chart.points.size()), foot, options, alt_text(chart), {}, false);
    const double left = std::min(
        28 + glyph * static_cast<double>(longest(chart.points, &interval_chart::interval::name)), out.width() / 2);
    const auto at = [&](double value) { return left + x.share(value) * (out.end() - 8 - left); };
    out.x_grid(x, left, at);
    for (std::size_t i = 0; i < chart.points.size(); ++i) {
        const auto& point = chart.points[i];
        const double y = out.top() + row * (static_cast<double>(i) + 0.5), from = at(point.x - point.half),
                     to = at(point.x + point.half);
        out.text(left - 10, y + 4, "name", "end", point.name);
        out.stroke(fmt::format("M{0:.1f} {1:.1f}V{2:.1f}M{0:.1f} {3:.1f}H{4:.1f}M{4:.1f} {1:.1f}V{2:.1f}", from,
                       y - cap, y + cap, y, to),
            0, 2);
        out.fill(fmt::format("M{:.1f} {:.1f}{}", at(point.x), y, markers[0]), 0);
        if (out.has_tips())
            out.box(left, y - row / 2, out.end() - left, row, "hit", "",
                fmt::format("{}: {} ± {}", point.name, text_of(point.x, chart.x.of), text_of(point.half, chart.x.of)));
    }
    return out.finish();
}

std::string svg(const stack_chart& chart, use options, extent width) {
    constexpr double bar_tall = 34, above = 34, far = 4; // a mark at more than `far` times all else is beyond the axis
    double sum = 0;
    for (const auto& part : chart.parts) sum += std::max(0.0, part.value);
    double most = sum;
    std::vector<double> marked;
    for (const auto& mark : chart.marks) marked.push_back(mark.value);
    std::ranges::sort(marked);
    for (const double value : marked)
        if (value <= far * most || !(most > 0)) most = std::max(most, value);
    axis across = chart.x;
    across.from_zero = true;
    across.most = most > 0 ? most * 1.04 : 1;
    const layout x(across, {0, most}, look_of(width).ticks);
    canvas out(chart.title, width, above + bar_tall, foot, options, alt_text(chart), {}, false);
    const double bar_top = out.top() + above;
    const auto at = [&](double value) { return 18 + x.share(value) * (out.width() - 36); };
    out.box(at(0), bar_top, at(*across.most) - at(0), bar_tall, "free", "", "free");
    double from = 0;
    for (std::size_t p = 0; p < chart.parts.size(); ++p) {
        const double value = std::max(0.0, chart.parts[p].value);
        const double wide = at(from + value) - at(from);
        out.box(at(from), bar_top, std::max(wide - 1, 0.6), bar_tall, "part", out.color(p),
            fmt::format("{}: {} ({})", chart.parts[p].name, text_of(value, chart.x.of),
                human_percent(sum > 0 ? value / sum : 0)));
        from += value;
    }
    for (std::size_t m = 0; m < chart.marks.size(); ++m)
        if (const double here = at(chart.marks[m].value); chart.marks[m].value <= *across.most)
            out.line(here, m % 2 == 0 ? bar_top - 7 : bar_top - 23, here, bar_top + bar_tall + 7,
                m == 0 ? "limit" : "over-limit");
    for (std::size_t m = 0; m < chart.marks.size(); ++m) { // over the lines
        const auto& mark = chart.marks[m];
        const double label = m % 2 == 0 ? bar_top - 11 : bar_top - 27;
        std::string words = fmt::format("{} {}", mark.name, text_of(mark.value, chart.x.of));
        if (mark.value > *across.most) {
            out.text(out.width() - 18, label, "over", "end", words + " →");
            continue;
        }
        const double here = at(mark.value);
        const bool beyond = here > out.width() * 0.55;
        out.text(here + (beyond ? -5 : 5), label, "over", beyond ? "end" : "start", words);
    }
    for (const auto& tick : x.ticks()) out.text(at(tick.value), bar_top + bar_tall + 21, "tick", "middle", tick.text);
    out.text(out.width() - 18, out.floor() + foot - 4, "unit", "end", x.label());
    return out.finish();
}

std::string name_of(doing what) {
    constexpr const char* names[] = {"at work", "waits for input", "waits for updates", "waits for room"};
    return names[static_cast<std::size_t>(what)];
}

std::string svg(const timeline_chart& chart, use options, extent width) {
    const double bar = 16, row = width == extent::narrow ? 38 : 24; // narrow: names are above their bars
    extremes ends;
    for (const auto& thread : chart.rows)
        for (const auto& each : thread.bars)
            if (std::isfinite(each.from) && std::isfinite(each.to)) ends.add(each.from), ends.add(each.to);
    const layout x(ending_at(chart.x, ends), ends, look_of(width).ticks);
    std::vector<legend_entry> legend;
    for (const doing what : {doing::work, doing::wait_for_input, doing::wait_for_update, doing::wait_for_room})
        legend.push_back({name_of(what), static_cast<std::size_t>(what)});
    canvas out(chart.title, width, row * static_cast<double>(chart.rows.size()), foot, options, alt_text(chart), legend,
        false);
    const double names = 28 + glyph * static_cast<double>(longest(chart.rows, &timeline_chart::row::name)),
                 left = width == extent::narrow ? margin : std::min(names, out.width() / 3);
    const auto at = [&](double value) { return left + x.share(value) * (out.end() - left); };
    out.x_grid(x, left, at);
    for (std::size_t i = 0; i < chart.rows.size(); ++i) {
        const double from = out.top() + row * static_cast<double>(i),
                     y = width == extent::narrow ? from + 20 : from + (row - bar) / 2;
        if (width == extent::narrow)
            out.text(left, from + 15, "name", "start", chart.rows[i].name);
        else
            out.text(left - 10, y + 12, "name", "end", chart.rows[i].name);
        for (const auto& each : chart.rows[i].bars) {
            if (!std::isfinite(each.from) || !std::isfinite(each.to)) continue;
            out.box(at(each.from), y, std::max(at(each.to) - at(each.from), 0.4), bar, "part",
                out.color(static_cast<std::size_t>(each.what)),
                fmt::format("{}: {}", each.name,
                    each.to - each.from < 1 ? fmt::format("{:.3g} ms", 1e3 * (each.to - each.from))
                                            : human_seconds(each.to - each.from)));
        }
    }
    return out.finish();
}

namespace {

std::string field(std::string_view text, quantity of = quantity::number) {
    return csv_field(std::string(text).append(quantities[static_cast<std::size_t>(of)].unit));
}
std::string field(double value) { return std::isfinite(value) ? fmt::format("{:.10g}", value) : ""; }

/// Returns the first, last and best value, in words; empty without a value. `places` names the position of each.
std::string course(
    const std::vector<double>& values, const std::vector<std::string>& places, quantity of, better best) {
    std::optional<std::size_t> first, last, least, most;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) continue;
        if (!first) first = least = most = i;
        last = i;
        if (values[i] < values[*least]) least = i;
        if (values[i] > values[*most]) most = i;
    }
    if (!first) return "";
    const auto text = [&](std::size_t i) { return fmt::format("{} at {}", text_of(values[i], of), places[i]); };
    std::string words = fmt::format("first {}, last {}", text(*first), text(*last));
    if (best == better::unknown) return words + fmt::format(", least {}, most {}", text(*least), text(*most));
    return words + ", best " + text(best == better::higher ? *most : *least);
}

} // namespace

std::string csv(const line_chart& chart) {
    std::string text = field(chart.x.label.empty() ? "x" : chart.x.label, chart.x.of);
    std::map<double, std::vector<double>> rows;
    for (std::size_t s = 0; s < chart.lines.size(); ++s) {
        text += ',' + field(chart.lines[s].name, chart.y.of);
        for (const point& p : chart.lines[s].points) {
            if (!std::isfinite(p.x)) continue;
            auto& row = rows[p.x];
            row.resize(chart.lines.size(), std::numeric_limits<double>::quiet_NaN());
            row[s] = p.y;
        }
    }
    for (const auto& [x, row] : rows) {
        text += '\n' + field(x);
        for (const double y : row) text += ',' + field(y);
    }
    return text + '\n';
}

std::string csv(const bar_chart& chart) {
    std::string text = field(chart.x_label.empty() ? "name" : chart.x_label);
    for (const auto& part : chart.parts) text += ',' + field(part.name, chart.y.of);
    for (std::size_t b = 0; b < chart.categories.size(); ++b) {
        text += '\n' + field(chart.categories[b]);
        for (const auto& part : chart.parts) text += ',' + (b < part.values.size() ? field(part.values[b]) : "");
    }
    return text + '\n';
}

std::string csv(const interval_chart& chart) {
    std::string text = "name," + field("mean", chart.x.of) + ',' + field("half width", chart.x.of) + '\n';
    for (const auto& point : chart.points)
        text += field(point.name) + ',' + field(point.x) + ',' + field(point.half) + '\n';
    return text;
}

std::string csv(const stack_chart& chart) {
    std::string text = "name," + field("value", chart.x.of) + '\n';
    for (const auto& part : chart.parts) text += field(part.name) + ',' + field(part.value) + '\n';
    for (const auto& mark : chart.marks) text += field(mark.name) + ',' + field(mark.value) + '\n';
    return text;
}

std::string csv(const timeline_chart& chart) {
    std::string text = "thread,span,activity,from (s),to (s)\n";
    for (const auto& row : chart.rows)
        for (const auto& bar : row.bars)
            text += field(row.name) + ',' + field(bar.name) + ',' + name_of(bar.what) + ',' + field(bar.from) + ',' +
                field(bar.to) + '\n';
    return text;
}

std::string alt_text(const line_chart& chart) {
    std::string text = chart.title;
    for (const series& line : chart.lines) {
        std::vector<double> values;
        std::vector<std::string> places;
        for (const point& p : line.points) {
            values.push_back(p.y);
            places.push_back((chart.x.label.empty() ? "" : chart.x.label + ' ') + text_of(p.x, chart.x.of));
        }
        if (const std::string words = course(values, places, chart.y.of, line.best); !words.empty())
            text += fmt::format(". {}: {}", line.name, words);
    }
    return text;
}

std::string alt_text(const bar_chart& chart) {
    std::string text = chart.title;
    for (const auto& part : chart.parts)
        if (const std::string words =
                course({part.values.begin(),
                           part.values.begin() +
                               static_cast<std::ptrdiff_t>(std::min(part.values.size(), chart.categories.size()))},
                    chart.categories, chart.y.of, better::unknown);
            !words.empty())
            text += fmt::format(". {}: {}", part.name, words);
    return text;
}

std::string alt_text(const interval_chart& chart) {
    std::string text = chart.title;
    for (const auto& point : chart.points)
        text += fmt::format(". {}: {} ± {}", point.name, text_of(point.x, chart.x.of), text_of(point.half, chart.x.of));
    return text;
}

std::string alt_text(const stack_chart& chart) {
    std::string text = chart.title;
    for (const auto& part : chart.parts) text += fmt::format(". {}: {}", part.name, text_of(part.value, chart.x.of));
    for (const auto& mark : chart.marks) text += fmt::format(". {}: {}", mark.name, text_of(mark.value, chart.x.of));
    return text;
}

std::string alt_text(const timeline_chart& chart) {
    std::string text = chart.title;
    for (const auto& row : chart.rows) {
        double times[4] = {};
        for (const auto& bar : row.bars)
            if (std::isfinite(bar.to - bar.from)) times[static_cast<std::size_t>(bar.what)] += bar.to - bar.from;
        text += ". " + row.name + ':';
        for (std::size_t i = 0; i < std::size(times); ++i)
            text += fmt::format("{} {} {}", i == 0 ? "" : ",", name_of(static_cast<doing>(i)), human_seconds(times[i]));
    }
    return text;
}

std::filesystem::path csv_beside(const std::filesystem::path& svg) {
    std::filesystem::path csv = svg;
    if (csv.extension() == ".svg") csv.replace_extension();
    return csv += ".csv";
}

void write_plot(const std::filesystem::path& path, const std::string& svg, const std::string& csv) {
    const std::filesystem::path values = csv_beside(path);
    if (std::filesystem::exists(values) && !std::filesystem::exists(path))
        throw gneiss::error(gneiss::errc::already_exists,
            "would be replaced by the values of " + path.string() + ": move it, or choose another name",
            {.path = values});
    if (path.has_parent_path()) gneiss::make_directories(path.parent_path());
    write_file_atomically(path, svg);
    write_file_atomically(values, csv);
}

} // namespace programs::plot
