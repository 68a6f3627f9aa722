#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/npz.hpp"

/// Files as torch.save writes them.
namespace gneiss::test {

struct saved_array {
    std::string name;
    std::vector<std::int64_t> values;
    std::vector<std::uint8_t> shape{}; ///< empty: that of a list
};

namespace pickled {

/// Returns the low bytes of a number.
inline std::string number(std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
    return out;
}
inline std::string text(const std::string& utf8) { return "X" + number(utf8.size(), 4) + utf8; }
inline std::string integer(std::uint64_t value) { return "J" + number(value, 4); }
inline std::string global(const std::string& module, const std::string& name) {
    return "c" + module + "\n" + name + "\n";
}

/// Returns bytes as protocol 2 stores them: as text.
inline std::string bytes(const std::string& raw) {
    std::string utf8;
    for (const char c : raw) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x80) utf8 += static_cast<char>(0xc0 | byte >> 6);
        utf8 += static_cast<char>(byte < 0x80 ? byte : 0x80 | (byte & 0x3f));
    }
    return global("_codecs", "encode") + text(utf8) + text("latin1") + "\x86R";
}
inline std::string shape_of(const saved_array& array) {
    std::string out = "(";
    for (const std::uint8_t extent : array.shape) out += integer(extent);
    return out + (array.shape.empty() ? integer(array.values.size()) : "") + "t";
}

} // namespace pickled

/// Returns a pickled dictionary of NumPy arrays. \param type  "i8", or another type of the bytes that the values have
inline std::string pickle_of(const std::vector<saved_array>& arrays, const std::string& type = "i8") {
    using namespace pickled;
    std::string out = "\x80\x02}q" + number(0, 1) + "(";
    for (const saved_array& array : arrays) {
        const std::string raw(
            reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(std::int64_t));
        out += text(array.name) + global("numpy.core.multiarray", "_reconstruct") + global("numpy", "ndarray") + "K" +
            number(0, 1) + "\x85" + bytes("b") + "\x87R(K" + number(1, 1) + shape_of(array) + global("numpy", "dtype") +
            text(type) + "\x89\x88\x87R(K" + number(3, 1) + text("<") + "NNN" + integer(~std::uint64_t{0}) +
            integer(~std::uint64_t{0}) + "K" + number(0, 1) + "tb\x89" + bytes(raw) + "tb";
    }
    return out + "u.";
}

/// Returns a dictionary of NumPy arrays as torch.save writes it since 1.6: a zip archive.
inline std::string torch_archive(const std::string& pickle) {
    return archive({{"archive/data.pkl", pickle}, {"archive/version", "3\n"}}, false);
}

/// Returns a dictionary of tensors in that format.
inline std::string torch_tensors(const std::vector<saved_array>& arrays) {
    using namespace pickled;
    std::map<std::string, std::string> members{{"archive/version", "3\n"}};
    std::string out = "\x80\x02}(";
    for (const saved_array& array : arrays) {
        const std::string key = std::to_string(members.size());
        members["archive/data/" + key] = {
            reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(std::int64_t)};
        out += text(array.name) + global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") +
            global("torch", "LongStorage") + text(key) + text("cpu") + integer(array.values.size()) + "tQK" +
            number(0, 1) + shape_of(array) + "(" + (array.shape.size() == 2 ? integer(array.shape[1]) : "") +
            integer(1) + "t\x89" + global("collections", "OrderedDict") + ")RtR";
    }
    members["archive/data.pkl"] = out + "u.";
    return archive(members, false);
}

/// Returns a dictionary of NumPy arrays as torch.save wrote it before 1.6: after a magic number, a version and
/// properties.
inline std::string torch_stream(const std::string& pickle) {
    using namespace pickled;
    const std::string magic("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 15);
    return magic + "\x80\x02M" + number(1001, 2) + "." + "\x80\x02}(" + text("little_endian") + "\x88" +
        text("protocol_version") + "M" + number(1001, 2) + "u." + pickle + "\x80\x02].";
}

} // namespace gneiss::test
