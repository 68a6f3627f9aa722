#include <gneiss/train/device_cached_features.hpp>

#include <doctest/doctest.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/misses.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/feature/extent_gather.hpp>

#include <support/temporary_directory.hpp>

#include "stored_graph.hpp"

#include <cstring>
#include <memory>
#include <set>
#include <vector>

namespace test_train_device_cached_features {

using namespace gneiss;

namespace {

constexpr std::uint64_t nodes = 300;
constexpr std::size_t columns = 5, stride = 8;

/// Returns the values of a node's row.
std::vector<float> values_of(node_id id) {
    std::vector<float> result(columns);
    for (std::size_t c = 0; c < columns; ++c)
        result[c] = static_cast<float>(id % 64) + static_cast<float>(c) * .25F + 1;
    return result;
}

/// Rows of all nodes in a type, which counts those that are read.
struct counted_rows {
    feature_type type = feature_type::f32;
    std::uint64_t* read = nullptr;

    [[nodiscard]] static std::uint64_t rows() { return nodes; }
    [[nodiscard]] std::size_t row_bytes() const { return gneiss::row_bytes(type, columns); }
    [[nodiscard]] static gather_stats statistics() { return {}; }
    void gather(std::span<const node_id> ids, const gather_target& to) const {
        for (std::size_t i = 0; i < ids.size(); ++i) (void)encode_row(values_of(ids[i]), type, to.row(i));
        *read += ids.size();
    }
};

/// A window with its plan in memory.
class planned_window final : public access_window {
public:
    planned_window(
        memory_trace trace, std::uint64_t first, std::size_t slots, std::vector<node_id>& resident, bool carried)
        : trace_(std::move(trace)),
          first_(first),
          empty_(!carried) {
        const belady_options options{.capacity = slots,
            .nodes = 0,
            .resident = carried ? std::span<const node_id>(resident) : std::span<node_id>()};
        belady_outcome out = belady(
            trace_, options, serial_executor{}, [&](std::size_t, const change_set& of) { changes_.push_back(of); });
        fill_ = std::move(out.fill);
        resident = std::move(out.resident);
    }
    [[nodiscard]] std::uint64_t first() const noexcept override { return first_; }
    [[nodiscard]] std::uint64_t last() const noexcept override { return first_ + trace_.batches(); }
    [[nodiscard]] const change_set& fill() const noexcept override { return fill_; }
    [[nodiscard]] bool begins_empty() const noexcept override { return empty_; }
    void changes(std::span<const node_id> /*ids*/, change_set& to) override { to = changes_.at(next_++); }
    void for_each_miss(bitmap& cached, const miss_visitor& visit) const override {
        struct replay {
            const std::vector<change_set>& all;
            std::size_t at = 0;
            bool next(change_set& to) {
                if (at == all.size()) return false;
                to = all[at++];
                return true;
            }
        } changes{changes_};
        gneiss::for_each_miss(trace_, &changes, cached, visit);
    }
    /// Returns the rows of an optimal cache that are read: those that it is filled with, and misses.
    [[nodiscard]] std::uint64_t least_reads(std::set<node_id>& cached) const {
        if (empty_) cached.clear();
        for (const node_id id : fill_.out) cached.erase(id);
        cached.insert(fill_.in.begin(), fill_.in.end());
        bitmap now(nodes);
        for (const node_id id : cached) now.set(id);
        std::uint64_t sum = fill_.in.size();
        for_each_miss(now, [&](std::size_t, std::span<const node_id> missing) { sum += missing.size(); });
        cached.clear();
        now.for_each([&](std::size_t id) { cached.insert(static_cast<node_id>(id)); });
        return sum;
    }

private:
    memory_trace trace_;
    std::uint64_t first_;
    bool empty_;
    change_set fill_;
    std::vector<change_set> changes_;
    std::size_t next_ = 0;
};

/// Returns the distinct ids of a batch; a few nodes are in many of them.
std::vector<node_id> ids_of(std::uint64_t batch) {
    std::vector<node_id> ids;
    for (std::uint64_t i = 0; i < 60; ++i) {
        const std::uint64_t draw = random_key(11, random_domain::user).with(batch)[i];
        const auto id = static_cast<node_id>(draw % 3 == 0 ? draw / 3 % nodes : draw / 3 % (nodes / 8));
        if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    }
    return ids;
}

/// A device's cache: reads the rows of a batch, as kernels would, and lets rows enter.
struct played_cache {
    feature_type type;
    std::size_t row_bytes;
    std::vector<std::byte> memory;

    void compute(const training_batch& b, const std::byte* brought, feature_type stored, bool normalized) {
        REQUIRE(b.moves.places.size() == b.nodes.size());
        for (std::size_t i = 0; i < b.nodes.size(); ++i) {
            const std::uint32_t place = b.moves.places[i], number = place & ~device_cache_moves::brought;
            const bool comes = place != number;
            if (comes) REQUIRE(number < b.moves.rows);
            std::vector<float> got(columns), want = values_of(b.nodes[i]);
            decode_row(type, (comes ? brought : memory.data()) + number * row_bytes, got);
            test::round_as_stored(want, columns, stored);
            if (normalized) normalize_row(std::span<float>(want));
            REQUIRE(got == want);
        }
        std::set<std::uint32_t> slots;
        for (const device_cache_entry& e : b.moves.entries) {
            REQUIRE(e.row < b.moves.rows);
            REQUIRE(slots.insert(e.slot).second);
            std::memcpy(memory.data() + e.slot * row_bytes, brought + e.row * row_bytes, row_bytes);
        }
    }
};

struct course {
    std::size_t slots = 40, superbatch = 5;
    bool carried = true;
    feature_type stored = feature_type::f32, there = feature_type::f32;
    bool normalized = false;
    std::uint64_t stop = 30; ///< batches from here on belong to no superbatch
    bool deal = false;
};

/// Runs batches and checks each row. Returns rows that batches brought, and those of an optimal cache.
std::pair<std::uint64_t, std::uint64_t> run(const course& how) {
    constexpr std::uint64_t batches = 30;
    const serial_executor on;
    memory_budget budget;
    const gneiss::test::temporary_directory directory;
    std::uint64_t read = 0;
    any_row_source source(std::in_place_type<counted_rows>, counted_rows{how.stored, &read});
    extent_rows* extents = nullptr;
    if (how.deal) {
        any_row_source below(std::in_place_type<counted_rows>, counted_rows{how.stored, &read});
        source = any_row_source(std::in_place_type<extent_rows>, std::move(below), test::stored_graph::threads(),
            extent_options{.way = gather_way::scan, .directory = directory.path(), .memory = std::uint64_t{1} << 20},
            on, budget);
        extents = source.target<extent_rows>();
    }
    const device_cached_rows with{.rows = {.source = source,
                                      .extents = extents,
                                      .columns = columns,
                                      .type = how.stored,
                                      .normalized = how.normalized},
        .slots = how.slots,
        .type = how.there};
    device_cached_features features(with, on);
    played_cache cache{how.there, with.row_bytes(), std::vector<std::byte>(how.slots * with.row_bytes())};
    std::shared_ptr<planned_window> window;
    std::vector<node_id> resident;
    std::set<node_id> cached;
    std::uint64_t brought = 0, least = 0, asked = 0;
    training_batch b;
    std::vector<float> memory;
    for (std::uint64_t k = 0; k < batches; ++k) {
        if (k < how.stop && k % how.superbatch == 0) {
            memory_trace trace;
            for (std::uint64_t i = k; i < std::min(batches, k + how.superbatch); ++i) trace.append(ids_of(i));
            window = std::make_shared<planned_window>(std::move(trace), k, how.slots, resident, how.carried && k != 0);
            least += window->least_reads(cached);
        }
        const std::vector<node_id> ids = ids_of(k);
        b.key = {0, {0, 0, k}};
        b.nodes = ids;
        b.window = k < how.stop ? window : nullptr;
        memory.assign(ids.size() * stride, -1);
        features.gather(b, {memory.data(), ids.size(), columns, stride});
        REQUIRE(b.moves.row_bytes == with.row_bytes());
        cache.compute(b, reinterpret_cast<const std::byte*>(memory.data()), how.stored, how.normalized);
        brought += b.moves.rows;
        asked += ids.size();
    }
    CHECK(features.counts() == std::pair(asked, asked - brought));
    if (extents != nullptr)
        CHECK(extents->dealt().dealt_rows == brought);
    else
        CHECK(read == brought);
    return {brought, least};
}

} // namespace

TEST_CASE(
    "a cache on a device holds the rows of its change sets, and each comes once: as many as an optimal cache reads") {
    for (const std::size_t slots : {1U, 7U, 40U, 200U})
        for (const std::size_t superbatch : {1U, 5U, 30U})
            for (const bool carried : {false, true}) {
                CAPTURE(slots);
                CAPTURE(superbatch);
                CAPTURE(carried);
                const auto [brought, least] = run({.slots = slots, .superbatch = superbatch, .carried = carried});
                CHECK(brought == least);
            }
}

TEST_CASE("a cache on a device keeps rows of f16 and bf16, and floats of other rows") {
    for (const auto& [stored, there, normalized] : {std::tuple{feature_type::f16, feature_type::f16, false},
             {feature_type::bf16, feature_type::bf16, false}, {feature_type::f16, feature_type::f32, true},
             {feature_type::int8, feature_type::f32, false}, {feature_type::f32, feature_type::f32, true}}) {
        const auto [brought, least] = run({.stored = stored, .there = there, .normalized = normalized});
        CHECK(brought == least);
    }
}

TEST_CASE("batches after a stop, which belong to no superbatch, read what the device's cache holds") {
    for (std::uint64_t stop = 0; stop < 30; ++stop) CHECK(run({.stop = stop}).first > 0);
}

TEST_CASE("the rows that a cache on a device will miss are dealt out to the batches that bring them") {
    for (const std::size_t slots : {7U, 40U})
        for (const bool carried : {false, true}) {
            const auto [brought, least] = run({.slots = slots, .carried = carried, .deal = true});
            CHECK(brought == least);
        }
}

TEST_CASE("a cache on a device refuses another in memory, rows of another type, and more slots than it can number") {
    std::uint64_t read = 0;
    any_row_source source(std::in_place_type<counted_rows>, counted_rows{feature_type::f32, &read});
    memory_budget budget;
    const serial_executor on;
    cached_rows<any_row_source> cache(source, 3, slot_table_kind::hashed, on, budget);
    CHECK_THROWS_WITH_AS(
        device_cached_features({.rows = {.source = source, .cache = &cache, .columns = columns}, .slots = 4}, on),
        "rows are cached on the device, and not in memory, too", error);
    CHECK_THROWS_WITH_AS(
        device_cached_features({.rows = {.source = source, .columns = columns}, .slots = std::size_t{1} << 31}, on),
        doctest::Contains("a cache of 2147483648 rows on a device"), error);
    for (const bool normalized : {false, true}) // f16 of floats; halves that are normalized
        CHECK_THROWS_WITH_AS(device_cached_features({.rows = {.source = source,
                                                         .columns = columns,
                                                         .type = normalized ? feature_type::f16 : feature_type::f32,
                                                         .normalized = normalized},
                                                        .slots = 4,
                                                        .type = feature_type::f16},
                                 on),
            "rows in a cache on the device are floats, or as they are stored", error);
}

} // namespace test_train_device_cached_features
