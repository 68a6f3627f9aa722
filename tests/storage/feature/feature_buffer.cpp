#include <gneiss/storage/feature/feature_buffer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <storage/features.hpp>
#include <storage/support.hpp>
#include <support/count_absent.hpp>
#include <support/cut_into.hpp>
#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/storage/engine/faulty.hpp>

namespace test_storage_feature_feature_buffer {

using namespace gneiss;
using test::count_absent;

namespace {

engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// Features in plain arrays, and the same on disk.
struct stored {
    row_partitioning rows;
    std::uint64_t columns;
    std::vector<float> values;
    test::temporary_directory directory{};
    feature_store store;

    stored(row_partitioning of, std::uint64_t width, const test::feature_form& options)
        : rows(of),
          columns(width),
          values(draw(of.nodes, width, options)),
          store(test::feature_writer(directory.path(), of, options).write(values, width), of) {}

    static std::vector<float> draw(std::uint64_t nodes, std::uint64_t width, const test::feature_form& options) {
        const std::uint64_t count = nodes * width;
        random_stream draw(random_key(count, random_domain::user));
        std::vector<float> result(static_cast<std::size_t>(count));
        for (float& x : result) // exact in f16
            x = draw.below(3) != 0 ? 0 : options.ones ? 1 : static_cast<float>(draw.below(2000)) / 64 - 15.515625F;
        test::round_as_stored(result, width, options.type());
        return result;
    }
    /// Returns rows `ids` of `features`, expanded.
    template <class E>
    std::vector<float> rows_of(
        const resident_features& features, const std::vector<node_id>& ids, const E& executor) const {
        std::vector<float> out(ids.size() * columns);
        if (!features.sparse()) {
            features.gather(executor, ids, {out.data(), ids.size(), static_cast<std::size_t>(columns)});
            return out;
        }
        sparse_feature_rows rows_of_ids{{1, 2, 3}, {4, 5}, {6}}; // left over from an earlier batch
        features.gather(executor, ids, rows_of_ids);
        for (std::size_t i = 0; i < ids.size(); ++i)
            for (std::uint64_t at = rows_of_ids.offsets[i]; at < rows_of_ids.offsets[i + 1]; ++at)
                out[i * columns + rows_of_ids.columns[at]] = rows_of_ids.values.empty() ? 1 : rows_of_ids.values[at];
        return out;
    }
    [[nodiscard]] std::vector<float> expected(const std::vector<node_id>& ids) const {
        std::vector<float> out;
        for (const node_id v : ids) out.insert(out.end(), &values[v * columns], &values[v * columns] + columns);
        return out;
    }
    /// Returns some nodes of the resident partitions, in any order, with repetitions.
    [[nodiscard]] std::vector<node_id> some(const buffer_state& s) const {
        random_stream draw(random_key(s.resident.size(), random_domain::user));
        std::vector<node_id> ids;
        for (const partition_id p : s.resident)
            for (std::uint64_t i = 0; i < 2 * rows.size(p); ++i)
                ids.push_back(static_cast<node_id>(rows.begin(p) + draw.below(rows.size(p))));
        shuffle(ids, random_key(ids.size(), random_domain::user));
        return ids;
    }
};

const test::feature_form forms[] = {{}, {.f16 = true}, {.bf16 = true}, {.int8 = true}, {.sparse = true},
    {.sparse = true, .f16 = true}, {.sparse = true, .ones = true}, {.aligned = false, .block_bytes = 704},
    {.sparse = true, .aligned = false, .block_bytes = 704}};

void damage(const std::filesystem::path& path, std::uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x40));
}

} // namespace

TEST_CASE("the features of a state equal those of the array, in every form, on every engine, with faults") {
    const tbb_executor two(2);
    std::uint32_t round = 0;
    for (const test::feature_form& form : forms) {
        CAPTURE(form.sparse);
        CAPTURE(to_string(form.type()));
        CAPTURE(form.aligned);
        const stored data(
            round++ % 2 == 0 ? row_partitioning{211, 7} : test::cut_into({5, 100, 0, 20, 16, 1, 69}), 13, form);
        auto engines = storage_test::all_engines(4);
        const memory_file_system memory;
        for (const feature_part part : {feature_part::values, feature_part::offsets, feature_part::indices})
            if (const auto& path = data.store.file(part).path; !path.empty()) test::copy_file(memory, path);
        engines.front().second = [&] { return any_engine(memory_engine(memory)); };
        const auto injector = std::make_shared<fault_injector>(fault{.kind = fault_kind::short_transfer, .at = 2});
        engines.emplace_back("short transfers", [&] { return any_engine(faulty(threads_engine{}, injector)); });
        const epoch_plan states = beta_order(7, 3, 3)(0);
        for (const auto& [name, engine] : engines) {
            CAPTURE(name);
            memory_budget budget;
            feature_buffer buffer(data.store, engine, feature_buffer::need(states, data.store).bytes, budget);
            for (int epoch = 0; epoch < 2; ++epoch) {
                buffer.begin_epoch(states);
                for (std::uint32_t s = 0; s < states.size(); ++s) {
                    const auto features = buffer.acquire(s);
                    const auto ids = data.some(states[s]);
                    CHECK(data.rows_of(*features, ids, serial_executor{}) == data.expected(ids));
                    CHECK(data.rows_of(*features, ids, two) == data.expected(ids));
                }
            }
        }
        CHECK(injector->injected() == 1);
    }
}

TEST_CASE("a gather into another shape, of the other form, or of no node is refused") {
    for (const bool sparse : {false, true}) {
        const stored data({100, 2}, 13, {.sparse = sparse});
        memory_budget budget;
        const epoch_plan states = in_memory_order(2)(0);
        feature_buffer buffer(
            data.store, [] { return any_engine(threads_engine{}); }, feature_buffer::need(states, data.store).bytes,
            budget);
        buffer.begin_epoch(states);
        const auto features = buffer.acquire(0);
        std::vector<float> memory(3 * 13);
        const std::vector<node_id> ids{1, 2, 3}, none{1, 2, 100};
        sparse_feature_rows rows;
        const auto code = [&](std::span<const node_id> of, std::size_t count, std::size_t columns) {
            return test::code_of(
                [&] { features->gather(serial_executor{}, of, matrix_view<float>(memory.data(), count, columns)); });
        };
        const auto code_of_sparse = [&](std::span<const node_id> of) {
            return test::code_of([&] { features->gather(serial_executor{}, of, rows); });
        };
        CHECK(code(ids, 3, 13) == (sparse ? std::optional(errc::invalid_argument) : std::nullopt));
        CHECK(code(ids, 2, 13) == errc::invalid_argument);
        CHECK(code(ids, 3, 12) == errc::invalid_argument);
        CHECK(code_of_sparse(ids) == (sparse ? std::nullopt : std::optional(errc::invalid_argument)));
        CHECK((sparse ? code_of_sparse(none) : code(none, 3, 13)) == errc::out_of_range);
    }
}

TEST_CASE("a swap reads the new partitions only, batches of two states overlap, and an epoch in memory reads once") {
    const stored data({400, 8}, 5, {});
    const epoch_plan states = beta_order(8, 3, 3)(0);
    memory_budget budget;
    const std::uint64_t bytes = feature_buffer::need(states, data.store).bytes;
    feature_buffer buffer(data.store, threads(), bytes, budget);
    CHECK(budget.used() == bytes);
    buffer.begin_epoch(states);
    std::shared_ptr<const resident_features> before;
    std::uint64_t reads = 0;
    for (std::uint32_t s = 0; s < states.size(); ++s) {
        auto now = buffer.acquire(s); // while the previous one is still in use
        reads += s == 0 ? states[0].resident.size() : count_absent(states[s].resident, states[s - 1].resident);
        if (before) {
            const auto ids = data.some(states[s - 1]);
            CHECK(data.rows_of(*before, ids, serial_executor{}) == data.expected(ids));
        }
        before = std::move(now);
    }
    before.reset();
    CHECK(buffer.statistics().reads == reads);

    const epoch_plan whole = in_memory_order(8)(0);
    feature_buffer all(data.store, threads(), feature_buffer::need(whole, data.store).bytes, budget);
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        all.begin_epoch(whole);
        (void)all.acquire(0);
    }
    CHECK(all.statistics().reads == 8);
}

TEST_CASE("released features are read again, at any point of the epoch") {
    const stored data({400, 8}, 5, {});
    const epoch_plan states = beta_order(8, 3, 3)(0);
    memory_budget budget;
    feature_buffer buffer(data.store, threads(), feature_buffer::need(states, data.store).bytes, budget);
    buffer.release(); // no epoch has begun
    const auto check = [&](std::uint32_t s) {
        const auto ids = data.some(states[s]);
        CHECK(data.rows_of(*buffer.acquire(s), ids, serial_executor{}) == data.expected(ids));
    };
    const epoch_plan one{states[0]};
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        buffer.begin_epoch(one);
        check(0);
        buffer.release();
        CHECK(buffer.statistics().reads == (epoch + 1) * states[0].resident.size()); // everything each time
    }
    buffer.begin_epoch(states);
    check(0); // the next one is being made, or done
    buffer.release();
    buffer.begin_epoch(states);
    for (std::uint32_t s = 0; s < states.size(); ++s) check(s);
}

TEST_CASE("a state that does not fit together with the previous one waits until that is released") {
    const stored data({400, 8}, 5, {});
    const epoch_plan states{{{0, 1, 2}, {}}, {{2, 3, 4}, {}}, {{2, 4}, {}}};
    memory_budget budget;
    const std::uint64_t one = feature_buffer::need({states[0]}, data.store).bytes;
    feature_buffer buffer(data.store, threads(), one, budget);
    for (int epoch = 0; epoch < 2; ++epoch) {
        buffer.begin_epoch(states);
        auto held = buffer.acquire(0);
        CHECK_FALSE(buffer.ready(1));
        std::stop_source stop;
        stop.request_stop();
        CHECK_THROWS_AS((void)buffer.acquire(1, stop.get_token()), error); // no other state is in memory
        for (std::uint32_t s = 0; s < states.size(); ++s) {
            held.reset();
            if (s != 0) held = buffer.acquire(s);
            if (s == 0) continue;
            const auto ids = data.some(states[s]);
            CHECK(data.rows_of(*held, ids, serial_executor{}) == data.expected(ids));
        }
        held.reset();
    }
    CHECK(buffer.statistics().reads == 2 * (3 + 3)); // the third state shares partitions, the others cannot
}

TEST_CASE("features that do not fit the budget are refused; damaged ones name their file, for every array") {
    for (const test::feature_form& form : forms) {
        for (const feature_part part : {feature_part::values, feature_part::offsets, feature_part::indices}) {
            const stored data({100, 4}, 6, form);
            const std::filesystem::path path = data.store.file(part).path;
            if (path.empty()) continue;
            CAPTURE(path.filename().string());
            const epoch_plan states = in_memory_order(4)(0);
            const std::uint64_t bytes = feature_buffer::need(states, data.store).bytes;
            memory_budget small(bytes - 1), budget;
            CHECK_THROWS_AS(feature_buffer(data.store, threads(), bytes, small), over_budget);
            {
                feature_buffer understated(data.store, threads(), 7, small);
                CHECK_THROWS_WITH_AS(understated.begin_epoch(states), doctest::Contains("features"), over_budget);
                CHECK(small.used() == 7);
                memory_budget enough(bytes);
                feature_buffer charged(data.store, threads(), 7, enough);
                charged.begin_epoch(states);
                CHECK(enough.used() == bytes);
                CHECK(charged.acquire(0)->resident(3));
            }
            damage(path, 4096 + data.store.range(2, part).offset);
            feature_buffer buffer(data.store, threads(), bytes, budget);
            buffer.begin_epoch(states);
            try {
                (void)buffer.acquire(0);
                FAIL("damage was not seen");
            } catch (const error& e) {
                CHECK(e.code() == errc::corrupt);
                CHECK(std::string(e.what()).find(path.string()) != std::string::npos);
            }
        }
    }
}

TEST_CASE("a store refuses files that do not match its nodes, and invalid offsets") {
    const row_partitioning rows{50, 3};
    const test::temporary_directory directory;
    const std::vector<float> values = stored::draw(50, 4, {});
    const auto write = [&](const test::feature_form& options) {
        return test::feature_writer(directory.path(), rows, options).write(values, 4);
    };
    CHECK_NOTHROW(feature_store(write({}), rows));
    CHECK_THROWS_AS(feature_store(write({}), row_partitioning{51, 3}), error);
    feature_files wide = write({});
    wide.columns = 5;
    CHECK_THROWS_AS(feature_store(wide, rows), error);
    CHECK_THROWS_AS(feature_store(write({.block_bytes = 50}), rows), error); // a block ends within a float
    feature_files narrow = write({.sparse = true});
    narrow.columns = 2; // columns 2 and 3 occur: found when they are loaded
    const feature_store store(narrow, rows);
    memory_budget budget;
    const epoch_plan states = in_memory_order(3)(0);
    feature_buffer buffer(store, threads(), feature_buffer::need(states, store).bytes, budget);
    buffer.begin_epoch(states);
    CHECK_THROWS_AS((void)buffer.acquire(0), error);
    feature_files unlike = write({.sparse = true});
    unlike.indices = write({.sparse = true}).offsets; // another number of entries
    CHECK_THROWS_AS(feature_store(unlike, rows), error);
}

} // namespace test_storage_feature_feature_buffer
