// SPDX-License-Identifier: Apache-2.0
#include "kit/report/page.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace programs::page {
namespace {

using plot::escaped;

std::string_view style_sheet() {
    return R"(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",sans-serif;
font-variant-numeric:tabular-nums}
:root{--ground:#f4f5f7;--done:#23785a;--stopped:#a8540f;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--ground:#0f1116;--done:var(--c2);--stopped:var(--c1)}}
main{max-width:1180px;margin:0 auto;padding:0 20px 60px}header{padding:34px 0 18px}
h1{display:flex;flex-wrap:wrap;align-items:center;gap:0 .3em;
font-size:25px;line-height:1.25;margin:0;font-weight:650;letter-spacing:-.01em;overflow-wrap:anywhere}
h1 span{color:var(--soft);font-weight:400}header p{margin:5px 0 0;color:var(--soft)}
header code{display:block;margin-top:10px;padding:8px 12px;border-radius:8px;background:var(--page);color:var(--ink);
border:1px solid var(--rule);font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;
overflow-wrap:anywhere}
header i{display:inline-block;max-width:100%;font-style:normal}
h2{font-size:16px;font-weight:650;margin:34px 0 12px}
h1 .badge{margin:3px 0;font-size:12px;font-weight:600;border-radius:9px;padding:1px 9px;
color:var(--page);background:var(--done);letter-spacing:0}
h1 .badge.interrupted{background:var(--stopped)}
h1 .badge.running{background:var(--c0)}h1 .badge.late{background:var(--c3)}
.bands{display:flex;height:5px;border-radius:3px;overflow:hidden;margin-bottom:26px}
.bands i{display:block;height:100%}
.cards{display:flex;flex-wrap:wrap;gap:12px}
.card,.box{background:var(--page);border:1px solid var(--rule);border-radius:8px}
.card{padding:12px 16px;flex:1 1 18%;min-width:150px}
.card b{display:block;font-size:23px;font-weight:620;line-height:1.3;letter-spacing:-.01em}
.card span{color:var(--soft);font-size:13px;display:block}
.meter{height:5px;border-radius:3px;background:var(--rule);margin-top:7px;overflow:hidden}
.meter i{display:block;height:100%;min-width:3px;background:var(--c0)}.meter.over i{background:var(--c3)}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(548px,100%),1fr));gap:12px}
.box{padding:8px 8px 4px;min-width:0;container-type:inline-size}
.box.table{padding:12px 18px;overflow-x:auto;container-type:normal}
.box h3{margin:2px 0 6px;font-size:14px;font-weight:600}
.all{grid-column:1/-1}.tall{max-height:430px;overflow:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{padding:4px 14px 4px 0;text-align:right;white-space:nowrap;border-top:1px solid var(--rule)}
tr:first-child th,table.plain tr:first-child td{border-top:0}th{color:var(--soft);font-weight:500}
th:first-child,td:first-child{text-align:left}th:last-child,td:last-child{padding-right:0}
td.words{white-space:normal;overflow-wrap:anywhere;min-width:9em}
.key{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:8px}
a{color:inherit}.save{margin:0 10px 4px;text-align:right;font-size:12px;color:var(--soft)}.save a{margin-left:10px}
footer{margin-top:34px;color:var(--soft);font-size:13px}
@media (max-width:600px){main{padding:0 12px 40px}header{padding:22px 0 14px}h1{font-size:21px}.cards,.grid{gap:8px}
.card{padding:9px 12px;min-width:140px}.card b{font-size:20px}.box{padding:6px 5px 2px}.box.table{padding:10px 12px}
h2{margin:26px 0 9px}th,td{padding-right:10px}.box:not(.tall) th,.box:not(.tall) td:first-child{white-space:normal}}
@media (max-width:700px){.stacks tr{display:block;padding:8px 0;border-top:1px solid var(--rule)}
.stacks tr:first-child{display:none}.stacks tr:nth-child(2){border-top:0}
.stacks td{display:flex;justify-content:space-between;gap:14px;padding:2px 0;border:0;white-space:normal}
.stacks td:first-child{justify-content:flex-start;align-items:baseline;gap:0;font-weight:600}
.stacks td:empty{display:none}
.stacks td[data-title]::before{content:attr(data-title);color:var(--soft);text-align:left}}
@media print{body{background:#fff}.box,.card{break-inside:avoid}.tall{max-height:none}.save{display:none}}
)";
}

/// Returns a URL with the text in it.
std::string data_url(std::string_view type, std::string_view text) {
    std::string url = fmt::format("data:{};charset=utf-8,", type);
    for (const char c : text) {
        const bool plain = static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7f &&
            std::string_view("%#\"<>&'`").find(c) == std::string_view::npos;
        if (plain)
            url += c;
        else
            url += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return url;
}

} // namespace

std::string save_links(const std::string& title, const std::string& svg, const std::string& csv) {
    std::string name;
    for (const char c : title) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter)
            name += c;
        else if (!name.empty() && name.back() != '-')
            name += '-';
    }
    while (name.ends_with('-')) name.pop_back();
    if (name.empty()) name = "plot";
    const auto link = [&](const char* kind, const char* end, const char* type, const std::string& text) {
        return fmt::format("<a download=\"{0}.{1}\" aria-label=\"{2} as {3}\" href=\"{4}\">{3}</a>", name, end,
            escaped(title), kind, data_url(type, text));
    };
    return "<p class=\"save\">" + link("SVG", "svg", "image/svg+xml", svg) + link("CSV", "csv", "text/csv", csv) +
        "</p>\n";
}

std::string file_link(std::string_view name) { return fmt::format("<a href=\"{0}\">{0}</a>", escaped(name)); }

std::string cards(const std::vector<card>& all) {
    std::string html = "<div class=\"cards\">\n";
    for (const card& each : all) {
        html += fmt::format("<div class=\"card\"><span>{}</span><b>{}</b><span>{}</span>", escaped(each.title),
            escaped(each.value), escaped(each.note));
        if (each.meter >= 0)
            html += fmt::format("<div class=\"meter{}\"><i style=\"width:{:.1f}%\"></i></div>",
                each.meter > 1 ? " over" : "", std::min(each.meter, 1.0) * 100);
        html += "</div>\n";
    }
    return html + "</div>\n";
}

std::string table_box(const std::string& title, const std::vector<std::string>& titles,
    const std::vector<std::vector<cell>>& rows, span over, bool tall, bool stacks) {
    if (rows.empty()) return "";
    std::string html = fmt::format("<div class=\"box table{}{}\"><h3>{}</h3>\n<table{}>\n",
        over == span::all ? " all" : "", tall ? " tall" : "", escaped(title),
        titles.empty() ? " class=\"plain\""
            : stacks   ? " class=\"stacks\""
                       : "");
    if (!titles.empty()) {
        html += "<tr>";
        for (const std::string& title : titles) html += "<th>" + escaped(title) + "</th>";
        html += "</tr>\n";
    }
    for (const auto& row : rows) {
        html += "<tr>";
        for (std::size_t i = 0; i < row.size(); ++i) {
            const cell& c = row[i];
            html += c.words ? "<td class=\"words\"" : "<td";
            if (stacks && i > 0) html += fmt::format(" data-title=\"{}\"", escaped(titles.at(i)));
            html += '>';
            if (!c.swatch.empty()) html += fmt::format("<span class=\"key\" style=\"background:{}\"></span>", c.swatch);
            html += escaped(c.text) + "</td>";
        }
        html += "</tr>\n";
    }
    return html + "</table>\n</div>\n";
}

std::string section(const std::string& title, const std::string& boxes) {
    return boxes.empty()
        ? ""
        : fmt::format("<section><h2>{}</h2>\n<div class=\"grid\">\n{}</div></section>\n", escaped(title), boxes);
}

std::string command_line(const std::string& text) {
    std::string html = "<code>";
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t end = std::min(text.find(' ', from), text.size());
        html += (from == 0 ? "<i>" : " <i>") + escaped(text.substr(from, end - from)) + "</i>";
        from = end + 1;
    }
    return html + "</code>";
}

std::string document(const header& of, const std::string& body, const std::string& footer) {
    std::string html = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
    html += fmt::format("<title>{}</title>\n<style>{}\n{}</style>{}</head>\n<body><main>\n", escaped(of.title),
        plot::style_sheet(), style_sheet(), of.head);
    html += "<header><h1>" + of.heading + "</h1>\n";
    for (const std::string& line : of.lines) html += line + '\n';
    html += "</header>\n<div class=\"bands\">";
    constexpr int bands[][2] = {
        {0, 9}, {7, 3}, {0, 5}, {6, 2}, {1, 2}, {0, 14}, {7, 6}, {2, 4}, {0, 3}}; // color and width
    for (const auto& band : bands)
        html += fmt::format(
            "<i style=\"flex:{};background:{}\"></i>", band[1], plot::color(static_cast<std::size_t>(band[0])));
    return html + "</div>\n" + body + "<footer>" + footer + "</footer>\n</main></body></html>\n";
}

} // namespace programs::page
