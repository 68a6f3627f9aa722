// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/sample/link_batch.hpp>
#include <gneiss/sample/negative.hpp>

namespace gneiss {

/// Empty source of known edges: `filtered` negatives then exclude only the positives themselves.
///
/// A source of known edges is called as `source(missing, known, relation, visit)` and calls `visit(node)` for every
/// resident true answer to (known end, relation), in any order.
struct no_known_edges {
    /// Visits nothing.
    template <class Visit>
    void operator()(side, node_id, relation_id, Visit&&) const noexcept {}
};

/// Groups equal 32-bit keys: distinct values ascending, and for each its positions, ascending.
///
/// Least significant digit radix sort of (key, position) words over the digits that occur. O(n) time and scratch, which
/// is kept between calls.
class key_grouping {
public:
    /// Throws errc::out_of_range for 2³² keys.
    void group(std::span<const std::uint32_t> keys) {
        if (keys.size() >> 32 != 0) throw error(errc::out_of_range, "2^32 keys are too many");
        words_.resize(keys.size());
        other_.resize(keys.size());
        std::uint32_t all_bits = 0;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            words_[i] = std::uint64_t{keys[i]} << 32 | i;
            all_bits |= keys[i];
        }
        for (unsigned shift = 0; shift < 32 && all_bits >> shift != 0; shift += digit_bits) {
            std::array<std::uint32_t, digits> start{};
            for (const std::uint64_t word : words_) ++start[digit(word, shift)];
            std::uint32_t total = 0;
            for (std::uint32_t& s : start) total += std::exchange(s, total);
            for (const std::uint64_t word : words_) other_[start[digit(word, shift)]++] = word;
            words_.swap(other_);
        }
        distinct_ = 0;
        for (std::size_t i = 0; i < words_.size(); ++i) distinct_ += i == 0 || key(i) != key(i - 1);
    }

    [[nodiscard]] std::size_t size() const noexcept { return words_.size(); }
    /// Returns the number of distinct keys.
    [[nodiscard]] std::size_t distinct() const noexcept { return distinct_; }

    /// Writes values [distinct], offsets [distinct + 1], positions [size], and the rank of the key at each position
    /// [size]. Throws errc::invalid_argument for outputs of other sizes.
    void write(std::span<std::uint32_t> values, std::span<std::uint32_t> offsets, std::span<std::uint32_t> positions,
        std::span<std::uint32_t> rank_of) const {
        if (values.size() != distinct_ || offsets.size() != distinct_ + 1 || positions.size() != size() ||
            rank_of.size() != size())
            throw error(errc::invalid_argument,
                "outputs of other sizes than " + std::to_string(distinct_) + " groups of " + std::to_string(size()) +
                    " keys");
        std::size_t rank = 0;
        for (std::size_t i = 0; i < words_.size(); ++i) {
            if (i == 0 || key(i) != key(i - 1)) {
                values[rank] = key(i);
                offsets[rank++] = static_cast<std::uint32_t>(i);
            }
            const auto position = static_cast<std::uint32_t>(words_[i]);
            positions[i] = position;
            rank_of[position] = static_cast<std::uint32_t>(rank - 1);
        }
        offsets[rank] = static_cast<std::uint32_t>(words_.size());
    }

private:
    static constexpr unsigned digit_bits = 11;
    static constexpr std::size_t digits = std::size_t{1} << digit_bits;

    static std::size_t digit(std::uint64_t word, unsigned shift) noexcept { return (word >> (32 + shift)) % digits; }
    [[nodiscard]] std::uint32_t key(std::size_t i) const noexcept {
        return static_cast<std::uint32_t>(words_[i] >> 32);
    }

    std::vector<std::uint64_t> words_, other_;
    std::size_t distinct_ = 0;
};

/// Builds a `link_batch` from edges: draws negatives, numbers the distinct nodes and transposes.
///
///     link_batch_builder builder({.per_chunk = 100}, seed);          // the library's negatives
///     link_batch_builder own({.per_chunk = 100}, my_negatives{});    // any `negative_source`
///
/// A batch is a pure function of (seed, key, positives, resident nodes). O(positives + negatives) time and scratch, and
/// a binary search per known true answer for filtered negatives. Scratch is kept, so the steady state does not
/// allocate: use one builder per thread.
///
/// From examples/11_negatives.cpp:
/// \snippet 11_negatives.cpp negatives
template <class Negatives = negative_sampler>
class link_batch_builder {
    static_assert(negative_source<Negatives>,
        "link_batch_builder: Negatives must be a gneiss::negative_source, see gneiss/sample/negative.hpp");

public:
    /// Throws `invalid_argument` for invalid options.
    link_batch_builder(const negative_options& options, std::uint64_t seed)
        requires std::constructible_from<Negatives, const negative_options&, std::uint64_t>
        : options_(options),
          source_(options, seed) {}
    /// Draws negatives from a source of your own.
    link_batch_builder(const negative_options& options, std::type_identity_t<Negatives> from)
        : options_(options),
          source_(std::move(from)) {
        validate(options);
    }

    [[nodiscard]] const negative_options& options() const noexcept { return options_; }

    /// Builds the batch in `arena`. The result is valid until the arena is used again, and is contained in `bytes()` of
    /// the mini-batch there. `known`: see `no_known_edges`. Throws `out_of_range` for 2³² occurrences or more, for a
    /// negative that is not resident and, where negatives are corrected, for an end of a positive that is not;
    /// `invalid_argument` for zero positives or nodes, or for lists longer than the options allow.
    template <class KnownEdges = no_known_edges>
    link_batch build(const batch_key& batch, std::span<const edge> positives, const negative_pool& resident,
        mini_batch_arena& arena, const KnownEdges& known = {}) {
        if (positives.empty()) throw error(errc::invalid_argument, "a batch needs a positive edge");
        const shape of = shape_for(positives.size(), resident);
        draw(batch, positives, resident, of);
        mask_offsets_.clear();
        mask_columns_.clear();
        if (options().filtered) mask(positives, of, known);
        corrections_.clear();
        if (corrects(resident)) correct(positives, of, resident);
        return link_batch::of(pack(batch, of, arena));
    }

private:
    struct shape {
        std::size_t positives = 0;
        std::size_t chunks = 1;
        std::size_t list = 0;
        std::vector<std::uint32_t> const* sides = nullptr;

        [[nodiscard]] std::size_t list_begin(std::size_t chunk, std::size_t s) const noexcept {
            return 2 * positives + (chunk * sides->size() + s) * list;
        }
        [[nodiscard]] std::size_t occurrences() const noexcept { return list_begin(chunks, 0); }
    };

    shape shape_for(std::size_t positives, const negative_pool& resident) {
        sides_.clear();
        if (options().sides != corrupted_sides::head) sides_.push_back(static_cast<std::uint32_t>(side::tail));
        if (options().sides != corrupted_sides::tail) sides_.push_back(static_cast<std::uint32_t>(side::head));
        constexpr std::uint64_t limit = std::numeric_limits<std::uint32_t>::max();
        const std::uint64_t list = source_.list_size(resident),
                            most = options().all ? resident.size() : options().per_chunk;
        if (list > most || (list == 0 && most != 0))
            throw error(errc::invalid_argument,
                "lists of " + std::to_string(list) + " negatives, where the options allow 1 to " +
                    std::to_string(most));
        const std::size_t chunks =
            options().all ? 1 : std::min<std::size_t>(with_chunks(options(), positives).chunks, positives);
        if (positives > limit / 4 || list > limit / 4 / chunks / sides_.size())
            throw error(errc::out_of_range, "too many positives or negatives for one batch");
        return {positives, chunks, static_cast<std::size_t>(list), &sides_};
    }

    void draw(const batch_key& batch, std::span<const edge> positives, const negative_pool& resident, const shape& of) {
        ids_.resize(of.occurrences());
        relations_.resize(of.positives);
        for (std::size_t i = 0; i < of.positives; ++i) {
            ids_[i] = positives[i].source;
            ids_[of.positives + i] = positives[i].destination;
            relations_[i] = positives[i].relation;
        }
        for (std::size_t c = 0; c < of.chunks; ++c) {
            const std::size_t begin = c * of.positives / of.chunks, end = (c + 1) * of.positives / of.chunks;
            for (std::size_t s = 0; s < sides_.size(); ++s)
                detail::draw_resident(source_, batch, c, static_cast<side>(sides_[s]),
                    positives.subspan(begin, end - begin), resident, list(of, c, s));
        }
        if (corrects(resident)) // sort by partition
            for (std::size_t c = 0; c < of.chunks; ++c)
                for (std::size_t s = 0; s < sides_.size(); ++s) std::ranges::sort(list(of, c, s));
    }

    [[nodiscard]] bool corrects(const resident_nodes& resident) const noexcept {
        return options().log_q_correction.value_or(false) && resident.ranges().size() < resident.partitions();
    }
    std::span<node_id> list(const shape& of, std::size_t chunk, std::size_t s) noexcept {
        return std::span(ids_).subspan(of.list_begin(chunk, s), of.list);
    }

    /// Fills corrections_ [|sides| · B]. O(log negatives) per query.
    void correct(std::span<const edge> positives, const shape& of, const resident_nodes& resident) {
        const std::size_t present = resident.ranges().size();
        const log_q_terms one = log_q_correction_of(present, resident.partitions(), 1);
        const log_q_terms two = log_q_correction_of(present, resident.partitions(), 2);
        corrections_.resize(sides_.size() * of.positives);
        for (std::size_t s = 0; s < sides_.size(); ++s)
            for (std::size_t c = 0; c < of.chunks; ++c) {
                const auto columns = list(of, c, s);
                const auto column = [&](std::uint64_t id) {
                    return static_cast<std::uint32_t>(std::ranges::lower_bound(columns, id) - columns.begin());
                };
                for (std::size_t i = c * of.positives / of.chunks; i < (c + 1) * of.positives / of.chunks; ++i) {
                    const id_range &head = resident.range_of(positives[i].source),
                                   &tail = resident.range_of(positives[i].destination);
                    negative_correction& result = corrections_[s * of.positives + i];
                    const log_q_terms& by = &head == &tail ? one : two;
                    result = {column(head.begin), column(head.end), 0, 0, by.own, by.positive};
                    if (&head != &tail) result.tail_begin = column(tail.begin), result.tail_end = column(tail.end);
                }
            }
    }

    /// Fills mask_offsets_ [|sides| · B + 1] and mask_columns_.
    template <class KnownEdges>
    void mask(std::span<const edge> positives, const shape& of, const KnownEdges& known) {
        mask_offsets_.assign(1, 0);
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            const auto missing = static_cast<side>(sides_[s]);
            for (std::size_t c = 0; c < of.chunks; ++c) {
                columns_.resize(of.list);
                for (std::size_t j = 0; j < of.list; ++j)
                    columns_[j] = std::uint64_t{ids_[of.list_begin(c, s) + j]} << 32 | j;
                if (!std::is_sorted(columns_.begin(), columns_.end())) std::sort(columns_.begin(), columns_.end());
                const auto add = [this](node_id node) {
                    const std::uint64_t first = std::uint64_t{node} << 32;
                    for (auto at = std::lower_bound(columns_.begin(), columns_.end(), first);
                        at != columns_.end() && *at >> 32 == node; ++at)
                        mask_columns_.push_back(static_cast<std::uint32_t>(*at));
                };
                for (std::size_t i = c * of.positives / of.chunks; i < (c + 1) * of.positives / of.chunks; ++i) {
                    const edge& e = positives[i];
                    const node_id given = missing == side::tail ? e.source : e.destination;
                    const node_id answer = missing == side::tail ? e.destination : e.source;
                    add(answer);
                    known(missing, given, e.relation, [&](node_id node) {
                        if (node != answer) add(node);
                    });
                    mask_offsets_.push_back(mask_columns_.size());
                }
            }
        }
    }

    mini_batch pack(const batch_key& batch, const shape& of, mini_batch_arena& arena) {
        nodes_.group(ids_);
        related_.group(relations_);
        const auto words = [](std::size_t count) { return mini_batch::array_bytes(count, sizeof(std::uint32_t)); };
        const std::size_t bytes = mini_batch::header_bytes() + words(2) + words(sides_.size()) +
            words(nodes_.distinct()) + words(nodes_.distinct() + 1) + words(ids_.size()) + words(2 * of.positives) +
            2 * words(of.positives) + words(ids_.size()) + words(related_.distinct()) + words(related_.distinct() + 1) +
            2 * words(of.positives) + words(2 * mask_offsets_.size()) + words(mask_columns_.size()) +
            mini_batch::array_bytes(corrections_.size(), sizeof(negative_correction));
        mini_batch result = mini_batch::format(arena.reserve(bytes), batch);
        const auto shape_words = result.add<std::uint32_t>("shape", 2);
        shape_words[0] = static_cast<std::uint32_t>(of.chunks);
        shape_words[1] = static_cast<std::uint32_t>(of.list);
        copy(sides_, result.add<std::uint32_t>("sides", sides_.size()));

        rank_of_.resize(ids_.size());
        const auto nodes = result.add<node_id>("nodes", nodes_.distinct());
        const auto node_offsets = result.add<std::uint32_t>("node_offsets", nodes_.distinct() + 1);
        nodes_.write(nodes, node_offsets, result.add<std::uint32_t>("node_occurrences", ids_.size()), rank_of_);
        const std::span<const std::uint32_t> ranks(rank_of_);
        copy(ranks.first(of.positives), result.add<std::uint32_t>("heads", of.positives));
        copy(ranks.subspan(of.positives, of.positives), result.add<std::uint32_t>("tails", of.positives));
        const auto negatives = ranks.subspan(2 * of.positives);
        copy(negatives, result.add<std::uint32_t>("negatives", negatives.size()));

        const auto values = result.add<relation_id>("relations", related_.distinct());
        const auto offsets = result.add<std::uint32_t>("relation_offsets", related_.distinct() + 1);
        const auto occurrences = result.add<std::uint32_t>("relation_occurrences", of.positives);
        related_.write(values, offsets, occurrences, result.add<std::uint32_t>("relation_of", of.positives));

        copy(mask_offsets_, result.add<std::uint64_t>("mask_offsets", mask_offsets_.size()));
        copy(mask_columns_, result.add<std::uint32_t>("mask_columns", mask_columns_.size()));
        copy(corrections_, result.add<negative_correction>("corrections", corrections_.size()));
        return result;
    }

    template <class From, class T>
    static void copy(const From& from, std::span<T> to) {
        std::copy(from.begin(), from.end(), to.begin());
    }

    negative_options options_;
    Negatives source_;
    std::vector<std::uint32_t> sides_, ids_, relations_, rank_of_, mask_columns_;
    std::vector<std::uint64_t> columns_, mask_offsets_;
    std::vector<negative_correction> corrections_;
    key_grouping nodes_, related_;
};

/// Deduces the type of the source.
template <class Negatives>
    requires std::is_class_v<Negatives>
link_batch_builder(const negative_options&, Negatives) -> link_batch_builder<Negatives>;

} // namespace gneiss
