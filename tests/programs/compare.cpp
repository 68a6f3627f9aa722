// Runs bin/gneiss-compare over runs of bin/gneiss-marius.
#include <doctest/doctest.h>

#include <string>

#include "support/program.hpp"

TEST_CASE("runs are drawn one over the other, each named as its directory; what is no timeline is refused") {
    const gneiss::test::workshop shop("gneiss-compare");
    std::string edges;
    for (unsigned v = 0; v < 40; ++v) edges += std::to_string(v) + "\t" + std::to_string((v + 1) % 40) + "\n";
    shop.write("edges.tsv", edges);
    REQUIRE(shop.run("import edges.tsv --ids int --out data --partitions 4", "gneiss-data").code == 0);
    for (const char* run : {"first", "second"})
        REQUIRE(shop.run(std::string("train data --quiet --no-eval --epochs 2 --dim 8 --negatives 10 --out ") + run, "gneiss-marius").code == 0);
    CHECK(shop.read("first/timeline.jsonl").starts_with("{\"seconds\":"));

    const auto drawn = shop.run("draw first second/ --out figures");
    CAPTURE(drawn.err);
    REQUIRE(drawn.code == 0);
    for (const char* name : {"busy", "waiting", "read", "written"}) {
        const std::string svg = shop.read("figures/" + std::string(name) + ".svg");
        CHECK(svg.starts_with("<svg"));
        CHECK(svg.find("first") != std::string::npos);
        CHECK(svg.find("second") != std::string::npos);
    }
    shop.refuses(1, "draw data --out new", {"data/timeline.jsonl"});
    shop.write("second/timeline.jsonl", "{\"seconds\":1}\nnonsense\n");
    shop.refuses(1, "draw second --out new", {"second/timeline.jsonl", "line 2"});
}
