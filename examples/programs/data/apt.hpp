#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gneiss/io/import/text_reader.hpp>

/// The package archive of a Debian or Ubuntu machine, through its own tools.
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

/// The indices of the machine's own release: not those of updates, security or other archives, if there are such.
///
/// Uses the machine's lists when they are there; else, and for contents, fetches into `state`, a directory of our own,
/// so that the machine's state is never changed. Throws `gneiss::error` that says what failed and what helps.
[[nodiscard]] std::vector<apt_index> apt_indices(apt_index_kind kind, const std::filesystem::path& state);

/// The text of an index, whatever it is compressed with.
[[nodiscard]] std::unique_ptr<gneiss::importing::byte_source> open_index(const apt_index& index);

/// Name, size and time of every index: changes when the archive does.
[[nodiscard]] std::string fingerprint_of(const std::vector<apt_index>& indices);

/// Downloads the .deb of a package and unpacks it into `directory`.
void unpack_package(
    const std::string& package, const std::filesystem::path& state, const std::filesystem::path& directory);

/// Lines of a source, one after the other.
class line_reader {
public:
    explicit line_reader(gneiss::importing::byte_source& from) : from_(&from), buffer_(1 << 18) {}
    /// The next line without its end, valid until the next call; false at the end.
    bool next(std::string_view& line);

private:
    gneiss::importing::byte_source* from_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0;
    bool ended_ = false;
};

} // namespace data_tool
