// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/detail/id_maps.hpp>
#include <gneiss/io/import/detail/permutation.hpp>
#include <gneiss/io/integer_file.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/io/partition_order.hpp>
#include <gneiss/io/reorder_options.hpp>
#include <gneiss/io/row_shuffle.hpp>
#include <gneiss/storage/edge/bucket_table.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

namespace detail {

/// The order that `reorder` gives to the rows of a dataset, as two files of 32-bit words in a directory. Old and new
/// are rows before and after. Memory and errors: as in `reorder`.
class new_row_order {
public:
    using words_on_disk = importing::words_on_disk;

    new_row_order(const dataset& from, const reorder_options& options, std::filesystem::path directory)
        : from_(from),
          options_(options),
          directory_(std::move(directory)),
          nodes_(from.manifest().nodes) {}

    /// Writes both files.
    void write() {
        if (options_.training_first)
            training_first();
        else if (options_.shuffle)
            shuffled();
        else if (options_.by.empty())
            by_partitions(present_rows(), [this](const auto& visit) { present_partitions(visit); });
        else
            by_file();
    }

    /// Returns the partition of the result that each of its hubs left, or 0 for none. Empty without hubs.
    [[nodiscard]] std::span<const partition_id> hub_partitions() const noexcept { return homes_; }
    /// Returns the partitioning of the result.
    [[nodiscard]] row_partitioning rows() const { return assigned_ ? *assigned_ : present_rows(); }
    /// Returns a description for users.
    [[nodiscard]] std::string described() const {
        const std::string seed = ", seed " + std::to_string(options_.seed);
        if (options_.training_first) return "training nodes first" + seed;
        if (options_.shuffle) return "at random";
        std::string text = options_.by.empty() ? "present partitions" : "by " + options_.by.filename().string();
        if (!options_.hubs.empty()) text += ", " + std::to_string(options_.hubs.size()) + " hubs first";
        return assigned_ ? text + seed : text;
    }
    [[nodiscard]] words_on_disk old_of_new() const { return {work("old"), 0, nodes_}; }
    [[nodiscard]] words_on_disk new_of_old() const { return {work("new"), 0, nodes_}; }
    /// Returns an array of the dataset with one word per node.
    [[nodiscard]] words_on_disk array(std::string_view name) const {
        return {from_.path(name), page_alignment, nodes_};
    }
    [[nodiscard]] static importing::array_map map_of(const words_on_disk& words, std::uint64_t memory) {
        return {words.path, words.offset, words.count, memory};
    }
    /// Passes values[words[i]] to `emit(span)`, in order.
    template <class Emit>
    void gather(const words_on_disk& words, const words_on_disk& values, Emit&& emit) const {
        importing::array_map map = map_of(values, options_.memory / 2);
        importing::gather_words(words, map, work("gather"), options_.memory / 4, emit);
    }

    void throw_if_stopped() const {
        if (options_.stop.stop_requested())
            throw error(errc::canceled, "interrupted: nothing was reordered", {.path = directory_});
    }
    /// Reports progress; throws on a stop.
    void progress(std::string_view phase, std::uint64_t done, std::uint64_t total) const {
        throw_if_stopped();
        if (options_.progress) options_.progress(phase, done, total);
    }
    /// Returns the path of a scratch file.
    [[nodiscard]] std::filesystem::path work(const char* name) const {
        return directory_ / ("work-" + std::string(name));
    }

private:
    [[nodiscard]] row_partitioning present_rows() const {
        return options_.partitions == 0 ? from_.rows() : from_.rows().in(options_.partitions);
    }
    /// Writes a scratch file of words; `make(append)` produces them.
    template <class Make>
    static void write_words(const std::filesystem::path& path, Make&& make) {
        plain_file file = plain_file::create(path);
        sequential_writer out(file);
        make([&](std::span<const node_id> words) { out.append(std::as_bytes(words)); });
    }
    void invert(const words_on_disk& words, const std::filesystem::path& name, const std::filesystem::path& to) const {
        write_words(to, [&](const auto& append) { importing::invert_words(words, name, options_.memory, append); });
    }
    void by_file() {
        integer_file in(options_.by);
        need_entries(in, nodes_, "an order of rows and an assignment to partitions have one");
        const words_on_disk given{work("order"), 0, nodes_};
        std::uint64_t parts = 0;
        write_words(given.path, [&](const auto& append) {
            std::vector<node_id> some(1 << 14);
            while (const std::size_t got = in.read(some)) {
                for (const node_id value : std::span<const node_id>(some).first(got))
                    parts = std::max<std::uint64_t>(parts, value + 1ULL);
                append(std::span<const node_id>(some).first(got));
            }
        });
        progress("order", 0, nodes_);
        if (parts <= nodes_ / 2)
            by_assignment(given, static_cast<std::uint32_t>(parts));
        else if (!options_.hubs.empty())
            throw error(
                errc::invalid_argument, "is not an assignment to partitions, which hubs need", {.path = options_.by});
        else
            by_order(given);
    }

    void by_order(const words_on_disk& given) {
        // The inverse detects missing and repeated entries, in the numbers of the file.
        invert(given, options_.by, new_of_old().path);
        if (from_.has("node_to_row") && from_.manifest().ids == dataset_ids::integer) {
            write_words(old_of_new().path, [&](const auto& append) { gather(given, array("node_to_row"), append); });
            invert(old_of_new(), from_.path("node_to_row"), new_of_old().path);
            std::filesystem::remove(given.path);
        } else {
            rename_into_place(given.path, old_of_new().path);
        }
    }

    void by_assignment(const words_on_disk& given, std::uint32_t parts) {
        if (options_.partitions != 0 && parts > options_.partitions)
            throw error(errc::invalid_argument,
                "assigns nodes to " + std::to_string(parts) + " partitions, not " + std::to_string(options_.partitions),
                {.path = options_.by});
        words_on_disk of_row = given;
        if (from_.has("row_to_node") && from_.manifest().ids == dataset_ids::integer) {
            of_row.path = work("partitions");
            write_words(of_row.path, [&](const auto& append) { gather(array("row_to_node"), given, append); });
        }
        by_partitions({0, std::max(parts, options_.partitions)}, [&](const auto& visit) {
            importing::for_each_words(of_row, options_.memory / 4, [&](std::uint64_t, std::span<const node_id> some) {
                for (const node_id p : some) visit(p);
            });
        });
        for (const auto& path : {of_row.path, given.path}) std::filesystem::remove(path);
    }

    template <class Visit>
    void present_partitions(Visit&& visit) const {
        const row_partitioning present = present_rows();
        for (partition_id p = 0; p < present.partitions; ++p)
            for (std::uint64_t row = present.begin(p); row < present.begin(p + 1); ++row) visit(p);
    }

    /// `each(visit)` calls visit(partition) for every old row, ascending, each time it is called.
    template <class Each>
    void by_partitions(const row_partitioning& of, Each&& each) {
        std::vector<node_id> hubs = options_.hubs;
        std::ranges::sort(hubs);
        if (std::ranges::adjacent_find(hubs) != hubs.end() || (!hubs.empty() && hubs.back() >= nodes_))
            throw error(errc::invalid_argument, "a hub is repeated or is not a row", {.path = from_.directory()});
        const std::uint32_t shift = hubs.empty() ? 0 : 1;
        const row_partitioning all{nodes_, of.partitions + shift};
        check_bucket_rows(all);
        const auto before =
            options_.by.empty() && options_.partitions == 0 ? from_.hub_partitions() : mapped_array<partition_id>();
        const auto home_of = [&, left = before.values()](std::uint64_t row, partition_id p) {
            return row < left.size() && left[row] != 0 ? left[row] : p;
        };
        const auto each_with_hubs = [&](auto&& visit) {
            std::uint64_t row = 0;
            auto hub = hubs.begin();
            each([&](partition_id p) {
                const bool is_hub = hub != hubs.end() && *hub == row;
                hub += is_hub;
                visit(is_hub ? 0 : p + shift, home_of(row++, p) + shift);
            });
        };
        std::vector<std::uint64_t> sizes(all.partitions, 0);
        each_with_hubs([&](partition_id p, partition_id) { ++sizes[p]; });
        partition_order order(sizes, random_key{options_.seed, random_domain::node_permutation}.with(3));
        assigned_ = order.rows();
        homes_.assign(hubs.size(), 0);
        write_words(new_of_old().path, [&](const auto& append) {
            std::vector<node_id> some;
            each_with_hubs([&](partition_id p, partition_id home) {
                some.push_back(order(p));
                if (p < shift) homes_[some.back()] = home;
                if (some.size() < (1 << 14)) return;
                append(std::span<const node_id>(some));
                some.clear();
            });
            append(std::span<const node_id>(some));
        });
        progress("order", 0, nodes_);
        invert(new_of_old(), work("new"), old_of_new().path);
    }

    void training_first() {
        const auto parts = from_.node_splits();
        const std::uint64_t training = from_.manifest().node_attributes.train;
        if (training == 0)
            throw error(errc::invalid_argument, "has no training nodes to put first", {.path = from_.directory()});
        const row_shuffle order(nodes_, training, {options_.seed, random_domain::node_permutation});
        std::uint64_t trained = 0, other = training;
        by_rule([&](std::uint64_t row) {
            return order(parts.values()[row] == static_cast<std::uint8_t>(node_split::train) ? trained++ : other++);
        });
    }

    void shuffled() {
        if (options_.shuffle->rows() != nodes_)
            throw error(errc::invalid_argument,
                "an order of " + std::to_string(options_.shuffle->rows()) + " rows is not one of " +
                    std::to_string(nodes_) + " nodes",
                {.path = from_.directory()});
        by_rule(*options_.shuffle);
    }

    /// `new_row(old)` is called for all rows, ascending.
    template <class NewRow>
    void by_rule(NewRow&& new_row) {
        write_words(new_of_old().path, [&](const auto& append) {
            std::vector<node_id> some;
            for (std::uint64_t row = 0; row < nodes_; ++row) {
                some.push_back(new_row(row));
                if (some.size() < (1 << 14) && row + 1 < nodes_) continue;
                append(std::span<const node_id>(some));
                some.clear();
            }
        });
        progress("order", 0, nodes_);
        invert(new_of_old(), work("new"), old_of_new().path);
    }

    const dataset& from_;
    const reorder_options& options_;
    std::filesystem::path directory_;
    std::uint64_t nodes_;
    std::optional<row_partitioning> assigned_; // to partitions of a file, or with hubs
    std::vector<partition_id> homes_;          // by new row
};

} // namespace detail

} // namespace gneiss
