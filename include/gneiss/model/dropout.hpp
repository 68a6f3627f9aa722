// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Names of a matrix' rows in random keys: the ids of their nodes, or consecutive numbers. Rows after the last id have
/// numbers above all ids.
struct logical_rows {
    std::span<const node_id> ids{}; ///< ids of the first rows
    std::uint64_t first = 0;        ///< name of row 0 without ids

    /// Returns the name of a row.
    [[nodiscard]] std::uint64_t operator[](std::size_t row) const noexcept {
        return name(ids.empty() ? nullptr : ids.data(), ids.size(), first, row);
    }
    /// The same for plain arrays; null: no ids.
    [[nodiscard]] GNEISS_HD static constexpr std::uint64_t name(
        const node_id* ids, std::size_t size, std::uint64_t first, std::size_t row) noexcept {
        return ids == nullptr ? first + row : row < size ? ids[row] : (std::uint64_t{1} << 32) + row;
    }
    /// Returns the names of `count` rows from `begin` on.
    [[nodiscard]] logical_rows middle(std::size_t begin, std::size_t count) const noexcept {
        return ids.empty() ? logical_rows{{}, first + begin} : logical_rows{ids.subspan(begin, count), 0};
    }
};

/// Dropout rate in units of 2⁻¹⁶, and the choice among four elements that share a random word. A value that devices use
/// too.
class dropout_rate {
public:
    /// No dropout.
    dropout_rate() = default;
    /// Throws `invalid_argument` unless 0 ≤ rate < 1.
    explicit dropout_rate(double rate) {
        if (!(rate >= 0 && rate < 1)) throw error(errc::invalid_argument, "a dropout rate must lie in [0, 1)");
        threshold_ = static_cast<std::uint32_t>(std::lround(rate * 65536));
        if (threshold_ > 65535) threshold_ = 65535;
    }

    /// Returns the random bits of one of the four elements that share a word.
    [[nodiscard]] GNEISS_HD static constexpr std::uint16_t quarter(std::uint64_t word, std::size_t lane) noexcept {
        return static_cast<std::uint16_t>(word >> (16 * lane));
    }
    /// True if an element with these bits is kept.
    [[nodiscard]] GNEISS_HD constexpr bool kept(std::uint16_t quarter) const noexcept { return quarter >= threshold_; }
    /// True if element `lane` of a word is kept.
    [[nodiscard]] GNEISS_HD constexpr bool kept(std::uint64_t word, std::size_t lane) const noexcept {
        return kept(quarter(word, lane));
    }
    /// Returns the factor of kept elements.
    template <class T>
    [[nodiscard]] GNEISS_HD constexpr T factor() const noexcept {
        return T{65536} / static_cast<T>(65536 - threshold_);
    }
    /// Returns the factor of the element in a column; `row` is the key of its row.
    template <class T>
    [[nodiscard]] GNEISS_HD constexpr T scale_of(const random_key& row, std::size_t column) const noexcept {
        return kept(row[column / 4], column % 4) ? factor<T>() : T{0};
    }

private:
    std::uint32_t threshold_ = 0;
};

/// Dropped elements of a matrix: a pure function of (key, logical row, column), recomputed by backward instead of
/// stored. Kept elements are multiplied by 1 / (1 − rate), with the rate rounded to 2⁻¹⁶.
///
/// `key` is random_key{seed, random_domain::dropout} with epoch, state, pass, batch, layer and stage. Thread-safe.
/// Source: Srivastava et al., JMLR 2014.
class dropout_mask {
public:
    /// Throws `invalid_argument` unless 0 ≤ rate < 1.
    dropout_mask(random_key key, double rate, logical_rows rows) : key_(key), rows_(rows), rate_(rate) {}

    /// Sets out = in where kept, scaled; 0 where dropped. In place if both are the same. One random word for four
    /// columns.
    template <class T>
    void apply(std::size_t row, const T* in, T* out, std::size_t columns) const noexcept {
        const random_key key = key_.with(rows_[row]);
        std::size_t c = 0;
        for (; c + block <= columns; c += block) apply_block(key, c, in + c, out + c, block);
        if (c < columns) apply_block(key, c, in + c, out + c, columns - c);
    }

    /// Returns the factor of an entry of a sparse row.
    template <class T>
    [[nodiscard]] T scale_of(std::size_t row, std::size_t column) const noexcept {
        return rate_.scale_of<T>(key_.with(rows_[row]), column);
    }

private:
    static constexpr std::size_t block = 64; // columns

    /// Columns `first` …, at most `block`. Random words, their quarters and the products are separate loops, which
    /// compilers vectorize, also if `in` is `out`: a branch on each bit took 25 ns per word, half of a training step.
    template <class T>
    void apply_block(
        const random_key& key, std::size_t first, const T* in, T* out, std::size_t columns) const noexcept {
        std::uint64_t word[block / 4];
        std::uint16_t quarter[block];
        T x[block];
        const std::size_t words = ceil_div(columns, std::size_t{4});
        for (std::size_t w = 0; w < words; ++w) word[w] = key[first / 4 + w];
        for (std::size_t w = 0; w < words; ++w)
            for (std::size_t lane = 0; lane < 4; ++lane) quarter[4 * w + lane] = dropout_rate::quarter(word[w], lane);
        const T scale = rate_.factor<T>();
        for (std::size_t c = 0; c < columns; ++c) x[c] = scale * in[c];
        for (std::size_t c = 0; c < columns; ++c) x[c] = rate_.kept(quarter[c]) ? x[c] : T{0};
        std::memcpy(out, x, columns * sizeof(T));
    }

    random_key key_;
    logical_rows rows_;
    dropout_rate rate_;
};

} // namespace gneiss
