#include "fuzz/target.hpp"

#include <string>

#include <support/temporary_directory.hpp>

#include <gneiss/io/import/detail/journal.hpp>

namespace test_fuzz_journal {

using namespace gneiss;

static void read(const std::string& text) {
    static const test::temporary_directory at;
    const std::filesystem::path path = at / "journal";
    plain_file::create(path).write_at(0, std::as_bytes(std::span(text)));
    importing::journal journal(path, 7), again(path, 7);
    bool usable = false;
    if (!fuzz::accepted([&] { usable = journal.load(); }) || !usable) return;
    journal.save();
    fuzz::property(again.load(), "written data is read back");
    for (const char* name : {"phase", "nodes", "edges0", "attempt", ""})
        fuzz::property(again[name] == journal[name], "values survive the round trip");
}

GNEISS_FUZZ_TARGET("journal", bytes) {
    const std::string text(fuzz::text_of(bytes));
    read(text);
    read(text + "sum " + std::to_string(checksum(text)) + "\n");
}

} // namespace test_fuzz_journal
