// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/frame.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Question of a batch worker for the owner of some nodes: which neighbors do they draw at a hop? It is of a group of
/// batches of one round, so that a hop of the group is one message to each owner.
struct hop_question {
    frame_id id{};                          ///< run and round; the first batch of the group
    std::uint32_t hop = 0;                  ///< from 0 at the seeds
    std::span<const std::uint64_t> batches; ///< [b] their numbers within the round
    std::span<const std::uint32_t> offsets; ///< [b + 1] into `nodes`, from 0
    std::span<const node_id> nodes;         ///< of one batch after another
};

/// Answer of an owner: the draws of each node, in the order of the question.
struct hop_answer {
    frame_id id{};                            ///< of the question
    std::uint32_t hop = 0;                    ///< of the question
    std::span<const std::uint32_t> offsets;   ///< [nodes + 1] into the other arrays, from 0
    std::span<const node_id> neighbors;       ///< [edges] ids
    std::span<const relation_id> relations{}; ///< [edges], or empty
    std::span<const edge_index> edge_ids{};   ///< [edges], or empty
};

/// Question for feature rows.
struct row_question {
    frame_id id{};                  ///< run and round; the first batch of the group
    std::span<const node_id> nodes; ///< each once
};

/// Answer of an owner: rows in the order of the question, dense or sparse.
struct row_answer {
    frame_id id{};                            ///< of the question
    std::span<const float> dense{};           ///< [nodes · columns], or empty
    std::span<const std::uint64_t> offsets{}; ///< [nodes + 1] of sparse rows, from 0; empty: rows are dense
    std::span<const std::uint32_t> columns{}; ///< [entries]
    std::span<const float> values{};          ///< [entries], or empty: all are 1
};

/// A message to an owner, or from one.
struct owner_message {
    std::uint32_t owner = 0;                ///< batch worker
    std::span<const std::byte> bytes;       ///< aligned to `mini_batch::alignment`
    std::shared_ptr<const void> keeps = {}; ///< keeps the bytes; null: valid until the owner is asked again
};
/// Sends questions to different owners at once, and returns their answers in the order of the questions.
using ask_owners = std::function<std::vector<owner_message>(std::span<const owner_message> questions)>;

namespace detail {

enum class message_kind : std::uint32_t { hop_question = 1, hop_answer, row_question, row_answer };

struct message_header {
    static constexpr std::uint64_t magic_number = 0x3167736d7261736fULL; // "osarmsg1"
    static constexpr std::uint32_t current_version = 1;

    std::uint64_t magic = magic_number;
    std::uint32_t version = current_version;
    message_kind kind{};
    std::uint64_t bytes = 0; ///< of the message
    frame_id id{};
    std::uint64_t hop = 0;
    std::array<std::uint64_t, 4> counts{}; ///< elements of the arrays
    std::array<std::uint64_t, 3> reserved{};
    std::uint64_t sum = 0; ///< XXH3 of the bytes after the header, seeded with that of the header before this field

    [[nodiscard]] std::uint64_t sum_of(std::span<const std::byte> body) const noexcept {
        return checksum(body, checksum(std::as_bytes(std::span(this, 1)).first(offsetof(message_header, sum))));
    }
};
static_assert(std::is_trivially_copyable_v<message_header> && sizeof(message_header) % mini_batch::alignment == 0 &&
    std::has_unique_object_representations_v<message_header>); // no padding, which the checksum would cover

/// Writes a message with its arrays, each aligned, in `arena`. O(bytes).
template <class... T>
[[nodiscard]] std::span<const std::byte> write_message(
    mini_batch_arena& arena, message_header head, std::span<const T>... arrays) {
    head.bytes = sizeof head + (std::size_t{0} + ... + mini_batch::array_bytes(arrays.size(), sizeof(T)));
    head.counts = {arrays.size()...};
    const std::span<std::byte> to = arena.reserve(static_cast<std::size_t>(head.bytes)).first(head.bytes);
    std::size_t at = sizeof head;
    const auto add = [&](std::span<const std::byte> array) {
        const std::size_t padded = round_up(array.size(), mini_batch::alignment);
        std::ranges::copy(array, to.begin() + static_cast<std::ptrdiff_t>(at));
        std::ranges::fill(to.subspan(at + array.size(), padded - array.size()), std::byte{0});
        at += padded;
    };
    (add(std::as_bytes(arrays)), ...);
    head.sum = head.sum_of(to.subspan(sizeof head));
    std::memcpy(to.data(), &head, sizeof head);
    return to;
}

/// Reads a message of a run, whose arrays stay in `bytes`. Nothing of the bytes is believed. Throws
/// - errc::invalid_argument for memory that is not aligned to `mini_batch::alignment`;
/// - errc::invalid_format for other bytes, another kind of message, or a truncated one;
/// - errc::version_mismatch for a message of another version;
/// - errc::config_mismatch for one of another run;
/// - errc::corrupt for bytes that do not match the checksum, or arrays that do not fill them.
template <class... T>
[[nodiscard]] message_header read_message(
    std::span<const std::byte> bytes, message_kind kind, std::uint64_t run, std::span<const T>&... arrays) {
    message_header head;
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % mini_batch::alignment != 0)
        throw error(errc::invalid_argument, "a message of an owner needs aligned memory");
    if (bytes.size() < sizeof head) throw error(errc::invalid_format, "these bytes are no message of an owner");
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.magic != message_header::magic_number)
        throw error(errc::invalid_format, "these bytes are no message of an owner");
    if (head.version != message_header::current_version)
        throw error(errc::version_mismatch,
            "a message of version " + std::to_string(head.version) + ", this is version " +
                std::to_string(message_header::current_version));
    if (head.bytes != bytes.size())
        throw error(errc::invalid_format,
            "a message of " + std::to_string(head.bytes) + " bytes came as " + std::to_string(bytes.size()));
    if (head.sum != head.sum_of(bytes.subspan(sizeof head)))
        throw error(errc::corrupt, "a message for " + to_string(head.id.key) + " does not match its checksum");
    if (head.kind != kind)
        throw error(errc::invalid_format, "a message for " + to_string(head.id.key) + " is of another kind");
    if (head.id.run != run)
        throw error(errc::config_mismatch,
            "a message for " + to_string(head.id.key) + " belongs to another run: its dataset, plan or options differ");
    std::size_t next = 0;
    std::uint64_t at = sizeof head;
    const auto take = [&]<class A>(std::span<const A>& array) {
        const std::uint64_t count = head.counts[next++],
                            room = bytes.size() - std::min<std::uint64_t>(at, bytes.size());
        if (count > room / sizeof(A)) throw error(errc::corrupt, "an array of a message reaches beyond it");
        array = {reinterpret_cast<const A*>(bytes.data() + at), static_cast<std::size_t>(count)};
        at += mini_batch::array_bytes(static_cast<std::size_t>(count), sizeof(A));
    };
    (take(arrays), ...);
    if (at != bytes.size()) throw error(errc::corrupt, "the arrays of a message do not fill it");
    return head;
}

/// Throws errc::corrupt unless offsets [count + 1] ascend from 0 to `end`.
template <class T>
void check_offsets(std::span<const T> offsets, std::size_t count, std::uint64_t end) {
    if (offsets.size() != count + 1 || offsets.front() != 0 || offsets.back() != end ||
        !std::ranges::is_sorted(offsets))
        throw error(errc::corrupt, "the offsets of a message do not match its arrays");
}

/// Returns what `read` makes of the answer of an owner, which its errors name.
template <class Read>
[[nodiscard]] auto read_from(std::uint32_t owner, const Read& read) {
    try {
        return read();
    } catch (const error& e) {
        throw error(e.code(), "the answer of batch worker " + std::to_string(owner) + ": " + e.what());
    }
}

/// Throws errc::config_mismatch unless an answer is that to a question.
inline void check_answer(const message_header& head, const frame_id& id, std::uint64_t hop) {
    if (head.id != id || head.hop != hop)
        throw error(errc::config_mismatch,
            "an answer for " + to_string(head.id.key) + " came in the place of one for " + to_string(id.key));
}

} // namespace detail

// Messages in `arena`, whose memory they use until it is used again. Throw `mini_batch_arena::full`. O(bytes).

[[nodiscard]] inline std::span<const std::byte> write_message(const hop_question& from, mini_batch_arena& arena) {
    return detail::write_message(arena, {.kind = detail::message_kind::hop_question, .id = from.id, .hop = from.hop},
        from.batches, from.offsets, from.nodes);
}
[[nodiscard]] inline std::span<const std::byte> write_message(const hop_answer& from, mini_batch_arena& arena) {
    return detail::write_message(arena, {.kind = detail::message_kind::hop_answer, .id = from.id, .hop = from.hop},
        from.offsets, from.neighbors, from.relations, from.edge_ids);
}
[[nodiscard]] inline std::span<const std::byte> write_message(const row_question& from, mini_batch_arena& arena) {
    return detail::write_message(arena, {.kind = detail::message_kind::row_question, .id = from.id}, from.nodes);
}
[[nodiscard]] inline std::span<const std::byte> write_message(const row_answer& from, mini_batch_arena& arena) {
    return detail::write_message(arena, {.kind = detail::message_kind::row_answer, .id = from.id}, from.dense,
        from.offsets, from.columns, from.values);
}

/// True for a question for rows, false for one for draws, or for other bytes.
[[nodiscard]] inline bool asks_for_rows(std::span<const std::byte> message) noexcept {
    detail::message_header head;
    if (message.size() < sizeof head) return false;
    std::memcpy(&head, message.data(), sizeof head);
    return head.kind == detail::message_kind::row_question;
}

/// Reads a question of a run. Errors: those of `detail::read_message`; errc::corrupt for lists that contradict each
/// other. Nodes are not checked.
[[nodiscard]] inline hop_question read_hop_question(std::span<const std::byte> bytes, std::uint64_t run) {
    hop_question result;
    const auto head = detail::read_message(
        bytes, detail::message_kind::hop_question, run, result.batches, result.offsets, result.nodes);
    detail::check_offsets(result.offsets, result.batches.size(), result.nodes.size());
    if (head.hop >> 32 != 0) throw error(errc::corrupt, "a message of an impossible hop");
    result.id = head.id;
    result.hop = static_cast<std::uint32_t>(head.hop);
    return result;
}
/// Reads the answer to a question, of which the neighbors are not checked. Errors: as above; errc::config_mismatch for
/// an answer to another question.
[[nodiscard]] inline hop_answer read_hop_answer(std::span<const std::byte> bytes, const hop_question& to) {
    hop_answer result;
    const auto head = detail::read_message(bytes, detail::message_kind::hop_answer, to.id.run, result.offsets,
        result.neighbors, result.relations, result.edge_ids);
    detail::check_answer(head, to.id, to.hop);
    detail::check_offsets(result.offsets, to.nodes.size(), result.neighbors.size());
    for (const std::size_t count : {result.relations.size(), result.edge_ids.size()})
        if (count != 0 && count != result.neighbors.size())
            throw error(errc::corrupt, "the columns of a message do not match its edges");
    result.id = head.id;
    result.hop = to.hop;
    return result;
}
/// Reads a question for rows. Nodes are not checked.
[[nodiscard]] inline row_question read_row_question(std::span<const std::byte> bytes, std::uint64_t run) {
    row_question result;
    result.id = detail::read_message(bytes, detail::message_kind::row_question, run, result.nodes).id;
    return result;
}
/// Returns the id of a question of a run, which names the round that it is about. O(bytes). Errors: as above.
[[nodiscard]] inline frame_id read_question_id(std::span<const std::byte> bytes, std::uint64_t run) {
    return asks_for_rows(bytes) ? read_row_question(bytes, run).id : read_hop_question(bytes, run).id;
}
/// Reads the answer to a question for rows of `columns` values; 0: sparse ones. Errors: as above.
[[nodiscard]] inline row_answer read_row_answer(
    std::span<const std::byte> bytes, const row_question& to, std::uint64_t columns) {
    row_answer result;
    const auto head = detail::read_message(bytes, detail::message_kind::row_answer, to.id.run, result.dense,
        result.offsets, result.columns, result.values);
    detail::check_answer(head, to.id, 0);
    if (columns != 0) {
        if (result.dense.size() != to.nodes.size() * columns || !result.offsets.empty() || !result.columns.empty() ||
            !result.values.empty())
            throw error(errc::corrupt, "a message has rows of another size");
    } else {
        detail::check_offsets(result.offsets, to.nodes.size(), result.columns.size());
        if (!result.dense.empty() || (!result.values.empty() && result.values.size() != result.columns.size()))
            throw error(errc::corrupt, "a message has rows of another size");
    }
    result.id = head.id;
    return result;
}

} // namespace gneiss
