#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/target.hpp"

#include <gneiss/io/manifest.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/io/checked_file.hpp>

namespace gneiss::fuzz {

/// Intact files of a store, and the changes that inputs make to them. Checksums are corrected, or no input would get
/// past them.
///
/// An input is a list of changes: the file (a byte), the operation and its length (a byte: the upper three bits and the
/// others), the position (two bytes), and the bytes. They overwrite data or header, truncate the file there, or are
/// appended to it.
class changed_files {
public:
    /// Takes a directory's arrays with checksums, and its manifest.
    explicit changed_files(const std::filesystem::path& directory) { add(directory); }
    void add(const std::filesystem::path& directory) {
        for (const auto& entry : std::filesystem::directory_iterator(directory)) {
            const std::filesystem::path& path = entry.path();
            if (!entry.is_regular_file() || path.extension() == ".xxh3") continue;
            const bool checked = std::filesystem::exists(sidecar_path(path));
            files_.push_back({path, memory_file::content_of(path),
                checked ? std::optional(checksum_table::load(path)) : std::nullopt});
        }
        std::ranges::sort(files_, {}, &whole_file::path);
    }

    /// Restores all files and then applies `changes`.
    void change(input changes) {
        for (const std::size_t file : std::exchange(changed_, {})) write(files_[file], files_[file].bytes);
        std::vector<std::pair<std::size_t, std::vector<std::byte>>> result;
        while (!changes.empty()) {
            const std::size_t which = take<std::uint8_t>(changes) % files_.size();
            const auto what = take<std::uint8_t>(changes);
            const auto where = take<std::uint16_t>(changes);
            const auto given = changes.first(std::min<std::size_t>(changes.size(), what & 31U));
            changes = changes.subspan(given.size());
            auto found = std::ranges::find(result, which, &decltype(result)::value_type::first);
            if (found == result.end()) found = result.insert(result.end(), {which, files_[which].bytes});
            apply(found->second, what >> 5U, where, given, files_[which].data_offset());
        }
        for (auto& [which, bytes] : result) {
            if (!files_[which].sums) make_manifest_right(bytes);
            write(files_[which], bytes);
            changed_.push_back(which);
        }
    }

private:
    struct whole_file {
        std::filesystem::path path;
        std::vector<std::byte> bytes;
        std::optional<checksum_table> sums; ///< absent for a text

        [[nodiscard]] std::size_t data_offset() const {
            return sums ? static_cast<std::size_t>(sums->data_offset()) : 0;
        }
    };

    static void apply(
        std::vector<std::byte>& file, unsigned what, std::size_t where, input given, std::size_t data_offset) {
        const std::size_t data = std::min(data_offset, file.size()), behind = file.size() - data;
        switch (what) {
        case 5: // text of a header
            for (std::size_t i = 0; i < given.size() && (where + i) % 256 < data; ++i)
                file[(where + i) % 256] = given[i];
            return;
        case 6: file.resize(data + (behind == 0 ? 0 : where % behind)); return;
        case 7: file.insert(file.end(), given.begin(), given.end()); return;
        default:
            for (std::size_t i = 0; i < given.size() && behind != 0; ++i) file[data + (where + i) % behind] = given[i];
        }
    }
    static void make_manifest_right(std::vector<std::byte>& bytes) {
        std::string text(text_of(bytes));
        const std::size_t key = text.rfind(detail::manifest_checksum_key),
                          at = key + detail::manifest_checksum_key.size();
        if (key == std::string::npos || text.size() - at < detail::manifest_checksum_digits) return;
        text.replace(at, detail::manifest_checksum_digits, detail::manifest_checksum_digits, '0');
        text.replace(at, detail::manifest_checksum_digits, detail::hexadecimal(checksum(text)));
        std::ranges::copy(std::as_bytes(std::span(text)), bytes.begin());
    }
    static void write(const whole_file& file, const std::vector<std::byte>& bytes) {
        plain_file::create(file.path).write_at(0, bytes);
        if (!file.sums) return;
        const std::size_t data = std::min(file.data_offset(), bytes.size());
        const std::string name = file.path.filename().string();
        const input header = input(bytes).first(data);
        input rest = input(bytes).subspan(data);
        checksum_collector sums(file_id(name), name == "neighbours.npy" ? csc_block_bytes : checksum_block_bytes);
        if (rest.size() == file.sums->data_bytes())
            for (const checked_block& block : file.sums->blocks()) {
                const auto length = static_cast<std::size_t>(block.end - sums.bytes());
                sums.update(rest.first(length));
                sums.end_segment();
                rest = rest.subspan(length);
            }
        sums.update(rest);
        sums.finish(header).store(file.path);
    }

    std::vector<whole_file> files_;
    std::vector<std::size_t> changed_;
};

} // namespace gneiss::fuzz
