// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "apt.hpp"
#include "control_file.hpp"
#include "graphs.hpp"

namespace data_tool {
namespace {

/// Returns the first four bytes of SHA-1, big-endian: the split depends on it, so other programs can reproduce it.
std::uint32_t sha1_word(std::string text) {
    std::array<std::uint32_t, 5> state{0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U};
    const std::uint64_t bits = 8 * std::uint64_t{text.size()};
    text += '\x80';
    while (text.size() % 64 != 56) text += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bits >> shift & 255);
    for (std::size_t block = 0; block < text.size(); block += 64) {
        std::array<std::uint32_t, 80> w{};
        for (std::size_t i = 0; i < 64; ++i) w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(text[block + i]);
        for (std::size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        auto [a, b, c, d, e] = state;
        for (std::size_t i = 0; i < 80; ++i) {
            const std::uint32_t mixed = i < 20 ? ((b & c) | (~b & d)) + 0x5a827999U
                : i < 40                       ? (b ^ c ^ d) + 0x6ed9eba1U
                : i < 60                       ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcU
                                               : (b ^ c ^ d) + 0xca62c1d6U;
            const std::uint32_t next = std::rotl(a, 5) + mixed + e + w[i];
            e = std::exchange(d, std::exchange(c, std::rotl(std::exchange(b, std::exchange(a, next)), 30)));
        }
        const std::array<std::uint32_t, 5> round{a, b, c, d, e};
        for (std::size_t i = 0; i < 5; ++i) state[i] += round[i];
    }
    return state[0];
}

constexpr std::string_view common_words[] = {"the", "and", "for", "this", "that", "with", "from", "are", "can", "you",
    "its", "has", "not", "which", "package", "provides", "contains", "also", "all", "any", "use", "used", "using",
    "will", "into", "more", "other", "only", "such", "than", "have", "been", "your", "when", "where"};
constexpr std::size_t least_packages = 60, most_providers = 8;
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kinds{
    {{"Depends", "depends"}, {"Pre-Depends", "pre-depends"}, {"Recommends", "recommends"}, {"Suggests", "suggests"},
        {"Enhances", "enhances"}, {"Breaks", "breaks"}, {"Conflicts", "conflicts"}, {"Replaces", "replaces"}}};

/// Numbers words in order of arrival.
class word_table {
public:
    std::uint32_t number(std::string_view word) {
        const auto [at, fresh] = numbers_.try_emplace(std::string(word), static_cast<std::uint32_t>(words.size()));
        if (fresh) words.push_back(at->first);
        return at->second;
    }
    std::vector<std::string> words;

private:
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

/// Returns the distinct words of a description: runs of letters and "+", of three or more, that begin with a letter.
std::vector<std::uint32_t> words_of(std::string_view text, word_table& table) {
    std::vector<std::uint32_t> found;
    std::string run;
    const auto end = [&] {
        const std::size_t start = std::min(run.find_first_not_of('+'), run.size());
        const std::string_view word = std::string_view(run).substr(start);
        if (word.size() >= 3 && std::ranges::find(common_words, word) == std::end(common_words))
            found.push_back(table.number(word));
        run.clear();
    };
    for (const char c : text) {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        if ((lower >= 'a' && lower <= 'z') || lower == '+')
            run += lower;
        else
            end();
    }
    end();
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

struct package {
    std::string name{}, source{}, section{};
    std::vector<std::uint32_t> words{};
    std::vector<std::pair<std::uint8_t, std::uint32_t>> needs{}; ///< kind and name, by number
};

/// The graph's data: some tens of megabytes for an archive.
struct archive {
    std::vector<package> packages; ///< by name
    word_table words, names;
    std::unordered_map<std::uint32_t, std::set<std::uint32_t>>
        providers; ///< packages that provide a name, by their name

    void read(const std::vector<apt_index>& indices) {
        const package_list list = list_packages(indices);
        std::uint64_t number = 0;
        for (const apt_index& index : indices) {
            stanza_reader reader(open_index(index));
            for (stanza fields; reader.next(fields);) {
                const auto at = list.last.find(std::string(field(fields, "Package")));
                if (at != list.last.end() && at->second == number++) add(at->first, fields);
            }
        }
        std::ranges::sort(packages, {}, &package::name);
    }
    /// Replaces short descriptions by long ones.
    void describe(const std::vector<apt_index>& translations) {
        std::unordered_map<std::string_view, std::size_t> places;
        for (std::size_t i = 0; i < packages.size(); ++i) places.emplace(packages[i].name, i);
        for (const apt_index& index : translations) {
            stanza_reader reader(open_index(index));
            for (stanza fields; reader.next(fields);) {
                const auto at = places.find(field(fields, "Package"));
                const std::string_view text = field(fields, "Description-en");
                if (at != places.end() && !text.empty()) packages[at->second].words = words_of(text, words);
            }
        }
    }

private:
    void add(const std::string& name, const stanza& fields) {
        package result{.name = name};
        const std::string_view source = fields.contains("Source") ? field(fields, "Source") : std::string_view(name);
        result.source = source.substr(0, source.find(' '));
        const std::string_view section = field(fields, "Section");
        result.section = section.substr(section.rfind('/') + 1);
        result.words = words_of(field(fields, "Description"), words);
        for (std::size_t kind = 0; kind < kinds.size(); ++kind)
            for_each_package(field(fields, kinds[kind].first), [&](std::string_view other) {
                if (other != name) result.needs.emplace_back(static_cast<std::uint8_t>(kind), names.number(other));
            });
        const std::uint32_t own = names.number(name);
        for_each_package(
            field(fields, "Provides"), [&](std::string_view other) { providers[names.number(other)].insert(own); });
        packages.push_back(std::move(result));
    }
};

/// Formats lines "package TAB kind TAB package", each once.
std::string edges_of(archive& all) {
    std::vector<bool> real(all.names.words.size()); // true for names of packages
    word_table& names = all.names;
    for (const package& p : all.packages) real[names.number(p.name)] = true;
    std::string text;
    for (const package& p : all.packages) {
        std::set<std::pair<std::uint32_t, std::uint8_t>> found;
        for (const auto& [kind, other] : p.needs) {
            if (real[other]) {
                found.emplace(other, kind);
                continue;
            }
            const auto provided = all.providers.find(other);
            if (provided == all.providers.end() || provided->second.size() > most_providers) continue;
            for (const std::uint32_t provider : provided->second)
                if (names.words[provider] != p.name) found.emplace(provider, kind);
        }
        for (const auto& [other, kind] : found)
            text.append(p.name).append("\t").append(kinds[kind].second).append("\t").append(names.words[other]) += '\n';
    }
    return text;
}

} // namespace

std::filesystem::path kept(const std::filesystem::path& path, const std::string& text) {
    std::ifstream there(path, std::ios::binary);
    if (!there || std::string(std::istreambuf_iterator<char>(there), {}) != text)
        gneiss::atomic_write_file(path, std::as_bytes(std::span(text)));
    return path;
}

gneiss::import_options debian_nodes(const std::filesystem::path& state, std::string& note) {
    archive all;
    const auto indices = apt_indices(apt_index_kind::packages, state);
    all.read(indices);
    try {
        all.describe(apt_indices(apt_index_kind::translations, state));
    } catch (const gneiss::error& failed) {
        note = std::string("only the short descriptions are used: ") + failed.what();
    }
    std::vector<std::size_t> uses(all.words.words.size());
    for (const package& p : all.packages)
        for (const std::uint32_t word : p.words) ++uses[word];
    std::vector<std::uint32_t> kept_words;
    for (std::uint32_t word = 0; word < uses.size(); ++word)
        if (uses[word] >= least_packages) kept_words.push_back(word);
    std::ranges::sort(kept_words, {}, [&](std::uint32_t word) -> const std::string& { return all.words.words[word]; });
    std::vector<std::optional<std::size_t>> columns(uses.size());
    for (std::size_t column = 0; column < kept_words.size(); ++column) columns[kept_words[column]] = column;

    std::string features, labels;
    for (const package& p : all.packages) {
        std::vector<std::size_t> row;
        for (const std::uint32_t word : p.words)
            if (columns[word]) row.push_back(*columns[word]);
        std::ranges::sort(row);
        features += p.name;
        for (const std::size_t column : row) features += "\t" + std::to_string(column) + ":1";
        features += '\n';
        const std::uint32_t draw = sha1_word(p.source) % 100;
        labels.append(p.name).append("\t").append(p.section).append("\t").append(draw < 60 ? "train"
                : draw < 80                                                                ? "valid"
                                                                                           : "test") += '\n';
    }
    gneiss::make_directories(state);
    gneiss::import_options graph;
    graph.sources = {{.path = kept(state / "edges.tsv", edges_of(all))}};
    graph.format = gneiss::edge_format::tsv;
    graph.ids = gneiss::id_kind::string;
    graph.name = "debian";
    graph.node_attributes.features = kept(state / "features.tsv", features);
    graph.node_attributes.num_features = kept_words.size();
    graph.node_attributes.labels = kept(state / "labels.tsv", labels);
    graph.node_attributes.split = graph.node_attributes.labels;
    graph.node_attributes.split_column = 2;
    return graph;
}

} // namespace data_tool
