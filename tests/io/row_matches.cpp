#include <gneiss/io/row_matches.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/io/reorder.hpp>

namespace test_io_row_matches {

namespace {

using namespace gneiss;

struct place {
    test::temporary_directory directory;

    /// Makes a dataset with an edge from each of the nodes to the next; `name(i)` for each i in 0 … nodes − 1.
    template <class Name>
    [[nodiscard]] dataset make(
        const std::string& to, std::uint64_t nodes, id_kind ids, std::uint64_t seed, Name&& name) const {
        {
            std::ofstream edges(directory / "edges.tsv");
            for (std::uint64_t v = 0; v < nodes; ++v) edges << name(v) << "\t" << name((v + 1) % nodes) << "\n";
        }
        import_options options;
        options.sources = {{.path = directory / "edges.tsv"}};
        options.out = directory / to;
        options.ids = ids;
        options.seed = seed;
        options.force = true;
        options.partitions = 3;
        (void)import_dataset(options, serial_executor());
        return dataset(directory / to);
    }
    /// Returns the words that `match_rows` writes, and compares them and the counts with looking each name up.
    [[nodiscard]] row_matches check(const dataset& from, const dataset& into, std::uint64_t memory) const {
        const row_matches found = match_rows(from, into, directory / "words", memory);
        CHECK(found.from == from.manifest().nodes);
        CHECK(found.into == into.manifest().nodes);
        std::vector<node_id> words(static_cast<std::size_t>(found.from));
        const plain_file file = plain_file::open(directory / "words");
        REQUIRE(file.size() == words.size() * sizeof(node_id));
        file.read_at(0, std::as_writable_bytes(std::span(words)));
        std::uint64_t matched = 0, wrong = 0;
        for (std::uint64_t row = 0; row < found.from; ++row) {
            const auto there = into.find_row(from.node_label(row));
            wrong += words[row] != (there ? static_cast<node_id>(*there) : unmatched_row);
            matched += there.has_value();
        }
        CHECK(wrong == 0);
        CHECK(found.matched == matched);
        for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
            CHECK(entry.path().filename().string() != "scratch");
        return found;
    }
};

std::string word(std::uint64_t v) {
    std::string name = "node ";
    for (std::uint64_t i = 0; i < v % 7; ++i) name += "é";
    return name + std::to_string(v * 7919 % 100003);
}

} // namespace

TEST_CASE("rows are matched by name, whatever the seeds, the order of rows and the memory") {
    const place here;
    const dataset from = here.make("from", 5000, id_kind::string, 1, word);
    for (const std::uint64_t seed : {1, 9}) {
        const dataset grown =
            here.make("grown", 5500, id_kind::string, seed, [](std::uint64_t v) { return word(v + 100); });
        const row_matches found = here.check(from, grown, match_rows_memory);
        CHECK(found == row_matches{.from = 5000, .into = 5500, .matched = 4900});
        CHECK(here.check(from, grown, 64 << 20) == found);
        CHECK(here.check(grown, from, match_rows_memory).matched == found.matched);
        std::filesystem::remove_all(here.directory / "shuffled");
        reorder(grown, here.directory / "shuffled",
            {.shuffle = row_shuffle(5500, 0, {seed, random_domain::user}), .memory = 64 << 20}, serial_executor());
        CHECK(here.check(from, dataset(here.directory / "shuffled"), match_rows_memory) == found);
    }
    const dataset other =
        here.make("other", 400, id_kind::string, 1, [](std::uint64_t v) { return "x" + std::to_string(v); });
    CHECK(here.check(from, other, match_rows_memory).matched == 0);
}

TEST_CASE("integer ids are matched by id, and by their digits against names") {
    const place here;
    const auto digits = [](std::uint64_t v) { return std::to_string(v); };
    const dataset from = here.make("from", 70'000, id_kind::integer, 1, digits);
    const dataset grown = here.make("grown", 77'000, id_kind::integer, 5, digits);
    CHECK(here.check(from, grown, match_rows_memory).matched == 70'000);
    CHECK(here.check(grown, from, match_rows_memory).matched == 70'000);
    const dataset named = here.make("named", 300, id_kind::string, 5,
        [&](std::uint64_t v) { return (v % 3 == 0 ? "x" : "") + digits(v + 69'900); });
    CHECK(here.check(from, named, match_rows_memory).matched == 66);
    CHECK(here.check(named, from, match_rows_memory).matched == 66);
}

TEST_CASE("too little memory is refused, a stop ends the work, and damaged names are found") {
    const place here;
    const dataset from = here.make("from", 500, id_kind::string, 1, word),
                  into = here.make("into", 600, id_kind::string, 1, word);
    CHECK_THROWS_AS((void)match_rows(from, into, here.directory / "words", match_rows_memory - 1), over_budget);
    std::stop_source stop;
    stop.request_stop();
    CHECK_THROWS_AS((void)match_rows(from, into, here.directory / "words", match_rows_memory, stop.get_token()), error);
    std::fstream names(from.path("names.bytes"), std::ios::binary | std::ios::in | std::ios::out);
    names.seekp(page_alignment + 40);
    names.put('!');
    names.close();
    CHECK_THROWS_AS((void)match_rows(from, into, here.directory / "words", match_rows_memory), error);
}

} // namespace test_io_row_matches
