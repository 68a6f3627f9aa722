// SPDX-License-Identifier: Apache-2.0
#include "kit/report/trace_window.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace programs {

namespace {

plot::doing doing_of(const gneiss::recorded_span& span) {
    const std::string_view name = span.name;
    if (!span.waits()) return plot::doing::work;
    if (name.starts_with("wait for room") || name.starts_with("wait for a free")) return plot::doing::wait_for_room;
    return name.starts_with("wait for update") || name == "wait for gather of later batches"
        ? plot::doing::wait_for_update
        : plot::doing::wait_for_input;
}

std::string text_of(const gneiss::recorded_span& span) {
    std::string text = span.name;
    const auto add = [&](const char* name, std::uint64_t value) {
        if (value != gneiss::trace_arguments::none) text += fmt::format(", {} {}", name, value);
    };
    add("state", span.with.state);
    add("batch", span.with.batch);
    add("partition", span.with.partition);
    add("bytes", span.with.bytes);
    return text;
}

} // namespace

void trace_window::add(const std::string& track, const gneiss::recorded_span& span) {
    if (span.begin >= end_) return;
    const auto [to, first] = spans_.try_emplace(track);
    if (first) order_.push_back(track);
    to->second.push_back(span);
    if (++held_ <= most_) return;
    std::vector<std::chrono::nanoseconds> begins;
    for (const auto& [name, spans] : spans_)
        for (const gneiss::recorded_span& s : spans) begins.push_back(s.begin);
    const auto last = begins.begin() + static_cast<std::ptrdiff_t>(begins.size() * 3 / 4);
    std::ranges::nth_element(begins, last);
    end_ = *last;
    held_ = 0;
    for (auto& [name, spans] : spans_) {
        std::erase_if(spans, [&](const gneiss::recorded_span& s) { return s.begin >= end_; });
        held_ += spans.size();
    }
}

std::vector<plot::timeline_chart::row> trace_window::rows() const {
    auto from = std::chrono::nanoseconds::max();
    auto to = std::chrono::nanoseconds::min();
    for (const auto& [name, spans] : spans_)
        for (const gneiss::recorded_span& s : spans) {
            from = std::min(from, s.begin);
            to = std::max(to, s.end);
        }
    to = std::min(to, end_); // a span may end long after the window
    const auto seconds = [&](std::chrono::nanoseconds at) {
        return std::chrono::duration<double>(std::min(at, to) - from).count();
    };
    std::vector<plot::timeline_chart::row> result;
    for (const std::string& name : order_) {
        std::vector<gneiss::recorded_span> spans = spans_.at(name);
        if (spans.empty()) continue;
        std::ranges::sort(spans, [](const auto& a, const auto& b) {
            return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
        }); // inner cover outer
        result.push_back({name, {}});
        for (const gneiss::recorded_span& s : spans)
            result.back().bars.push_back({text_of(s), seconds(s.begin), seconds(s.end), doing_of(s)});
    }
    return result;
}

} // namespace programs
