// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Integers of a file, in order: an .npy file [n], or a text of one number per line, as METIS (gpmetis), KaHIP and
/// `write_assignment` write partitions. A directory for DGL stands for its _N.txt. Lines that are empty or begin with
/// "%" or "#" do not count.
///
///     integer_file in("graph.part.8");                 // counts the lines of a text: one pass
///     std::vector<std::uint32_t> parts(in.size());
///     in.read(parts);
///
/// Memory: 256 KiB. Not thread-safe. Errors: those of `npy_reader`; errc::invalid_format, naming the line, for text
/// that is no number from 0 to 4294967295; io_error.
class integer_file {
public:
    /// Opens a file, and counts the lines of a text.
    explicit integer_file(const std::filesystem::path& path)
        : file_(plain_file::open(std::filesystem::is_directory(path) ? path / "_N.txt" : path)) {
        std::string head(6, '\0');
        if (file_.size() >= head.size()) file_.read_at(0, std::as_writable_bytes(std::span(head)));
        if (head == "\x93NUMPY") {
            array_.emplace(file_.path());
            if (array_->header().shape.size() != 1)
                throw error(errc::invalid_format,
                    "is " + shape_text(array_->header().shape) + ", a list of integers has one dimension",
                    {.path = file_.path(), .field = "npy shape"});
            size_ = array_->header().size();
            return;
        }
        text_.resize(std::size_t{256} << 10);
        for (std::string_view line; next_line(line);) ++size_;
        at_ = end_ = 0;
        offset_ = line_ = 0;
    }

    /// Returns the number of integers.
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

    /// Fills `out` with the next integers; returns their number.
    std::size_t read(std::span<std::uint32_t> out) {
        if (array_) return array_->read_as(out);
        std::size_t done = 0;
        for (std::string_view line; done < out.size() && next_line(line);) {
            std::uint32_t value = 0;
            const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), value);
            if (failure != std::errc{} || end != line.data() + line.size())
                throw error(errc::invalid_format,
                    "'" + std::string(line.substr(0, 40)) +
                        "' is not a number: this is neither an .npy file nor a text of one number "
                        "per line",
                    {.path = path(), .line = line_});
            out[done++] = value;
        }
        return done;
    }

private:
    /// Returns the next line that counts, without blanks around it; false at the end.
    bool next_line(std::string_view& line) {
        for (;;) {
            const std::string_view rest = std::string_view(text_).substr(at_, end_ - at_);
            std::size_t length = rest.find('\n');
            if (length == std::string_view::npos) {
                if (offset_ < file_.size()) {
                    fill(rest);
                    continue;
                }
                if (rest.empty()) return false;
                length = rest.size();
            }
            ++line_;
            line = rest.substr(0, length);
            at_ += std::min(length + 1, rest.size());
            constexpr std::string_view blanks = " \t\r";
            line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
            line = line.substr(0, line.find_last_not_of(blanks) + 1);
            if (!line.empty() && line[0] != '%' && line[0] != '#') return true;
        }
    }
    /// Reads on behind the line that is cut at the end of the buffer.
    void fill(std::string_view rest) {
        if (rest.size() == text_.size())
            throw error(errc::invalid_format,
                "a line is too long: this is neither an .npy file nor a text of one number per line",
                {.path = path(), .line = line_ + 1});
        std::copy(rest.begin(), rest.end(), text_.begin());
        const auto some =
            static_cast<std::size_t>(std::min<std::uint64_t>(text_.size() - rest.size(), file_.size() - offset_));
        file_.read_at(offset_, std::as_writable_bytes(std::span(text_).subspan(rest.size(), some)));
        at_ = 0;
        end_ = rest.size() + some;
        offset_ += some;
    }

    plain_file file_;
    std::optional<npy_reader> array_;
    std::uint64_t size_ = 0, offset_ = 0, line_ = 0; ///< integers; bytes read; number of the line
    std::string text_;
    std::size_t at_ = 0, end_ = 0; ///< rest of the buffer
};

/// Throws errc::invalid_format, with `what` and both numbers, unless a file has an integer for each node.
inline void need_entries(const integer_file& in, std::uint64_t nodes, const std::string& what) {
    if (in.size() != nodes)
        throw error(errc::invalid_format,
            "has " + std::to_string(in.size()) + " entries, " + what + " for each of " + std::to_string(nodes) +
                " nodes",
            {.path = in.path()});
}

} // namespace gneiss
