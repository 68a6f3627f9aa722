// SPDX-License-Identifier: Apache-2.0
#include "arrow_stream.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include <gneiss/core/float16.hpp>

namespace gneiss_python {

namespace nb = nanobind;

namespace {

using namespace std::string_view_literals;

/// Formats of the specification, and the names of their types in pyarrow. Those with a kind are read.
struct known_format {
    std::string_view format;
    arrow_kind kind;
    std::string_view name;
};
constexpr std::array formats{known_format{"c", arrow_kind::integer, "int8"},
    known_format{"C", arrow_kind::integer, "uint8"}, known_format{"s", arrow_kind::integer, "int16"},
    known_format{"S", arrow_kind::integer, "uint16"}, known_format{"i", arrow_kind::integer, "int32"},
    known_format{"I", arrow_kind::integer, "uint32"}, known_format{"l", arrow_kind::integer, "int64"},
    known_format{"L", arrow_kind::integer, "uint64"}, known_format{"e", arrow_kind::floating, "float16"},
    known_format{"f", arrow_kind::floating, "float32"}, known_format{"g", arrow_kind::floating, "float64"},
    known_format{"b", arrow_kind::boolean, "bool"}, known_format{"u", arrow_kind::text, "string"},
    known_format{"U", arrow_kind::text, "large_string"}, known_format{"vu", arrow_kind::text, "string_view"},
    known_format{"n", arrow_kind::none, "null"}, known_format{"z", arrow_kind::none, "binary"},
    known_format{"Z", arrow_kind::none, "large_binary"}, known_format{"vz", arrow_kind::none, "binary_view"},
    known_format{"+s", arrow_kind::none, "struct"}, known_format{"+l", arrow_kind::none, "list"},
    known_format{"+L", arrow_kind::none, "large_list"}, known_format{"+m", arrow_kind::none, "map"},
    known_format{"+r", arrow_kind::none, "run_end_encoded"}};
/// The same of formats with parameters, by their first letters.
constexpr std::array parametric_formats{known_format{"d:", arrow_kind::none, "decimal"},
    known_format{"w:", arrow_kind::none, "fixed_size_binary"}, known_format{"td", arrow_kind::none, "date"},
    known_format{"tt", arrow_kind::none, "time"}, known_format{"ts", arrow_kind::none, "timestamp"},
    known_format{"tD", arrow_kind::none, "duration"}, known_format{"ti", arrow_kind::none, "interval"},
    known_format{"+u", arrow_kind::none, "union"}};

arrow_type type_of(const ArrowSchema& schema) {
    const std::string_view format = schema.format;
    arrow_type type;
    if (schema.dictionary != nullptr) {
        const arrow_type values = type_of(*schema.dictionary);
        type = {.kind = values.kind == arrow_kind::text || values.kind == arrow_kind::integer ? values.kind
                                                                                              : arrow_kind::none,
            .format = format[0],
            .dictionary = true,
            .name = "dictionary of " + values.name};
        type.values.push_back(values);
        return type;
    }
    if (format.starts_with("+w:") && schema.n_children == 1) {
        const arrow_type values = type_of(*schema.children[0]);
        type = {.kind = values.kind == arrow_kind::floating ? arrow_kind::list : arrow_kind::none,
            .name = "fixed_size_list of " + values.name};
        (void)std::from_chars(format.data() + 3, format.data() + format.size(), type.width);
        type.values.push_back(values);
        return type;
    }
    for (const known_format& known : formats)
        if (known.format == format) return {.kind = known.kind, .format = format[0], .name = std::string(known.name)};
    for (const known_format& known : parametric_formats)
        if (format.starts_with(known.format)) return {.name = std::string(known.name)};
    return {.name = "format " + std::string(format)};
}

/// Returns element `at` of a buffer.
template <class T>
T element(const ArrowArray& array, int buffer, std::int64_t at) {
    return static_cast<const T*>(array.buffers[buffer])[at];
}

bool bit(const void* bits, std::int64_t at) {
    return ((static_cast<const std::uint8_t*>(bits)[at / 8] >> (at % 8)) & 1) != 0;
}

/// Returns whether an element is null; `at` counts from the start of the buffers.
bool is_null(const ArrowArray& array, std::int64_t at) {
    return array.null_count != 0 && array.n_buffers > 0 && array.buffers[0] != nullptr && !bit(array.buffers[0], at);
}

/// Calls `use` with an integer of its own type.
template <class Use>
auto with_integer(const ArrowArray& array, char format, std::int64_t at, Use&& use) {
    switch (format) {
    case 'c': return use(element<std::int8_t>(array, 1, at));
    case 'C': return use(element<std::uint8_t>(array, 1, at));
    case 's': return use(element<std::int16_t>(array, 1, at));
    case 'S': return use(element<std::uint16_t>(array, 1, at));
    case 'i': return use(element<std::int32_t>(array, 1, at));
    case 'I': return use(element<std::uint32_t>(array, 1, at));
    case 'l': return use(element<std::int64_t>(array, 1, at));
    default: return use(element<std::uint64_t>(array, 1, at));
    }
}

std::string_view text_at(const ArrowArray& array, char format, std::int64_t at) {
    const auto cut = [&](auto begin, auto end) {
        return std::string_view(
            static_cast<const char*>(array.buffers[2]) + begin, static_cast<std::size_t>(end - begin));
    };
    if (format == 'u') return cut(element<std::int32_t>(array, 1, at), element<std::int32_t>(array, 1, at + 1));
    if (format == 'U') return cut(element<std::int64_t>(array, 1, at), element<std::int64_t>(array, 1, at + 1));
    // A view: its length, then the text, or four bytes of it, the buffer and the place there.
    const char* const view = static_cast<const char*>(array.buffers[1]) + 16 * at;
    std::int32_t length = 0, buffer = 0, offset = 0;
    std::memcpy(&length, view, 4);
    if (length <= 12) return {view + 4, static_cast<std::size_t>(length)};
    std::memcpy(&buffer, view + 8, 4);
    std::memcpy(&offset, view + 12, 4);
    return {static_cast<const char*>(array.buffers[2 + buffer]) + offset, static_cast<std::size_t>(length)};
}

template <class T>
void append_number(std::string& to, T value) {
    std::array<char, 32> digits;
    to.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

/// Appends a float by the digits of its own type.
void append_float(std::string& to, const ArrowArray& array, char format, std::int64_t at) {
    if (format == 'e')
        append_number(to, gneiss::to_float(element<gneiss::float16>(array, 1, at)));
    else if (format == 'f')
        append_number(to, element<float>(array, 1, at));
    else
        append_number(to, element<double>(array, 1, at));
}

double float_at(const ArrowArray& array, char format, std::int64_t at) {
    return format == 'e' ? double{gneiss::to_float(element<gneiss::float16>(array, 1, at))}
        : format == 'f'  ? double{element<float>(array, 1, at)}
                         : element<double>(array, 1, at);
}

template <class T>
void release(T& of) {
    if (of.release != nullptr) of.release(&of);
}

} // namespace

arrow_stream::arrow_stream(const nb::object& source, std::string label) : label_(std::move(label)) {
    const nb::object capsule = source.attr("__arrow_c_stream__")();
    auto* const given = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
    if (given == nullptr) nb::raise_python_error();
    stream_ = *given; // moved
    given->release = nullptr;
    ArrowSchema schema{};
    const int failed = stream_.get_schema(&stream_, &schema);
    if (failed == 0 && schema.format == "+s"sv)
        for (std::int64_t i = 0; i < schema.n_children; ++i) {
            const ArrowSchema& child = *schema.children[i];
            columns_.push_back({child.name == nullptr ? "" : child.name, type_of(child)});
        }
    const std::string format = failed == 0 ? schema.format : "";
    release(schema);
    if (failed == 0 && format == "+s") return;
    const char* const reason = failed == 0 ? nullptr : stream_.get_last_error(&stream_);
    const std::string why = reason == nullptr ? "no reason given" : reason;
    release(stream_);
    throw gneiss::error(gneiss::errc::invalid_format,
        failed == 0 ? "is a column, not a table" : "the stream has no schema: " + why, {.path = label_});
}

arrow_stream::~arrow_stream() {
    release(chunk_);
    release(stream_);
}

gneiss::error arrow_stream::wrong(std::size_t column, const std::string& what, gneiss::errc code) const {
    return {code, what, {.path = label_, .field = "column '" + columns_[column].name + "'"}};
}

std::size_t arrow_stream::find(const std::string& name) const {
    std::string names;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (columns_[i].name == name) return i;
        names += (i == 0 ? "" : ", ") + columns_[i].name;
    }
    throw gneiss::error(gneiss::errc::not_found, "has no column '" + name + "', only " + names, {.path = label_});
}

bool arrow_stream::next(const std::vector<std::size_t>& used) {
    do {
        first_row_ += chunk_.release == nullptr ? 0 : chunk_.length;
        release(chunk_);
        chunk_ = {};
        if (stream_.get_next(&stream_, &chunk_) != 0) {
            const char* const reason = stream_.get_last_error(&stream_);
            throw gneiss::error(gneiss::errc::io,
                "the stream failed after row " + std::to_string(first_row_) + ": " +
                    (reason == nullptr ? "no reason given" : reason),
                {.path = label_});
        }
        if (chunk_.release == nullptr) return false;
    } while (chunk_.length == 0);
    if (chunk_.n_children != static_cast<std::int64_t>(columns_.size()))
        throw gneiss::error(
            gneiss::errc::invalid_format, "a chunk has other columns than the schema", {.path = label_});
    for (std::int64_t row = 0; row < chunk_.length && chunk_.null_count != 0; ++row)
        if (is_null(chunk_, chunk_.offset + row))
            throw gneiss::error(
                gneiss::errc::invalid_format, "row " + std::to_string(first_row_ + row) + " is null", {.path = label_});
    for (const std::size_t column : used) refuse_nulls(column);
    return true;
}

void arrow_stream::refuse_nulls(std::size_t column) const {
    const arrow_type& type = columns_[column].type;
    const ArrowArray& array = *chunk_.children[column];
    const std::int64_t begin = chunk_.offset + array.offset;
    const auto null = [&](std::int64_t row) {
        if (is_null(array, begin + row)) return true;
        if (type.dictionary)
            return with_integer(array, type.format, begin + row, [&](auto index) {
                const ArrowArray& values = *array.dictionary;
                const auto at = static_cast<std::int64_t>(index);
                if (at < 0 || at >= values.length)
                    throw wrong(column, "row " + std::to_string(first_row_ + row) + " is beyond its dictionary");
                return is_null(values, values.offset + at);
            });
        for (std::int64_t i = 0; type.kind == arrow_kind::list && i < type.width; ++i)
            if (const ArrowArray& values = *array.children[0];
                is_null(values, values.offset + (begin + row) * type.width + i))
                return true;
        return false;
    };
    if (array.null_count == 0 && !type.dictionary && type.kind != arrow_kind::list) return;
    for (std::int64_t row = 0; row < chunk_.length; ++row)
        if (null(row)) throw wrong(column, "row " + std::to_string(first_row_ + row) + " is null (rows count from 0)");
}

void arrow_stream::append_text(std::string& to, std::size_t column, std::int64_t row) const {
    const arrow_type* type = &columns_[column].type;
    const ArrowArray* array = chunk_.children[column];
    std::int64_t at = chunk_.offset + array->offset + row;
    if (type->dictionary) {
        const std::int64_t index =
            with_integer(*array, type->format, at, [](auto value) { return static_cast<std::int64_t>(value); });
        type = &type->values[0];
        array = array->dictionary;
        at = array->offset + index;
    }
    switch (type->kind) {
    case arrow_kind::integer:
        return with_integer(*array, type->format, at, [&](auto value) { append_number(to, value); });
    case arrow_kind::floating: return append_float(to, *array, type->format, at);
    case arrow_kind::boolean: to += bit(array->buffers[1], at) ? '1' : '0'; return;
    case arrow_kind::list: {
        const ArrowArray& values = *array->children[0];
        for (std::int64_t i = 0; i < type->width; ++i) {
            if (i != 0) to += '\t';
            append_float(to, values, type->values[0].format, values.offset + at * type->width + i);
        }
        return;
    }
    default: break;
    }
    const std::string_view text = text_at(*array, type->format, at);
    bool other = false;
    for (const char c : text) other |= c == '\t' || c == '\n' || c == '\r' || c == '\0';
    if (other)
        throw wrong(column,
            "row " + std::to_string(first_row_ + row) +
                " is a name with a tab, a line break or a NUL byte, which an export could not write: use other names",
            gneiss::errc::unsupported);
    to += text;
}

double arrow_stream::number(std::size_t column, std::int64_t row, std::int64_t place) const {
    const arrow_type& type = columns_[column].type;
    const ArrowArray& array = *chunk_.children[column];
    const std::int64_t at = chunk_.offset + array.offset + row;
    if (type.kind == arrow_kind::list) {
        const ArrowArray& values = *array.children[0];
        return float_at(values, type.values[0].format, values.offset + at * type.width + place);
    }
    if (type.kind == arrow_kind::floating) return float_at(array, type.format, at);
    return static_cast<double>(integer(column, row));
}

std::int64_t arrow_stream::integer(std::size_t column, std::int64_t row) const {
    const arrow_type& type = columns_[column].type;
    const ArrowArray& array = *chunk_.children[column];
    const std::int64_t at = chunk_.offset + array.offset + row;
    if (type.kind == arrow_kind::boolean) return bit(array.buffers[1], at) ? 1 : 0;
    return with_integer(array, type.format, at, [&](auto value) {
        if (!std::in_range<std::int64_t>(value))
            throw wrong(column, "row " + std::to_string(first_row_ + row) + " is " + std::to_string(value),
                gneiss::errc::out_of_range);
        return static_cast<std::int64_t>(value);
    });
}

} // namespace gneiss_python
