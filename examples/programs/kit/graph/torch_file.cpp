// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/torch_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
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

/// A range of a file, read forwards through a buffer.
class torch_range {
public:
    torch_range(const gneiss::plain_file& file, std::uint64_t begin, std::uint64_t length, std::size_t buffer)
        : file_(&file),
          at_(begin),
          end_(begin + length),
          buffer_(buffer) {}

    [[nodiscard]] std::uint64_t position() const noexcept { return at_; }
    [[nodiscard]] std::uint64_t left() const noexcept { return end_ - at_; }

    void read(std::span<std::byte> out) {
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
    void skip(std::uint64_t count) {
        if (count > left()) fail("ends too early");
        at_ += count;
    }
    [[noreturn]] void fail(const std::string& what, errc code = errc::invalid_format) const {
        throw error(code, what, {.path = file_->path(), .offset = at_, .length = 1});
    }

private:
    const gneiss::plain_file* file_;
    std::uint64_t at_, end_, first_ = 0;
    std::size_t filled_ = 0;
    std::vector<std::byte> buffer_;
};

namespace {

/// Object of a pickle. Text and bytes stay in the file.
struct value {
    enum kind_type { other, number, data, sequence, dictionary, global, call, storage } kind = other;
    std::int64_t integer = 0;
    std::string text{};                   ///< of short data; a global's "module name"
    std::uint64_t offset = 0, length = 0; ///< data: place in the file
    bool escaped = false;                 ///< data are text, in UTF-8
    std::vector<value*> items{};          ///< dictionary: key, value, key, value, …; call: callee, arguments
    value* state = nullptr;               ///< call: the argument of BUILD
};

/// Reads the opcodes of Python's pickle, protocols 2 to 4, that dictionaries of arrays consist of. Calls and references
/// are recorded, never executed.
class pickle_reader {
public:
    explicit pickle_reader(torch_range& from) : from_(&from) {}

    /// Returns the next pickled object. It lives as long as this.
    const value& read() {
        stack_.clear();
        marks_.clear();
        memo_.clear();
        for (;;) {
            // Dictionaries of arrays need a few hundred.
            if (++steps_ > 10000) from_->fail("is not a dictionary of a few arrays", errc::unsupported);
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
            if (!stack_.empty() && stack_.back()->kind == value::dictionary)
                append(stack_.back()->items, {&key, &item});
            break; // of another object, as an OrderedDict: not an array
        }
        case 'u': { // SETITEMS
            const auto items = pop_mark();
            if (!stack_.empty() && stack_.back()->kind == value::dictionary) append(stack_.back()->items, items);
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

    torch_range* from_;
    std::deque<value> values_; ///< owns all objects: references may form circles
    std::vector<value*> stack_;
    std::vector<std::size_t> marks_;
    std::map<std::uint32_t, value*> memo_;
    std::uint64_t steps_ = 0;
};

bool calls(const value& what, std::string_view callee) {
    return what.kind == value::call && what.items[0]->kind == value::global && what.items[0]->text == callee &&
        what.items[1]->kind == value::sequence;
}

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
        for (std::size_t i = 0; i + 1 < what.items.size(); i += 2) {
            const value& key = *what.items[i];
            const value& item = *what.items[i + 1];
            if (key.kind != value::data || item.kind != value::call) continue; // lists of names, numbers
            torch_file::array one{.name = key.text, .shape = {}};
            if (calls(item, "numpy.core.multiarray _reconstruct") || calls(item, "numpy._core.multiarray _reconstruct"))
                fill_numpy(one, item);
            else if (calls(item, "torch._utils _rebuild_tensor_v2"))
                fill_tensor(one, item);
            else
                continue;
            arrays.push_back(std::move(one));
        }
        return arrays;
    }

private:
    [[noreturn]] void fail(const std::string& what, const std::string& name = "", errc code = errc::unsupported) const {
        throw error(code, what, {.path = file_->path(), .field = name});
    }

    [[nodiscard]] std::vector<std::uint64_t> shape_of(const value& what, const std::string& name) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 48; // elements
        std::vector<std::uint64_t> shape;
        std::uint64_t elements = 1;
        if (what.kind != value::sequence) fail("has no shape", name);
        for (const value* extent : what.items) {
            const auto count = static_cast<std::uint64_t>(extent->integer); // negative: too large
            if (extent->kind != value::number || shape.size() == 2 || (count != 0 && count > most / elements))
                fail("has a shape that is not read", name);
            if (count != 0) elements *= count;
            shape.push_back(count);
        }
        return shape;
    }
    /// Checks that `stored` bytes can hold the elements; escaped ones take up to twice as many.
    void check_length(const torch_file::array& one, std::uint64_t stored) const {
        const std::uint64_t least = one.elements() * one.width;
        if (one.escaped ? stored < least || stored > 2 * least : stored != least)
            fail(fmt::format("has {} bytes for {} elements", stored, one.elements()), one.name, errc::corrupt);
    }

    /// State of a NumPy array: version, shape, type, columns first, data.
    void fill_numpy(torch_file::array& one, const value& from) const {
        const value* const state = from.state;
        if (state == nullptr || state->kind != value::sequence || state->items.size() != 5)
            fail("is not a NumPy array", one.name);
        one.shape = shape_of(*state->items[1], one.name);
        const value& type = *state->items[2];
        const std::string code =
            calls(type, "numpy dtype") && !type.items[1]->items.empty() ? type.items[1]->items[0]->text : "";
        const bool big_endian =
            type.state != nullptr && type.state->items.size() > 1 && type.state->items[1]->text == ">";
        static constexpr std::string_view codes[] = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"};
        if (std::ranges::find(codes, code) == std::end(codes) || big_endian)
            fail("has elements of type '" + code + "', integers are needed", one.name);
        one.is_signed = code[0] == 'i';
        one.width = static_cast<unsigned>(code[1] - '0');
        if (state->items[3]->integer != 0 && one.shape.size() > 1) fail("is stored by columns", one.name);
        const value* data = state->items[4];
        if (calls(*data, "_codecs encode") && !data->items[1]->items.empty()) data = data->items[1]->items[0];
        const bool empty = calls(*data, "__builtin__ bytes") || calls(*data, "builtins bytes");
        if (data->kind != value::data && !empty) fail("has no data", one.name);
        one.offset = data->offset;
        one.length = data->length;
        one.escaped = data->escaped;
        check_length(one, one.length);
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
        one.is_signed = type->first != "torch ByteStorage";
        one.shape = shape_of(*arguments[2], one.name);
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
        check_length(one, one.length);
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

std::uint64_t torch_file::array::elements() const noexcept {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    return count;
}

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
            torch_range bytes(file_, begin, length, buffer);
            pickle_reader pickle(bytes);
            arrays_ = array_maker(file_, &archive, name.substr(0, name.size() - std::string_view("data.pkl").size()))
                          .arrays_of(pickle.read());
            return;
        }
        throw error(
            errc::invalid_format, "is a zip archive without data.pkl: not a file of torch.save", {.path = path});
    }
    // The older format: a magic number, a version and the properties of the machine come first, each pickled alone.
    torch_range bytes(file_, 0, size, buffer);
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

struct torch_file::reader::state {
    torch_range from;
    array what;
    std::vector<std::byte> bytes{};

    /// Reads bytes as they were before protocol 2 stored them as text.
    void read_bytes(std::span<std::byte> out) {
        if (!what.escaped) return from.read(out);
        for (std::byte& byte : out) {
            from.read({&byte, 1});
            if (byte < std::byte{0x80}) continue;
            std::byte next{};
            from.read({&next, 1});
            if ((byte & std::byte{0xfe}) != std::byte{0xc2} || (next & std::byte{0xc0}) != std::byte{0x80})
                from.fail("is not the text of bytes", errc::corrupt);
            byte = (byte << 6) | (next & std::byte{0x3f});
        }
    }
};

torch_file::reader::reader(const torch_file& file, const array& from)
    : state_(new state{.from = {file.file_, from.offset, from.length, std::size_t{256} << 10}, .what = from}) {}
torch_file::reader::reader(reader&&) noexcept = default;
torch_file::reader::~reader() = default;

void torch_file::reader::read(std::span<std::int64_t> out) {
    const unsigned width = state_->what.width;
    state_->bytes.resize(out.size() * width);
    state_->read_bytes(state_->bytes);
    for (std::size_t i = 0; i < out.size(); ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, state_->bytes.data() + i * width, width);
        const unsigned unused = 64 - 8 * width;
        if (!state_->what.is_signed && width == 8 && bits >> 63 != 0)
            state_->from.fail("is too large for a signed integer", errc::out_of_range);
        out[i] = state_->what.is_signed ? std::bit_cast<std::int64_t>(bits << unused) >> unused
                                        : static_cast<std::int64_t>(bits);
    }
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
