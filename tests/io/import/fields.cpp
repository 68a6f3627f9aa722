#include <gneiss/io/import/fields.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace test_io_import_fields {

using namespace gneiss::importing;

namespace {

/// Returns the UTF-8 form of a code point, of the length given, valid or not.
std::string encoded(std::uint32_t code, std::size_t length) {
    if (length == 1) return {static_cast<char>(code)};
    std::string text;
    for (std::size_t i = 1; i < length; ++i, code >>= 6)
        text.insert(text.begin(), static_cast<char>(0x80 | (code & 0x3f)));
    text.insert(text.begin(), static_cast<char>((0xf00 >> length) & 0xff) | static_cast<char>(code));
    return text;
}

} // namespace

TEST_CASE("each code point in its shortest form is UTF-8, and no other form is, at any offset") {
    for (std::uint32_t code = 0; code < 0x200000; code += code < 0x3000 ? 1 : 61) {
        const std::size_t shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        for (std::size_t length = shortest; length <= 4; ++length) {
            const bool valid = length == shortest && code < 0x110000 && (code < 0xd800 || code > 0xdfff);
            const std::string before(code % 70, 'a');
            const std::size_t found = find_invalid_utf8(before + encoded(code, length) + "tail");
            if (found != (valid ? std::string::npos : before.size())) {
                CAPTURE(code);
                CAPTURE(length);
                CHECK(found == (valid ? std::string::npos : before.size()));
            }
        }
    }
    for (std::size_t length = 2; length <= 4; ++length) // cut
        for (std::size_t size = 1; size < length; ++size)
            CHECK(find_invalid_utf8("ab" + encoded(0x10000 >> (4 - length) * 5, length).substr(0, size)) == 2);
    CHECK(find_invalid_utf8("") == std::string::npos);
    CHECK(find_invalid_utf8(std::string(100, 'x') + "\xff") == 100);
}

TEST_CASE("a cursor splits as split_line does, with and without quotes") {
    const std::filesystem::path path = "f.csv";
    for (const char delimiter : {',', ' ', '\t'})
        for (const std::string line :
            {"a,b", "", ",", "a,,", "\"a,\"\"b\"\"\",c,\"\"", " a  b ", "a\tb\t", "x,\"y\""}) {
            const text_format format{.delimiter = delimiter, .quotes = delimiter == ','};
            const line_place place{&path, 1, line.data(), line.size()};
            line_fields whole;
            split_line(line, format, place, whole);
            std::string unquoted;
            field_cursor fields(line, format, place, unquoted);
            std::string_view field;
            std::size_t count = 0;
            for (; fields.next(field); ++count) CHECK(field == whole.at[count]);
            CHECK(count == whole.count);
            CHECK(fields.position() == count);
        }
}

} // namespace test_io_import_fields
