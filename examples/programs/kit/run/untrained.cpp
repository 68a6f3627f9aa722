// SPDX-License-Identifier: Apache-2.0
#include "kit/run/untrained.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "kit/cli/terminal.hpp"
#include "kit/run/link_evaluation.hpp"

namespace trainers {

namespace {

/// Some ids, and which of them were seen.
template <class Id>
class awaited {
public:
    explicit awaited(std::vector<Id> ids) : ids_(std::move(ids)) {
        std::ranges::sort(ids_);
        ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
        seen_.resize(ids_.size());
        left_ = ids_.size();
    }
    void see(Id id) {
        if (left_ == 0) return;
        const auto at = std::ranges::lower_bound(ids_, id);
        if (at == ids_.end() || *at != id || seen_[static_cast<std::size_t>(at - ids_.begin())]) return;
        seen_[static_cast<std::size_t>(at - ids_.begin())] = true;
        --left_;
    }
    [[nodiscard]] std::size_t left() const noexcept { return left_; }
    /// Warns of those that were not seen, if there are any.
    void warn(const std::string& from, const char* what, const std::function<std::string(Id)>& name) const {
        constexpr std::size_t most = 5;
        if (left_ == 0) return;
        std::string names;
        for (std::size_t i = 0, shown = 0; i < ids_.size() && shown < most; ++i)
            if (!seen_[i]) names += fmt::format("{}'{}'", shown++ == 0 ? "" : ", ", name(ids_[i]));
        programs::print_warning(fmt::format("{} of {} {} of {} have no training edge, so their embeddings are "
                                            "untrained and their scores arbitrary: {}{}",
            left_, ids_.size(), what, from, names, left_ > most ? ", …" : ""));
    }

private:
    std::vector<Id> ids_;
    std::vector<bool> seen_;
    std::size_t left_ = 0;
};

} // namespace

void warn_of_untrained(const gneiss::dataset& data, const gneiss::bucket_store& buckets, const std::string& from,
    std::vector<gneiss::node_id> nodes, std::vector<gneiss::relation_id> relations, const std::stop_token& stop) {
    awaited<gneiss::node_id> of_nodes(std::move(nodes));
    awaited<gneiss::relation_id> of_relations(std::move(relations));
    training_scan(buckets, stop)([&](std::span<const gneiss::edge> edges) {
        if (of_nodes.left() + of_relations.left() == 0) return;
        for (const gneiss::edge& e : edges) {
            of_nodes.see(e.source);
            of_nodes.see(e.destination);
            of_relations.see(e.relation);
        }
    });
    of_nodes.warn(from, "nodes", [&](gneiss::node_id v) { return data.node_label(v); });
    of_relations.warn(from, "relations", [&](gneiss::relation_id r) { return data.relation_label(r); });
}

void warn_of_untrained_edges(const gneiss::dataset& data, const gneiss::bucket_store& buckets, const std::string& split,
    bool learned, const std::stop_token& stop) {
    const gneiss::mapped_edges all = data.split(split);
    std::vector<gneiss::node_id> nodes;
    std::vector<gneiss::relation_id> relations;
    for (const gneiss::edge& e : all.edges()) {
        if (learned) nodes.insert(nodes.end(), {e.source, e.destination});
        relations.push_back(e.relation);
    }
    warn_of_untrained(data, buckets, "the " + split + " edges", std::move(nodes), std::move(relations), stop);
}

} // namespace trainers
