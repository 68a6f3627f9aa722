// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// Priority queue of nodes by gain, highest first; the order of equal gains is fixed by history. An indexed heap.
/// O(log) per change; 4 bytes per node and 16 per entry.
class gain_queue {
public:
    explicit gain_queue(std::size_t nodes) : place_(nodes) {}

    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    [[nodiscard]] bool contains(node_id v) const noexcept { return place_[v] != 0; }
    [[nodiscard]] node_id top() const noexcept { return heap_.front().node; }
    [[nodiscard]] std::int64_t top_gain() const noexcept { return heap_.front().gain; }
    [[nodiscard]] std::int64_t gain(node_id v) const noexcept { return heap_[place_[v] - 1].gain; }

    /// Inserts `v`, or changes its gain.
    void push(node_id v, std::int64_t gain) {
        if (place_[v] == 0) {
            heap_.push_back({gain, v});
            up(heap_.size() - 1, {gain, v});
        } else {
            const std::size_t at = place_[v] - 1;
            if (gain > heap_[at].gain)
                up(at, {gain, v});
            else
                down(at, {gain, v});
        }
    }
    node_id pop() {
        const node_id v = top();
        erase(v);
        return v;
    }
    void erase(node_id v) {
        const std::size_t at = place_[v] - 1;
        place_[v] = 0;
        const entry last = heap_.back();
        heap_.pop_back();
        if (at == heap_.size()) return;
        if (last.gain > heap_[at].gain)
            up(at, last);
        else
            down(at, last);
    }
    void clear() noexcept {
        for (const entry& e : heap_) place_[e.node] = 0;
        heap_.clear();
    }

private:
    struct entry {
        std::int64_t gain;
        node_id node;
    };
    void put(std::size_t at, const entry& e) noexcept {
        heap_[at] = e;
        place_[e.node] = static_cast<std::uint32_t>(at + 1);
    }
    void up(std::size_t at, const entry& e) noexcept {
        while (at != 0 && heap_[(at - 1) / 4].gain < e.gain) {
            put(at, heap_[(at - 1) / 4]);
            at = (at - 1) / 4;
        }
        put(at, e);
    }
    void down(std::size_t at, const entry& e) noexcept {
        for (;;) {
            std::size_t child = 4 * at + 1;
            if (child >= heap_.size()) break;
            const std::size_t end = child + 4 < heap_.size() ? child + 4 : heap_.size();
            for (std::size_t i = child + 1; i < end; ++i)
                if (heap_[i].gain > heap_[child].gain) child = i;
            if (heap_[child].gain <= e.gain) break;
            put(at, heap_[child]);
            at = child;
        }
        put(at, e);
    }

    std::vector<entry> heap_;
    std::vector<std::uint32_t> place_; // [nodes] 1 + position in the heap; 0: not in it
};

} // namespace gneiss::detail
