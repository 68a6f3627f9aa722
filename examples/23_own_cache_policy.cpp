// A custom cache policy: first in, first out. It sees only ids; rows follow. `cached_features` takes it as an
// any_cache_policy.
#include <gneiss/cache/concepts.hpp>

#include <cstdio>
#include <deque>
#include <unordered_set>
#include <vector>

#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/random.hpp>
using namespace gneiss;

//! [policy]
class fifo {
public:
    explicit fifo(std::size_t capacity) : capacity_(capacity) {}

    std::size_t capacity() const { return capacity_; }
    std::span<const node_id> initial() const { return {}; } // contents before the first batch

    /// Changes after a batch is gathered: each id that enters is in the batch and replaces one that leaves.
    void next(std::span<const node_id> ids, change_set& out) {
        out.clear();
        for (std::size_t i = 0; i < ids.size() && out.in.size() < capacity_; ++i) {
            if (held_.contains(ids[i])) continue;
            out.in.push_back(ids[i]);
            out.in_position.push_back(static_cast<std::uint32_t>(i));
        }
        for (std::size_t full = order_.size() + out.in.size(); full > capacity_; --full) {
            out.out.push_back(order_.front());
            held_.erase(order_.front());
            order_.pop_front();
        }
        for (const node_id id : out.in) order_.push_back(id), held_.insert(id);
    }

private:
    std::size_t capacity_;
    std::deque<node_id> order_;
    std::unordered_set<node_id> held_;
};
static_assert(cache_policy<fifo>);
//! [policy]

int main() {
    constexpr std::size_t nodes = 1000, capacity = 200;
    memory_trace trace; // accesses of 50 batches: small ids are more frequent
    random_stream random(random_key(1, random_domain::user));
    for (int batch = 0; batch < 50; ++batch) {
        std::vector<node_id> ids;
        for (node_id id = 0; id < nodes; ++id)
            if (random.below(id + 20) < 10) ids.push_back(id);
        trace.append(ids);
    }
    fifo policy(capacity);
    const cache_counts counts = simulate(policy, trace);
    std::printf("%.3f of the rows are read\n", counts.miss_ratio());
    return counts.hits > 0 ? 0 : 1;
}
