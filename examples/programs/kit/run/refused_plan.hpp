// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/memory_plan.hpp>

namespace trainers {

/// Flags that make a part of a plan smaller, with the part.
inline constexpr std::pair<std::string_view, std::string_view> part_remedies[] = {
    {"partition buffer", "a smaller --dim"}, {"decoder", "a smaller --batch"}, {"decoder", "fewer --negatives"},
    {"edges", "more --partitions"}, {"weights", "narrower --layers"}, {"encoder", "a smaller --batch"},
    {"encoder", "a smaller --fanout"}, {"batches", "a smaller --batch"}, {"samplers", "fewer --threads"},
    {"evaluation", "--no-eval"}};

/// Returns `remedy` if the part of that name is at least a quarter of all: where it is, a flag that moves it to disk
/// saves more than its reads need. Else nothing.
[[nodiscard]] inline std::string if_large(
    const std::vector<gneiss::memory_need>& parts, std::string_view name, const std::string& remedy) {
    std::uint64_t part = 0, all = 0;
    for (const gneiss::memory_need& of : parts) {
        all += of.bytes;
        if (of.name == name) part += of.bytes;
    }
    return part >= all / 4 ? remedy : "";
}

/// Returns "what helps: a larger --memory, …": `more`, and what makes the two largest parts smaller that flags do.
/// \param threads  of the run, where there could be fewer
[[nodiscard]] inline std::string what_helps(std::vector<gneiss::memory_need> parts,
    std::initializer_list<std::string> more = {}, const std::string& limit = "--memory", std::uint64_t threads = 1) {
    std::string text = "what helps: a larger " + limit;
    const auto add = [&](std::string_view remedy) {
        if (remedy == "fewer --threads" && threads < 2) return;
        if (!remedy.empty() && text.find(remedy) == text.npos) text.append(", ").append(remedy);
    };
    for (const std::string& remedy : more) add(remedy);
    std::ranges::stable_sort(parts, std::ranges::greater{}, &gneiss::memory_need::bytes);
    std::size_t named = 0;
    for (const gneiss::memory_need& part : parts) {
        bool shrinks = false;
        for (const auto& [name, remedy] : part_remedies)
            if (name == part.name) add(remedy), shrinks = true;
        if (named += shrinks; named == 2) break;
    }
    return text;
}

/// A plan whose parts do not fit, with what helps.
class refused_plan : public gneiss::over_budget {
public:
    refused_plan(std::uint64_t budget, const gneiss::memory_plan& plan, const std::string& remedy)
        : refused_plan(budget, plan.parts(), remedy) {}
    refused_plan(std::uint64_t budget, std::vector<gneiss::memory_need> parts, const std::string& remedy)
        : over_budget(budget, std::move(parts)),
          text_(over_budget::what() + ("; " + remedy)) {}

    [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};

/// Returns work(), which charges a budget; its refusal says what helps, and `note`. Throws refused_plan, and as work().
template <class Work>
decltype(auto) or_what_helps(const Work& work, const std::string& note) {
    try {
        return work();
    } catch (const refused_plan&) {
        throw;
    } catch (const gneiss::over_budget& e) {
        throw refused_plan(e.limit(), e.parts(), what_helps(e.parts()) + "; " + note);
    }
}

} // namespace trainers
