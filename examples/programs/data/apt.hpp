// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gneiss/io/import/text_reader.hpp>

/// The package archive of a Debian or Ubuntu machine, read through its own tools.
namespace data_tool {

/// One index file of the archive.
struct apt_index {
    std::filesystem::path file;
    std::string release; ///< as in the sources list: "bookworm", "bookworm-updates"
    std::string origin;  ///< "Debian", "Ubuntu", …
    std::string component, architecture;
};

/// translations: the long descriptions in English.
enum class apt_index_kind { packages, contents, translations };

/// Returns the indices of the machine's own release, without updates, security and other archives if possible.
///
/// Uses the machine's lists if present; else, and for contents, fetches into `state`, our own directory, so that the
/// machine's state never changes. Throws `gneiss::error` with the cause and a remedy.
[[nodiscard]] std::vector<apt_index> apt_indices(apt_index_kind kind, const std::filesystem::path& state);

/// Name of the directory in `state` where apt keeps indices; those of local archives are links.
inline constexpr const char* apt_lists = "lists";

/// Opens the text of an index, in any compression.
[[nodiscard]] std::unique_ptr<gneiss::importing::byte_source> open_index(const apt_index& index);

/// Returns name, size and time of every index: changes when the archive does.
[[nodiscard]] std::string fingerprint_of(const std::vector<apt_index>& indices);

/// Downloads the .deb of a package and unpacks it into `directory`.
void unpack_package(
    const std::string& package, const std::filesystem::path& state, const std::filesystem::path& directory);

/// Reads the lines of a source.
class line_reader {
public:
    explicit line_reader(gneiss::importing::byte_source& from) : from_(&from), buffer_(1 << 18) {}
    /// Reads the next line without its end, valid until the next call; false at the end.
    bool next(std::string_view& line);

private:
    gneiss::importing::byte_source* from_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0;
    bool ended_ = false;
};

} // namespace data_tool
