// SPDX-License-Identifier: Apache-2.0
#include "arrow_edges.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace gneiss_python {

namespace nb = nanobind;

namespace {

constexpr std::size_t piece_bytes = std::size_t{256} << 10, longest_head = std::size_t{4} << 20;

} // namespace

/// Reads the text from its start.
class arrow_edges::reader final : public gneiss::importing::byte_source {
public:
    explicit reader(arrow_edges& from) : from_(&from) {
        if (from.taken_)
            throw gneiss::error(gneiss::errc::unsupported, "was read already: a stream can be read once",
                {.path = from.stream_.label()});
    }

    std::size_t read(char* data, std::size_t size) override {
        if (!beyond_ && place_ == from_->head_.size()) continue_head();
        if (beyond_ && place_ == piece_.size()) {
            piece_.clear();
            place_ = 0;
            from_->make(piece_);
        }
        const std::string& text = beyond_ ? piece_ : from_->head_;
        const std::size_t count = std::min(size, text.size() - place_);
        std::memcpy(data, text.data() + place_, count);
        place_ += count;
        return count;
    }

private:
    /// Makes text after the head: it is kept there, unless the head is full.
    void continue_head() {
        if (from_->head_.size() < longest_head) return from_->make(from_->head_);
        from_->taken_ = beyond_ = true;
        place_ = 0;
    }

    arrow_edges* from_;
    std::size_t place_ = 0; ///< in the head, then in the piece
    std::string piece_;
    bool beyond_ = false;
};

arrow_edges::arrow_edges(const nb::object& source, const std::vector<std::string>& columns, const std::string& label)
    : stream_(source, label) {
    const std::vector<arrow_column>& all = stream_.columns();
    for (const std::string& name : columns) columns_.push_back(stream_.find(name));
    for (std::size_t i = 0; columns.empty() && i < all.size(); ++i) columns_.push_back(i);
    if (columns_.size() != 2 && columns_.size() != 3)
        throw gneiss::error(gneiss::errc::invalid_format,
            "has " + std::to_string(columns_.size()) +
                " columns: edges have head and tail, or head, relation and tail: name them by columns=[…]",
            {.path = label});
    for (const std::size_t column : columns_)
        if (const arrow_kind kind = all[column].type.kind; kind != arrow_kind::integer && kind != arrow_kind::text)
            throw stream_.wrong(column, "is " + all[column].type.name + ": edges are integers or text");
    integers_ =
        all[columns_.front()].type.kind == arrow_kind::integer && all[columns_.back()].type.kind == arrow_kind::integer;
}

gneiss::import_source arrow_edges::source(gneiss::edge_split split) {
    std::random_device random;
    std::string unique; // no later call has the same edges
    for (int i = 0; i < 4; ++i) unique += std::to_string(random()) + "-";
    return {.path = stream_.label(),
        .split = split,
        .open = [this] { return std::make_unique<reader>(*this); },
        .fingerprint = unique,
        .once = true};
}

void arrow_edges::make(std::string& text) {
    const std::size_t begin = text.size();
    while (!ended_ && text.size() - begin < piece_bytes) {
        if (row_ == rows_) {
            ended_ = !stream_.next(columns_);
            row_ = 0;
            rows_ = ended_ ? 0 : stream_.rows();
            continue;
        }
        for (const std::size_t column : columns_) {
            stream_.append_text(text, column, row_);
            text += '\t';
        }
        text.back() = '\n';
        ++row_;
    }
}

} // namespace gneiss_python
