#include "fuzz/target.hpp"

#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/storage/io/run_file.hpp>
#include <gneiss/storage/io/trace_file.hpp>

namespace test_fuzz_trace_file {

using namespace gneiss;

/// Reads a file as each supported kind.
static void read(const std::filesystem::path& path) {
    (void)fuzz::accepted([&] {
        run_file_reader file(path);
        std::vector<std::byte> record;
        std::size_t records = 0;
        while (file.next(record)) fuzz::property(record.size() == file.size(records++), "records are whole");
        fuzz::property(records == file.records(), "all records are read");
    });
    (void)fuzz::accepted([&] {
        trace_file trace(path);
        std::vector<node_id> ids, again;
        for (std::size_t batch = trace.batches(); batch-- > 0;) {
            fuzz::property(trace.read(batch, ids).size() == trace.size(batch), "a batch has the rows that it declares");
            std::vector<std::byte> bytes;
            detail::encode_ids(ids, bytes);
            std::span<const std::byte> from(bytes);
            again.resize(ids.size());
            detail::decode_ids(from, again, path);
            fuzz::property(again == ids && from.empty(), "written data is read back");
        }
    });
    (void)fuzz::accepted([&] {
        change_set_file changes(path);
        change_set next;
        while (changes.next(next)) {
        }
    });
}

GNEISS_FUZZ_TARGET("trace_file", bytes) {
    read(fuzz::memory_file(bytes).path());
    // An intact file with records of these bytes: the first two bytes of each give its length and its number of ids.
    static const test::temporary_directory at;
    run_file_writer file(at / "records");
    while (!bytes.empty()) {
        const std::size_t length = fuzz::take<std::uint8_t>(bytes) % (bytes.size() + 1);
        const auto items = fuzz::take<std::uint8_t>(bytes);
        const auto record = bytes.first(std::min(length, bytes.size()));
        file.append(record, (items & 15U) | std::uint64_t{items} >> 4 << 32);
        bytes = bytes.subspan(record.size());
    }
    file.finish();
    read(at / "records");
}

} // namespace test_fuzz_trace_file
