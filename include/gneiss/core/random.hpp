// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Bijection of 64-bit words in which every input bit affects every output bit (Stafford's variant 13 of the
/// MurmurHash3 finalizer, the output function of SplitMix64).
[[nodiscard]] GNEISS_HD constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/// Purpose of a random number. Two uses never share a stream. The values are part of the format: append only.
enum class random_domain : std::uint32_t {
    node_permutation = 1, ///< internal row of each node of the dataset
    edge_shuffle = 2,     ///< order of the edges of a state within an epoch
    plan = 3,             ///< randomization of an order
    negative = 4,         ///< negative samples
    initialize = 5,       ///< initial values of parameters
    split = 6,            ///< train/valid/test split by fractions
    generate = 7,         ///< synthetic graphs
    neighbor = 8,         ///< neighbor sampling
    dropout = 9,          ///< dropout masks
    partition = 10,       ///< partitioners
    evaluate = 11,        ///< sampled evaluation
    retry = 12,           ///< fault injection
    project = 13,         ///< random projection of features
    replay = 14,          ///< reserved: earlier versions drew from it
    user = 1024,          ///< first value available to programs
};

/// Key of a stream of random numbers, built by absorbing fields in a fixed order:
///
///     random_key{seed, domain}.with(epoch).with(pass).with(batch).with(stage).with(hop).with(node)
///
/// then `stream[draw]`. A use omits fields that do not apply, always the same ones; each domain documents its fields.
/// Workers, threads and local ids are never part of a key, so results do not depend on them.
class random_key {
public:
    /// Key of a domain, before further fields.
    GNEISS_HD constexpr random_key(std::uint64_t seed, random_domain domain) noexcept
        : state_(mix64(mix64(seed + golden) ^ (static_cast<std::uint64_t>(domain) * 0xd1342543de82ef95ULL))) {}

    /// Returns the key with one more field. O(1), two multiplications.
    [[nodiscard]] GNEISS_HD constexpr random_key with(std::uint64_t field) const noexcept {
        random_key next = *this;
        next.state_ = mix64(state_ + golden + mix64(field ^ 0x2545f4914f6cdd1dULL));
        return next;
    }

    /// Draw number `draw` of this key, uniform over 64-bit words. Any order, any thread.
    [[nodiscard]] GNEISS_HD constexpr std::uint64_t operator[](std::uint64_t draw) const noexcept {
        return mix64(state_ + golden * (draw + 1));
    }

    /// Returns the state that identifies the key.
    [[nodiscard]] GNEISS_HD constexpr std::uint64_t value() const noexcept { return state_; }

private:
    static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;
    std::uint64_t state_;
};

/// High half of the 128-bit product.
[[nodiscard]] GNEISS_HD constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#else
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<wide>(a) * b) >> 64);
#endif
}

/// Maps a 64-bit word to [0, bound). The bias is below bound / 2⁶⁴. Precondition: bound > 0.
[[nodiscard]] GNEISS_HD constexpr std::uint64_t below(std::uint64_t word, std::uint64_t bound) noexcept {
    return multiply_high(word, bound);
}

/// Maps a word to [0, 1), with 53 random bits.
[[nodiscard]] GNEISS_HD constexpr double to_unit(std::uint64_t word) noexcept {
    return static_cast<double>(word >> 11) * 0x1p-53;
}

/// Maps a word to [0, 1) with 24 random bits, exact in float.
[[nodiscard]] GNEISS_HD constexpr float to_unit_float(std::uint64_t word) noexcept {
    return static_cast<float>(word >> 40) * 0x1p-24F;
}

/// Maps a word to noise of mean 0 and variance 1, nearly normal: the sum of four uniform 16-bit numbers, exact on every
/// machine.
[[nodiscard]] inline float to_normal(std::uint64_t word) noexcept {
    const std::uint64_t sum = (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
    constexpr float deviation = 37837.226F; // standard deviation of the sum: 2¹⁶ / √3
    return (static_cast<float>(sum) - 131070.0F) / deviation;
}

/// Draws of a key in order, as a standard uniform random bit generator.
class random_stream {
public:
    using result_type = std::uint64_t; ///< type of a draw

    /// Starts at draw 0 of `key`.
    GNEISS_HD constexpr explicit random_stream(random_key key) noexcept : key_(key) {}

    /// Returns the least draw.
    static constexpr result_type min() noexcept { return 0; }
    /// Returns the greatest draw.
    static constexpr result_type max() noexcept { return ~result_type{0}; }
    /// Returns the next draw.
    GNEISS_HD constexpr result_type operator()() noexcept { return key_[draw_++]; }

    /// Uniform over [0, bound). Precondition: bound > 0.
    GNEISS_HD constexpr std::uint64_t below(std::uint64_t bound) noexcept { return gneiss::below((*this)(), bound); }

private:
    random_key key_;
    std::uint64_t draw_ = 0;
};

/// Fisher–Yates shuffle by a key: the same order on every platform, unlike `std::shuffle`. O(n).
template <class RandomAccessRange>
constexpr void shuffle(RandomAccessRange& range, random_key key) {
    random_stream draw(key);
    for (std::size_t i = range.size(); i > 1; --i) {
        using std::swap;
        swap(range[i - 1], range[static_cast<std::size_t>(draw.below(i))]);
    }
}

/// Random bijection of [0, size) in O(1) memory: a Feistel network over the next even power of two, iterated until the
/// result is in range (cycle walking).
///
/// Four rounds; sixteen below 2¹⁶ elements, where four are visibly uneven (chi-square test of small sizes).
/// Cost: fewer than 4 expected walks per call. Thread-safe. Source: Black and Rogaway, CT-RSA 2002.
class keyed_permutation {
public:
    /// Bijection of [0, size) by `key`.
    GNEISS_HD constexpr keyed_permutation(std::uint64_t size, random_key key) noexcept : size_(size), key_(key) {
        while (half_bits_ < 32 && (std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
        mask_ = (std::uint64_t{1} << half_bits_) - 1;
        rounds_ = half_bits_ < 8 ? 16 : 4;
    }

    [[nodiscard]] GNEISS_HD constexpr std::uint64_t size() const noexcept { return size_; }

    /// Image of `i`. Precondition: i < size().
    [[nodiscard]] GNEISS_HD constexpr std::uint64_t operator()(std::uint64_t i) const noexcept {
        do {
            std::uint64_t left = i >> half_bits_, right = i & mask_;
            for (std::uint64_t round = 0; round < rounds_; ++round) {
                const std::uint64_t next = left ^ scramble(right, round);
                left = right;
                right = next;
            }
            i = (left << half_bits_) | right;
        } while (i >= size_);
        return i;
    }

    /// Replaces each of `elements` with its image. Equals one call each, but is branch-free on data and vectorizes:
    /// several times as fast. Does not allocate. Precondition: all are < size().
    constexpr void apply(std::span<std::uint64_t> elements) const noexcept {
        constexpr std::size_t block = 256;
        std::uint64_t left[block]{}, right[block]{};
        std::uint32_t place[block]{};
        while (!elements.empty()) {
            const std::size_t size = elements.size() < block ? elements.size() : block;
            std::size_t walking = size;
            for (std::size_t i = 0; i < size; ++i) place[i] = static_cast<std::uint32_t>(i);
            while (walking != 0) { // elements still out of range, moved to the front
                for (std::size_t i = 0; i < walking; ++i) {
                    left[i] = elements[place[i]] >> half_bits_;
                    right[i] = elements[place[i]] & mask_;
                }
                for (std::uint64_t round = 0; round < rounds_; ++round)
                    for (std::size_t i = 0; i < walking; ++i) {
                        const std::uint64_t next = left[i] ^ scramble(right[i], round);
                        left[i] = right[i];
                        right[i] = next;
                    }
                std::size_t outside = 0;
                for (std::size_t i = 0; i < walking; ++i) {
                    const std::uint64_t to = (left[i] << half_bits_) | right[i];
                    elements[place[i]] = to;
                    place[outside] = place[i];
                    outside += to >= size_;
                }
                walking = outside;
            }
            elements = elements.subspan(size);
        }
    }

    /// Preimage of `j`. Precondition: j < size().
    [[nodiscard]] GNEISS_HD constexpr std::uint64_t inverse(std::uint64_t j) const noexcept {
        do {
            std::uint64_t left = j >> half_bits_, right = j & mask_;
            for (std::uint64_t round = rounds_; round-- > 0;) {
                const std::uint64_t before = right ^ scramble(left, round);
                right = left;
                left = before;
            }
            j = (left << half_bits_) | right;
        } while (j >= size_);
        return j;
    }

private:
    [[nodiscard]] GNEISS_HD constexpr std::uint64_t scramble(std::uint64_t half, std::uint64_t round) const noexcept {
        return key_[(round << 32) | half] & mask_;
    }

    std::uint64_t size_;
    random_key key_;
    std::uint32_t half_bits_ = 1;
    std::uint64_t mask_ = 1;
    std::uint64_t rounds_ = 4;
};

} // namespace gneiss
