// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Identifies a batch within a run.
struct batch_key {
    std::uint64_t epoch = 0; ///< number of the epoch
    batch_number number{};   ///< number within the epoch

    friend auto operator<=>(const batch_key&, const batch_key&) = default;
    friend bool operator==(const batch_key&, const batch_key&) = default;
};

/// Formats a key for messages: "epoch 3, state 1, pass 0, batch 17".
[[nodiscard]] inline std::string to_string(const batch_key& key) {
    return "epoch " + std::to_string(key.epoch) + ", state " + std::to_string(key.number.state) + ", pass " +
        std::to_string(key.number.pass) + ", batch " + std::to_string(key.number.index);
}

/// Header and named arrays in one block of memory supplied by the caller.
///
/// Positions are offsets from the start of the block and it contains no pointers. A batch may be copied as bytes, to
/// pinned memory, a network frame or a file, and attached there. The view is a pointer and a size; copies are shallow.
///
/// The block must be aligned to `alignment`. Not thread-safe while arrays are added; elements may be written
/// concurrently. All but `empty` throw errc::invalid_argument for a batch without memory.
class mini_batch {
public:
    static constexpr std::size_t alignment = 64;  ///< alignment of the block and of each array [bytes]
    static constexpr std::size_t max_arrays = 24; ///< maximum number of arrays
    static constexpr std::size_t max_name = 23;   ///< maximum length of a name

    /// Bytes that `add` needs for one array.
    [[nodiscard]] static constexpr std::size_t array_bytes(std::size_t capacity, std::size_t element_bytes) noexcept {
        return round_up(capacity * element_bytes, alignment);
    }
    /// Bytes of the header.
    [[nodiscard]] static constexpr std::size_t header_bytes() noexcept { return round_up(sizeof(header), alignment); }

    mini_batch() = default;

    /// Starts an empty batch in `arena`, overwriting it. Throws `invalid_argument` if the arena is misaligned or
    /// smaller than the header.
    [[nodiscard]] static mini_batch format(std::span<std::byte> arena, const batch_key& key) {
        check(arena);
        const mini_batch batch(arena.data(), arena.size());
        header fresh{};
        fresh.magic = magic;
        fresh.capacity = arena.size();
        fresh.used = header_bytes();
        fresh.key = key;
        std::memcpy(arena.data(), &fresh, sizeof fresh);
        return batch;
    }

    /// Attaches to the batch in `block`, wherever it was made; writes nothing. Throws `invalid_format` if there is none
    /// or it is truncated.
    [[nodiscard]] static mini_batch attach(std::span<std::byte> block) {
        check(block);
        const mini_batch batch(block.data(), block.size());
        const header& h = batch.head();
        bool sound = h.magic == magic && h.used <= block.size() && h.used >= header_bytes() && h.arrays <= max_arrays;
        for (std::size_t i = 0; sound && i < h.arrays; ++i) {
            const array_record& a = h.records[i];
            sound = a.name[max_name] == '\0' && a.element_bytes != 0 && a.count <= a.capacity &&
                a.offset >= header_bytes() && a.offset <= h.used && a.offset % alignment == 0 &&
                a.capacity <= (h.used - a.offset) / a.element_bytes;
        }
        if (!sound) throw error(errc::invalid_format, "these bytes are not a mini-batch");
        return batch;
    }
    /// Attaches to a batch in memory that is only read: a mapped file, or a block that several processes share. There
    /// is no room to add an array; read elements by `get<const T>`. Errors as above.
    [[nodiscard]] static mini_batch attach(std::span<const std::byte> block) {
        mini_batch batch = attach(std::span(const_cast<std::byte*>(block.data()), block.size()));
        batch.capacity_ = 0;
        return batch;
    }

    /// Adds an array of `count` uninitialized elements. Throws `out_of_range` if the arena is full, `already_exists`
    /// for a name in use.
    template <class T>
        requires std::is_trivially_copyable_v<T>
    std::span<T> add(std::string_view name, std::size_t count) {
        static_assert(alignof(T) <= alignment);
        header& h = head();
        const std::uint64_t room = capacity_ - std::min(capacity_, h.used);
        if (find(name) != nullptr) throw error(errc::already_exists, "array " + std::string(name));
        if (name.size() > max_name || h.arrays == max_arrays || count > room / sizeof(T) ||
            array_bytes(count, sizeof(T)) > room)
            throw error(errc::out_of_range, "no room in the batch for array " + std::string(name));
        array_record& a = h.records[h.arrays++];
        a = {};
        std::copy(name.begin(), name.end(), a.name);
        a.offset = h.used;
        a.capacity = a.count = count;
        a.element_bytes = sizeof(T);
        h.used += array_bytes(count, sizeof(T));
        return {reinterpret_cast<T*>(base_ + a.offset), count};
    }

    /// Elements of an array. Throws `not_found`, or `invalid_format` for a different element size.
    template <class T>
    [[nodiscard]] std::span<T> get(std::string_view name) const {
        const array_record& a = record(name);
        if (a.element_bytes != sizeof(T))
            throw error(errc::invalid_format, "element size of array " + std::string(name));
        return {reinterpret_cast<T*>(base_ + a.offset), static_cast<std::size_t>(a.count)};
    }

    /// Calls `visit(name, element_bytes, bytes)` for every array in insertion order.
    template <class Visit>
    void for_each_array(Visit&& visit) const {
        for (std::size_t i = 0; i < head().arrays; ++i) {
            const array_record& a = head().records[i];
            visit(std::string_view(a.name), std::size_t{a.element_bytes},
                std::span<std::byte>(base_ + a.offset, static_cast<std::size_t>(a.count) * a.element_bytes));
        }
    }

    /// Returns the key of the batch.
    [[nodiscard]] const batch_key& key() const { return head().key; }
    /// Header and arrays: the bytes to copy when moving the batch.
    [[nodiscard]] std::span<const std::byte> bytes() const { return {base_, static_cast<std::size_t>(head().used)}; }
    /// True if no memory is attached.
    [[nodiscard]] bool empty() const noexcept { return base_ == nullptr; }

private:
    struct array_record {
        char name[max_name + 1] = {};
        std::uint64_t offset = 0;   ///< bytes from the start of the header
        std::uint64_t capacity = 0; ///< elements that fit
        std::uint64_t count = 0;    ///< elements
        std::uint32_t element_bytes = 0;
        std::uint32_t reserved = 0;
    };
    struct header {
        std::uint64_t magic = 0;
        std::uint64_t capacity = 0; ///< bytes of the arena in which it was made
        std::uint64_t used = 0;     ///< bytes used by header and arrays
        batch_key key{};
        std::uint64_t arrays = 0;
        std::array<array_record, max_arrays> records{};
    };
    static_assert(std::is_trivially_copyable_v<header>);
    static constexpr std::uint64_t magic = 0x3168637461627367ULL; // "gsbatch1"

    mini_batch(std::byte* base, std::uint64_t capacity) noexcept : base_(base), capacity_(capacity) {}

    static void check(std::span<std::byte> arena) {
        if (arena.size() < header_bytes() || reinterpret_cast<std::uintptr_t>(arena.data()) % alignment != 0)
            throw error(errc::invalid_argument, "a mini-batch needs an aligned block that holds its header");
    }
    [[nodiscard]] header& head() const {
        if (base_ == nullptr) throw error(errc::invalid_argument, "a mini-batch without memory has no arrays");
        return *reinterpret_cast<header*>(base_);
    }
    [[nodiscard]] array_record* find(std::string_view name) const {
        for (std::size_t i = 0; i < head().arrays; ++i)
            if (name == head().records[i].name) return &head().records[i];
        return nullptr;
    }
    [[nodiscard]] array_record& record(std::string_view name) const {
        array_record* const found = find(name);
        if (found == nullptr) throw error(errc::not_found, "array " + std::string(name) + " of a mini-batch");
        return *found;
    }

    std::byte* base_ = nullptr;
    std::uint64_t capacity_ = 0; // bytes of this block, wherever the batch was made; 0: only read
};

/// Owning, growing block for mini-batches: after the first few batches it does not allocate.
class mini_batch_arena {
public:
    /// A batch needs more memory than the arena may have.
    struct full : error {
        /// States the bytes of the batch and the bound.
        full(std::size_t bytes, std::size_t limit)
            : error(errc::over_budget,
                  "a batch of " + std::to_string(bytes) + " bytes exceeds its memory of " + std::to_string(limit)) {}
    };

    /// Bounds later batches [bytes]; 0: no bound.
    void limit(std::size_t bytes) noexcept { limit_ = bytes; }
    /// Returns at least `bytes` of aligned memory. Growing discards the contents. Throws `full` above the limit.
    [[nodiscard]] std::span<std::byte> reserve(std::size_t bytes) {
        if (limit_ != 0 && bytes > limit_) throw full(bytes, limit_);
        reserved_ = bytes;
        if (buffer_.size() < bytes) {
            buffer_ = {}; // free first: never both at once
            buffer_ =
                aligned_buffer<std::byte, mini_batch::alignment>(bytes + std::min(bytes / 8, ~std::size_t{0} - bytes));
        }
        return buffer_.span();
    }
    /// Returns the size of the block [bytes].
    [[nodiscard]] std::size_t capacity() const noexcept { return buffer_.size(); }
    /// Returns the size of the last batch [bytes].
    [[nodiscard]] std::size_t reserved() const noexcept { return reserved_; }

private:
    std::size_t limit_ = 0, reserved_ = 0;
    aligned_buffer<std::byte, mini_batch::alignment> buffer_;
};

} // namespace gneiss
