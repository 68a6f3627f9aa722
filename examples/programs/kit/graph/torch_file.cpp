// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/torch_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/npz.hpp>
#include <gneiss/io/npy.hpp>

namespace programs {

using gneiss::errc;
using gneiss::error;

namespace {

using value = pickle_value;

/// Converts the objects of one file to arrays.
class array_maker {
public:
    /// \param archive  the zip file, null for the older format. \param root  folder of data.pkl in it, with a slash
    array_maker(const gneiss::plain_file& file, const gneiss::importing::npz_file* archive, std::string root)
        : file_(&file),
          archive_(archive),
          root_(std::move(root)) {}

    [[nodiscard]] std::vector<torch_file::array> arrays_of(const value& what) const {
        if (what.kind != value::dictionary) fail("is not a dictionary of arrays");
        std::vector<torch_file::array> arrays;
        for (std::size_t i = 0; i + 1 < what.entries.size(); i += 2) {
            const value& key = *what.entries[i];
            const value& item = *what.entries[i + 1];
            if (key.kind != value::data || item.kind != value::call) continue; // lists of names, numbers
            torch_file::array one;
            one.name = key.text;
            if (item.calls("torch._utils _rebuild_tensor_v2"))
                fill_tensor(one, item);
            else if (item.calls("numpy.core.multiarray _reconstruct") ||
                item.calls("numpy._core.multiarray _reconstruct"))
                static_cast<pickled_array&>(one) = numpy_array(item, file_->path(), one.name);
            else
                continue;
            if (one.type == 'f')
                fail(fmt::format("has elements of type 'f{}', integers are needed", one.width), one.name);
            arrays.push_back(std::move(one));
        }
        return arrays;
    }

private:
    [[noreturn]] void fail(const std::string& what, const std::string& name = "", errc code = errc::unsupported) const {
        throw error(code, what, {.path = file_->path(), .field = name});
    }

    /// Arguments of a tensor: storage, offset, shape, strides. A storage: ("storage", type, key, device, elements).
    void fill_tensor(torch_file::array& one, const value& from) const {
        const auto& arguments = from.items[1]->items;
        if (archive_ == nullptr)
            fail("is a tensor in the format before torch 1.6: load the file and save it again by torch 1.6 or later",
                one.name);
        if (arguments.size() < 4 || arguments[0]->kind != value::storage || arguments[0]->items[0]->items.size() < 5)
            fail("is not a tensor", one.name);
        const auto& storage = arguments[0]->items[0]->items;
        static constexpr std::pair<std::string_view, unsigned> types[] = {{"torch LongStorage", 8},
            {"torch IntStorage", 4}, {"torch ShortStorage", 2}, {"torch CharStorage", 1}, {"torch ByteStorage", 1}};
        const auto type = std::ranges::find(types, storage[1]->text, &std::pair<std::string_view, unsigned>::first);
        if (type == std::end(types))
            fail("has elements of type '" + storage[1]->text + "', integers are needed", one.name);
        one.width = type->second;
        one.type = type->first == "torch ByteStorage" ? 'u' : 'i';
        one.shape = pickled_shape(*arguments[2], file_->path(), one.name);
        std::uint64_t stride = 1;
        const auto& strides = arguments[3]->items;
        for (std::size_t i = one.shape.size(); i-- > 0; stride *= one.shape[i])
            if (i >= strides.size() || (one.shape[i] > 1 && strides[i]->integer != static_cast<std::int64_t>(stride)))
                fail("is a view that is not contiguous", one.name);
        const auto [begin, length] = archive_->stored(root_ + "data/" + storage[2]->text);
        const auto skipped = static_cast<std::uint64_t>(std::max<std::int64_t>(arguments[1]->integer, 0));
        if (skipped > length / one.width) fail("begins after the end of its storage", one.name, errc::corrupt);
        one.offset = begin + skipped * one.width;
        one.length = std::min(length - skipped * one.width, one.elements() * one.width);
        one.check_length(file_->path(), one.name);
    }

    const gneiss::plain_file* file_;
    const gneiss::importing::npz_file* archive_;
    std::string root_;
};

/// A zip archive of uncompressed members, in the 64-bit format throughout, written forwards.
class stored_archive {
public:
    explicit stored_archive(const std::filesystem::path& to) : file_(gneiss::plain_file::create(to)) {}

    /// Starts a member. `append` adds its bytes.
    void begin(std::string name, std::uint64_t bytes) {
        members_.push_back({std::move(name), bytes, end_, 0});
        write(header(members_.back(), local_header));
    }
    void append(std::span<const std::byte> bytes) {
        auto& crc = members_.back().crc;
        crc = static_cast<std::uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
        file_.write_at(end_, bytes);
        end_ += bytes.size();
    }
    /// Completes headers and directory, and makes the file durable.
    void close() {
        for (const member& m : members_) {
            const std::string head = header(m, local_header);
            file_.write_at(m.offset, std::as_bytes(std::span(head)));
        }
        const std::uint64_t directory = end_;
        for (const member& m : members_) write(header(m, directory_entry));
        const std::uint64_t length = end_ - directory, record = end_;
        // The 64-bit end record, its locator, and the 32-bit end record that refers to them.
        write(number(0x06064b50, 4) + number(44, 8) + number(45, 2) + number(45, 2) + number(0, 8) +
            number(members_.size(), 8) + number(members_.size(), 8) + number(length, 8) + number(directory, 8));
        write(number(0x07064b50, 4) + number(0, 4) + number(record, 8) + number(1, 4));
        write(number(0x06054b50, 4) + number(0, 4) + number(~std::uint64_t{0}, 2) + number(~std::uint64_t{0}, 2) +
            number(~std::uint64_t{0}, 4) + number(~std::uint64_t{0}, 4) + number(0, 2));
        file_.sync();
        file_.close();
    }

private:
    struct member {
        std::string name;
        std::uint64_t bytes, offset;
        std::uint32_t crc;
    };
    static constexpr std::uint64_t local_header = 0x04034b50, directory_entry = 0x02014b50; // their first words

    /// Returns the low bytes of a number.
    static std::string number(std::uint64_t value, int bytes) {
        std::string out;
        for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
        return out;
    }
    static std::string header(const member& m, std::uint64_t kind) {
        const bool local = kind == local_header;
        const std::string sizes = number(m.bytes, 8) + number(m.bytes, 8) + (local ? "" : number(m.offset, 8));
        constexpr std::uint64_t wide = ~std::uint64_t{0}, first_day = 33; // 1 January 1980
        return number(kind, 4) + (local ? "" : number(45, 2)) + number(45, 2) + number(0, 2) + number(0, 2) +
            number(0, 2) + number(first_day, 2) + number(m.crc, 4) + number(wide, 4) + number(wide, 4) +
            number(m.name.size(), 2) + number(4 + sizes.size(), 2) +
            (local ? "" : number(0, 8) + number(0, 2) + number(wide, 4)) + m.name + number(1, 2) +
            number(sizes.size(), 2) + sizes;
    }
    void write(const std::string& text) {
        file_.write_at(end_, std::as_bytes(std::span(text)));
        end_ += text.size();
    }

    gneiss::plain_file file_;
    std::uint64_t end_ = 0;
    std::vector<member> members_;
};

} // namespace

torch_file::torch_file(const std::filesystem::path& path) : file_(gneiss::plain_file::open(path)) {
    constexpr std::size_t buffer = std::size_t{64} << 10;
    const std::uint64_t size = file_.size();
    std::array<std::byte, 2> magic{};
    if (size >= magic.size()) file_.read_at(0, magic);
    if (magic == std::array{std::byte{'P'}, std::byte{'K'}}) {
        const gneiss::importing::npz_file archive(path);
        for (const std::string& name : archive.names()) {
            if (!name.ends_with("/data.pkl")) continue;
            const auto [begin, length] = archive.stored(name);
            file_range bytes(file_, begin, length, buffer);
            pickle_reader pickle(bytes);
            arrays_ = array_maker(file_, &archive, name.substr(0, name.size() - std::string_view("data.pkl").size()))
                          .arrays_of(pickle.read());
            return;
        }
        throw error(
            errc::invalid_format, "is a zip archive without data.pkl: not a file of torch.save", {.path = path});
    }
    // The older format: a magic number, a version and the properties of the machine come first, each pickled alone.
    file_range bytes(file_, 0, size, buffer);
    pickle_reader pickle(bytes);
    const value* object = &pickle.read();
    if (object->kind == value::number)
        for (int i = 0; i < 3; ++i) object = &pickle.read();
    arrays_ = array_maker(file_, nullptr, "").arrays_of(*object);
}

const torch_file::array& torch_file::at(std::string_view name) const {
    const auto found = std::ranges::find(arrays_, name, &array::name);
    if (found != arrays_.end()) return *found;
    std::vector<std::string_view> names;
    for (const array& one : arrays_) names.push_back(one.name);
    throw error(errc::not_found,
        fmt::format(
            "has no array {}; it has {}", name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
        {.path = path()});
}

void write_columns(const torch_file& from, std::span<const std::string> names, const std::filesystem::path& to) {
    std::vector<torch_file::reader> readers;
    std::uint64_t rows = 0;
    for (const std::string& name : names) {
        const torch_file::array& one = from.at(name);
        if (one.shape.size() != 1 || (!readers.empty() && one.shape[0] != rows))
            throw error(errc::invalid_format,
                fmt::format("has the shape ({}), not that of {}", fmt::join(one.shape, ", "), names[0]),
                {.path = from.path(), .field = name});
        rows = one.shape[0];
        readers.emplace_back(from, one);
    }
    gneiss::npy_writer out(to, gneiss::npy_dtype::i64, {names.size()});
    constexpr std::uint64_t most = std::uint64_t{16} << 10;
    std::vector<std::int64_t> column, chunk;
    for (std::uint64_t first = 0; first < rows; first += most) {
        const auto count = static_cast<std::size_t>(std::min(most, rows - first));
        column.resize(count);
        chunk.resize(count * names.size());
        for (std::size_t c = 0; c < readers.size(); ++c) {
            readers[c].read(column);
            for (std::size_t i = 0; i < count; ++i) chunk[i * names.size() + c] = column[i];
        }
        out.append(std::span<const std::int64_t>(chunk));
    }
    out.close();
}

void write_npz(const torch_file& from, const std::filesystem::path& to) {
    stored_archive out(to);
    std::vector<std::int64_t> values;
    for (const torch_file::array& one : from.arrays()) {
        const auto head = gneiss::format_npy_header(gneiss::npy_dtype::i64, one.shape);
        out.begin(one.name + ".npy", head.size() + one.elements() * sizeof(std::int64_t));
        out.append(head);
        torch_file::reader reader(from, one);
        constexpr std::uint64_t most = std::uint64_t{64} << 10;
        for (std::uint64_t first = 0; first < one.elements(); first += most) {
            values.resize(static_cast<std::size_t>(std::min(most, one.elements() - first)));
            reader.read(values);
            out.append(std::as_bytes(std::span(values)));
        }
    }
    out.close();
}

} // namespace programs
