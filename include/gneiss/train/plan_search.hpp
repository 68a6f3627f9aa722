// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gneiss {

/// Variables of a training plan, which a search chooses.
struct plan_choice {
    std::uint32_t partitions = 1;
    std::uint32_t slots = 1;       ///< partitions per state
    bool in_memory = true;         ///< all rows are resident
    std::string order{};           ///< of the states
    std::string prefetch = "auto"; ///< slots to load ahead: a number, "off", or "auto"
    bool sparing = false;          ///< rows of only one batch of the largest size, so that large batches run alone
    bool tuned = false;            ///< partitions, buffer and slots ahead are those of `tune`
    bool moves = false;            ///< nodes move to other partitions between epochs

    friend bool operator==(const plan_choice&, const plan_choice&) = default;
};

/// Costs of a choice. Neither depends on the memory of the search.
struct plan_costs {
    std::function<std::uint64_t(const plan_choice&)> reads; ///< of an epoch [bytes]
    std::function<std::uint64_t(const plan_choice&)> bytes; ///< least memory of its plan
};

/// The choices open to a search.
struct plan_request {
    std::uint32_t partitions = 1;              ///< fewest
    bool more_partitions = true;               ///< also more than that
    std::uint64_t nodes = 0;                   ///< upper bound of partitions
    std::optional<std::uint32_t> buffer{};     ///< slots; absent: as many as fit
    std::uint32_t least_buffer = 2;            ///< fewest slots
    std::optional<std::uint32_t> logical{};    ///< COMET's logical partitions, two of which are resident
    std::vector<std::string> orders{};         ///< the most accurate one in front
    std::vector<std::string> prefetch{"auto"}; ///< slots to load ahead, the most in front
    std::vector<plan_choice> tuned{};          ///< choices of `tune`
    std::vector<bool> moves{false};            ///< whether nodes move to other partitions, the preferred one in front
    std::uint32_t local_partitions = 0;        ///< up to so many, nodes do not move if they need not
    std::uint64_t memory = 0;                  ///< [bytes]
    std::uint64_t tolerance = 20;              ///< a preferred plan reads at most this part more than the best one
};

/// Result of a search.
struct found_plan {
    struct candidate {
        plan_choice choice{};
        std::uint64_t reads = 0; ///< [bytes per epoch]
        std::uint64_t bytes = 0; ///< least memory
    };
    candidate best{};                     ///< that of the least memory if none fits
    bool fits = false;                    ///< `best` does
    std::optional<candidate> runner_up{}; ///< the best rejected one of another shape and the same order
};

namespace detail {

/// The search of `search_plan`.
class plan_searching {
public:
    plan_searching(const plan_request& request, const plan_costs& costs) : request_(request), costs_(costs) {}

    [[nodiscard]] found_plan operator()() {
        for (std::size_t order = 0; order < request_.orders.size(); ++order) add_order(order);
        for (plan_choice choice : request_.tuned)
            for (const bool moves : request_.moves)
                for (const bool sparing : {false, true}) {
                    choice.moves = moves;
                    choice.sparing = sparing;
                    if (may_move(choice) && fits(choice)) add(choice);
                }
        found_plan found;
        if (fitting_.empty()) {
            found.best = *least_;
            return found;
        }
        found.fits = true;
        const ranked* const best = choose();
        found.best = best->of;
        const auto shape = [](const ranked& c) {
            return std::tuple(c.of.choice.partitions, c.of.choice.slots, c.of.choice.prefetch);
        };
        for (const ranked& c : fitting_)
            if (shape(c) != shape(*best) && c.order == best->order &&
                (!found.runner_up || c.of.reads < found.runner_up->reads))
                found.runner_up = c.of;
        return found;
    }

private:
    struct ranked {
        found_plan::candidate of{};
        std::size_t order = 0;    ///< rank
        std::size_t prefetch = 0; ///< rank
        std::size_t moves = 0;    ///< rank
        /// Reads, with an eighth more for an order that is not the most accurate one.
        [[nodiscard]] std::uint64_t weight() const { return of.reads + (order == 0 ? 0 : of.reads / 8); }
        /// Smaller is better, of plans that read about the same.
        [[nodiscard]] auto rank() const {
            return std::tuple(
                of.choice.sparing, order, moves, !of.choice.tuned, of.choice.partitions, prefetch, of.reads, of.bytes);
        }
    };
    using key = std::tuple<std::uint32_t, std::uint32_t, std::string, std::string, bool, bool>;

    [[nodiscard]] std::uint64_t bytes(const plan_choice& c) {
        const auto [at, fresh] =
            bytes_.try_emplace(key{c.partitions, c.slots, c.order, c.prefetch, c.sparing, c.moves});
        if (fresh) {
            at->second = costs_.bytes(c);
            if (!least_ || at->second < least_->bytes) least_ = {c, 0, at->second};
        }
        return at->second;
    }
    [[nodiscard]] bool may_move(const plan_choice& c) const {
        return !c.moves || request_.moves.size() == 1 || c.partitions > request_.local_partitions;
    }
    [[nodiscard]] bool fits(const plan_choice& c) { return bytes(c) <= request_.memory; }
    [[nodiscard]] std::uint64_t reads(const plan_choice& c) {
        const auto [at, fresh] = reads_.try_emplace(key{c.partitions, c.slots, c.order, {}, false, false});
        if (fresh) at->second = costs_.reads(c);
        return at->second;
    }
    void add(const plan_choice& c) {
        const auto rank_in = [](const auto& all, const auto& of) {
            return static_cast<std::size_t>(std::find(all.begin(), all.end(), of) - all.begin());
        };
        ranked r{{c, reads(c), bytes(c)}, rank_in(request_.orders, c.order), 0, rank_in(request_.moves, c.moves)};
        if (!c.tuned) r.prefetch = rank_in(request_.prefetch, c.prefetch);
        fewest_ = std::min(fewest_, r.weight());
        fitting_.push_back(std::move(r));
    }

    /// Adds the choices of an order.
    void add_order(std::size_t order) {
        const std::uint32_t first = request_.partitions, usual = std::max(first, usual_partitions);
        std::uint32_t slots = 0, halfway = 0; // of the partitions before
        for (std::uint32_t p = first; p <= std::max(first, most_partitions); p *= 2) {
            const std::uint64_t before = least_ ? least_->bytes : ~std::uint64_t{0};
            slots = add_buffers(order, p, 2 * slots);
            // More partitions need less memory for rows, and more for tables: once the sum grows, it keeps growing.
            if (slots == 0 && p != first && least_->bytes >= before) return;
            if (!request_.more_partitions || p >= request_.nodes) return;
            if (p >= usual && slots >= enough_slots) return;
            halfway = p + p / 2;
            if (slots != 0 && halfway <= std::min<std::uint64_t>(usual, request_.nodes))
                add_buffers(order, halfway, slots + slots / 2);
        }
    }

    /// Adds the buffers of a number of partitions that read little. Returns the slots of the largest; 0: none fits.
    /// \param hint  slots that may fit
    std::uint32_t add_buffers(std::size_t order, std::uint32_t p, std::uint32_t hint) {
        std::uint32_t most = 0;
        for (const bool moves : request_.moves)
            for (const bool sparing : {false, true})
                for (const std::string& prefetch : request_.prefetch) {
                    const plan_choice choice{.partitions = p,
                        .in_memory = false,
                        .order = request_.orders[order],
                        .prefetch = prefetch,
                        .sparing = sparing,
                        .moves = moves};
                    if (may_move(choice)) most = std::max(most, add_buffers(choice, most == 0 ? hint : most));
                }
        return most;
    }

    /// \param hint  slots that may fit
    std::uint32_t add_buffers(plan_choice choice, std::uint32_t hint) {
        const std::uint32_t p = choice.partitions;
        const auto with = [&](std::uint32_t slots) {
            choice.slots = slots;
            return fits(choice);
        };
        if (request_.logical || request_.buffer) {
            const std::uint32_t l = request_.logical.value_or(1), given = 2 * ((p + l - 1) / l);
            if (!with(std::min(request_.logical ? given : *request_.buffer, p))) return 0;
            add(choice);
            return choice.slots;
        }
        const std::uint32_t least = std::min(request_.least_buffer, p);
        const std::uint32_t last =
            std::max(least, p > std::max(request_.partitions, usual_partitions) ? most_slots : p - 1);
        std::uint32_t low = std::clamp(hint, least, last), high = last;
        for (std::uint32_t step = 1; !with(low); step *= 2) {
            if (low == least) return 0;
            high = low - 1;
            low -= std::min(step, low - least);
        }
        for (std::uint32_t step = 1; low < high; step *= 2) { // low fits
            const std::uint32_t next = std::min(low + step, high);
            if (!with(next)) {
                high = next - 1;
                break;
            }
            low = next;
        }
        while (low < high) {
            const std::uint32_t middle = low + (high - low + 1) / 2;
            if (with(middle))
                low = middle;
            else
                high = middle - 1;
        }
        // Smaller buffers, as far as they read about as much: the choice for less memory is among them.
        std::vector<std::pair<std::uint32_t, std::uint64_t>> buffers;
        for (std::uint32_t slots = low; slots >= least; --slots) {
            choice.slots = slots;
            const std::uint64_t r = reads(choice);
            if (fewest_ != none && r > fewest_ + fewest_ / 4) break;
            if (!buffers.empty() && r > buffers.front().second + buffers.front().second / 4) break;
            buffers.emplace_back(slots, r);
        }
        for (std::size_t i = 0; i < buffers.size(); ++i) // one that a smaller one equals is of no use
            if (i + 1 == buffers.size() || buffers[i].second < buffers[i + 1].second) {
                choice.slots = buffers[i].first;
                (void)bytes(choice);
                add(choice);
            }
        return low;
    }

    /// Returns the choice for the memory. A plan that is preferred to the one with the fewest reads could read more
    /// than the choice for less memory; so choices are made for each memory that admits another plan, in turn, and
    /// none may read more than the one before.
    [[nodiscard]] const ranked* choose() const {
        std::vector<const ranked*> by_memory;
        for (const ranked& c : fitting_)
            if (c.of.reads <= fewest_ + fewest_ / 4) by_memory.push_back(&c);
        std::ranges::stable_sort(by_memory, {}, [](const ranked* c) { return c->of.bytes; });
        const ranked* chosen = nullptr;
        std::vector<const ranked*> admitted;
        for (std::size_t i = 0; i < by_memory.size(); ++i) {
            admitted.push_back(by_memory[i]);
            if (i + 1 < by_memory.size() && by_memory[i + 1]->of.bytes == by_memory[i]->of.bytes) continue;
            const std::uint64_t cap = chosen == nullptr ? none : chosen->of.reads;
            std::uint64_t fewest = none;
            for (const ranked* c : admitted)
                if (c->of.reads <= cap) fewest = std::min(fewest, c->weight());
            const ranked* next = nullptr;
            for (const ranked* c : admitted)
                if (c->of.reads <= cap && c->weight() <= fewest + fewest / request_.tolerance &&
                    (next == nullptr || c->rank() < next->rank()))
                    next = c;
            chosen = next;
        }
        return chosen;
    }

    static constexpr std::uint64_t none = ~std::uint64_t{0};
    /// Above the usual number, tables and small reads cost more than finer shares of memory save, unless a state has
    /// few partitions: buffers of more than `most_slots` are then left to half as many partitions, of which
    /// `enough_slots` read less than these.
    static constexpr std::uint32_t usual_partitions = 128, most_partitions = 4096, most_slots = 32, enough_slots = 20;
    const plan_request& request_;
    const plan_costs& costs_;
    std::map<key, std::uint64_t> bytes_, reads_;
    std::vector<ranked> fitting_;
    std::uint64_t fewest_ = none; ///< weight
    std::optional<found_plan::candidate> least_;
};

} // namespace detail

/// Searches partitions, buffer, slots ahead and order for the plan that reads few bytes an epoch within a memory.
///
/// Bytes depend on the resident share of the partitions: more partitions waste less of it by rounding, and slots to
/// load ahead reduce it. Of the plans that read at most a twentieth more than the best one, it takes one whose batches
/// have rows for more than one at once, in the most accurate order, with nodes that move, tuned, of the fewest
/// partitions, with the most slots ahead. A less accurate order is taken only if it reads over an eighth less.
///
/// More memory never gives a plan that reads more: the choices for all smaller memories come first, and bound it. Cost:
/// some hundred calls of `costs`.
[[nodiscard]] inline found_plan search_plan(const plan_request& request, const plan_costs& costs) {
    return detail::plan_searching(request, costs)();
}

} // namespace gneiss
