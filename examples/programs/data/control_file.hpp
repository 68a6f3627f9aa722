// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apt.hpp"

/// Control files of the package archive: paragraphs of "Field: value".
namespace data_tool {

using stanza = std::map<std::string, std::string, std::less<>>;

/// Reads the paragraphs of a control file: fields by name, continuation lines joined by blanks.
class stanza_reader {
public:
    explicit stanza_reader(std::unique_ptr<gneiss::importing::byte_source> from)
        : from_(std::move(from)),
          lines_(*from_) {}

    bool next(stanza& fields) {
        fields.clear();
        std::string* last = nullptr;
        for (std::string_view line; lines_.next(line);) {
            if (line.empty()) {
                if (!fields.empty()) return true;
                continue;
            }
            if (line[0] == ' ' || line[0] == '\t') {
                if (last != nullptr) last->append(line);
                continue;
            }
            const std::size_t colon = std::min(line.find(':'), line.size());
            std::string_view value = line.substr(std::min(colon + 1, line.size()));
            while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
            while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
            last = &(fields[std::string(line.substr(0, colon))] = value);
        }
        return !fields.empty();
    }

private:
    std::unique_ptr<gneiss::importing::byte_source> from_;
    line_reader lines_;
};

[[nodiscard]] inline std::string_view field(const stanza& fields, std::string_view name) {
    const auto at = fields.find(name);
    return at == fields.end() ? std::string_view{} : std::string_view(at->second);
}

[[nodiscard]] inline bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-';
}

/// Visits the package names of a dependency field: of every alternative, without version and architecture.
template <class Visit>
void for_each_package(std::string_view value, Visit&& visit) {
    while (!value.empty()) {
        const std::size_t end = std::min(value.find_first_of(",|"), value.size());
        std::string_view part = value.substr(0, end);
        value.remove_prefix(std::min(end + 1, value.size()));
        while (!part.empty() && std::isspace(static_cast<unsigned char>(part.front()))) part.remove_prefix(1);
        std::size_t length = 0;
        while (length < part.size() && is_name_character(part[length])) ++length;
        if (length != 0 && part[0] != '+' && part[0] != '.' && part[0] != '-') visit(part.substr(0, length));
    }
}

/// Packages of the archive. Of several stanzas with one name, the last counts.
struct package_list {
    std::unordered_map<std::string, std::uint64_t> last; ///< number of the stanza, over all indices
};

[[nodiscard]] inline package_list list_packages(const std::vector<apt_index>& indices) {
    package_list all;
    std::uint64_t number = 0;
    for (const apt_index& index : indices) {
        const auto source = open_index(index);
        line_reader lines(*source);
        for (std::string_view line; lines.next(line);)
            if (line.starts_with("Package: ")) all.last[std::string(line.substr(9))] = number++;
    }
    return all;
}

} // namespace data_tool
