// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/import/text_reader.hpp>

#include "apt.hpp"
#include "graphs.hpp"

namespace data_tool {
namespace {

using gneiss::errc;
using gneiss::error;

struct pointer_type {
    std::string_view symbol, name, inverse; ///< inverse: empty if it is its own or has none
};
constexpr pointer_type pointer_types[] = {{"!", "antonym", ""}, {"@", "hypernym", "hyponym"},
    {"@i", "instance_hypernym", "instance_hyponym"}, {"~", "hyponym", "hypernym"},
    {"~i", "instance_hyponym", "instance_hypernym"}, {"#m", "member_holonym", "member_meronym"},
    {"#s", "substance_holonym", "substance_meronym"}, {"#p", "part_holonym", "part_meronym"},
    {"%m", "member_meronym", "member_holonym"}, {"%s", "substance_meronym", "substance_holonym"},
    {"%p", "part_meronym", "part_holonym"}, {"=", "attribute", ""}, {"+", "derivation", ""}, {"*", "entailment", ""},
    {">", "cause", ""}, {"^", "also_see", ""}, {"$", "verb_group", ""}, {"&", "similar_to", ""},
    {"<", "participle_of", ""}, {"\\", "pertainym", ""}, {";c", "domain_topic", "member_topic"},
    {"-c", "member_topic", "domain_topic"}, {";r", "domain_region", "member_region"},
    {"-r", "member_region", "domain_region"}, {";u", "domain_usage", "member_usage"},
    {"-u", "member_usage", "domain_usage"}};

constexpr std::pair<const char*, char> data_files[] = {
    {"data.noun", 'n'}, {"data.verb", 'v'}, {"data.adj", 'a'}, {"data.adv", 'r'}};

/// Calls `visit(fields, part of speech)` for each synset of a directory of WordNet's data files.
template <class Visit>
void for_each_synset(const std::filesystem::path& directory, Visit&& visit) {
    for (const auto& [name, part] : data_files) {
        gneiss::importing::file_source source(directory / name);
        line_reader lines(source);
        std::vector<std::string_view> fields;
        for (std::string_view line; lines.next(line);) {
            if (line.empty() || line[0] == ' ') continue; // the license
            line = line.substr(0, line.find("| "));
            fields.clear();
            for (std::size_t at = 0; at < line.size();) {
                const std::size_t end = std::min(line.find(' ', at), line.size());
                if (end != at) fields.push_back(line.substr(at, end - at));
                at = end + 1;
            }
            visit(fields, part);
        }
    }
}

std::size_t number(std::string_view text, int base) {
    std::size_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, base);
    return value;
}

/// Lines of triples per split, made once: WordNet is small (20 MB as text).
using split_texts = std::array<std::string, 3>;

/// Splits 90/5/5 by a hash of the unordered pair and its relation: a pointer and its inverse are in the same split.
std::size_t split_of(const pointer_type& type, std::string_view head, std::string_view tail) {
    std::string_view name = type.name;
    if (!type.inverse.empty() && type.inverse < name) {
        name = type.inverse;
        std::swap(head, tail);
    } else if (type.inverse.empty() && tail < head) {
        std::swap(head, tail);
    }
    std::string key(head);
    key.append(1, '\t').append(name).append(1, '\t').append(tail);
    const std::uint64_t bucket = gneiss::checksum(key) % 1000;
    return bucket < 50 ? 2 : bucket < 100 ? 1 : 0;
}

split_texts read_wordnet(const std::filesystem::path& directory) {
    // A synset's name is its first word, part of speech and offset: dog.n.02084071.
    std::unordered_map<std::string, std::string> names;
    const auto key_of = [](std::string_view offset, char part) { return std::string(offset) + part; };
    for_each_synset(directory, [&](const std::vector<std::string_view>& f, char part) {
        if (f.size() > 4) names[key_of(f[0], part)] = std::string(f[4]) + "." + part + "." + std::string(f[0]);
    });
    split_texts texts;
    for_each_synset(directory, [&](const std::vector<std::string_view>& f, char part) {
        const std::string head = names[key_of(f[0], part)];
        const std::size_t at = f.size() > 3 ? 4 + 2 * number(f[3], 16) : f.size();
        const std::size_t count = at < f.size() ? number(f[at], 10) : 0;
        if (at >= f.size() || f.size() < at + 1 + 4 * count)
            throw error(
                errc::invalid_format, "the synset at " + std::string(f[0]) + " is truncated", {.path = directory});
        std::set<std::pair<std::string_view, std::string>> seen; // several words of a synset may point to the same one
        for (std::size_t i = 0; i < count; ++i) {
            const std::string_view symbol = f[at + 1 + 4 * i], offset = f[at + 2 + 4 * i], to = f[at + 3 + 4 * i];
            const auto type = std::ranges::find(pointer_types, symbol, &pointer_type::symbol);
            const auto tail = names.find(key_of(offset, to == "s" ? 'a' : to[0]));
            if (type == std::end(pointer_types) || tail == names.end())
                throw error(errc::invalid_format,
                    "the pointer " + std::string(symbol) + " " + std::string(offset) +
                        " is unknown: is this WordNet 3.0?",
                    {.path = directory});
            if (!seen.emplace(type->name, tail->second).second) continue;
            texts[split_of(*type, head, tail->second)]
                .append(head)
                .append(1, '\t')
                .append(type->name)
                .append(1, '\t')
                .append(tail->second)
                .append(1, '\n');
        }
    });
    return texts;
}

} // namespace

gneiss::import_options wordnet_graph(const std::filesystem::path& state, std::uint64_t& held) {
    std::filesystem::path directory = "/usr/share/wordnet";
    std::error_code failed;
    if (!std::filesystem::exists(directory / "data.noun", failed)) {
        directory = state / "wordnet/usr/share/wordnet";
        if (!std::filesystem::exists(directory / "data.noun", failed))
            unpack_package("wordnet-base", state, state / "wordnet");
    }
    const auto texts = std::make_shared<const split_texts>(read_wordnet(directory));
    for (const std::string& text : *texts) held += text.capacity();
    gneiss::import_options graph;
    for (std::size_t split = 0; split < 3; ++split)
        graph.sources.push_back({.path = std::string("wordnet.") +
                (split == 0          ? "train"
                        : split == 1 ? "valid"
                                     : "test"),
            .split = static_cast<gneiss::edge_split>(split),
            .open =
                [texts, split] {
                    return std::make_unique<gneiss::importing::generated_source>(
                        [texts, split, at = std::size_t{0}](std::string& text) mutable {
                            text = (*texts)[split].substr(at, 1U << 18);
                            at += text.size();
                        });
                },
            .fingerprint = std::to_string(gneiss::checksum((*texts)[split]))});
    graph.format = gneiss::edge_format::tsv;
    graph.unseen_to_train = true;
    graph.name = "wordnet";
    return graph;
}

} // namespace data_tool
