// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apt.hpp"
#include "control_file.hpp"
#include "graphs.hpp"

namespace data_tool {
namespace {

/// Writes the triples of one package, each once.
class package_triples {
public:
    package_triples(const package_list& packages, const stanza& fields)
        : packages_(packages),
          name_(field(fields, "Package")) {
        static constexpr std::pair<std::string_view, std::string_view> dependencies[] = {{"Depends", "depends"},
            {"Pre-Depends", "pre-depends"}, {"Recommends", "recommends"}, {"Suggests", "suggests"},
            {"Enhances", "enhances"}, {"Breaks", "breaks"}, {"Conflicts", "conflicts"}, {"Replaces", "replaces"}};
        for (const auto& [header, relation] : dependencies)
            for_each_package(field(fields, header), [&, r = relation](std::string_view other) {
                if (other != name_) add(r, entity(other));
            });
        for_each_package(field(fields, "Built-Using"), [&](std::string_view other) {
            if (other != name_) add("built-using", "s:" + std::string(other));
        });
        for_each_package(field(fields, "Provides"), [&](std::string_view other) { add("provides", entity(other)); });
        const std::string_view source = fields.contains("Source") ? field(fields, "Source") : std::string_view(name_);
        add("source", "s:" + std::string(source.substr(0, source.find(' '))));
        static constexpr std::pair<std::string_view, std::pair<std::string_view, std::string_view>> facts[] = {
            {"Maintainer", {"maintainer", "m:"}}, {"Section", {"section", "c:"}}, {"Priority", {"priority", "y:"}},
            {"Architecture", {"architecture", "a:"}}, {"Multi-Arch", {"multi-arch", "u:"}}};
        for (const auto& [header, fact] : facts)
            if (const auto value = field(fields, header); !value.empty())
                add(fact.first, std::string(fact.second) + std::string(value));
        tags(field(fields, "Tag"));
        homepage(field(fields, "Homepage"));
    }

    void write_to(std::string& text) const {
        for (const auto& [relation, tail] : triples_) {
            text += "p:" + name_ + '\t' + relation + '\t';
            for (const char c : tail) text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
            text += '\n';
        }
    }

private:
    void add(std::string_view relation, std::string tail) { triples_.emplace(relation, std::move(tail)); }

    /// Returns the entity of a package; one that no stanza describes is virtual.
    [[nodiscard]] std::string entity(std::string_view other) const {
        const std::string name(other);
        return (packages_.last.contains(name) ? "p:" : "v:") + name;
    }

    /// Adds the tags in "facet::value, facet::value, …".
    void tags(std::string_view value) {
        while (!value.empty()) {
            const std::size_t end = std::min(value.find(','), value.size());
            std::string_view tag = value.substr(0, end);
            value.remove_prefix(std::min(end + 1, value.size()));
            while (!tag.empty() && tag.front() == ' ') tag.remove_prefix(1);
            while (!tag.empty() && tag.back() == ' ') tag.remove_suffix(1);
            const std::size_t colons = tag.find("::");
            if (colons == std::string_view::npos) continue;
            const std::string facet(tag.substr(0, colons));
            std::string_view what = tag.substr(colons + 2);
            if (what.starts_with('{'))
                while (!what.empty() && (what.front() == '{' || what.front() == '}')) what.remove_prefix(1);
            while (!what.empty() && what.back() == '}') what.remove_suffix(1);
            add("tag-" + facet, "t:" + facet + "::" + std::string(what));
        }
    }

    /// Adds the host of "https://host/…".
    void homepage(std::string_view value) {
        for (const std::string_view scheme : {"http://", "https://"})
            if (value.starts_with(scheme)) {
                std::string host(value.substr(scheme.size(), value.find_first_of("/ ", scheme.size()) - scheme.size()));
                for (char& c : host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
                if (!host.empty()) add("homepage-host", "h:" + host);
            }
    }

    const package_list& packages_;
    std::string name_;
    std::set<std::pair<std::string, std::string>> triples_;
};

/// All triples of the archive as text, stanza by stanza.
class package_text {
public:
    package_text(std::vector<apt_index> indices, std::shared_ptr<const package_list> packages)
        : indices_(std::move(indices)),
          packages_(std::move(packages)) {}

    void operator()(std::string& text) {
        stanza fields;
        while (text.size() < (1U << 18)) {
            if (!reader_) {
                if (index_ == indices_.size()) return;
                reader_ = std::make_shared<stanza_reader>(open_index(indices_[index_++]));
            }
            if (!reader_->next(fields)) {
                reader_.reset();
                continue;
            }
            const auto at = packages_->last.find(std::string(field(fields, "Package")));
            if (at == packages_->last.end() || at->second != number_++) continue;
            package_triples(*packages_, fields).write_to(text);
        }
    }

private:
    std::vector<apt_index> indices_;
    std::shared_ptr<const package_list> packages_;
    std::size_t index_ = 0;
    std::uint64_t number_ = 0;
    std::shared_ptr<stanza_reader> reader_;
};

} // namespace

gneiss::import_options debian_graph(const std::filesystem::path& state) {
    const auto indices = apt_indices(apt_index_kind::packages, state);
    const auto packages = std::make_shared<const package_list>(list_packages(indices));
    gneiss::import_options graph;
    graph.sources.push_back({.path = "Packages",
        .open =
            [indices, packages] {
                return std::make_unique<gneiss::importing::generated_source>(package_text(indices, packages));
            },
        .fingerprint = fingerprint_of(indices)});
    graph.format = gneiss::edge_format::tsv;
    graph.fractions = {0.9, 0.05, 0.05};
    graph.unseen_to_train = true;
    graph.name = "debian";
    return graph;
}

} // namespace data_tool
