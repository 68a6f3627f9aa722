// SPDX-License-Identifier: Apache-2.0
#include "kit/run/candidate_file.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/npz.hpp>
#include <gneiss/io/npy_header.hpp>
#include <gneiss/io/npy_integers.hpp>

#include "kit/report/run_directory.hpp"

namespace trainers {

class candidate_file::listing {
public:
    virtual ~listing() = default;
    [[nodiscard]] virtual std::uint64_t size(std::size_t position, gneiss::side target_side) const = 0;
    virtual void read(std::size_t first, std::size_t count, const gneiss::candidate_visitor& visit) const = 0;
    [[nodiscard]] virtual std::uint64_t bytes() const = 0;
};

namespace {

constexpr std::array ends{gneiss::side::head, gneiss::side::tail};

/// Throws over_budget if a list of candidates takes more than `memory`.
void check_memory(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t memory) {
    if (bytes > memory) throw gneiss::over_budget(memory, {{"edges and the longest list of " + path.string(), bytes}});
}

/// Maps a dataset's source ids or names to nodes and relations.
class source_ids {
public:
    explicit source_ids(const gneiss::dataset& data) : data_(data) { data.verify_labels(); }

    // Calls `place` for the error if no node has that name.
    template <class Place>
    [[nodiscard]] gneiss::node_id node(std::string_view name, Place&& place) const {
        if (const auto row = data_.find_row(name)) return static_cast<gneiss::node_id>(*row);
        throw gneiss::error(gneiss::errc::not_found, fmt::format("no node is called '{}'", name), place());
    }
    template <class Place>
    [[nodiscard]] gneiss::node_id node(std::int64_t number, Place&& place) const {
        if (data_.manifest().ids == gneiss::dataset_ids::integer && number >= 0)
            if (const auto row = data_.row_of(static_cast<std::uint64_t>(number)))
                return static_cast<gneiss::node_id>(*row);
        return node(std::to_string(number), place);
    }
    template <class Place>
    [[nodiscard]] gneiss::relation_id relation(std::string_view name, Place&& place) const {
        if (name.empty() && !several_relations()) return 0;
        if (const auto id = data_.find_relation(name)) return static_cast<gneiss::relation_id>(*id);
        throw gneiss::error(gneiss::errc::not_found, fmt::format("no relation is called '{}'", name), place());
    }
    [[nodiscard]] bool several_relations() const { return data_.manifest().relations > 1; }

    /// Throws an error about edges without candidates; `e` is one of them.
    [[noreturn]] void refuse_missing(
        const gneiss::edge& e, std::size_t missing, std::size_t edges, const std::filesystem::path& path) const {
        throw gneiss::error(gneiss::errc::not_found,
            fmt::format("has no candidates for {} of the {} edges that are ranked: {}  {}  {}{}", missing, edges,
                data_.node_label(e.source), data_.relation_label(e.relation), data_.node_label(e.destination),
                missing > 1 ? ", and others" : ""),
            {.path = path});
    }

private:
    const gneiss::dataset& data_;
};

/// Limits the page cache of a file that is read at random to some MiB.
class page_cache_limit {
public:
    explicit page_cache_limit(const gneiss::plain_file& file) : file_(file), size_(file.size()) {}
    page_cache_limit(const page_cache_limit&) = delete;
    page_cache_limit& operator=(const page_cache_limit&) = delete;
    ~page_cache_limit() { file_.drop_cached(0, size_); }

    void add(std::uint64_t bytes) {
        read_ += bytes;
        if (read_ < (std::uint64_t{8} << 20)) return;
        file_.drop_cached(0, size_);
        read_ = 0;
    }

private:
    const gneiss::plain_file& file_;
    std::uint64_t size_, read_ = 0;
};

/// A matrix of integers of any type within a file, read row by row.
class integer_rows {
public:
    integer_rows() = default;
    /// Throws errc::invalid_format for shapes other than [rows] (`columns` false) or [rows, columns], and for floats.
    integer_rows(
        const gneiss::plain_file& file, const gneiss::importing::npz_file& from, std::string name, bool columns)
        : file_(&file),
          name_(std::move(name)) {
        const auto [begin, size] = from.stored(name_);
        header_ = gneiss::read_npy_header(file, begin, size);
        if (header_.shape.size() != (columns ? 2 : 1) || (columns && header_.shape[1] == 0))
            throw wrong(fmt::format("is {}, {} is needed", gneiss::shape_text(header_.shape),
                columns ? "(edges, candidates)" : "(edges,)"));
        if (!gneiss::holds_integers(header_.dtype))
            throw wrong(fmt::format("is {}, integers are needed", gneiss::to_string(header_.dtype)));
    }

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::uint64_t rows() const noexcept { return header_.rows(); }
    [[nodiscard]] std::uint64_t columns() const noexcept { return header_.row_size(); }
    [[nodiscard]] gneiss::error wrong(const std::string& what) const {
        return {gneiss::errc::invalid_format, what, {.path = file_->path(), .field = name_}};
    }
    [[nodiscard]] gneiss::error_place place(std::uint64_t row, std::optional<std::uint64_t> column = {}) const {
        return {.path = file_->path(),
            .field = column ? fmt::format("{}[{}, {}]", name_, row, *column) : fmt::format("{}[{}]", name_, row)};
    }
    /// Reads rows [first, first + count) into `out`: at most 16 bytes per element.
    void read(std::uint64_t first, std::uint64_t count, std::vector<std::int64_t>& out) const {
        out.resize(static_cast<std::size_t>(count * columns()));
        gneiss::read_integers(*file_, header_, first * columns(), std::span(out));
    }

private:
    const gneiss::plain_file* file_ = nullptr;
    std::string name_;
    gneiss::npy_header header_;
};

/// An archive; keeps the row of each edge.
class npz_listing final : public candidate_file::listing {
public:
    npz_listing(const gneiss::dataset& data, const std::filesystem::path& path, std::span<const gneiss::edge> edges,
        std::uint64_t memory)
        : ids_(data),
          file_(gneiss::plain_file::open(path)) {
        const gneiss::importing::npz_file archive(path);
        const auto named = [&](std::initializer_list<const char*> names, bool columns) -> std::optional<integer_rows> {
            for (const char* name : names)
                if (archive.has(name)) return integer_rows(file_, archive, name, columns);
            return std::nullopt;
        };
        const auto heads = named({"head", "source_node"}, false), tails = named({"tail", "target_node"}, false),
                   relations = named({"relation"}, false);
        lists_ = {named({"head_neg", "source_node_neg"}, true), named({"tail_neg", "target_node_neg"}, true)};
        if (!heads || !tails || (!lists_[0] && !lists_[1]))
            throw gneiss::error(gneiss::errc::invalid_format,
                fmt::format("needs the arrays head and tail (or source_node and target_node), and head_neg or tail_neg "
                            "(or target_node_neg); it has {}{}",
                    fmt::join(archive.names(), ", "),
                    archive.has("edge_neg") ? ": negative edges that all edges share are not read" : ""),
                {.path = path});
        if (!relations && ids_.several_relations())
            throw gneiss::error(gneiss::errc::invalid_format, "needs the array relation", {.path = path});
        for (const std::optional<integer_rows>& one : {tails, relations, lists_[0], lists_[1]})
            if (one && one->rows() != heads->rows())
                throw one->wrong(fmt::format("has {} rows, {} has {}", one->rows(), heads->name(), heads->rows()));
        if (heads->rows() >= none) throw heads->wrong("has more than 2³² - 2 rows");
        check_memory(path, bytes(edges.size()), memory);
        row_.assign(edges.size(), none);
        match(*heads, relations, *tails, edges);
    }

    [[nodiscard]] std::uint64_t size(std::size_t, gneiss::side target_side) const override {
        const auto& list = lists_[target_side == gneiss::side::tail];
        return list ? list->columns() : 0;
    }
    void read(std::size_t first, std::size_t count, const gneiss::candidate_visitor& visit) const override {
        std::vector<std::uint32_t> by_row(count); // reads the file forwards
        std::iota(by_row.begin(), by_row.end(), std::uint32_t{0});
        std::ranges::sort(by_row, {}, [&](std::uint32_t i) { return row_[first + i]; });
        std::vector<std::int64_t> numbers;
        std::vector<gneiss::node_id> nodes;
        page_cache_limit pages(file_);
        for (const gneiss::side end : ends)
            for (const std::uint32_t i : by_row) {
                if (size(first + i, end) == 0) break;
                const integer_rows& list = *lists_[end == gneiss::side::tail];
                const std::uint64_t row = row_[first + i];
                list.read(row, 1, numbers);
                nodes.resize(numbers.size());
                for (std::size_t c = 0; c < nodes.size(); ++c)
                    nodes[c] = ids_.node(numbers[c], [&] { return list.place(row, c); });
                visit(first + i, end, nodes);
                pages.add(numbers.size() * sizeof(numbers[0]));
            }
    }
    [[nodiscard]] std::uint64_t bytes() const override { return bytes(row_.size()); }

private:
    [[nodiscard]] std::uint64_t bytes(std::uint64_t edges) const {
        return 2 * edges * sizeof(row_[0]) + 20 * std::max(size(0, gneiss::side::head), size(0, gneiss::side::tail));
    }
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    static constexpr std::uint64_t piece = 16384; ///< rows matched at once

    void match(const integer_rows& heads, const std::optional<integer_rows>& relations, const integer_rows& tails,
        std::span<const gneiss::edge> edges) {
        std::vector<std::int64_t> head, relation, tail;
        for (std::uint64_t first = 0; first < heads.rows(); first += piece) {
            const std::uint64_t count = std::min(piece, heads.rows() - first);
            heads.read(first, count, head);
            tails.read(first, count, tail);
            if (relations) relations->read(first, count, relation);
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint64_t row = first + i;
                const gneiss::edge e{ids_.node(head[i], [&] { return heads.place(row); }),
                    relations ? ids_.relation(std::to_string(relation[i]), [&] { return relations->place(row); }) : 0,
                    ids_.node(tail[i], [&] { return tails.place(row); })};
                auto at = static_cast<std::size_t>(std::ranges::lower_bound(edges, e) - edges.begin());
                while (at < edges.size() && edges[at] == e && row_[at] != none)
                    ++at; // repeated edges have their own rows
                if (at < edges.size() && edges[at] == e) row_[at] = static_cast<std::uint32_t>(row);
            }
        }
        for (std::size_t i = 1; i < edges.size(); ++i)
            if (row_[i] == none && edges[i] == edges[i - 1]) row_[i] = row_[i - 1];
        if (const auto missing = std::ranges::count(row_, none); missing != 0)
            ids_.refuse_missing(edges[static_cast<std::size_t>(std::ranges::find(row_, none) - row_.begin())],
                static_cast<std::size_t>(missing), edges.size(), file_.path());
    }

    source_ids ids_;
    gneiss::plain_file file_;
    std::array<std::optional<integer_rows>, 2> lists_; ///< heads, tails
    std::vector<std::uint32_t> row_;                   ///< row of each edge
};

/// Text; keeps the line of each end of an edge.
class text_listing final : public candidate_file::listing {
public:
    text_listing(const gneiss::dataset& data, const std::filesystem::path& path, std::span<const gneiss::edge> edges,
        std::uint64_t memory)
        : ids_(data),
          file_(gneiss::plain_file::open(path)) {
        const std::uint64_t places = bytes(edges.size());
        check_memory(path, places, memory);
        for (std::vector<line>& lines : lines_) lines.resize(edges.size());
        const std::uint64_t longest = (memory - places) / 5; // line that fits
        std::ifstream in(path, std::ios::binary);
        std::string text;
        std::uint64_t offset = 0;
        const auto next = [&](std::uint64_t number) { // as std::getline, of a line that is not longer than other texts
            text.clear();
            for (int c = 0; (c = in.rdbuf()->sbumpc()) != std::char_traits<char>::eof();) {
                if (c == '\n') return true;
                if (text.size() == programs::longest_text)
                    throw gneiss::error(gneiss::errc::invalid_format,
                        "is longer than " + gneiss::format_bytes(programs::longest_text),
                        {.path = path, .line = number});
                if (text.size() == longest) check_memory(path, places + 5 * (longest + 1), memory);
                text.push_back(static_cast<char>(c));
            }
            return !text.empty();
        };
        for (std::uint64_t number = 1; next(number); ++number) {
            const std::uint64_t begin = std::exchange(offset, offset + text.size() + 1);
            if (text.ends_with('\r')) text.pop_back();
            if (!text.empty()) match(text, {.begin = begin, .number = number}, edges);
        }
        for (std::vector<line>& lines : lines_)
            for (std::size_t i = 1; i < edges.size(); ++i)
                if (lines[i].size == 0 && edges[i] == edges[i - 1]) lines[i] = lines[i - 1];
        std::size_t missing = 0, first = 0;
        for (std::size_t i = edges.size(); i-- > 0;)
            if (lines_[0][i].size == 0 && lines_[1][i].size == 0) ++missing, first = i;
        if (missing != 0) ids_.refuse_missing(edges[first], missing, edges.size(), path);
    }

    [[nodiscard]] std::uint64_t size(std::size_t position, gneiss::side target_side) const override {
        return lines_[target_side == gneiss::side::tail][position].size;
    }
    void read(std::size_t first, std::size_t count, const gneiss::candidate_visitor& visit) const override {
        std::string text;
        std::vector<gneiss::node_id> nodes;
        page_cache_limit pages(file_);
        for (const gneiss::side end : ends)
            for (std::size_t i = first; i < first + count; ++i) {
                const line& from = lines_[end == gneiss::side::tail][i];
                if (from.size == 0) continue;
                text.resize(from.bytes);
                file_.read_at(from.begin, std::as_writable_bytes(std::span(text)));
                nodes.clear();
                for_each_word(text, 0, [&](std::string_view word, std::size_t at) {
                    nodes.push_back(ids_.node(word, [&] { return place(from.number, from.column + at); }));
                });
                visit(i, end, nodes);
                pages.add(from.bytes);
            }
    }
    [[nodiscard]] std::uint64_t bytes() const override { return bytes(lines_[0].size()); }

private:
    [[nodiscard]] std::uint64_t bytes(std::uint64_t edges) const { return 2 * edges * sizeof(line) + 5 * longest_; }

    /// Offset and size of the candidates of one end of an edge.
    struct line {
        std::uint64_t begin = 0, number = 0;
        std::uint32_t column = 0, bytes = 0, size = 0;
    };

    /// Calls visit(word, offset) for the words between tabs from `at` on.
    template <class Visit>
    static void for_each_word(std::string_view text, std::size_t at, Visit&& visit) {
        while (at <= text.size()) {
            const std::size_t end = std::min(text.find('\t', at), text.size());
            visit(text.substr(at, end - at), at);
            at = end + 1;
        }
    }
    [[nodiscard]] gneiss::error_place place(std::uint64_t number, std::size_t column) const {
        return {.path = file_.path(), .line = number, .column = column};
    }
    void match(const std::string& text, line found, std::span<const gneiss::edge> edges) {
        std::array<std::string_view, 4> words{};
        std::array<std::size_t, 5> at{};
        std::size_t count = 0;
        for_each_word(text, 0, [&](std::string_view word, std::size_t begin) {
            if (count < words.size()) words[count] = word;
            if (count < at.size()) at[count] = begin;
            ++count;
        });
        if (count <= words.size() || (words[3] != "head" && words[3] != "tail"))
            throw gneiss::error(gneiss::errc::invalid_format,
                "needs HEAD TAB RELATION TAB TAIL TAB head (or tail) TAB CANDIDATE, and more candidates between tabs",
                place(found.number, at[std::min<std::size_t>(count - 1, 3)] + 1));
        if (text.size() > ~std::uint32_t{0})
            throw gneiss::error(gneiss::errc::invalid_format, "is longer than 4 GiB", place(found.number, 1));
        const auto here = [&](std::size_t word) { return [&, word] { return place(found.number, at[word] + 1); }; };
        const gneiss::edge e{
            ids_.node(words[0], here(0)), ids_.relation(words[1], here(1)), ids_.node(words[2], here(2))};
        found.begin += at[4];
        found.column = static_cast<std::uint32_t>(at[4] + 1);
        found.bytes = static_cast<std::uint32_t>(text.size() - at[4]);
        found.size = static_cast<std::uint32_t>(count - 4);
        longest_ = std::max<std::uint64_t>(longest_, text.size());
        std::vector<line>& lines = lines_[words[3] == "tail"];
        auto i = static_cast<std::size_t>(std::ranges::lower_bound(edges, e) - edges.begin());
        while (i < edges.size() && edges[i] == e && lines[i].size != 0) ++i; // repeated edges have their own lines
        if (i < edges.size() && edges[i] == e) lines[i] = found;
    }

    source_ids ids_;
    gneiss::plain_file file_;
    std::array<std::vector<line>, 2> lines_; ///< heads, tails
    std::uint64_t longest_ = 0;
};

} // namespace

candidate_file::candidate_file(const gneiss::dataset& data, const std::filesystem::path& path,
    std::span<const gneiss::edge> edges, std::uint64_t memory) {
    if (path.extension() == ".npz")
        listing_ = std::make_unique<const npz_listing>(data, path, edges, memory);
    else
        listing_ = std::make_unique<const text_listing>(data, path, edges, memory);
}
candidate_file::~candidate_file() = default;

std::uint64_t candidate_file::size(std::size_t position, gneiss::side target_side) const {
    return listing_->size(position, target_side);
}
void candidate_file::read(std::size_t first, std::size_t count, const gneiss::candidate_visitor& visit) const {
    listing_->read(first, count, visit);
}
std::uint64_t candidate_file::bytes() const { return listing_->bytes(); }

std::filesystem::path candidates_of(const std::filesystem::path& named, const std::string& split) {
    constexpr std::string_view mark = "{split}";
    std::string path = named.string();
    for (std::size_t at = 0; (at = path.find(mark, at)) != path.npos; at += split.size())
        path.replace(at, mark.size(), split);
    return path;
}

} // namespace trainers
