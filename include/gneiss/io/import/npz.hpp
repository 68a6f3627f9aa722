// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// An .npz file: a zip archive of .npy files, as written by numpy.savez, savez_compressed and scipy.sparse.save_npz.
///
/// Opening reads the directory. Supports sizes beyond 4 GiB (zip64); rejects encrypted and multi-volume archives and
/// methods other than "stored" and "deflate". Errors: `io_error`; errc::invalid_format and errc::corrupt with path and
/// offset.
/// Thread-safe.
class npz_file {
public:
    /// Opens an archive and reads its directory.
    explicit npz_file(const std::filesystem::path& path) : file_(plain_file::open(path)), size_(file_.size()) {
        read_directory(find_directory());
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
    /// Returns the names of the arrays, without ".npy".
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const member& m : members_) all.push_back(m.name);
        return all;
    }
    /// True if the archive has an array.
    [[nodiscard]] bool has(std::string_view name) const noexcept {
        return std::ranges::find(members_, name, &member::name) != members_.end();
    }

    /// Returns the place of an uncompressed array in the archive, including its .npy header: to be read there, its CRC
    /// unchecked.
    /// Throws errc::not_found; errc::unsupported for a compressed one.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> stored(std::string_view name) const {
        const member& found = find(name);
        if (found.deflated)
            throw error(errc::unsupported, "is compressed and cannot be read in place: save by numpy.savez",
                {.path = path(), .field = found.name});
        if (found.packed != found.size)
            throw damaged("'" + found.name + "' is stored at another length than it says", found.header);
        return {data_of(found), found.size};
    }

    /// Unpacks an array into an .npy file, as a stream. Checks length and CRC. Memory: 512 KiB. Throws errc::canceled
    /// at a stop.
    void unpack(std::string_view name, const std::filesystem::path& to, const std::stop_token& stop = {}) const {
        const member* const found = &find(name);
        const std::uint64_t begin = data_of(*found);
        plain_file out = plain_file::create(to);
        sequential_writer writer(out);
        std::uint64_t written = 0;
        uLong crc = ::crc32(0, nullptr, 0);
        const auto write = [&](std::span<const std::byte> bytes) {
            if (stop.stop_requested()) throw error(errc::canceled, "interrupted while it was read", {.path = path()});
            if (bytes.size() > found->size - written) throw damaged("is longer than it says", begin);
            crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
            writer.append(bytes);
            written += bytes.size();
        };
        inflate_to(*found, begin, write);
        if (written != found->size || crc != found->crc)
            throw damaged("'" + found->name + "' does not have the length or checksum that it says", begin);
        out.sync();
        out.close();
    }

private:
    struct member {
        std::string name;
        std::uint64_t packed = 0, size = 0, header = 0; ///< bytes; offset of the local header
        std::uint32_t crc = 0;
        bool deflated = false;
    };
    struct directory {
        std::uint64_t offset = 0, length = 0;
    };
    static constexpr std::uint64_t longest_directory = std::uint64_t{16} << 20;

    [[nodiscard]] const member& find(std::string_view name) const {
        const auto found = std::ranges::find(members_, name, &member::name);
        if (found == members_.end())
            throw error(errc::not_found, "has no array '" + std::string(name) + "'", {.path = path()});
        return *found;
    }
    [[nodiscard]] error damaged(const std::string& what, std::uint64_t offset) const {
        return {errc::corrupt, what, {.path = path(), .offset = offset, .length = 1}};
    }
    template <class T>
    [[nodiscard]] static T word(std::span<const std::byte> bytes, std::size_t at) noexcept {
        T value{};
        std::memcpy(&value, bytes.data() + at, sizeof value);
        return value;
    }
    [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t length) const {
        if (offset > size_ || length > size_ - offset) throw damaged("the archive ends too early", size_);
        std::vector<std::byte> bytes(static_cast<std::size_t>(length));
        file_.read_at(offset, bytes);
        return bytes;
    }

    /// Finds the end record, which is last in the file, followed only by a comment of at most 64 KiB.
    [[nodiscard]] directory find_directory() const {
        constexpr std::size_t record = 22, locator = 20;
        const std::uint64_t tail = std::min<std::uint64_t>(size_, record + 65535);
        const auto bytes = read(size_ - tail, tail);
        if (bytes.size() >= record)
            for (std::size_t at = bytes.size() - record + 1; at-- > 0;) {
                if (word<std::uint32_t>(bytes, at) != 0x06054b50U) continue;
                const std::uint64_t here = size_ - tail + at;
                if (here >= locator) {
                    const auto pointer = read(here - locator, locator);
                    if (word<std::uint32_t>(pointer, 0) == 0x07064b50U) {
                        const auto large = read(word<std::uint64_t>(pointer, 8), 56);
                        if (word<std::uint32_t>(large, 0) != 0x06064b50U)
                            throw damaged("the zip64 end record is missing", here);
                        return {word<std::uint64_t>(large, 48), word<std::uint64_t>(large, 40)};
                    }
                }
                return {word<std::uint32_t>(bytes, at + 16), word<std::uint32_t>(bytes, at + 12)};
            }
        throw error(errc::invalid_format, "not an .npz file (a zip archive), or cut at its end", {.path = path()});
    }

    void read_directory(const directory& where) {
        if (where.length > longest_directory) throw damaged("the directory is too long for an .npz file", where.offset);
        const auto bytes = read(where.offset, where.length);
        for (std::size_t at = 0; at < bytes.size();) {
            constexpr std::size_t fixed = 46;
            if (bytes.size() - at < fixed || word<std::uint32_t>(bytes, at) != 0x02014b50U)
                throw damaged("an entry of the directory is damaged", where.offset + at);
            const std::size_t name = word<std::uint16_t>(bytes, at + 28), extra = word<std::uint16_t>(bytes, at + 30),
                              comment = word<std::uint16_t>(bytes, at + 32);
            if (bytes.size() - at - fixed < name + extra + comment)
                throw damaged("an entry of the directory is cut", where.offset + at);
            member m;
            m.name.assign(reinterpret_cast<const char*>(bytes.data()) + at + fixed, name);
            if (m.name.ends_with(".npy")) m.name.resize(m.name.size() - 4);
            m.crc = word<std::uint32_t>(bytes, at + 16);
            m.packed = word<std::uint32_t>(bytes, at + 20);
            m.size = word<std::uint32_t>(bytes, at + 24);
            m.header = word<std::uint32_t>(bytes, at + 42);
            widen(m, std::span(bytes).subspan(at + fixed + name, extra));
            const auto flags = word<std::uint16_t>(bytes, at + 8), method = word<std::uint16_t>(bytes, at + 10);
            if ((flags & 1) != 0 || (method != 0 && method != 8))
                throw error(errc::unsupported,
                    "'" + m.name + "' is encrypted, or packed by another method than deflate", {.path = path()});
            m.deflated = method == 8;
            members_.push_back(std::move(m));
            at += fixed + name + extra + comment;
        }
    }
    /// Sizes and offset that do not fit 32 bits are in field 1 of the extra data, in this order.
    static void widen(member& m, std::span<const std::byte> extra) noexcept {
        while (extra.size() >= 4) {
            const std::size_t id = word<std::uint16_t>(extra, 0), length = word<std::uint16_t>(extra, 2);
            if (extra.size() - 4 < length) return;
            std::span<const std::byte> field = extra.subspan(4, length);
            for (std::uint64_t* value : {&m.size, &m.packed, &m.header})
                if (id == 1 && *value == 0xffffffffU && field.size() >= 8) {
                    *value = word<std::uint64_t>(field, 0);
                    field = field.subspan(8);
                }
            extra = extra.subspan(4 + length);
        }
    }
    [[nodiscard]] std::uint64_t data_of(const member& m) const {
        const auto head = read(m.header, 30);
        if (word<std::uint32_t>(head, 0) != 0x04034b50U)
            throw damaged("'" + m.name + "' is not where it should be", m.header);
        const std::uint64_t begin =
            m.header + 30 + word<std::uint16_t>(head, 26) + std::uint64_t{word<std::uint16_t>(head, 28)};
        if (begin > size_ || m.packed > size_ - begin) throw damaged("'" + m.name + "' ends behind the file", m.header);
        return begin;
    }

    template <class Write>
    void inflate_to(const member& m, std::uint64_t begin, Write&& write) const {
        std::vector<std::byte> in(std::size_t{256} << 10), out(m.deflated ? in.size() : 0);
        z_stream stream{};
        if (m.deflated && ::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
        struct closer {
            z_stream* stream;
            ~closer() { ::inflateEnd(stream); }
        } const close{&stream};
        bool ended = !m.deflated;
        for (std::uint64_t done = 0; done < m.packed;) {
            const auto some =
                std::span(in).first(static_cast<std::size_t>(std::min<std::uint64_t>(in.size(), m.packed - done)));
            file_.read_at(begin + done, some);
            done += some.size();
            if (!m.deflated) {
                write(std::span<const std::byte>(some));
                continue;
            }
            stream.next_in = reinterpret_cast<Bytef*>(some.data());
            stream.avail_in = static_cast<uInt>(some.size());
            while (!ended && stream.avail_in != 0) {
                stream.next_out = reinterpret_cast<Bytef*>(out.data());
                stream.avail_out = static_cast<uInt>(out.size());
                const int code = ::inflate(&stream, Z_NO_FLUSH);
                if (code != Z_OK && code != Z_STREAM_END) throw damaged("'" + m.name + "' is damaged", begin + done);
                write(std::span<const std::byte>(out).first(out.size() - stream.avail_out));
                ended = code == Z_STREAM_END;
            }
        }
        if (m.deflated && !ended) drain(stream, out, write);
    }
    /// Writes the output that inflate still holds after all input.
    template <class Write>
    static void drain(z_stream& stream, std::vector<std::byte>& out, Write&& write) {
        int code = Z_OK;
        while (code == Z_OK) {
            stream.next_out = reinterpret_cast<Bytef*>(out.data());
            stream.avail_out = static_cast<uInt>(out.size());
            code = ::inflate(&stream, Z_FINISH);
            write(std::span<const std::byte>(out).first(out.size() - stream.avail_out));
        }
    }

    plain_file file_;
    std::uint64_t size_ = 0;
    std::vector<member> members_;
};

} // namespace gneiss::importing
