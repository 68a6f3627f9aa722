// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/pickle.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace programs {

using gneiss::errc;
using gneiss::error;
using value = pickle_value;

file_range::file_range(const gneiss::plain_file& file, std::uint64_t begin, std::uint64_t length, std::size_t buffer)
    : file_(&file),
      at_(begin),
      end_(begin + length),
      buffer_(buffer) {}

void file_range::read(std::span<std::byte> out) {
    if (out.size() > left()) fail("ends too early");
    while (!out.empty()) {
        if (at_ < first_ || at_ >= first_ + filled_) {
            first_ = at_;
            filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), left()));
            file_->read_at(first_, std::span(buffer_).first(filled_));
        }
        const auto from = static_cast<std::size_t>(at_ - first_);
        const std::size_t count = std::min(out.size(), filled_ - from);
        std::memcpy(out.data(), buffer_.data() + from, count);
        out = out.subspan(count);
        at_ += count;
    }
}

void file_range::skip(std::uint64_t count) {
    if (count > left()) fail("ends too early");
    at_ += count;
}

void file_range::fail(const std::string& what, errc code) const {
    throw error(code, what, {.path = file_->path(), .offset = at_, .length = 1});
}

bool pickle_value::calls(std::string_view callee) const {
    return kind == call && items[0]->kind == global && items[0]->text == callee && items[1]->kind == sequence;
}

const pickle_value* pickle_value::find(std::string_view key) const {
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
        if (entries[i]->kind == data && entries[i]->text == key) return entries[i + 1];
    return nullptr;
}

struct pickle_reader::machine {
public:
    machine(file_range& from, std::uint64_t most_steps) : from_(&from), most_steps_(most_steps) {}

    const value& read() {
        stack_.clear();
        marks_.clear();
        memo_.clear();
        for (;;) {
            if (++steps_ > most_steps_) from_->fail("has more objects than such a file needs", errc::unsupported);
            const auto code = number<std::uint8_t>();
            if (code == '.') return pop();
            execute(code);
        }
    }

private:
    static constexpr std::uint64_t longest_text = 4096;

    template <class T>
    T number() {
        T result{};
        from_->read(std::as_writable_bytes(std::span(&result, 1)));
        return result;
    }
    value& add(value::kind_type kind) {
        values_.emplace_back().kind = kind;
        return values_.back();
    }
    value& push(value& what) {
        stack_.push_back(&what);
        return what;
    }
    value& pop() {
        if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) from_->fail("is not a pickle");
        value& top = *stack_.back();
        stack_.pop_back();
        return top;
    }
    value& top(value::kind_type kind) {
        if (stack_.empty() || stack_.back()->kind != kind) from_->fail("is not a pickle");
        return *stack_.back();
    }
    std::vector<value*> pop_mark() {
        if (marks_.empty()) from_->fail("is not a pickle");
        const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<value*> items(first, stack_.end());
        stack_.erase(first, stack_.end());
        marks_.pop_back();
        return items;
    }
    void tuple(std::size_t count) {
        std::vector<value*> items(count);
        for (std::size_t i = count; i-- > 0;) items[i] = &pop();
        push(add(value::sequence)).items = std::move(items);
    }
    void push_data(std::uint64_t length, bool text) {
        value& what = push(add(value::data));
        what.offset = from_->position();
        what.length = length;
        what.escaped = text;
        if (length > longest_text) return from_->skip(length);
        what.text.resize(static_cast<std::size_t>(length));
        from_->read(std::as_writable_bytes(std::span(what.text)));
    }
    void push_number(std::int64_t integer) { push(add(value::number)).integer = integer; }
    void push_long(std::uint8_t bytes) {
        std::uint64_t integer = 0;
        for (unsigned i = 0; i < bytes; ++i) {
            const std::uint64_t byte = number<std::uint8_t>();
            if (i < 8) integer |= byte << (8 * i);
            if (i + 1 == bytes && i < 7 && byte >= 0x80) integer |= ~std::uint64_t{0} << (8 * (i + 1));
        }
        push_number(std::bit_cast<std::int64_t>(integer));
    }
    void push_decimal() {
        std::string text;
        for (char c = 0; (c = static_cast<char>(number<std::uint8_t>())) != '\n'; text += c)
            if (text.size() > 20) from_->fail("is not a pickle");
        std::int64_t integer = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), integer);
        if (failed != std::errc() || end != text.data() + text.size()) from_->fail("is not a pickle");
        push_number(integer);
    }
    void push_global() {
        std::string text;
        for (int lines = 0; lines < 2;) {
            const char c = static_cast<char>(number<std::uint8_t>());
            if (c == '\n' && ++lines == 2) break;
            text += c == '\n' ? ' ' : c;
            if (text.size() > longest_text) from_->fail("is not a pickle");
        }
        push(add(value::global)).text = std::move(text);
    }
    void call() {
        value& arguments = pop();
        value& callee = pop();
        push(add(value::call)).items = {&callee, &arguments};
    }
    void append(std::vector<value*>& to, const std::vector<value*>& items) {
        to.insert(to.end(), items.begin(), items.end());
    }
    void get(std::uint32_t key) {
        const auto found = memo_.find(key);
        if (found == memo_.end()) from_->fail("is not a pickle");
        stack_.push_back(found->second);
    }
    void put(std::uint32_t key) {
        if (stack_.empty()) from_->fail("is not a pickle");
        memo_[key] = stack_.back();
    }

    void execute(std::uint8_t code) {
        switch (code) {
        case 0x80: from_->skip(1); break;                            // PROTO
        case 0x95: from_->skip(8); break;                            // FRAME
        case '(': marks_.push_back(stack_.size()); break;            // MARK
        case '0': (void)pop(); break;                                // POP
        case '1': (void)pop_mark(); break;                           // POP_MARK
        case 'N': push(add(value::other)); break;                    // NONE
        case 'G': from_->skip(8), push(add(value::other)); break;    // BINFLOAT
        case 0x88: push_number(1); break;                            // NEWTRUE
        case 0x89: push_number(0); break;                            // NEWFALSE
        case 'I': push_decimal(); break;                             // INT, also a Boolean of protocol 1
        case 'J': push_number(number<std::int32_t>()); break;        // BININT
        case 'K': push_number(number<std::uint8_t>()); break;        // BININT1
        case 'M': push_number(number<std::uint16_t>()); break;       // BININT2
        case 0x8a: push_long(number<std::uint8_t>()); break;         // LONG1
        case 'X': push_data(number<std::uint32_t>(), true); break;   // BINUNICODE
        case 0x8c: push_data(number<std::uint8_t>(), true); break;   // SHORT_BINUNICODE
        case 0x8d: push_data(number<std::uint64_t>(), true); break;  // BINUNICODE8
        case 'U':                                                    // SHORT_BINSTRING
        case 'C': push_data(number<std::uint8_t>(), false); break;   // SHORT_BINBYTES
        case 'T':                                                    // BINSTRING
        case 'B': push_data(number<std::uint32_t>(), false); break;  // BINBYTES
        case 0x8e: push_data(number<std::uint64_t>(), false); break; // BINBYTES8
        case ')': tuple(0); break;                                   // EMPTY_TUPLE
        case 0x85: tuple(1); break;                                  // TUPLE1
        case 0x86: tuple(2); break;                                  // TUPLE2
        case 0x87: tuple(3); break;                                  // TUPLE3
        case 't': {                                                  // TUPLE
            auto items = pop_mark();
            push(add(value::sequence)).items = std::move(items);
            break;
        }
        case ']': push(add(value::sequence)); break; // EMPTY_LIST
        case 'a': {                                  // APPEND
            value& item = pop();
            top(value::sequence).items.push_back(&item);
            break;
        }
        case 'e': { // APPENDS
            const auto items = pop_mark();
            append(top(value::sequence).items, items);
            break;
        }
        case '}': push(add(value::dictionary)); break; // EMPTY_DICT
        case 's': {                                    // SETITEM
            value& item = pop();
            value& key = pop();
            if (stack_.empty()) from_->fail("is not a pickle");
            append(stack_.back()->entries, {&key, &item});
            break;
        }
        case 'u': { // SETITEMS
            const auto items = pop_mark();
            if (stack_.empty()) from_->fail("is not a pickle");
            append(stack_.back()->entries, items);
            break;
        }
        case 'q': put(number<std::uint8_t>()); break;                    // BINPUT
        case 'r': put(number<std::uint32_t>()); break;                   // LONG_BINPUT
        case 0x94: put(static_cast<std::uint32_t>(memo_.size())); break; // MEMOIZE
        case 'h': get(number<std::uint8_t>()); break;                    // BINGET
        case 'j': get(number<std::uint32_t>()); break;                   // LONG_BINGET
        case 'c': push_global(); break;                                  // GLOBAL
        case 0x93: {                                                     // STACK_GLOBAL
            const value& name = pop();
            const value& module = pop();
            if (module.text.size() + name.text.size() > longest_text)
                from_->fail("is not a pickle"); // it would double each time
            push(add(value::global)).text = module.text + " " + name.text;
            break;
        }
        case 0x81:               // NEWOBJ
        case 'R': call(); break; // REDUCE
        case 'b': {              // BUILD
            value& state = pop();
            if (!stack_.empty()) stack_.back()->state = &state;
            break;
        }
        case 'Q': { // BINPERSID
            value& id = pop();
            push(add(value::storage)).items = {&id};
            break;
        }
        default:
            from_->fail(fmt::format("has the pickle opcode {:#04x}, which dictionaries of arrays do not need", code),
                errc::unsupported);
        }
    }

    file_range* from_;
    std::deque<value> values_; ///< owns all objects: references may form circles
    std::vector<value*> stack_;
    std::vector<std::size_t> marks_;
    std::map<std::uint32_t, value*> memo_;
    std::uint64_t steps_ = 0, most_steps_;
};

pickle_reader::pickle_reader(file_range& from, std::uint64_t most_steps)
    : machine_(std::make_unique<machine>(from, most_steps)) {}
pickle_reader::~pickle_reader() = default;

const pickle_value& pickle_reader::read() { return machine_->read(); }

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& name, const std::string& what,
    errc code = errc::unsupported) {
    throw error(code, what, {.path = path, .field = name});
}

} // namespace

std::uint64_t pickled_array::elements() const noexcept {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    return count;
}

void pickled_array::check_length(const std::filesystem::path& path, const std::string& name) const {
    const std::uint64_t least = elements() * width;
    if (escaped ? length < least || length > 2 * least : length != least)
        fail(path, name, fmt::format("has {} bytes for {} elements", length, elements()), errc::corrupt);
}

std::vector<std::uint64_t> pickled_shape(
    const pickle_value& from, const std::filesystem::path& path, const std::string& name) {
    constexpr std::uint64_t most = std::uint64_t{1} << 48; // elements
    std::vector<std::uint64_t> shape;
    std::uint64_t elements = 1;
    if (from.kind != value::sequence) fail(path, name, "has no shape");
    for (const value* extent : from.items) {
        const auto count = static_cast<std::uint64_t>(extent->integer); // negative: too large
        if (extent->kind != value::number || shape.size() == 2 || (count != 0 && count > most / elements))
            fail(path, name, "has a shape that is not read");
        if (count != 0) elements *= count;
        shape.push_back(count);
    }
    return shape;
}

pickled_array numpy_array(const pickle_value& from, const std::filesystem::path& path, const std::string& name) {
    // The state: version, shape, type, columns first, data.
    const value* const state = from.state;
    if (!(from.calls("numpy.core.multiarray _reconstruct") || from.calls("numpy._core.multiarray _reconstruct")) ||
        state == nullptr || state->kind != value::sequence || state->items.size() != 5)
        fail(path, name, "is not a NumPy array");
    pickled_array result{.shape = pickled_shape(*state->items[1], path, name)};
    const value& type = *state->items[2];
    const std::string code =
        type.calls("numpy dtype") && !type.items[1]->items.empty() ? type.items[1]->items[0]->text : "";
    const bool big_endian = type.state != nullptr && type.state->items.size() > 1 && type.state->items[1]->text == ">";
    static constexpr std::string_view codes[] = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"};
    if (std::ranges::find(codes, code) == std::end(codes) || big_endian)
        fail(path, name, "has elements of type '" + code + "', which are not read");
    result.type = code[0];
    result.width = static_cast<unsigned>(code[1] - '0');
    if (state->items[3]->integer != 0 && result.shape.size() > 1) fail(path, name, "is stored by columns");
    const value* data = state->items[4];
    if (data->calls("_codecs encode") && !data->items[1]->items.empty()) data = data->items[1]->items[0];
    const bool empty = data->calls("__builtin__ bytes") || data->calls("builtins bytes");
    if (data->kind != value::data && !empty) fail(path, name, "has no data");
    result.offset = data->offset;
    result.length = data->length;
    result.escaped = data->escaped;
    result.check_length(path, name);
    return result;
}

pickled_array_reader::pickled_array_reader(const gneiss::plain_file& file, const pickled_array& from)
    : from_(file, from.offset, from.length, std::size_t{256} << 10),
      what_(from) {}

/// Reads bytes as they were before protocol 2 stored them as text.
void pickled_array_reader::read_bytes(std::size_t elements) {
    bytes_.resize(elements * what_.width);
    if (!what_.escaped) return from_.read(bytes_);
    for (std::byte& byte : bytes_) {
        from_.read({&byte, 1});
        if (byte < std::byte{0x80}) continue;
        std::byte next{};
        from_.read({&next, 1});
        if ((byte & std::byte{0xfe}) != std::byte{0xc2} || (next & std::byte{0xc0}) != std::byte{0x80})
            from_.fail("is not the text of bytes", errc::corrupt);
        byte = (byte << 6) | (next & std::byte{0x3f});
    }
}

void pickled_array_reader::read(std::span<std::int64_t> out) {
    if (what_.type == 'f') from_.fail("are floats, integers are needed", errc::unsupported);
    read_bytes(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, bytes_.data() + i * what_.width, what_.width);
        const unsigned unused = 64 - 8 * what_.width;
        if (what_.type == 'u' && what_.width == 8 && bits >> 63 != 0)
            from_.fail("is too large for a signed integer", errc::out_of_range);
        out[i] =
            what_.type == 'i' ? std::bit_cast<std::int64_t>(bits << unused) >> unused : static_cast<std::int64_t>(bits);
    }
}

void pickled_array_reader::read(std::span<double> out) {
    if (what_.type != 'f') {
        std::vector<std::int64_t> integers(out.size());
        read(integers);
        std::ranges::transform(integers, out.begin(), [](std::int64_t one) { return static_cast<double>(one); });
        return;
    }
    read_bytes(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (what_.width == 8) {
            std::memcpy(&out[i], bytes_.data() + i * 8, 8);
        } else {
            float one = 0;
            std::memcpy(&one, bytes_.data() + i * 4, 4);
            out[i] = static_cast<double>(one);
        }
    }
}

} // namespace programs
