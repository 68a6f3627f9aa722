#pragma once

#include <filesystem>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/fields.hpp>

#include "common/run_directory.hpp"

namespace trainers {

/// Calls visit(fields, place) for the lines of a file: fields between tabs, or of a .csv between commas, with quotes (RFC 4180).
/// Throws errc::invalid_format with the place.
template <class Visit>
void for_each_line_of(const std::filesystem::path& path, Visit&& visit) {
    const bool csv = path.extension() == ".csv";
    const gneiss::importing::text_format format{.delimiter = csv ? ',' : '\t', .quotes = csv};
    gneiss::importing::for_each_line(programs::read_file(path), 1, path, format, visit);
}

/// Returns the row of the node called `name`. Throws errc::not_found with the place.
[[nodiscard]] inline gneiss::node_id node_called(const gneiss::dataset& data, const std::string& name, const gneiss::error_place& place) {
    const auto row = data.find_row(name);
    if (!row) throw gneiss::error(gneiss::errc::not_found, "no node is called '" + name + "'", place);
    return static_cast<gneiss::node_id>(*row);
}

/// Calls visit(node) for the nodes of a file with one name per line. Throws errc::not_found or invalid_format with the place.
template <class Visit>
void for_each_name(const gneiss::dataset& data, const std::filesystem::path& path, Visit&& visit) {
    for_each_line_of(path, [&](const gneiss::importing::line_fields& fields, const gneiss::importing::line_place& place) {
        if (fields.count != 1) place.fail(fields.at[1], "needs one name per line; in a .csv a name with commas is in quotes");
        visit(node_called(data, std::string(fields.at[0]), place.at(fields.at[0].data())));
    });
}

} // namespace trainers
