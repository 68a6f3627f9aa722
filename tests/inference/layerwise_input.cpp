#include <gneiss/inference/layerwise_input.hpp>

#include <doctest/doctest.h>

#include "support/replaced_new.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#include <storage/features.hpp>
#include <support/allocations.hpp>
#include <support/cut_into.hpp>
#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace test_inference_layerwise_input {

using namespace gneiss;

namespace {

engine_factory threads() {
    return [] { return any_engine(threads_engine(2)); };
}

/// Draws values that f32 and f16 store exactly, some of them 0; only 0 and 1 for `ones`.
std::vector<float> drawn(std::size_t count, bool ones) {
    random_stream draw(random_key(count, random_domain::user));
    std::vector<float> result(count);
    for (float& x : result)
        x = draw.below(3) == 0 ? 0 : ones ? 1 : static_cast<float>(draw.below(2000)) / 64 - 15.515625F;
    return result;
}

/// Returns rows as a matrix without gaps.
std::vector<float> expanded(const input_rows<float>& rows, std::size_t columns) {
    std::vector<float> result(rows.rows() * columns);
    for (std::size_t i = 0; i < rows.rows(); ++i) {
        if (!rows.has_sparse())
            std::ranges::copy(rows.dense[i], result.begin() + static_cast<std::ptrdiff_t>(i * columns));
        for (std::size_t at = rows.has_sparse() ? rows.sparse.offsets[i] : 0;
            rows.has_sparse() && at < rows.sparse.offsets[i + 1]; ++at)
            result[i * columns + rows.sparse.indices[at]] = rows.sparse.values.empty() ? 1 : rows.sparse.values[at];
    }
    return result;
}

} // namespace

TEST_CASE("features in every form become floats in their own memory, for partitions of the file and others") {
    const test::feature_form forms[] = {{}, {.f16 = true}, {.bf16 = true}, {.int8 = true}, {.sparse = true},
        {.sparse = true, .f16 = true}, {.sparse = true, .ones = true}, {.aligned = false, .block_bytes = 704},
        {.sparse = true, .f16 = true, .aligned = false, .block_bytes = 704}};
    const row_partitioning stored = test::cut_into({5, 100, 0, 20, 16, 1, 69});
    for (const test::feature_form& form : forms)
        for (const std::size_t columns : {1U, 13U, 300U})
            for (const bool normalized : {false, true}) {
                CAPTURE(form.sparse);
                CAPTURE(to_string(form.type()));
                CAPTURE(form.ones);
                CAPTURE(columns);
                CAPTURE(normalized);
                const test::temporary_directory directory;
                std::vector<float> values = drawn(211 * columns, form.ones);
                feature_files files = test::feature_writer(directory.path(), stored, form).write(values, columns);
                files.normalized = normalized;
                test::round_as_stored(values, columns, form.type()); // as they are read
                for (std::size_t v = 0; v < 211 && normalized; ++v)
                    normalize_row(std::span(values).subspan(v * columns, columns));
                for (const row_partitioning& rows : {stored, row_partitioning{211, 3}}) {
                    detail::widened_features reader(feature_store(files, rows), threads());
                    for (const partition_id p : {1U, 2U, 0U, rows.partitions - 1, 1U}) {
                        const std::span<const float> expected =
                            std::span(values).subspan(rows.begin(p) * columns, rows.size(p) * columns);
                        CHECK(std::ranges::equal(expanded(reader.read(p), columns), expected));
                    }
                }
            }
}

TEST_CASE("a reader's memory is never more than declared, with partitions unlike each other") {
    const row_partitioning rows = test::cut_into({3000, 1, 400, 5000});
    const test::feature_form forms[] = {{}, {.f16 = true}, {.bf16 = true}, {.int8 = true},
        {.sparse = true, .f16 = true}, {.sparse = true, .ones = true}};
    for (const test::feature_form& form : forms) {
        CAPTURE(form.sparse);
        CAPTURE(to_string(form.type()));
        const std::size_t columns = 64;
        std::vector<float> values = drawn(8401 * columns, form.ones);
        for (std::size_t at = 0; at < 3000 * columns; ++at) // few entries in many rows, many in few
            if (form.sparse && at % columns != 0) values[at] = 0;
        const test::temporary_directory directory;
        feature_files files = test::feature_writer(directory.path(), rows, form).write(values, columns);
        files.normalized = true;
        const feature_store store(files, rows);
        detail::widened_features reader(store, threads());
        (void)reader.read(1); // makes the engine
        test::allocation_meter counted;
        counted.during([&] {
            for (const partition_id p : {2U, 0U, 3U}) (void)reader.read(p);
        });
        CHECK(counted.peak <= detail::widened_features::bytes_needed(store) + 65536); // beside rows: requests
        CHECK(counted.peak >= detail::widened_features::bytes_needed(store) / 2);
    }
}

TEST_CASE("features are read again after any failed allocation") {
    const test::temporary_directory directory;
    const row_partitioning rows{90, 3};
    const std::vector<float> values = drawn(90 * 13, false);
    const feature_store store(
        test::feature_writer(directory.path(), rows, {.sparse = true, .f16 = true}).write(values, 13), rows);
    std::optional<detail::widened_features> reader;
    const std::uint64_t failed = test::fail_each_allocation(
        [&] {
            reader.emplace(store, threads());
            for (const partition_id p : {0U, 1U}) (void)reader->read(p);
        },
        [&](std::uint64_t at, bool) {
            CAPTURE(at);
            if (!reader) reader.emplace(store, threads());
            CHECK(std::ranges::equal(expanded(reader->read(2), 13), std::span(values).subspan(60 * std::size_t{13})));
        });
    CHECK(failed > 10);
}

TEST_CASE("features of another number of nodes are refused, damaged ones are reported") {
    const test::temporary_directory directory;
    const row_partitioning rows{100, 4};
    const feature_files files = test::feature_writer(directory.path(), rows, {}).write(drawn(1300, false), 13);
    CHECK(test::code_of([&] { (void)feature_store(files, {99, 4}); }) == errc::invalid_argument);
    std::fstream(files.values.path, std::ios::in | std::ios::out | std::ios::binary).seekp(4096 + 60 * 13 * 4).put('x');
    detail::widened_features reader(feature_store(files, rows), threads());
    CHECK(reader.read(0).rows() == 25);
    CHECK(test::code_of([&] { (void)reader.read(2); }) == errc::corrupt);
    CHECK(reader.read(3).rows() == 25);
}

} // namespace test_inference_layerwise_input
